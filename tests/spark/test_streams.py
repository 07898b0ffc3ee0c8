"""Streams that write tables: what Spark's state says of their keys is what the table says, whoever else writes (P38)."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (the name that everybody knows)

import rli
import rli_spark
from rli.index.contract import FileIndex
from rli.index.locators import FileLocator
from rli.table.table import opened_table
from rli.view.paths import stream_folder
from rli_spark.streams import base
from rli_spark.streams.known_locations import KnownLocations
from tests.support.spark import small_writes
from tests.support.tables import forget_the_journal, records, rows_of

pytestmark = [pytest.mark.spark, pytest.mark.invariant("P38")]

SCHEMA: Final = "id string, city string, ts long, v double"
PROVIDER: Final = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
Row = tuple[str, str, int, float]


@pytest.fixture(autouse=True)
def _rocksdb(spark: SparkSession) -> Iterator[None]:
    before = spark.conf.get(PROVIDER)
    spark.conf.set(PROVIDER, ROCKSDB)
    yield
    spark.conf.set(PROVIDER, before or "")


@pytest.fixture
def tagged_by(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How each attempt of a micro-batch was tagged; the first one of an empty table looks nothing up."""
    told: list[str] = []
    as_of = KnownLocations.as_of

    def spied(known: KnownLocations, locator: FileLocator) -> Any:
        chosen = as_of(known, locator)
        told.append("index" if chosen is locator else "state")
        return chosen

    monkeypatch.setattr(KnownLocations, "as_of", spied)
    return told


class Stream:
    """A stream of files into a table."""

    def __init__(self, spark: SparkSession, folder: Path, **options: Any) -> None:
        self.spark, self.folder, self.options = spark, folder, options
        self.files = 0
        (folder / "incoming").mkdir()

    def send(self, *rows: Row) -> None:
        """One more micro-batch."""
        lines = [json.dumps(dict(zip(("id", "city", "ts", "v"), row, strict=True))) for row in rows]
        path = self.folder / "incoming" / f"{self.files}.json"
        path.write_text("\n".join(lines))
        # The stream takes the oldest file first.
        os.utime(path, (1_700_000_000 + 60 * self.files,) * 2)
        self.files += 1

    def divide(self, table: rli.Table, *, buckets: int) -> None:
        """Divide the keys of the stream's state into so many buckets, before it runs."""
        definition, index = opened_table(table).refreshed()
        assert isinstance(index, FileIndex)
        name = hashlib.sha256(str(self.folder / "checkpoint").encode()).hexdigest()[:32]
        base.build_base(self.spark, definition, index, stream_folder(name), buckets)

    def run(self, table: rli.Table) -> None:
        """Write all that was sent."""
        source = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        events = source.json(str(self.folder / "incoming"))
        writer = rli_spark.write_stream(events, table, checkpoint=str(self.folder / "checkpoint"), **self.options)
        writer.trigger(availableNow=True).start().awaitTermination()


def create(folder: Path, index: str = "global-simple:", **options: Any) -> rli.Table:
    return rli.create_table(
        folder / "table", record_key="id", partition_by="city", ordering="ts", index=index, **options
    )


def state_of(table: rli.Table) -> dict[str, tuple[str, float]]:
    rows = rows_of(rli.open_table(table.location))
    found = {row["id"]: (row["city"], row["v"]) for row in rows}
    assert len(found) == len(rows)
    return found


def wanted(*batches: Sequence[Row]) -> dict[str, tuple[str, float]]:
    return {key: (city, value) for batch in batches for key, city, _, value in batch}


