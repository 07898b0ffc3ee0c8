"""One daemon of Python workers in each executor: a process that loads rli and Arrow once, and forks all workers.

Spark starts a daemon for each set of environment variables of its jobs. Jobs of RDDs and jobs of frames differ in a single
variable: whether tracebacks leave out PySpark's own lines.
"""

from __future__ import annotations

from threading import Lock
from typing import Final, TypeVar

from pyspark import RDD

Item = TypeVar("Item")

_SETTING: Final = "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled"
_VARIABLE: Final = "SPARK_SIMPLIFIED_TRACEBACK"

_ENVIRONMENT: Final = Lock()
"""Held while the environment is changed: two threads would each restore the change of the other."""


def in_workers_of_frames(rdd: RDD[Item]) -> RDD[Item]:
    """The same RDD; its jobs then use the daemon of the jobs of frames.

    If another version of Spark differs in other variables, an executor has two daemons, and nothing fails.
    """
    context = rdd.context
    if context.getConf().get(_SETTING, "true") != "true":
        return rdd
    with _ENVIRONMENT:
        given = context.environment.get(_VARIABLE)
        context.environment[_VARIABLE] = "1"
        try:
            # The first call of ``id`` makes the RDD in the JVM, with the environment of this moment.
            rdd.id()
        finally:
            if given is None:
                del context.environment[_VARIABLE]
            else:
                context.environment[_VARIABLE] = given
    return rdd
