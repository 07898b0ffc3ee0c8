"""Spark packages as files on this machine, for JVMs that must have them on their class path."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final
from zipfile import is_zipfile

_FETCH: Final = """
import sys
from pyspark.sql import SparkSession

SparkSession.builder.config("spark.jars.packages", sys.argv[1]).config("spark.jars.excludes", sys.argv[2]).getOrCreate()
"""

_BROUGHT_BY_SPARK: Final = "org.slf4j:slf4j-api"


HUDI_BUNDLE: Final = "org.apache.hudi:hudi-spark3.5-bundle_2.12:{version}"

S3_PACKAGES: Final = ("org.apache.hadoop:hadoop-aws:3.3.4", "com.amazonaws:aws-java-sdk-bundle:1.12.262")
"""Hadoop's connector to S3, for the Hadoop of PySpark 3.5, and what it needs, which is fetched with it."""


def jar_of(package: str) -> Path:
    """The file of a package that needs no other; a Spark of its own fetches it at the first use on a machine.

    Args:
        package: as group:artifact:version.

    Raises:
        subprocess.CalledProcessError: it cannot be fetched; Spark has said why.
    """
    jar = Path.home() / ".ivy2" / "jars" / f"{package.replace(':', '_', 1).replace(':', '-')}.jar"
    # One process fetches, others wait for it. A fetch that was killed leaves a file without the end of an archive.
    with Path(tempfile.gettempdir(), "rli-spark-packages.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_zipfile(jar):
            command = [sys.executable, "-c", _FETCH, package, _BROUGHT_BY_SPARK]
            subprocess.run(command, check=True, stdout=sys.stderr)
    return jar
