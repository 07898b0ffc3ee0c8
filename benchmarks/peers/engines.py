"""What every engine can do, and the engines that need nothing but Spark: rli, and Spark alone."""

from __future__ import annotations

import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

import rli
import rli_spark
from rli import Step, TableType

KEY, PARTITION, ORDERING = "id", "part", "ts"


class Engine(ABC):
    """A table of one engine, written and read with Spark.

    Args:
        spark: the session.
        folder: for the table's files; absent at first.
        name: of the engine among those of its kind.
        options: of the engine.
    """

    def __init__(self, spark: SparkSession, folder: Path, name: str, options: Mapping[str, str]) -> None:
        self.spark = spark
        self.folder = folder
        self.name = name
        self.options = options

    @abstractmethod
    def load(self, rows: DataFrame) -> None:
        """Make the table with these rows."""

    @abstractmethod
    def upsert(self, rows: DataFrame) -> float | None:
        """Insert rows, update or move those whose key is there.

        Returns:
            The seconds after which it was known for each row whether and where its key is; None if the engine does
            not show that.
        """

    @abstractmethod
    def delete(self, rows: DataFrame) -> None:
        """Remove rows by key."""

    def look_up(self, keys: Sequence[str]) -> int:
        """Fetch the rows of some keys; returns how many were found."""
        return len(self.read().where(sql.col(KEY).isin(*keys)).collect())

    @abstractmethod
    def read(self) -> DataFrame:
        """All rows."""

    def drop(self) -> None:
        """Remove the table."""
        shutil.rmtree(self.folder)


LMDB: Final = "LMDB"
LMDB_MERGE_ON_READ: Final = f"{LMDB} merge-on-read"
"""The same index, of a table whose updates go to log files."""
REDIS: Final = "Redis"
SERVER: Final = "server"
"""The option that tells where Redis is."""

RLI_INDEXES: Final[Mapping[str, str]] = {
    LMDB: "lmdb://{folder}-index",
    LMDB_MERGE_ON_READ: "lmdb://{folder}-index",
    REDIS: "redis://{server}/0?name={folder.name}",
    "simple": "simple:",
    "global-simple": "global-simple:",
    "bloom": "bloom:",
    "global-bloom": "global-bloom:",
    "bucket": "bucket:?buckets=1",
    "consistent-bucket": "consistent-bucket:?buckets=1",
    "record-index": "record-index:",
    "bloom by metadata": "bloom:",
    "global-bloom by metadata": "global-bloom:",
}
"""Index of a table by the name of the engine; ``{folder}`` stands for the folder of the table, ``{server}`` for that of Redis."""

_STATISTICS: Final = ("files", "column_stats", "bloom_filters")
METADATA: Final[Mapping[str, Sequence[str]]] = {
    "record-index": ("files", "record_index"),
    "bloom by metadata": _STATISTICS,
    "global-bloom by metadata": _STATISTICS,
}
"""Partitions of the table's metadata table, by the name of the engine; no others have one."""


class Rli(Engine):
    """rli; the name of the engine is that of the kind of its index."""

    def load(self, rows: DataFrame) -> None:
        url = RLI_INDEXES[self.name].format(folder=self.folder, **self.options)
        rli.create_table(
            self.folder,
            record_key=KEY,
            partition_by=PARTITION,
            ordering=ORDERING,
            index=url,
            metadata=METADATA.get(self.name, "none"),
            table_type=TableType.MERGE_ON_READ if self.name == LMDB_MERGE_ON_READ else TableType.COPY_ON_WRITE,
        ).close()
        self.upsert(rows)

    def upsert(self, rows: DataFrame) -> float | None:
        steps: dict[Step, float] = {}
        started = time.perf_counter()

        def on_step(step: Step) -> None:
            steps[step] = time.perf_counter() - started

        with rli.open_table(self.folder) as table:
            rli_spark.upsert(rows, table, on_step=on_step)
        return steps[Step.RESOLVED]

    def delete(self, rows: DataFrame) -> None:
        with rli.open_table(self.folder) as table:
            rli_spark.delete(rows.select(KEY), table)

    def look_up(self, keys: Sequence[str]) -> int:
        with rli.open_table(self.folder) as table:
            return table.get(keys).num_rows

    def read(self) -> DataFrame:
        with rli.open_table(self.folder) as table:
            return rli_spark.read(self.spark, table)

    def drop(self) -> None:
        rli.drop_table(self.folder)


class PlainSpark(Engine):
    """The way without an index: an anti-join, and a rewrite of the table."""

    _current: Path

    def load(self, rows: DataFrame) -> None:
        self._current = self.folder / "0"
        rows.repartition(PARTITION).write.partitionBy(PARTITION).parquet(str(self._current))

    def upsert(self, rows: DataFrame) -> float | None:
        kept = self.read().join(rows, KEY, "left_anti")
        self._replace(kept.unionByName(rows))
        return None

    def delete(self, rows: DataFrame) -> None:
        self._replace(self.read().join(rows, KEY, "left_anti"))

    def read(self) -> DataFrame:
        return self.spark.read.parquet(str(self._current))

    def _replace(self, rows: DataFrame) -> None:
        before, self._current = self._current, self.folder / str(int(self._current.name) + 1)
        rows.repartition(PARTITION).write.partitionBy(PARTITION).parquet(str(self._current))
        shutil.rmtree(before)
