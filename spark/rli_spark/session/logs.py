"""rli's log records in Spark's logs: the level of ``setLogLevel``, in the driver and in Spark's Python workers.

A program that configures logging, for ``rli`` or for the root logger, decides itself: nothing is changed then.
"""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import Any, Final

from pyspark import TaskContext
from pyspark.sql import SparkSession

from rli_spark.session.connect import is_connect

_PROPERTY: Final = "rli.log.level"
"""Local property of Spark: tasks get it with the job."""

_LOGGER: Final = "rli"
_FORM: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_DATES: Final = "%y/%m/%d %H:%M:%S"

_LEVELS: Final = {
    "ALL": logging.DEBUG,
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "OFF": logging.CRITICAL + 1,
}
"""Of log4j → of Python."""


class _LikeSpark(logging.StreamHandler[Any]):
    """Writes records to standard error, in the form of Spark's own.

    Attributes:
        given: the level that the logger got with it; another one is the program's.
    """

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter(_FORM, _DATES))
        self.given = logging.NOTSET


def follow_spark(spark: SparkSession) -> None:
    """Take over the present level of a session's driver, here and in the tasks that this thread starts from now on.

    A session of Spark Connect tells no level: nothing is changed.
    """
    if is_connect(spark) or (managers := _log_managers(spark.sparkContext)) is None:
        return
    context, level = spark.sparkContext, str(managers.getRootLogger().getLevel())
    _follow(level)
    context.setLocalProperty(_PROPERTY, level)


def follow_in_task() -> None:
    """Take over the level that the driver has given to the running task."""
    task = TaskContext.get()
    level = None if task is None else task.getLocalProperty(_PROPERTY)
    if level is not None:
        _follow(level)


def _follow(level: str) -> None:
    logger = logging.getLogger(_LOGGER)
    own = next((handler for handler in logger.handlers if isinstance(handler, _LikeSpark)), None)
    given = logging.NOTSET if own is None else own.given
    has_others = any(handler is not own for handler in [*logger.handlers, *logging.getLogger().handlers])
    if has_others or logger.level != given:
        if own is not None:
            logger.removeHandler(own)
            logger.setLevel(logging.NOTSET if logger.level == given else logger.level)
        return
    if own is None:
        logger.addHandler(own := _LikeSpark())
    own.given = _LEVELS.get(level, logging.WARNING)
    logger.setLevel(own.given)


def _log_managers(context: Any) -> Any:
    """The class of log4j that tells levels; None for a context that was stopped."""
    # PySpark has no other way to ask.
    return None if context._jsc is None else _of_jvm(context._jvm)  # noqa: SLF001


@lru_cache(maxsize=1)
def _of_jvm(jvm: Any) -> Any:
    # Each dot is a question to the JVM.
    return jvm.org.apache.logging.log4j.LogManager
