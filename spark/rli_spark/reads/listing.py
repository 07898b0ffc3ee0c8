"""Spark's listing of the files that a frame reads: by a few tasks. Spark alone starts a task for each of more than 32 files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Final

from pyspark.sql import SparkSession

from rli_spark.planning.resources import parallelism_of
from rli_spark.session.connect import is_connect

_MOST_TASKS: Final = "spark.sql.sources.parallelPartitionDiscovery.parallelism"

_SETTING: Final = Lock()
"""Held while the setting is not the caller's: two threads would each restore the setting of the other."""


@contextmanager
def listing_in_few_tasks(spark: SparkSession, files: int) -> Iterator[None]:
    """Frames made in the context list their files by no more tasks than suit the cores, or than the caller's own setting allows.

    A server of Spark Connect lists files later, when the frame is computed, and as its own settings say.

    Args:
        spark: the session.
        files: of the frames.
    """
    if is_connect(spark):
        yield
        return
    tasks = parallelism_of(spark).for_pieces(files)
    with _SETTING:
        given = spark.conf.get(_MOST_TASKS, None)
        spark.conf.set(_MOST_TASKS, str(tasks if given is None else min(tasks, int(given))))
        try:
            yield
        finally:
            if given is None:
                spark.conf.unset(_MOST_TASKS)
            else:
                spark.conf.set(_MOST_TASKS, given)
