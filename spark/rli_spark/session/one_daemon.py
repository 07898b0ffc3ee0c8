"""One process of an executor that forks all Python workers, with rli and Arrow loaded once.

Spark starts such a process for each set of environment variables of its jobs, and jobs of RDDs differ from those of frames in
one: whether errors are shown without the lines of PySpark itself.
"""

from __future__ import annotations

from threading import Lock
from typing import Final, TypeVar

from pyspark import RDD

Item = TypeVar("Item")

_SETTING: Final = "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled"
_VARIABLE: Final = "SPARK_SIMPLIFIED_TRACEBACK"

_ENVIRONMENT: Final = Lock()
"""Held while the environment is not the caller's: two threads would each restore the environment of the other."""


def in_workers_of_frames(rdd: RDD[Item]) -> RDD[Item]:
    """The RDD, whose jobs use the Python workers of the jobs of frames.

    Were it another variable in some version of Spark, there would be two such processes, no more.
    """
    context = rdd.context
    if context.getConf().get(_SETTING, "true") != "true":
        return rdd
    with _ENVIRONMENT:
        given = context.environment.get(_VARIABLE)
        context.environment[_VARIABLE] = "1"
        try:
            # Spark keeps the environment of the moment in which the JVM first hears of an RDD.
            rdd.id()
        finally:
            if given is None:
                del context.environment[_VARIABLE]
            else:
                context.environment[_VARIABLE] = given
    return rdd
