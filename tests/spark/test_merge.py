"""Merges of frames: what plain Python makes of the same change batches, in tasks, in the driver and in streams."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import rli
import rli_spark
from rli import Table
from tests.support.change_batches import FORMS, Change, counts, envelope, in_columns, op_of
from tests.support.lanes import first_on_every_spark
from tests.support.soak import in_ci
from tests.support.spark import small_writes
from tests.support.tables import assert_nothing_left_over, rows_of

pytestmark = [pytest.mark.spark, pytest.mark.invariant("P46")]

INDEXES = ["lmdb://{folder}/index", "lmdb://{folder}/index?scope=partition", "global-simple:", "bucket:?buckets=3"]
TASKS, DRIVER = 0, 1 << 24
"""Bytes of a write that the driver does."""
BOTH_PLACES = [*product(INDEXES, (TASKS, DRIVER))]
ALIKE = [(INDEXES[0], TASKS), (INDEXES[1], DRIVER), ("global-simple:", TASKS), (INDEXES[-1], DRIVER)]
IN_TASKS = pytest.mark.parametrize("in_driver", in_ci([TASKS], of=[TASKS, DRIVER]))
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def create(folder: Path, index: str = INDEXES[0]) -> Table:
    folder.mkdir(exist_ok=True)
    return rli.create_table(
        folder / "table",
        record_key="id",
        partition_by="city",
        ordering="ts",
        index=index.format(folder=folder),
        target_file_size=64 * 1024,
    )


def frame(spark: SparkSession, rows: pa.Table) -> DataFrame:
    types = {pa.string(): "string", pa.int64(): "long", pa.float64(): "double", pa.bool_(): "boolean"}

    def named(kind: pa.DataType) -> str:
        if pa.types.is_struct(kind):
            return f"struct<{', '.join(f'{field.name}: {named(field.type)}' for field in kind)}>"
        return types[kind]

    columns = ", ".join(f"{field.name} {named(field.type)}" for field in rows.schema)
    values = [tuple(_value(value) for value in row.values()) for row in rows.to_pylist()]
    return spark.createDataFrame(values, columns).repartition(3)


def _value(value: Any) -> Any:
    return tuple(value.values()) if isinstance(value, dict) else value


def batches(seed: str) -> Iterator[tuple[str, list[Change]]]:
    """Change batches in every form; no two changes have one ordering value, so that rows need no order."""
    chance = random.Random(seed)
    times = iter(chance.sample(range(1000), 400))
    for form in FORMS:
        yield (
            form,
            [
                Change(f"k{chance.randrange(50)}", "xyz"[chance.randrange(3)], next(times), 1.0, chance.choice("crudd"))
                for _ in range(100)
            ],
        )


@pytest.mark.parametrize(("index", "in_driver"), first_on_every_spark(in_ci(ALIKE, of=BOTH_PLACES)))
def test_both_engines_merge_alike(spark: SparkSession, tmp_path: Path, index: str, in_driver: int) -> None:
    table, other = create(tmp_path / "spark", index), create(tmp_path / "local", index)
    with small_writes(spark, in_driver):
        for form, changes in batches(index):
            rows = FORMS[form](changes)
            done = rli_spark.merge(frame(spark, rows), table, op=op_of(form))
            expected = other.merge(rows, op_of(form))
            assert (counts(done), done.duplicates) == (counts(expected), expected.duplicates)
            assert rows_of(table) == rows_of(other)
    assert table.index.verify().agrees
    assert_nothing_left_over(table)


@pytest.mark.one_spark
@pytest.mark.parametrize(("index", "in_driver"), in_ci([(INDEXES[0], TASKS), (INDEXES[-1], DRIVER)], of=BOTH_PLACES))
def test_both_engines_ask_conditions_alike(spark: SparkSession, tmp_path: Path, index: str, in_driver: int) -> None:
    table, other = create(tmp_path / "spark", index), create(tmp_path / "local", index)
    when = "source.ts % 3 = 0 or target.city = 'z' and source.v >= target.v"
    with small_writes(spark, in_driver):
        for form, changes in batches(index):
            rows = FORMS[form](changes)
            done = rli_spark.merge(frame(spark, rows), table, op_of(form), when)
            expected = other.merge(rows, op_of(form), when)
            assert (counts(done), done.duplicates) == (counts(expected), expected.duplicates)
            assert rows_of(table) == rows_of(other)
        wrong = frame(spark, in_columns([Change("k1", "x", 9999, 1.0, "u")]))
        with pytest.raises(rli.InvalidInputError, match=r"column=source\.nothing"):
            rli_spark.merge(wrong, table, "op", "source.nothing > 1")


@pytest.mark.one_spark
@IN_TASKS
def test_deletes_win_ties_in_frames(spark: SparkSession, tmp_path: Path, in_driver: int) -> None:
    table = create(tmp_path)
    with small_writes(spark, in_driver):
        ties = [Change(f"k{n}", "x", 5, float(m), "ud"[m % 2]) for n in range(20) for m in range(4)]
        done = rli_spark.merge(frame(spark, in_columns(ties)), table, op="op")
    assert (counts(done), done.duplicates) == ((0, 0, 0, 0, 20), 60)
    assert table.schema is None


@pytest.mark.one_spark
@IN_TASKS
def test_wrong_frames_are_refused(spark: SparkSession, tmp_path: Path, in_driver: int) -> None:
    table = create(tmp_path)
    one = Change("a", "x", 1, 1.0, "c")
    with small_writes(spark, in_driver):
        rli_spark.merge(frame(spark, in_columns([one])), table, op="op")
        for op, problem in (
            ("t", "a truncate is no change"),
            ("x", "unknown operations"),
            (None, "rows have no operation"),
        ):
            with pytest.raises(rli.InvalidInputError, match=problem):
                rli_spark.merge(frame(spark, in_columns([one, one._replace(id="b", op=op)])), table, op="op")  # type: ignore[arg-type]
        with pytest.raises(rli.InvalidInputError, match="no column tells"):
            rli_spark.merge(frame(spark, in_columns([one])), table)
        lacking = frame(spark, in_columns([one._replace(ts=2)]).drop_columns("v"))
        with pytest.raises(rli.SchemaError, match=r"lack columns of the table: columns=\['v'\]"):
            rli_spark.merge(lacking, table, op="op")
        assert rli_spark.merge(lacking, table, op="op", missing="keep").updated == 1
        gone = frame(spark, in_columns([one._replace(ts=3, op="D")]).select(["id", "ts", "op"]))
        assert rli_spark.merge(gone, table, op="op").deleted == 1


@pytest.mark.one_spark
def test_changed_keys_in_frames(spark: SparkSession, tmp_path: Path) -> None:
    table = create(tmp_path)
    table.merge(envelope([Change("a", "x", 1, 1.0, "c")]))
    renamed = envelope([Change("b", "y", 2, 2.0, "u")])
    position = renamed.schema.get_field_index("before")
    former = pa.array([{"id": "a", "city": "x", "v": 1.0}], renamed.schema.field(position).type)
    renamed = renamed.set_column(position, renamed.schema.field(position), former)
    assert counts(rli_spark.merge(frame(spark, renamed), table)) == (1, 0, 0, 1, 0)
    assert [row["id"] for row in rows_of(table)] == ["b"]


@pytest.mark.one_spark
def test_events_come_as_spark_reads_json(spark: SparkSession, tmp_path: Path) -> None:
    """A column of nulls alone is one of strings then."""
    table = rli.create_table(tmp_path / "table", record_key="id", ordering="ts_ms")
    image = {"id": 1, "v": 1.5, "w": 2}

    def merge(*events: dict[str, Any] | None) -> rli.CommitResult:
        path = tmp_path / f"{len(table.timeline())}.json"
        path.write_text("\n".join(map(json.dumps, events)))
        return rli_spark.merge(spark.read.json(str(path)), table)

    assert merge({"before": None, "after": image, "op": "c", "ts_ms": 1, "transaction": None}).inserted == 1
    key = {"id": 1, "v": None, "w": None}
    changed = {"before": key, "after": {**image, "v": 2.5}, "op": "u", "ts_ms": 2}
    assert merge(changed, None).updated == 1
    assert merge({"before": image, "after": None, "op": "d", "ts_ms": 3}).deleted == 1
    with pytest.raises(rli.SchemaError, match="different types: column=v"):
        merge({**changed, "before": {**key, "v": "1.5"}})


@pytest.mark.one_spark
def test_repeated_frames_change_nothing(spark: SparkSession, tmp_path: Path) -> None:
    table = create(tmp_path)
    rows = in_columns([Change("a", "x", 1, 1.0, "c"), Change("b", "x", 1, 1.0, "c")])
    first = rli_spark.merge(frame(spark, rows), table, op="op", transaction=("cdc", 1))
    assert rli_spark.merge(frame(spark, rows), table, op="op", transaction=("cdc", 1)).repeated
    # The request of a transaction is the same for both engines.
    assert table.merge(rows, op="op", transaction=("cdc", 1)) == first


@pytest.fixture
def rocksdb(spark: SparkSession) -> Iterator[None]:
    before = spark.conf.get(PROVIDER)
    spark.conf.set(PROVIDER, ROCKSDB)
    yield
    spark.conf.set(PROVIDER, before or "")


@pytest.mark.usefixtures("rocksdb")
@pytest.mark.parametrize(
    ("index", "tag_by"), first_on_every_spark([(INDEXES[0], "index"), ("global-simple:", "state")])
)
def test_streams_merge_their_batches(spark: SparkSession, tmp_path: Path, index: str, tag_by: str) -> None:
    table, other = create(tmp_path / "spark", index), create(tmp_path / "local", index)
    incoming = tmp_path / "incoming"
    incoming.mkdir()
    columns = "id string, city string, ts long, v double, op string"
    when = "source.ts % 3 = 0 or target.city = 'z'"
    sent: list[list[Change]] = [changes for _, changes in batches(tag_by)]

    def run() -> None:
        source = spark.readStream.schema(columns).option("maxFilesPerTrigger", 1).json(str(incoming))
        writer = rli_spark.write_stream(
            source, table, checkpoint=str(tmp_path / "checkpoint"), mode="merge", op="op", when=when, tag_by=tag_by
        )
        writer.trigger(availableNow=True).start().awaitTermination()

    for number, changes in enumerate(sent[:3]):
        path = incoming / f"{number}.json"
        path.write_text("\n".join(json.dumps(change._asdict()) for change in changes))
        os.utime(path, (1_700_000_000 + 60 * number,) * 2)
        if number:
            run()
    for changes in sent[:3]:
        other.merge(in_columns(changes), "op", when)
    assert rows_of(rli.open_table(table.location)) == rows_of(other)
    assert len(table.timeline()) == 3


def test_streams_name_their_operations(spark: SparkSession, tmp_path: Path) -> None:
    table = create(tmp_path)
    source = spark.readStream.format("rate").load()
    start: Callable[..., Any] = rli_spark.write_stream
    with pytest.raises(rli.InvalidInputError, match="op and when are of a merge: op=kind when=None mode=upsert"):
        start(source, table, checkpoint=str(tmp_path / "c"), op="kind")
