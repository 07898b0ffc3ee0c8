"""Can Spark's Python workers do the work? Asked before the first job: in time, and in one line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from typing import Any, Final

from pyspark.sql import SparkSession

from rli import SettingsError
from rli_spark.session.connect import is_connect
from rli_spark.session.one_daemon import in_workers_of_frames

_NEEDED: Final = "rli", "pyarrow"
_PROBE: Final = """
import sys
from importlib.util import find_spec
version = "%d.%d" % sys.version_info[:2]
print(", ".join([version] + ["no module " + name for name in sys.argv[1:] if find_spec(name) is None]))
"""
_EXECUTOR_PROBE: Final = """
def probe(needed):
    def ask(_):
        import socket
        import sys
        from importlib.util import find_spec
        missing = tuple(name for name in needed if find_spec(name) is None)
        yield socket.gethostname(), "%d.%d" % sys.version_info[:2], missing
    return ask
"""
_PROBES_PER_CORE: Final = 2
_ABLE: Final[set[str]] = set()
"""The applications whose executors have shown that they can do the work."""

_ARCHIVES: Final = (".zip", ".whl", ".egg", ".jar")
_SECONDS: Final = 60


def require_same_python(spark: SparkSession) -> None:
    """Refuse workers whose Python is of another version than the driver's, or lacks what the work needs.

    Workers of a local master are asked without a job. Of a cluster, the executors are asked by one small job for each
    application; those that start later are not. The executors of a Spark Connect server are not asked.

    Raises:
        SettingsError: they would fail, in each task.
    """
    if is_connect(spark):
        return
    if (spark.conf.get("spark.master") or "").partition("[")[0] != "local":
        _require_able_executors(spark)
        return
    workers, given = spark.sparkContext.pythonExec, spark.sparkContext.environment.get("PYTHONPATH", "")
    found, own = _python_of(workers, given), "{}.{}".format(*sys.version_info)
    if found != own:
        raise SettingsError(
            f"Spark's workers run another Python than the driver: workers={workers} ({found}) driver={sys.executable} "
            f"({own})",
            remedy=f"set PYSPARK_PYTHON={sys.executable} before the Spark session starts",
        )


def _require_able_executors(spark: SparkSession) -> None:
    context = spark.sparkContext
    if context.applicationId in _ABLE:
        return
    # Pickled by value: a worker that cannot import rli has to run it.
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(_EXECUTOR_PROBE, names)  # noqa: S102  (a text of this module)
    tasks = max(1, context.defaultParallelism) * _PROBES_PER_CORE
    needed = (*_NEEDED, "pandas", "rli_spark")
    # Each answer comes to the driver: to leave repeated ones out before, Spark would start Python workers for a shuffle.
    probes = context.parallelize(range(tasks), tasks).mapPartitions(names["probe"](needed))
    answers = set(in_workers_of_frames(probes).collect())
    own = "{}.{}".format(*sys.version_info)
    lacking = sorted(
        f"{host}: {', '.join([f'Python {version}'] * (version != own) + [f'no module {name}' for name in missing])}"
        for host, version, missing in answers
        if missing or version != own
    )
    if lacking:
        raise SettingsError(
            f"executors lack what the work needs: {'; '.join(lacking)} (driver: Python {own})",
            remedy=(
                "ship an environment with spark.archives, or install record-level-index[spark] on their machines: "
                "docs/how-to/spark-clusters.md"
            ),
        )
    _ABLE.add(context.applicationId)


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
