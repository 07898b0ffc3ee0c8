"""Can Spark's Python workers do the work? Asked before the first job, where they run on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from typing import Final

from pyspark.sql import SparkSession

from rli import SettingsError

_NEEDED: Final = "rli", "pyarrow"
_PROBE: Final = """
import sys
from importlib.util import find_spec
version = "%d.%d" % sys.version_info[:2]
print(", ".join([version] + ["no module " + name for name in sys.argv[1:] if find_spec(name) is None]))
"""
_ARCHIVES: Final = (".zip", ".whl", ".egg", ".jar")
_SECONDS: Final = 60


def require_same_python(spark: SparkSession) -> None:
    """Refuse workers of a local master whose Python is of another version than the driver's, or lacks rli.

    Raises:
        SettingsError: they would fail, in each task.
    """
    if not (spark.conf.get("spark.master") or "").startswith("local"):
        return
    workers, given = spark.sparkContext.pythonExec, spark.sparkContext.environment.get("PYTHONPATH", "")
    found, own = _python_of(workers, given), "{}.{}".format(*sys.version_info)
    if found != own:
        raise SettingsError(
            f"Spark's workers run another Python than the driver: workers={workers} ({found}) driver={sys.executable} "
            f"({own}); set PYSPARK_PYTHON={sys.executable} before the Spark session starts"
        )


@cache
def _python_of(executable: str, python_path: str) -> str:
    """The version of a Python, and what it lacks; it sees the archives that the driver was given, as workers do."""
    if shutil.which(executable) == sys.executable:
        return "{}.{}".format(*sys.version_info)
    shipped = [path for path in sys.path if path.endswith(_ARCHIVES)]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([*shipped, python_path, os.environ.get("PYTHONPATH", "")]),
    }
    try:
        probe = subprocess.run(  # noqa: S603  (the program that Spark runs anyway)
            [executable, "-c", _PROBE, *_NEEDED],
            env=environment,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"does not run: {error}"
    return probe.stdout.strip()