def test_state_follows_stream_and_other_writers(spark: SparkSession, tmp_path: Path, tagged_by: list[str]) -> None:
    table = create(tmp_path, small_file_size=0)
    held = [(f"k{n}", "xyz"[n % 3], 0, 0.0) for n in range(60)]
    table.upsert(records(*held))
    stream = Stream(spark, tmp_path, tag_by="state")
    first = [(f"k{n}", "xyz"[(n + n % 2) % 3], 1, 1.0) for n in range(40, 80)]
    second = [(f"k{n}", "xyz"[(n + 1) % 3], 2, 2.0) for n in range(70, 90)]
    stream.send(*first)
    stream.send(*second)
    stream.run(table)
    assert state_of(table) == wanted(held, first, second)

    table.delete([f"k{n}" for n in range(10)])
    table.upsert(records(("k70", "new", 3, 3.0), ("other", "x", 3, 3.0)))
    table.cluster()
    third = [("k3", "y", 4, 4.0), ("k70", "y", 4, 4.0), ("other", "x", 4, 4.0), ("k50", "x", 4, 4.0)]
    stream.send(*third)
    stream.run(rli.open_table(table.location))
    expected = wanted(held, first, second, third)
    for number in set(range(10)) - {3}:
        del expected[f"k{number}"]
    assert state_of(table) == expected
    assert tagged_by == ["state"] * 3
    assert table.verify_index().agrees


@pytest.mark.one_spark
def test_commit_without_journal_is_followed_late(spark: SparkSession, tmp_path: Path, tagged_by: list[str]) -> None:
    table = create(tmp_path)
    stream = Stream(spark, tmp_path, tag_by="state")
    stream.send(("a", "x", 1, 1.0))
    stream.run(table)
    # As another engine commits.
    forget_the_journal(table, table.upsert(records(("b", "y", 1, 1.0), ("a", "y", 2, 2.0))).instant or "")
    stream.send(("a", "z", 3, 3.0), ("b", "z", 3, 3.0))
    stream.run(table)
    stream.send(("a", "x", 4, 4.0), ("b", "z", 4, 4.0))
    stream.run(table)
    assert state_of(table) == {"a": ("x", 4.0), "b": ("z", 4.0)}
    assert tagged_by == ["index", "state"]
    assert len(list((tmp_path / "table" / ".hoodie" / ".rli" / "streams").glob("*/*/"))) == 1


@pytest.mark.one_spark
def test_lost_stream_state_is_rebuilt(spark: SparkSession, tmp_path: Path) -> None:
    table = create(tmp_path)
    held = [(f"k{n}", "x", 1, 1.0) for n in range(40)]
    table.upsert(records(*held))
    stream = Stream(spark, tmp_path, tag_by="state")
    # A table that has grown meanwhile has more buckets than the state.
    stream.divide(table, buckets=4)
    first = [(f"k{n}", "y", 2, 2.0) for n in range(20, 60)]
    stream.send(*first)
    stream.run(table)
    table.rollback("last")
    shutil.rmtree(tmp_path / "table" / ".hoodie" / ".rli" / "streams")
    second = [(f"k{n}", "z", 3, 3.0) for n in range(10, 70)]
    stream.send(*second)
    stream.run(table)
    assert state_of(table) == wanted(held, second)


@pytest.mark.one_spark
def test_forgotten_keys_are_not_reinserted(spark: SparkSession, tmp_path: Path, tagged_by: list[str]) -> None:
    table = create(tmp_path)
    stream = Stream(spark, tmp_path, tag_by="state", mode="insert", ttl=timedelta(microseconds=1))
    # Each batch finds all other keys in its bucket unused.
    stream.divide(table, buckets=1)
    for number, batch in enumerate(([("a", "x"), ("b", "x")], [("c", "x")], [("c", "y")], [("a", "y"), ("d", "y")])):
        stream.send(*((key, city, number, float(number)) for key, city in batch))
    stream.run(table)
    assert state_of(table) == {"a": ("x", 0.0), "b": ("x", 0.0), "c": ("x", 1.0), "d": ("y", 3.0)}
    assert tagged_by == ["state", "state", "index"]


