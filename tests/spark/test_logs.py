"""rli's log records follow the level of Spark, in the driver and in workers, unless the program configures logging."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql import SparkSession

import rli
import rli_spark
from tests.support.tables import records

pytestmark = pytest.mark.spark


@contextmanager
def unconfigured(spark: SparkSession) -> Iterator[logging.Logger]:
    """The logger of a program that configures none: pytest's handlers are there while a test runs."""
    logger, root = logging.getLogger("rli"), logging.getLogger()
    before = logger.handlers, logger.level, root.handlers
    logger.handlers, root.handlers = [], []
    logger.setLevel(logging.NOTSET)
    try:
        yield logger
    finally:
        logger.handlers, _, root.handlers = before
        logger.setLevel(before[1])
        spark.sparkContext.setLogLevel("WARN")


def upsert(spark: SparkSession, table: rli.Table, value: float) -> None:
    row = records(("a", "x", 1, value)).to_pylist()[0]
    rli_spark.upsert(spark.createDataFrame([tuple(row.values())], "id string, city string, ts bigint, v double"), table)


def test_driver_logs_at_sparks_level(spark: SparkSession, table: rli.Table, capsys: pytest.CaptureFixture[str]) -> None:
    with unconfigured(spark) as logger:
        spark.sparkContext.setLogLevel("INFO")
        upsert(spark, table, 1.0)
        assert " INFO rli.commit: a write was committed" in capsys.readouterr().err
        spark.sparkContext.setLogLevel("ERROR")
        upsert(spark, table, 2.0)
        assert "a write was committed" not in capsys.readouterr().err
        assert logger.level == logging.ERROR


@pytest.mark.one_spark
def test_configured_logging_stays(spark: SparkSession, table: rli.Table) -> None:
    with unconfigured(spark) as logger:
        logger.setLevel(logging.DEBUG)
        spark.sparkContext.setLogLevel("ERROR")
        upsert(spark, table, 1.0)
        assert (logger.level, logger.handlers) == (logging.DEBUG, [])
        logger.setLevel(logging.NOTSET)
        upsert(spark, table, 2.0)
        assert logger.level == logging.ERROR
        logger.setLevel(logging.DEBUG)
        upsert(spark, table, 2.5)
        assert (logger.level, logger.handlers) == (logging.DEBUG, [])
        logger.setLevel(logging.NOTSET)
        upsert(spark, table, 2.6)
        assert logger.level == logging.ERROR
        # Configured later on: the program decides from then on.
        logging.getLogger().addHandler(logging.NullHandler())
        upsert(spark, table, 3.0)
        assert (logger.level, logger.handlers) == (logging.NOTSET, [])


def level_of_worker(_: int) -> int:
    return logging.getLogger("rli").getEffectiveLevel()


def test_workers_log_at_sparks_level(spark: SparkSession, table: rli.Table) -> None:
    with unconfigured(spark):
        for level in ("INFO", "ERROR"):
            spark.sparkContext.setLogLevel(level)
            rli_spark.read(spark, table)
            assert rli_spark.SparkTasks(spark).run(level_of_worker, [1]) == [getattr(logging, level)]
