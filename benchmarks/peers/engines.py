"""What every engine can do, and the engines that need nothing but Spark: rli, and Spark alone."""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

import rli
import rli_spark

KEY, PARTITION, ORDERING = "id", "part", "ts"


class Engine(ABC):
    """A table of one engine, written and read with Spark.

    Args:
        spark: the session.
        folder: for the table's files; absent at first.
        name: of the engine among those of its kind.
        options: of the engine.
    """

    tags: ClassVar[bool] = False
    """Whether it can tag without writing."""

    def __init__(self, spark: SparkSession, folder: Path, name: str, options: Mapping[str, str]) -> None:
        self.spark = spark
        self.folder = folder
        self.name = name
        self.options = options

    @abstractmethod
    def load(self, rows: DataFrame) -> None:
        """Make the table with these rows."""

    @abstractmethod
    def upsert(self, rows: DataFrame) -> None:
        """Insert rows, update or move those whose key is there."""

    @abstractmethod
    def delete(self, rows: DataFrame) -> None:
        """Remove rows by key."""

    @abstractmethod
    def look_up(self, keys: Sequence[str]) -> int:
        """Find the partition and the file of each key; returns how many were found."""

    @abstractmethod
    def read(self) -> DataFrame:
        """All rows."""

    def tag(self, rows: DataFrame) -> None:
        """Find out for each row whether and where its key is, and throw that away."""
        raise NotImplementedError(f"this engine cannot tag on its own: engine={self.name}")


class Rli(Engine):
    """rli with its index in LMDB."""

    tags = True

    def load(self, rows: DataFrame) -> None:
        url = f"lmdb://{self.folder}-index"
        rli.create_table(self.folder, record_key=KEY, partition_by=PARTITION, ordering=ORDERING, index=url).close()
        self.upsert(rows)

    def upsert(self, rows: DataFrame) -> None:
        with rli.open_table(self.folder) as table:
            rli_spark.upsert(rows, table)

    def delete(self, rows: DataFrame) -> None:
        with rli.open_table(self.folder) as table:
            rli_spark.delete(rows.select(KEY), table)

    def look_up(self, keys: Sequence[str]) -> int:
        with rli.open_table(self.folder) as table:
            found = table.lookup(keys)["file_id"]
            return len(found) - found.null_count

    def tag(self, rows: DataFrame) -> None:
        with rli.open_table(self.folder) as table:
            compute(rli_spark.tag(rows, table))

    def read(self) -> DataFrame:
        with rli.open_table(self.folder) as table:
            return rli_spark.read(self.spark, table)


class PlainSpark(Engine):
    """What people write who have no index: an anti-join, and the table written anew."""

    _current: Path

    def load(self, rows: DataFrame) -> None:
        self._current = self.folder / "0"
        rows.repartition(PARTITION).write.partitionBy(PARTITION).parquet(str(self._current))

    def upsert(self, rows: DataFrame) -> None:
        kept = self.read().join(rows, KEY, "left_anti")
        self._replace(kept.unionByName(rows))

    def delete(self, rows: DataFrame) -> None:
        self._replace(self.read().join(rows, KEY, "left_anti"))

    def look_up(self, keys: Sequence[str]) -> int:
        found = self.read().where(sql.col(KEY).isin(*keys))
        return len(found.select(PARTITION, sql.input_file_name()).collect())

    def read(self) -> DataFrame:
        return self.spark.read.parquet(str(self._current))

    def _replace(self, rows: DataFrame) -> None:
        before, self._current = self._current, self.folder / str(int(self._current.name) + 1)
        rows.repartition(PARTITION).write.partitionBy(PARTITION).parquet(str(self._current))
        shutil.rmtree(before)


def compute(frame: DataFrame) -> None:
    """Compute a frame and throw its rows away."""
    frame.write.format("noop").mode("overwrite").save()