@pytest.mark.one_spark
def test_locations_are_reread_after_clean(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = create(tmp_path)
    for number in range(3):
        table.upsert(records(("a", "x", number, float(number))))

    def beside_a_clean(*_: object) -> int:
        monkeypatch.undo()
        assert table.clean(keep_commits=1).instant is not None
        raise rli.CorruptTableError("a base file is missing")

    monkeypatch.setattr(base, "shared_slices", beside_a_clean)
    stream = Stream(spark, tmp_path, tag_by="state")
    stream.send(("a", "y", 3, 3.0))
    stream.run(table)
    assert state_of(table) == {"a": ("y", 3.0)}


@pytest.mark.one_spark
def test_stream_respects_partition_scope(spark: SparkSession, tmp_path: Path, tagged_by: list[str]) -> None:
    table = create(tmp_path, "simple:")
    table.upsert(records(("a", "x", 0, 0.0)))
    stream = Stream(spark, tmp_path, tag_by="state")
    stream.send(("a", "x", 1, 1.0), ("a", "y", 1, 1.0))
    stream.send()
    stream.send(("a", "y", 2, 2.0), ("a", "z", 2, 2.0))
    # All rows come to the driver.
    with small_writes(spark, 1 << 20):
        stream.run(table)
    assert sorted((row["city"], row["v"]) for row in rows_of(table)) == [("x", 1.0), ("y", 2.0), ("z", 2.0)]
    assert tagged_by == ["state"] * 3


def test_stream_may_look_up_in_store(spark: SparkSession, tmp_path: Path) -> None:
    table = create(tmp_path, f"lmdb://{tmp_path / 'index'}")
    stream = Stream(spark, tmp_path)
    stream.send(("a", "x", 1, 1.0))
    stream.send(("a", "y", 2, 2.0))
    stream.run(table)
    assert state_of(table) == {"a": ("y", 2.0)}
    assert [entry.transaction is not None for entry in table.history()] == [True, True]


@pytest.mark.one_spark
@pytest.mark.invariant("P37")
def test_stream_switches_to_migrated_index(spark: SparkSession, tmp_path: Path) -> None:
    table = create(tmp_path, f"lmdb://{tmp_path / 'index'}")
    table.upsert(records(("a", "x", 1, 1.0)))
    with rli.open_table(table.location) as other:
        other.migrate_index("global-simple:", drop_old=True)
    stream = Stream(spark, tmp_path)
    stream.send(("a", "y", 2, 2.0), ("b", "y", 2, 2.0))
    stream.run(table)
    assert state_of(table) == {"a": ("y", 2.0), "b": ("y", 2.0)}


def test_unsuitable_streams_are_refused_early(spark: SparkSession, tmp_path: Path) -> None:
    table = create(tmp_path)
    (tmp_path / "incoming").mkdir()
    events = spark.readStream.schema(SCHEMA).json(str(tmp_path / "incoming"))
    place: dict[str, Any] = {"checkpoint": str(tmp_path / "checkpoint")}
    with pytest.raises(rli.InvalidInputError, match="is no stream"):
        rli_spark.write_stream(spark.createDataFrame([], SCHEMA), table, **place)
    with pytest.raises(rli.InvalidInputError, match="mode='replace'"):
        rli_spark.write_stream(events, table, mode="replace", **place)
    with pytest.raises(rli.InvalidInputError, match="ttl is of the state"):
        rli_spark.write_stream(events, table, ttl=timedelta(days=1), **place)
    with pytest.raises(rli.InvalidInputError, match="longer than nothing"):
        rli_spark.write_stream(events, table, tag_by="state", ttl=timedelta(0), **place)
    for number, index in enumerate((f"lmdb://{tmp_path / 'index'}", "bucket:?buckets=2")):
        stored = rli.create_table(tmp_path / f"stored{number}", record_key="id", index=index)
        with pytest.raises(rli.SettingsError, match="needs no state"):
            rli_spark.write_stream(events, stored, tag_by="state", **place)
    with pytest.raises(rli.SchemaError, match="city"):
        rli_spark.write_stream(events.drop("city"), table, tag_by="state", **place)
    spark.conf.set(PROVIDER, "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider")
    with pytest.raises(rli.SettingsError, match=r"spark\.conf\.set"):
        rli_spark.write_stream(events, table, tag_by="state", **place)


class Replayed:
    """A stream of files whose last micro-batch Spark replays: its checkpoint does not tell that the batch was written."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        (folder / "incoming").mkdir()

    def send(self, *rows: Row) -> None:
        lines = [json.dumps(dict(zip(("id", "city", "ts", "v"), row, strict=True))) for row in rows]
        (self.folder / "incoming" / f"{len(list((self.folder / 'incoming').iterdir()))}.json").write_text(
            "\n".join(lines)
        )

    def forget(self, *parts: str) -> None:
        """Remove what the checkpoint tells of the first batch."""
        for part in parts:
            for path in (self.folder / "checkpoint" / part / "0", self.folder / "checkpoint" / part / ".0.crc"):
                path.unlink(missing_ok=True)

    def run(self, table: rli.Table, value: float, mode: str = "upsert", *, by_hand: bool = False) -> None:
        """Write what was sent, with a value that the query adds."""
        read = self.spark.readStream.schema(SCHEMA).json(str(self.folder / "incoming"))
        events, checkpoint = read.withColumn("v", F.lit(value)), str(self.folder / "checkpoint")

        def write_batch(batch: DataFrame, number: int) -> None:
            query = str(batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId"))
            rli_spark.upsert(batch, table, transaction=(query, number))

        if by_hand:
            writer = events.writeStream.foreachBatch(write_batch).option("checkpointLocation", checkpoint)
        else:
            writer = rli_spark.write_stream(events, table, checkpoint=checkpoint, mode=mode)
        writer.trigger(availableNow=True).start().awaitTermination()


@pytest.mark.one_spark
@pytest.mark.invariant("P26")
@pytest.mark.parametrize("by_hand", [False, True])
def test_a_replay_may_compute_values_again(
    spark: SparkSession, tmp_path: Path, table: rli.Table, *, by_hand: bool
) -> None:
    stream = Replayed(spark, tmp_path)
    stream.send(("a", "x", 1, 0.0), ("b", "y", 1, 0.0), ("b", "y", 1, 0.0))
    stream.run(table, 1.0, by_hand=by_hand)
    table.delete(["a"])
    stream.forget("commits")
    stream.run(table, 2.0, by_hand=by_hand)
    assert [(row["id"], row["v"]) for row in rows_of(table)] == [("b", 1.0)]
    stream.send(("c", "x", 1, 0.0))
    stream.run(table, 3.0, by_hand=by_hand)
    assert sorted(row["id"] for row in rows_of(table)) == ["b", "c"]


@pytest.mark.invariant("P26")
def test_replay_of_other_keys_ends_query(spark: SparkSession, tmp_path: Path, table: rli.Table) -> None:
    """As after a power cut in which the checkpoint lost the batch's offsets: the rows that came since must not be lost."""
    stream = Replayed(spark, tmp_path)
    stream.send(("a", "x", 1, 0.0))
    stream.run(table, 1.0)
    stream.forget("commits", "offsets", "sources/0")
    stream.send(("b", "y", 1, 0.0))
    with pytest.raises(StreamingQueryException, match="other record keys"):
        stream.run(table, 1.0)
    assert [row["id"] for row in rows_of(table)] == ["a"]
    table.rollback("last")
    stream.run(table, 1.0)
    assert sorted(row["id"] for row in rows_of(table)) == ["a", "b"]


@pytest.mark.one_spark
@pytest.mark.invariant("P26")
def test_replay_in_other_mode_ends_query(spark: SparkSession, tmp_path: Path, table: rli.Table) -> None:
    stream = Replayed(spark, tmp_path)
    stream.send(("a", "x", 1, 0.0))
    stream.run(table, 1.0)
    stream.forget("commits")
    with pytest.raises(StreamingQueryException, match="committed=upsert repeat=insert"):
        stream.run(table, 1.0, "insert")
    stream.run(table, 1.0)
    stream.send(("b", "y", 1, 0.0))
    stream.run(table, 1.0, "insert")
    assert sorted(row["id"] for row in rows_of(table)) == ["a", "b"]
