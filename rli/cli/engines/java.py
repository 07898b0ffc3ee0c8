"""Whether Spark could start here."""

from __future__ import annotations

import os
import shutil


def is_java_there() -> bool:
    """Whether Spark finds a Java: in JAVA_HOME, or else on the path."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=os.path.join(home, "bin") if home else None) is not None
