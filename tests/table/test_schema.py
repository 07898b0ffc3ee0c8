"""Types that a table holds, what a batch may be, and how a schema grows."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from rli import InvalidInputError, SchemaError, Table, create_table
from tests.support.tables import by_key, check_stored, fingerprint, records, rows_of

NOON = datetime(2024, 5, 31, 12, 0, 0, 123456, tzinfo=UTC)

TYPES: list[tuple[pa.DataType, list[Any], pa.DataType]] = [
    (pa.timestamp("ms", "Europe/Paris"), [NOON.replace(microsecond=0)] * 2, pa.timestamp("us", "UTC")),
    (pa.timestamp("us", "UTC"), [NOON, datetime(1900, 1, 1, tzinfo=UTC)], pa.timestamp("us", "UTC")),
    (
        pa.struct([("x", pa.int8()), ("y", pa.list_(pa.struct([("z", pa.large_string())])))]),
        [{"x": 1, "y": [{"z": "text"}]}, {"x": None, "y": None}],
        pa.struct([("x", pa.int32()), ("y", pa.list_(pa.field("element", pa.struct([("z", pa.string())]))))]),
    ),
]


def with_column(name: str, values: pa.Array, ts: int = 1) -> pa.Table:
    """One record for each value, keys ``k0``, ``k1`` …"""
    count = len(values)
    keys = [f"k{number}" for number in range(count)]
    return pa.table({"id": keys, "city": ["x"] * count, "ts": [ts] * count, name: values})


@pytest.mark.parametrize(("kind", "values", "stored"), TYPES, ids=[str(kind) for kind, _, _ in TYPES])
def test_nested_types_and_moments(trips: Table, kind: pa.DataType, values: list[Any], stored: pa.DataType) -> None:
    batch = with_column("c", pa.array([*values, None], kind))
    trips.upsert(batch)
    trips.upsert(with_column("c", batch.column("c").slice(0, 1), ts=2))
    read = trips.read()
    assert read.schema.field("c").type == stored
    found = by_key(read.to_pylist())
    assert [found[f"k{number}"]["c"] for number in range(3)] == batch.column("c").to_pylist()
    check_stored(trips)


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1], pa.timestamp("ns")),
        pa.array([[1]], pa.list_(pa.timestamp("ns"))),
        pa.array([2**62], pa.timestamp("s")),
    ],
    ids=["nanoseconds", "nested", "too far"],
)
def test_invalid_values_are_refused(trips: Table, values: pa.Array) -> None:
    before = fingerprint(trips)
    with pytest.raises(SchemaError, match="column=c"):
        trips.upsert(with_column("c", values))
    assert fingerprint(trips) == before


@pytest.mark.parametrize("name", ["with space", "ünicode", "1st", "a.b", "", "_rli_key", "TS"])
def test_unwritable_names_are_refused(trips: Table, name: str) -> None:
    before = fingerprint(trips)
    with pytest.raises(SchemaError, match="column"):
        trips.upsert(with_column(name, pa.array([1])))
    assert fingerprint(trips) == before


def test_names_of_struct_fields_are_checked(trips: Table) -> None:
    fields = {"x": pa.int64(), "X": pa.int64()}
    hostile = [
        (pa.struct(fields), r"column=c\.X other=c\.x"),
        (pa.list_(pa.struct(fields)), r"column=c\.element\.X"),
        (pa.map_(pa.string(), pa.struct([("deep", pa.struct(fields))])), r"column=c\.value\.deep\.X"),
        (pa.struct({"a.b": pa.int64()}), r"column='c\.a\.b'"),
    ]
    before = fingerprint(trips)
    for kind, named in hostile:
        with pytest.raises(SchemaError, match=named):
            trips.upsert(with_column("c", pa.nulls(1, kind)))
        with pytest.raises(SchemaError, match=named):
            trips.insert(with_column("c", pa.nulls(1, kind)))
    assert fingerprint(trips) == before


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"record_key": "a.b"}, r"column='a\.b'"),
        ({"record_key": "id", "partition_by": "ID"}, "column=ID other=id"),
        ({"record_key": "id", "ordering": "t s"}, "column='t s'"),
        ({"record_key": "id", "schema": pa.schema({"id": pa.string(), "ID": pa.string()})}, "column=ID other=id"),
        (
            {"record_key": "id", "schema": pa.schema({"id": pa.string(), "s": pa.struct({"x": "int8", "X": "int8"})})},
            r"column=s\.X other=s\.x",
        ),
    ],
    ids=["dot", "case", "blank", "schema", "struct"],
)
def test_names_are_checked_at_creation(tmp_path: Path, memory_url: str, arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(SchemaError, match=named):
        create_table(tmp_path / "t", index=memory_url, **arguments)
    assert not (tmp_path / "t").exists() or not [*(tmp_path / "t").rglob("*.properties")]


# What a batch may be ---------------------------------------------------------------------------------------------


def batches() -> Iterator[Any]:
    table = records(("a", "x", 1, 1.0), ("b", "y", 1, 2.0))
    yield table
    yield pa.concat_tables([table.slice(0, 1), table.slice(1)])
    yield table.to_batches()[0]
    yield pa.concat_tables([table.slice(0, 1), table.slice(1)]).to_batches()
    yield table.to_reader()
    yield table.to_pandas()
    # Rows were dropped and the rest keeps its labels, as a filter or a sort leaves them.
    frame = table.to_pandas()
    frame.index = [7, 3]
    yield frame
    yield frame.rename_axis("label")


@pytest.mark.parametrize("position", range(8))
def test_anything_that_is_a_table(trips: Table, position: int) -> None:
    trips.upsert(list(batches())[position])
    assert rows_of(trips) == rows_of(records(("a", "x", 1, 1.0), ("b", "y", 1, 2.0)))
    assert trips.read().column_names == ["id", "city", "ts", "v"]
    check_stored(trips)


@pytest.mark.parametrize(
    "batch", [None, 1, "text", [], [pa.record_batch({"id": ["a"]}), 1], [{"id": "a"}], {"id": ["a"]}, object()]
)
def test_what_is_no_table_is_refused(trips: Table, batch: object) -> None:
    with pytest.raises(InvalidInputError, match="not a table"):
        trips.upsert(batch)


def test_meta_columns_are_refused(trips: Table) -> None:
    trips.upsert(records(("a", "x", 1, 1.0)))
    full = trips.read(columns=[*["_hoodie_commit_time", "_hoodie_record_key"], "id", "city", "ts", "v"])
    changed = full.set_column(full.schema.get_field_index("ts"), "ts", pc.add(full.column("ts"), 1))
    with pytest.raises(SchemaError, match="drop them before you write"):
        trips.upsert(changed)
    assert trips.upsert(changed.drop_columns(["_hoodie_commit_time", "_hoodie_record_key"])).updated == 1
    assert rows_of(trips) == [{"id": "a", "city": "x", "ts": 2, "v": 1.0}]
    check_stored(trips)


def test_columns_come_in_any_order(trips: Table) -> None:
    trips.upsert(records(("a", "x", 1, 1.0)))
    batch = records(("b", "x", 1, 2.0), ("a", "y", 2, 3.0)).select(["v", "ts", "city", "id"])
    trips.upsert(batch)
    assert trips.read().column_names == ["id", "city", "ts", "v"]
    assert [row["v"] for row in rows_of(trips)] == [3.0, 2.0]


# How a schema grows ----------------------------------------------------------------------------------------------


def test_added_columns_are_null_elsewhere(trips: Table) -> None:
    trips.upsert(records(("a", "x", 1, 1.0), ("b", "x", 1, 2.0), ("c", "y", 1, 3.0)))
    wider = records(("b", "x", 2, 2.5), ("d", "y", 2, 4.0)).append_column("extra", pa.array(["new", None]))
    trips.upsert(wider.append_column("more", pa.array([[1], [2, 3]])))
    found = by_key(trips.read().to_pylist())
    assert {key: (row["extra"], row["more"]) for key, row in found.items()} == {
        "a": (None, None),
        "b": ("new", [1]),
        "c": (None, None),
        "d": (None, [2, 3]),
    }
    assert trips.read(filters=[("extra", "=", "new")]).num_rows == 1
    assert trips.read(as_of=trips.timeline()[0].time).column_names == ["id", "city", "ts", "v"]
    check_stored(trips)


def test_narrower_numbers_fit(trips: Table) -> None:
    trips.upsert(records(("a", "x", 1, 1.0)))
    narrow = pa.table({"id": ["a"], "city": ["x"], "ts": pa.array([2], pa.int16()), "v": pa.array([2.5], pa.float32())})
    assert trips.upsert(narrow).updated == 1
    assert rows_of(trips) == [{"id": "a", "city": "x", "ts": 2, "v": 2.5}]
    assert trips.schema is not None
    assert trips.schema.field("ts").type == pa.int64()


def test_null_column_fits_any_column(trips: Table) -> None:
    """What a data frame or JSON lines make of a column without values."""
    trips.upsert(records(("a", "x", 1, 1.0)))
    trips.upsert(records(("a", "x", 1, 1.0)).append_column("w", pa.array([[{"z": 1}]])))
    nulls = {"v": pa.nulls(2), "w": pa.array([[], [None]])}
    trips.upsert(pa.table({"id": ["a", "b"], "city": ["x", "x"], "ts": [2, 2], **nulls}))
    assert [(row["v"], row["w"]) for row in rows_of(trips)] == [(None, []), (None, [None])]
    trips.upsert(pa.table({"id": ["a", "b"], "city": pa.nulls(2), "ts": [2, 2], "v": pa.nulls(2), "w": pa.nulls(2)}))
    assert [(row["city"], row["w"]) for row in rows_of(trips)] == [(None, None), (None, None)]
    assert trips.schema is not None
    assert trips.schema.field("v").type == pa.float64()


@pytest.mark.parametrize(
    ("batch", "named"),
    [
        (records(("a", "x", 2, 1.0)).drop_columns(["v"]), "v"),
        (records(("a", "x", 2, 1.0)).set_column(3, "v", pa.array(["text"])), "v"),
        (records(("a", "x", 2, 1.0)).set_column(2, "ts", pa.array([1.5])), "ts"),
        (records(("a", "x", 2, 1.0)).set_column(0, "id", pa.array([1])), "id"),
        (records(("a", "x", 2, 1.0)).append_column("V", pa.array([1])), "occurs twice"),
        (records(("a", "x", 2, 1.0)).append_column("v", pa.array([1])), "v"),
    ],
    ids=["dropped", "text", "wider", "key", "case", "twice"],
)
def test_incompatible_batch_is_refused(trips: Table, batch: pa.Table, named: str) -> None:
    trips.upsert(records(("a", "x", 1, 1.0)))
    before = fingerprint(trips)
    with pytest.raises(SchemaError, match=named):
        trips.upsert(batch)
    assert fingerprint(trips) == before
