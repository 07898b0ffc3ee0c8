"""Tagging a frame against the same mapInArrow doing nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import rli
import rli_spark
from benchmarks.keys import half_known, uuid_keys
from benchmarks.measuring import Outcome, Unit, race
from benchmarks.sessions import spark_session


def run(folder: Path, *, quick: bool) -> list[Outcome]:
    """Measure tagging of keys of which half are known."""
    # Single rounds differ by half: a median of few would, too.
    entries, tagged, rounds = (500_000, 200_000, 5) if quick else (5_000_000, 1_000_000, 11)
    spark = spark_session()
    table = _table(spark, folder, entries)
    pq.write_table(pa.table({"id": half_known(uuid_keys(entries, seed=4), tagged, seed=5)}), folder / "tagged.parquet")
    batch = spark.read.parquet(str(folder / "tagged.parquet")).repartition(4).cache()
    batch.count()

    def nothing(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    pair = race(
        lambda: _compute(rli_spark.tag(batch, table)),
        lambda: _compute(batch.mapInArrow(nothing, batch.schema)),
        rounds=rounds,
    )
    return [
        Outcome(
            "Spark tag",
            "mapInArrow doing nothing",
            pair.speed_ratio,
            0.4,
            "higher",
            f"{tagged:,} UUID keys, half of them known, on {entries:,} entries in LMDB, local[2]; speed over speed",
            Unit.SHARE,
        )
    ]


def _table(spark: SparkSession, folder: Path, entries: int) -> rli.Table:
    keys = uuid_keys(entries, seed=4)
    pq.write_table(
        pa.table({"id": keys, "part": pa.array([f"p{n % 20}" for n in range(entries)])}), folder / "in.parquet"
    )
    table = rli.create_table(
        folder / "tagged", record_key="id", partition_by="part", index=f"lmdb://{folder / 'tagged-index'}"
    )
    rli_spark.upsert(spark.read.parquet(str(folder / "in.parquet")), table)
    return table


def _compute(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()
