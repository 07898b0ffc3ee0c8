"""Streams that look keys up in Spark's state, in Redis, in LMDB, and in the table's own files: micro-batch by micro-batch."""

from __future__ import annotations

import os
import statistics
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import rli
import rli_spark
from benchmarks.keys import half_known, uuid_keys
from benchmarks.measuring import Outcome
from benchmarks.sessions import spark_session
from rli_spark.streams.write_stream import TagBy
from tests.support.redis import running_redis

_ROCKSDB: Final = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    )
}
_STATE: Final = "Spark's state"
_WARM: Final = 2
"""Micro-batches that do not count: the first one fills the state."""


def run(folder: Path, *, quick: bool) -> list[Outcome]:
    """Each stream in turn writes one micro-batch, half of it with known keys."""
    entries, batch, rounds = (20_000, 1_000, 4) if quick else (1_000_000, 10_000, 12)
    spark = spark_session(_ROCKSDB)
    keys = uuid_keys(entries, seed=11)
    with ExitStack() as stack:
        streams = [
            _Stream(spark, folder / "state", "global-simple:", TagBy.STATE, keys),
            _Stream(spark, folder / "lmdb", f"lmdb://{folder / 'index'}", TagBy.INDEX, keys),
            _Stream(spark, folder / "redis", f"redis://{stack.enter_context(running_redis())}/0", TagBy.INDEX, keys),
            _Stream(spark, folder / "files", "global-simple:", TagBy.INDEX, keys),
        ]
        taken = [
            [stream.seconds(half_known(keys, batch, seed=20 + number)) for stream in streams]
            for number in range(rounds)
        ]
        for stream in streams:
            stream.stop()
    counted = taken[_WARM:]
    about = f"micro-batches of {batch:,} rows, half of them known, into {entries:,}; in turns; local[2]"
    return [
        Outcome(
            f"a micro-batch tagged by {_STATE}",
            name,
            statistics.median(ours[0] / ours[number] for ours in counted),
            None,
            "lower",
            f"first batch {taken[0][0]:.1f} s, then {statistics.median(ours[0] for ours in counted):.1f} s; {about}",
        )
        for number, name in enumerate(("LMDB", "Redis", "the table's own files (global-simple:)"), start=1)
    ]


class _Stream:
    """A stream of files into a table of its own, which holds the first keys."""

    def __init__(self, spark: SparkSession, folder: Path, index: str, tag_by: TagBy, keys: pa.Array) -> None:
        self._folder, self._sent = folder, 0
        (folder / "incoming").mkdir(parents=True)
        table = rli.create_table(folder / "table", record_key="id", partition_by="part", index=index)
        table.upsert(_rows(keys))
        source = spark.readStream.schema("id string, part string, v long").parquet(str(folder / "incoming"))
        checkpoint = str(folder / "checkpoint")
        writer = rli_spark.write_stream(source, table, checkpoint=checkpoint, tag_by=tag_by)
        self._query: StreamingQuery = writer.trigger(processingTime="1 second").start()

    def seconds(self, keys: pa.Array) -> float:
        """Send a micro-batch; returns what Spark took for it."""
        path = self._folder / "incoming" / f"{self._sent}.parquet"
        pq.write_table(_rows(keys), self._folder / "next")
        os.replace(self._folder / "next", path)
        self._sent += 1
        self._query.processAllAvailable()
        done = [progress for progress in self._query.recentProgress if progress["numInputRows"]]
        if len(done) < self._sent:
            raise RuntimeError(f"the stream has written fewer batches than were sent: {len(done)} of {self._sent}")
        return float(done[-1]["durationMs"]["triggerExecution"]) / 1000

    def stop(self) -> None:
        """End the stream."""
        self._query.stop()


def _rows(keys: pa.Array) -> pa.Table:
    # A known key comes with its own partition.
    return pa.table(
        {"id": keys, "part": pc.utf8_slice_codeunits(keys, 0, 1), "v": pa.array(range(len(keys)), pa.int64())}
    )
