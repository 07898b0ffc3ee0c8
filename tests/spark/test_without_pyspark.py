"""``rli_spark`` where PySpark is not installed."""

from __future__ import annotations

import subprocess
import sys


def test_what_to_install_is_said() -> None:
    program = "import sys; sys.modules['pyspark'] = None; import rli_spark"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert 'pip install "record-level-index[spark]"' in done.stderr.splitlines()[-1]
