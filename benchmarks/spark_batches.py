"""What a batch takes in Spark: a small one beside a job that does nothing, and a large one beside plain Python."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import rli
import rli_spark
from benchmarks.keys import uuid_keys
from benchmarks.measuring import Outcome, race
from benchmarks.peers.workload import PARTITIONS
from benchmarks.sessions import spark_session

_FEW: Final = 100
_SPREAD: Final = 500
"""Records of a batch that changes as many file groups, or a hundredth of them."""

_ROW_GROUPS: Final = 8

_GOAL_OF_FEW, _GOAL_OF_MANY, _GOAL_OF_SPREAD = 3.0, 1.2, 5.0


def run(folder: Path, *, quick: bool) -> list[Outcome]:
    """Upsert small batches, batches spread over many file groups, and large ones, each of records that are stored."""
    stored = 50_000 if quick else 2_000_000
    large = stored // 5
    spark = spark_session()
    ours, plain = (_Table(spark, folder / name, stored, PARTITIONS) for name in ("spark", "plain"))
    wide, narrow = (_Table(spark, folder / f"groups-{groups}", 50_000, groups) for groups in (_SPREAD, _SPREAD // 100))
    few = race(narrow.upsert, lambda: _do_nothing(narrow.frame), reset=lambda: narrow.make_batch(_FEW))
    many = race(ours.upsert, plain.upsert_in_python, reset=lambda: _make_batches(large, ours, plain))
    collected = race(plain.upsert_collected, plain.upsert_in_python, reset=lambda: _make_batches(large, plain))
    spread = race(wide.upsert, narrow.upsert, reset=lambda: _make_batches(_SPREAD, wide, narrow))
    about = "index in LMDB, local[2]; time over time"
    return [
        Outcome(
            f"upsert of {_FEW} records in Spark",
            "mapInArrow doing nothing with them",
            few.time_ratio,
            _GOAL_OF_FEW,
            "lower",
            f"a table of 50,000 records in {_SPREAD // 100} file groups, {about}",
        ),
        Outcome(
            f"upsert of {large:,} records in Spark",
            "plain Python upserting the same file",
            many.time_ratio,
            _GOAL_OF_MANY,
            "lower",
            f"a table of {stored:,} records in {PARTITIONS} file groups, {about}",
        ),
        Outcome(
            f"Spark collecting {large:,} records as Arrow, and plain Python upserting them",
            "plain Python upserting the same file",
            collected.time_ratio,
            None,
            "lower",
            f"what a driver takes that does nothing else; a table of {stored:,} records in {PARTITIONS} file groups, {about}",
        ),
        Outcome(
            f"upsert of {_SPREAD} records in Spark into {_SPREAD} file groups",
            f"the same number into {_SPREAD // 100}",
            spread.time_ratio,
            _GOAL_OF_SPREAD,
            "lower",
            f"tables of 50,000 records, {about}",
        ),
    ]


class _Table:
    """A table and batches that change it: each has the next versions of the first records.

    Args:
        spark: the session.
        folder: for the table and the file of a batch.
        stored: records.
        partitions: of one file group each.
    """

    def __init__(self, spark: SparkSession, folder: Path, stored: int, partitions: int) -> None:
        folder.mkdir()
        self._spark, self._batch, self._versions = spark, folder / "batch.parquet", count(1)
        self._rows = pa.table(
            {
                "id": uuid_keys(stored, seed=partitions),
                "part": pa.array(np.arange(stored) % partitions).cast(pa.string()),
                "amount": pa.array(np.random.default_rng(partitions).random(stored)),
            }
        )
        self._table = rli.create_table(folder / "table", record_key="id", partition_by="part", ordering="version")
        self.make_batch(stored)
        self.upsert()

    def make_batch(self, records: int) -> None:
        """Write the file of the next batch, of so many records; those side by side are of all partitions."""
        version = pa.repeat(pa.scalar(next(self._versions)), records)
        # In parts, as a job writes it: Spark reads no row group with more than one task.
        size = -(-records // _ROW_GROUPS)
        pq.write_table(self._rows.slice(0, records).append_column("version", version), self._batch, row_group_size=size)

    @property
    def frame(self) -> DataFrame:
        """The batch."""
        return self._spark.read.parquet(str(self._batch))

    def upsert(self) -> None:
        """Upsert the batch by Spark."""
        rli_spark.upsert(self.frame, self._table)

    def upsert_in_python(self) -> None:
        """The same in plain Python."""
        self._table.upsert(pq.read_table(self._batch))

    def upsert_collected(self) -> None:
        """The same in plain Python, with rows that Spark reads from the file."""
        # ``toArrow`` begins with PySpark 4.
        self._table.upsert(pa.Table.from_batches(self.frame._collect_as_arrow()))  # noqa: SLF001


def _make_batches(records: int, *tables: _Table) -> None:
    for table in tables:
        table.make_batch(records)


def _do_nothing(frame: DataFrame) -> None:
    def nothing(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    frame.mapInArrow(nothing, frame.schema).collect()
