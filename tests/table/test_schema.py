"""Types that a table holds, what a batch may be, and how a schema grows."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from rli import InvalidInputError, SchemaError, Table, create_table
from tests.support.tables import by_key, check_stored, fingerprint, records, rows_of

NOON = datetime(2024, 5, 31, 12, 0, 0, 123456, tzinfo=UTC)

TYPES: list[tuple[pa.DataType, list[Any], pa.DataType]] = [
    (pa.bool_(), [True, False], pa.bool_()),
    (pa.int8(), [-128, 127], pa.int32()),
    (pa.int16(), [-32768, 32767], pa.int32()),
    (pa.int32(), [-(2**31), 2**31 - 1], pa.int32()),
    (pa.int64(), [-(2**63), 2**63 - 1], pa.int64()),
    (pa.uint8(), [0, 255], pa.int32()),
    (pa.uint16(), [0, 65535], pa.int32()),
    (pa.uint32(), [0, 2**32 - 1], pa.int64()),
    (pa.float32(), [1.5, float("inf")], pa.float32()),
    (pa.float64(), [1e300, -0.0], pa.float64()),
    (pa.string(), ["", "\0 \U0001f600"], pa.string()),
    (pa.large_string(), ["a", "b"], pa.string()),
    (pa.string_view(), ["a", "a long text that is no inline one"], pa.string()),
    (pa.binary(), [b"", b"\xff\0"], pa.binary()),
    (pa.large_binary(), [b"a", b"b"], pa.binary()),
    (pa.binary(3), [b"abc", b"\0\0\0"], pa.binary()),
    (pa.date32(), [date(1, 1, 1), date(9999, 12, 31)], pa.date32()),
    (pa.date64(), [date(1970, 1, 1), date(2024, 2, 29)], pa.date32()),
    (pa.timestamp("us", "UTC"), [NOON, datetime(1900, 1, 1, tzinfo=UTC)], pa.timestamp("us", "UTC")),
    (pa.timestamp("ns", "UTC"), [NOON, NOON], pa.timestamp("us", "UTC")),
    (pa.timestamp("ms", "Europe/Paris"), [NOON.replace(microsecond=0)] * 2, pa.timestamp("us", "UTC")),
    (pa.timestamp("s"), [NOON.replace(microsecond=0, tzinfo=None)] * 2, pa.timestamp("us", "UTC")),
    (pa.decimal128(10, 2), [Decimal("-12345678.90"), Decimal("0.01")], pa.decimal128(10, 2)),
    (pa.decimal128(38, 0), [Decimal(10**37), Decimal(-1)], pa.decimal128(38, 0)),
    (pa.decimal256(20, 5), [Decimal("1.00000"), Decimal("-1.00000")], pa.decimal128(20, 5)),
    (pa.dictionary(pa.int8(), pa.string()), ["a", "b"], pa.string()),
    (pa.list_(pa.int8()), [[], [1, None]], pa.list_(pa.field("element", pa.int32()))),
    (pa.large_list(pa.string()), [["a"], ["b", None]], pa.list_(pa.field("element", pa.string()))),
    (pa.list_(pa.float64(), 2), [[1.0, 2.0], [3.0, None]], pa.list_(pa.field("element", pa.float64()))),
    (pa.map_(pa.string(), pa.int64()), [[("k", 1)], []], pa.map_(pa.string(), pa.int64())),
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
def test_types_survive(trips: Table, kind: pa.DataType, values: list[Any], stored: pa.DataType) -> None:
    array = pa.array([*values, None], kind if not pa.types.is_dictionary(kind) else pa.string())
    batch = with_column("c", array.dictionary_encode() if pa.types.is_dictionary(kind) else array)
    trips.upsert(batch)
    trips.upsert(with_column("c", batch.column("c").slice(0, 1), ts=2))
    expected = array
    if pa.types.is_timestamp(kind) and kind.tz is None:
        expected = array.cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
    read = trips.read()
    assert read.schema.field("c").type == stored
    assert trips.schema == read.schema
    found = by_key(read.to_pylist())
    assert [found[f"k{number}"]["c"] for number in range(3)] == expected.to_pylist()
    check_stored(trips)


REFUSED = [
    pa.array([1], pa.uint64()),
    pa.array([1], pa.time64("us")),
    pa.array([1], pa.duration("s")),
    pa.array([None], pa.null()),
    pa.array([[("a", 1)]], pa.map_(pa.string(), pa.uint64())),
    pa.array([[(1, 1)]], pa.map_(pa.int64(), pa.int64())),
    pa.array([Decimal(1)], pa.decimal256(60, 2)),
    pa.array([{"a": 1}], pa.struct([("a", pa.uint64())])),
    pa.array([Decimal(100)], pa.decimal128(5, -2)),
    pa.array([{}], pa.struct([])),
    pa.array([[None]], pa.list_(pa.null())),
]


@pytest.mark.parametrize("values", REFUSED, ids=[str(values.type) for values in REFUSED])
def test_types_that_cannot_be_written_are_refused_by_name(trips: Table, values: pa.Array) -> None:
    before = fingerprint(trips)
    with pytest.raises(SchemaError, match=r"column='?money"):
        trips.upsert(with_column("money", values))
    assert fingerprint(trips) == before


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1], pa.timestamp("ns")),
        pa.array([[1]], pa.list_(pa.timestamp("ns"))),
        pa.array([2**62], pa.timestamp("s")),
    ],
    ids=["nanoseconds", "nested", "too far"],
)
def test_values_that_do_not_fit_are_refused(trips: Table, values: pa.Array) -> None:
    before = fingerprint(trips)
    with pytest.raises(SchemaError, match="column=c"):
        trips.upsert(with_column("c", values))
    assert fingerprint(trips) == before


@pytest.mark.parametrize("name", ["with space", "ünicode", "1st", "a.b", "", "_rli_key", "TS"])
def test_names_that_cannot_be_written_are_refused(trips: Table, name: str) -> None:
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


def test_meta_columns_of_a_read_table_are_refused(trips: Table) -> None:
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


def test_added_columns_are_null_where_they_were_not(trips: Table) -> None:
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


def test_a_column_of_nulls_fits_any_column(trips: Table) -> None:
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
def test_what_does_not_fit_the_table_is_refused(trips: Table, batch: pa.Table, named: str) -> None:
    trips.upsert(records(("a", "x", 1, 1.0)))
    before = fingerprint(trips)
    with pytest.raises(SchemaError, match=named):
        trips.upsert(batch)
    assert fingerprint(trips) == before
