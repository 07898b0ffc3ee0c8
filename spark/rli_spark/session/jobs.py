"""Jobs of Spark: each names its purpose in Spark's UI, and raises the error of rli that made it fail."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.sql import SparkSession

from rli_spark.session.connect import is_connect
from rli_spark.session.errors import unwrapped_errors

_DESCRIPTION: Final = "spark.job.description"


@contextmanager
def jobs(spark: SparkSession, purpose: str) -> Iterator[None]:
    """Jobs that this thread starts in the context.

    Their description in Spark's UI is ``rli: purpose``, behind that of the caller if there is one. Spark Connect shows none.

    Args:
        spark: the session.
        purpose: in a few words.

    Raises:
        RliError: a task failed with it.
        ExecutorLostError: the processes of a task died as often as Spark repeats a task.
    """
    with unwrapped_errors():
        if is_connect(spark):
            yield
            return
        context = spark.sparkContext
        given = context.getLocalProperty(_DESCRIPTION)
        own = f"rli: {purpose}"
        context.setLocalProperty(_DESCRIPTION, f"{given}, {own}" if given else own)
        try:
            yield
        finally:
            # None removes it.
            context.setLocalProperty(_DESCRIPTION, given)  # type: ignore[arg-type]
