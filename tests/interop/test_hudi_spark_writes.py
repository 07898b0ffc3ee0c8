"""Apache Hudi writes into our tables: our index follows, we write on, and Hudi reads exactly what we wrote."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

import rli
from rli.hudi.meta_columns import PARTITION_PATH, RECORD_KEY
from rli.table.table import opened_table
from tests.support.agreement import require_agreement, require_hudi_agrees
from tests.support.histories import SCHEMA, WIDER_SCHEMA, History, Layout, new_history, trip, write_history
from tests.support.hudi import HudiEngine, HudiError
from tests.support.hudi_options import NEWEST, newest_only, with_hudi, write_options
from tests.support.metadata_tables import differences
from tests.support.rows import sorted_rows
from tests.support.soak import in_ci

pytestmark = [pytest.mark.hudi, pytest.mark.spark, pytest.mark.slow]

_COMPOSITE: Final = pytest.param(("text", "number", "flag", "day", "price"), ("flag", "day", "price"), id="composite")
BY_CITY: Final = Layout(partition_by=("city",))
BY_CITY_AND_YEAR: Final = Layout(partition_by=("city", "year"), hive_style=True)


def _metadata_table_is_on(history: History) -> bool:
    return (history.path / ".hoodie" / "metadata").exists()


def _take_turns(engine: HudiEngine, history: History, index: str) -> None:
    """Hudi upserts and deletes, then we write on."""
    is_global = index not in {"BLOOM", "SIMPLE"}
    options = write_options(engine, history.layout, index=index)
    changed = [trip("plain", ts=20, fare=7.5), trip("hudi's", city="Rome", ts=20), trip("hudi's too", ts=20)]
    if is_global:
        changed.append(trip("-7", city="Lima", ts=20))
    engine.write(history.path, pa.Table.from_pylist(changed, SCHEMA), options)
    history.expect_upserted(changed)
    history.table.sync_index()
    require_agreement(history)
    assert _metadata_table_is_on(history)

    gone = [trip("hudi's too"), trip("second line")]
    engine.write(
        history.path, pa.Table.from_pylist(gone, SCHEMA), {**options, "hoodie.datasource.write.operation": "delete"}
    )
    history.expect_deleted(["hudi's too", "second line"])
    # Nobody asks for a sync here: the upsert does it.
    result = history.upsert([trip("hudi's", city="Oslo", ts=21), trip("hudi's too", ts=21), trip("plain", ts=21)])
    assert (result.inserted, result.updated, result.moved) == (1, 1, 1)
    assert differences(history.path) == []
    require_agreement(history)
    require_hudi_agrees(engine, history)


@with_hudi(NEWEST, in_soak=("1.0.2", "0.15.0"))
def test_hudi_and_rli_continue_after_rollback(engine: HudiEngine, tmp_path: Path) -> None:
    history = write_history(BY_CITY, tmp_path, steps=4)
    assert history.table.timeline()[-1].action == "rollback"
    _take_turns(engine, history, "GLOBAL_SIMPLE")
    history.table.close()


@pytest.mark.soak
@newest_only
def test_hudi_continues_after_checksummed_file_rewrite(engine: HudiEngine, tmp_path: Path) -> None:
    """Hudi writes through Hadoop, which refuses a local file that differs from the checksum beside it."""
    history = write_history(BY_CITY, tmp_path, steps=1)
    properties = history.path / ".hoodie" / "hoodie.properties"
    for ts in (30, 40):
        rows = [trip("plain", ts=ts)]
        engine.write(history.path, pa.Table.from_pylist(rows, SCHEMA), write_options(engine, BY_CITY))
        history.expect_upserted(rows)
        written = properties.read_bytes()
        assert properties.with_name(".hoodie.properties.crc").exists()
        history.upsert([trip("plain", city="Rome", ts=ts + 1)])
        history.table.metadata.disable()
        assert properties.read_bytes() != written
    require_hudi_agrees(engine, history)
    history.table.close()


@newest_only
@pytest.mark.parametrize("index", in_ci(["RECORD_INDEX"], of=["BLOOM", "GLOBAL_BLOOM", "RECORD_INDEX"]))
def test_other_indexes_of_hudi(engine: HudiEngine, index: str, tmp_path: Path) -> None:
    history = write_history(BY_CITY, tmp_path, steps=2)
    _take_turns(engine, history, index)
    if index == "RECORD_INDEX":
        again = [trip("plain", ts=30), trip("hudi's", ts=30, city="Lima")]
        engine.write(history.path, pa.Table.from_pylist(again, SCHEMA), write_options(engine, BY_CITY, index=index))
        history.expect_upserted(again)
        history.table.sync_index()
        require_agreement(history)
        require_hudi_agrees(engine, history)
    history.table.close()


_TYPED: Final = pa.schema(
    [
        ("text", pa.string()),
        ("number", pa.int64()),
        ("flag", pa.bool_()),
        ("day", pa.date32()),
        ("price", pa.decimal128(20, 9)),
        ("ts", pa.int64()),
    ]
)

_FINER = pa.schema(
    [field.with_type(pa.decimal128(30, 12)) if pa.types.is_decimal(field.type) else field for field in _TYPED]
)
"""The same records, with decimals of another scale, as another writer may have them."""


def _typed_rows(ts: int) -> pa.Table:
    small, whole = Decimal("0.000000010"), Decimal("-1234567.890000000")
    rows: list[dict[str, object]] = [
        {"text": "Ünïcode 😀", "number": 2**62, "flag": True, "day": date(2024, 2, 29), "price": small},
        {"text": "a:1,b:2", "number": -(2**62), "flag": False, "day": date(1969, 12, 31), "price": whole},
        {"text": "", "number": 0, "flag": None, "day": None, "price": Decimal("0E-9")},
        {"text": None, "number": 1, "flag": True, "day": date(1582, 10, 15), "price": None},
    ]
    return pa.Table.from_pylist([{**row, "ts": ts} for row in rows], _TYPED)


@with_hudi(NEWEST, "0.15.0", in_soak=("1.0.2",))
@pytest.mark.parametrize(
    ("record_key", "partition_by"),
    in_ci([_COMPOSITE], of=[_COMPOSITE, pytest.param(("number",), ("day", "price"), id="single")]),
)
def test_hudi_finds_our_keys_and_partitions(
    engine: HudiEngine, record_key: tuple[str, ...], partition_by: tuple[str, ...], tmp_path: Path
) -> None:
    layout = Layout(record_key, partition_by, hive_style=True)
    path = tmp_path / "trips"
    table = rli.create_table(
        path,
        record_key=record_key,
        partition_by=partition_by,
        ordering="ts",
        hive_style=True,
        index=f"lmdb://{tmp_path / 'index'}",
    )
    table.upsert(_typed_rows(1))
    before = table.read(columns=[RECORD_KEY, PARTITION_PATH, "number"])
    engine.write(path, _typed_rows(2), write_options(engine, layout))
    assert sorted_rows(table.read(columns=[RECORD_KEY, PARTITION_PATH, "number"])) == sorted_rows(before)
    assert sorted_rows(table.read()) == sorted_rows(_typed_rows(2))
    assert table.upsert(_typed_rows(2).cast(_FINER)).unchanged == 4
    assert table.upsert(_typed_rows(3)).updated == 4
    # Hudi before 1.0 gives the partition columns last.
    theirs = engine.read(path).select(_TYPED.names)
    assert sorted_rows(theirs.cast(_TYPED)) == sorted_rows(_typed_rows(3))
    assert table.verify_index().agrees
    table.close()


@newest_only
def test_hudi_refuses_untyped_custom_key_generator(engine: HudiEngine, tmp_path: Path) -> None:
    history = write_history(BY_CITY_AND_YEAR, tmp_path, steps=1)
    options = write_options(engine, BY_CITY_AND_YEAR)
    options["hoodie.datasource.write.partitionpath.field"] = "city,year"
    with pytest.raises(HudiError, match="CustomKeyGenerator"):
        engine.write(history.path, pa.Table.from_pylist([trip("plain", ts=9)], SCHEMA), options)
    assert history.upsert([trip("plain", ts=10)]).updated == 1
    require_agreement(history)
    history.table.close()


@with_hudi(NEWEST, "0.15.0", in_soak=("1.0.2",))
def test_hudi_releases_disagree_on_complex_keys(engine: HudiEngine, tmp_path: Path) -> None:
    options = {
        **write_options(engine, BY_CITY_AND_YEAR),
        "hoodie.datasource.write.partitionpath.field": "city,year",
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.ComplexKeyGenerator",
    }
    path, rows = tmp_path / "trips", pa.Table.from_pylist([trip("a")], SCHEMA)
    if engine.version == NEWEST:
        with pytest.raises(HudiError, match="complex key generator with a single record key"):
            engine.write(path, rows, options)
        return
    engine.write(path, rows, options)
    assert rli.open_table(path).read(columns=[RECORD_KEY])[RECORD_KEY].to_pylist() == ["a"]


@newest_only
@pytest.mark.parametrize("stored", in_ci(["id:a"], of=["a", "id:a"]))
def test_complex_keys_over_one_column(engine: HudiEngine, stored: str, tmp_path: Path) -> None:
    options = {
        **write_options(engine, BY_CITY_AND_YEAR),
        "hoodie.datasource.write.partitionpath.field": "city,year",
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.ComplexKeyGenerator",
        "hoodie.write.complex.keygen.validation.enable": "false",
        "hoodie.write.complex.keygen.new.encoding": str(stored == "a").lower(),
    }
    path = tmp_path / "trips"
    engine.write(path, pa.Table.from_pylist([trip("a"), trip("b")], SCHEMA), options)
    table = rli.open_table(path)
    table.bootstrap_index(f"lmdb://{tmp_path / 'index'}")
    changed = pa.Table.from_pylist([trip("a", ts=2)], SCHEMA)
    assert stored in table.read(columns=[RECORD_KEY])[RECORD_KEY].to_pylist()
    if stored == "a":
        assert table.upsert(changed).updated == 1
    else:
        with pytest.raises(rli.UnsupportedTableError, match=r"stored='id:[ab]' expected='[ab]'"):
            table.upsert(changed)
    assert table.verify_index().agrees
    table.close()


@newest_only
def test_other_operations_of_hudi_are_followed(engine: HudiEngine, tmp_path: Path) -> None:
    history = write_history(BY_CITY, tmp_path, steps=1)

    def write(operation: str, rows: list[dict[str, object]], **options: str) -> None:
        source = pa.Table.from_pylist(rows, SCHEMA)
        named = {name.replace("__", "."): value for name, value in options.items()}
        engine.write(history.path, source, {**write_options(engine, BY_CITY, operation), **named})
        history.table.sync_index()

    added = [trip("loaded", city="Rome"), trip("loaded too", city="Lima")]
    write("bulk_insert", added)
    history.expect_upserted(added)
    require_agreement(history)

    replacing = [trip("instead", city="Oslo"), trip("plain", city="Oslo", ts=3)]
    in_oslo = [row["id"] for row in history.rows if row["city"] == "Oslo"]
    write("insert_overwrite", replacing)
    history.expect_deleted(in_oslo)
    history.expect_upserted(replacing)
    require_agreement(history)

    write("delete_partition", [], hoodie__datasource__write__partitions__to__delete="Rome")
    history.expect_deleted(["loaded"])
    require_agreement(history)

    clustered = [trip("clustered", city="Lima", ts=4)]
    write("upsert", clustered, hoodie__clustering__inline="true", hoodie__clustering__inline__max__commits="1")
    history.expect_upserted(clustered)
    assert _last_operation(history) == "CLUSTER"
    require_agreement(history)

    history.upsert([trip("plain", city="Lima", ts=9), trip("loaded", city="Rome", ts=9)])
    require_agreement(history)
    require_hudi_agrees(engine, history)

    everything = [trip("only", city="Oslo"), trip("plain", city="Rome")]
    write("insert_overwrite_table", everything, hoodie__clean__commits__retained="1")
    history.expect_deleted([row["id"] for row in history.rows])
    history.expect_upserted(everything)
    assert "clean" in {instant.action for instant in history.table.timeline()}
    require_agreement(history)

    with pytest.raises(rli.UnsupportedTableError, match="another engine"):
        history.table.rollback(opened_table(history.table).snapshot().timeline.completed_writes[-1].time)
    require_agreement(history)
    history.table.close()


def _last_operation(history: History) -> str:
    snapshot = opened_table(history.table).snapshot()
    return snapshot.change(snapshot.timeline.completed_writes[-1]).operation


@pytest.mark.soak
@newest_only
@pytest.mark.invariant("P62")
def test_early_cleaned_files_are_followed(engine: HudiEngine, tmp_path: Path) -> None:
    history = new_history(BY_CITY, tmp_path)
    history.upsert([trip("a"), trip("b")])
    options = {**write_options(engine, BY_CITY), "hoodie.clean.commits.retained": "1"}
    for ts in (2, 3, 4):
        engine.write(history.path, pa.Table.from_pylist([trip("a", ts=ts)], SCHEMA), options)
    history.expect_upserted([trip("a", ts=4)])
    require_agreement(history)
    assert history.delete(["b"]).deleted == 1
    require_agreement(history)
    require_hudi_agrees(engine, history)
    history.table.close()


@newest_only
def test_columns_that_either_side_adds(engine: HudiEngine, tmp_path: Path) -> None:
    history = new_history(BY_CITY, tmp_path)
    history.upsert([trip("a"), trip("b", city="Rome")])
    wider = [trip("b", city="Rome", ts=2, note="of hudi"), trip("c", ts=2, note=None)]
    engine.write(history.path, pa.Table.from_pylist(wider, WIDER_SCHEMA), write_options(engine, BY_CITY))
    history.expect_upserted(wider, WIDER_SCHEMA)
    require_hudi_agrees(engine, history)
    widest = WIDER_SCHEMA.append(pa.field("tags", pa.list_(pa.string())))
    history.upsert([trip("a", ts=3, note="ours", tags=["x", None])], widest)
    require_agreement(history)
    require_hudi_agrees(engine, history)
    history.table.close()


@pytest.mark.soak
@newest_only
def test_hudi_writes_over_hashed_keys(engine: HudiEngine, tmp_path: Path) -> None:
    """Files of so many records have hashes of their keys in front of the footer, which Hudi's files have not."""
    count, path = 20_000, tmp_path / "trips"
    options = write_options(engine, Layout(record_key=("id",), partition_by=("city",)), index="BLOOM")
    table = rli.create_table(path, record_key="id", partition_by="city", ordering="ts")
    rows = [trip(f"key-{number}", ts=1, fare=float(number)) for number in range(count)]
    table.upsert(pa.Table.from_pylist(rows, SCHEMA))
    assert table.get(["key-7", "absent"]).num_rows == 1
    for ts in (2, 3):
        changed = [trip("key-7", ts=ts, fare=-1.0 * ts), trip("hudi's", ts=ts)]
        engine.write(path, pa.Table.from_pylist(changed, SCHEMA), options)
        table.sync_index()
        found = table.get(["key-7", "key-19999", "hudi's", "absent"]).to_pylist()
        assert {row["id"]: row["fare"] for row in found} == {"key-7": -1.0 * ts, "key-19999": 19_999.0, "hudi's": 1.5}
        # The next file has hashes again.
        table.upsert(pa.Table.from_pylist([trip("key-8", ts=ts, fare=8.0)], SCHEMA))
        assert table.get(["key-7"])["fare"].to_pylist() == [-1.0 * ts]
    everything = table.read(["id", "fare"]).sort_by("id")
    assert everything.num_rows == count + 1
    seen = engine.read(path).select(["id", "fare"]).sort_by("id")
    assert seen.cast(everything.schema) == everything
    table.close()
