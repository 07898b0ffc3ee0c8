"""Change batches: their forms, and what a merge refuses."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import rli
from rli import InvalidInputError, PartitionChangeError, SchemaError, Table, TransactionMismatchError
from rli.hudi.avro_schema import to_avro
from rli.hudi.properties import Key, save_properties
from rli.table.table import opened_table
from tests.support.change_batches import Change, counts, envelope, flattened, in_columns, with_marks
from tests.support.tables import SCHEMA, records, rows_of

pytestmark = pytest.mark.invariant("P46")

TWO = [Change("a", "x", 1, 1.0, "c"), Change("b", "y", 1, 1.0, "c")]


def events(*rows: Mapping[str, Any], **types: pa.DataType) -> pa.Table:
    """Debezium's events as Arrow reads them of JSON, with the types of some columns."""
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.table({name: pa.array([row.get(name) for row in rows], types.get(name)) for name in names})


def orders(folder: Path, **options: Any) -> Table:
    """An empty table without partitions, ordered by ``lsn``."""
    return rli.create_table(folder / "orders", record_key="id", ordering="lsn", index="memory:", **options)


@pytest.mark.parametrize("word", ["c", "r", "i", "insert", "u", "update", "upsert", "C", "Upsert", "INSERT"])
def test_every_word_writes(trips: Table, word: str) -> None:
    change = Change("a", "x", 1, 1.0, word)
    assert counts(trips.merge(in_columns([change]), op="op")) == (1, 0, 0, 0, 0)
    assert counts(trips.merge(in_columns([change._replace(ts=2)]), op="op")) == (0, 1, 0, 0, 0)
    assert counts(trips.merge(in_columns([change._replace(ts=3, op="Delete")]), op="op")) == (0, 0, 0, 1, 0)


@pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())])
def test_operations_come_in_any_type(trips: Table, kind: pa.DataType) -> None:
    batch = in_columns(TWO)
    batch = batch.set_column(4, "op", pa.array(["c", "d"], pa.string()).cast(kind))
    assert counts(trips.merge(batch, op="op")) == (1, 0, 0, 0, 1)


def test_operation_columns_are_no_data(trips: Table) -> None:
    assert trips.merge(flattened(TWO)).inserted == 2
    assert trips.merge(with_marks([TWO[0]._replace(op="d")])).deleted == 1
    assert trips.merge(in_columns([TWO[0]], "kind"), op="kind").inserted == 1
    assert trips.schema is not None
    assert trips.schema.names == ["id", "city", "ts", "v"]


def test_stored_operation_columns_stay_data(trips: Table) -> None:
    trips.upsert(in_columns(TWO))
    trips.merge(in_columns([TWO[0]._replace(ts=2, op="u"), TWO[1]._replace(ts=2, op="d")]), op="op")
    assert [(row["id"], row["op"]) for row in rows_of(trips)] == [("a", "u")]
    with pytest.raises(SchemaError, match=r"lack columns of the table: columns=\['op'\]"):
        trips.merge(with_marks([TWO[0]._replace(ts=3)]))
    # A batch of deletes lacks nothing.
    assert trips.merge(with_marks([TWO[0]._replace(ts=3, op="d")])).deleted == 1


def test_marks_count_beside_operations(trips: Table) -> None:
    trips.merge(in_columns(TWO), op="op")
    batch = in_columns([change._replace(ts=2, op="u") for change in TWO])
    marks = pa.array([True, None])
    assert counts(trips.merge(batch.append_column("_hoodie_is_deleted", marks), op="op")) == (0, 1, 0, 1, 0)


@pytest.mark.parametrize(
    ("operations", "problem"),
    [
        (
            ["t", "u"],
            r"a truncate is no change of a record: column=op operations=\['t'\] rows=1 sample=\[{'id': 'a'}\]",
        ),
        (
            ["u", "x"],
            r"unknown operations: column=op operations=\['x'\] rows=1 sample=\[{'id': 'b'}\]; known are \['c'",
        ),
        (["u", ""], r"unknown operations: column=op operations=\[''\]"),
        ([None, "d"], r"rows have no operation: column=op .*sample=\[{'id': 'a'}\]"),
        ([None, None], "rows have no operation"),
    ],
)
def test_other_operations_are_refused(trips: Table, operations: list[str | None], problem: str) -> None:
    batch = records(("a", "x", 1, 1.0), ("b", "y", 1, 1.0)).append_column("op", pa.array(operations))
    with pytest.raises(InvalidInputError, match=problem):
        trips.merge(batch, op="op")
    assert trips.timeline() == ()


def test_batches_without_operations_are_refused(trips: Table) -> None:
    with pytest.raises(InvalidInputError, match="no column tells what became of the records"):
        trips.merge(in_columns(TWO))
    with pytest.raises(SchemaError, match="the column of operations is missing: column=kind"):
        trips.merge(in_columns(TWO), op="kind")
    with pytest.raises(SchemaError, match="the column of operations has no strings: column=ts type=int64"):
        trips.merge(in_columns(TWO), op="ts")
    with pytest.raises(InvalidInputError, match=r"neither true nor false: column=__deleted values=\['maybe'\]"):
        trips.merge(records(("a", "x", 1, 1.0)).append_column("__deleted", pa.array(["maybe"])))


def test_repeated_columns_are_refused(trips: Table) -> None:
    batch = in_columns(TWO).append_column("city", pa.array(["x", "y"]))
    with pytest.raises(SchemaError, match=r"a column occurs twice: found=\['id', 'city', 'ts', 'v', 'op', 'city'\]"):
        trips.merge(batch, op="op")
    image = pa.StructArray.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["id", "id"])
    with pytest.raises(SchemaError, match=r"a column occurs twice: found=\['id', 'id'\]"):
        trips.merge(pa.table({"before": pa.nulls(1), "after": image, "op": ["c"]}))


def test_the_last_of_equals_counts(trips: Table) -> None:
    trips.merge(in_columns(TWO), op="op")
    write, delete = TWO[0]._replace(v=2.0), TWO[0]._replace(op="d")
    assert counts(trips.merge(in_columns([write, delete]), op="op")) == (0, 0, 0, 1, 0)
    assert counts(trips.merge(in_columns([delete, write]), op="op")) == (1, 0, 0, 0, 0)


def test_doubles_order_changes(tmp_path: Path, memory_url: str) -> None:
    table = rli.create_table(tmp_path / "t", record_key="id", ordering="at", index=memory_url)
    zeros = pa.table({"id": ["a"] * 3, "at": [0.0, -0.0, 0.0], "v": [1, 2, 3], "op": ["c", "d", "u"]})
    assert table.merge(zeros, op="op").duplicates == 2
    assert table.merge(zeros.slice(1, 1), op="op").deleted == 1
    for wrong in (float("nan"), None):
        with pytest.raises(SchemaError, match="an ordering value is missing: column=at row=0"):
            table.merge(pa.table({"id": ["b"], "at": pa.array([wrong], pa.float64()), "op": ["d"]}), op="op")


def test_tables_without_ordering_take_the_last(tmp_path: Path, memory_url: str) -> None:
    table = rli.create_table(tmp_path / "t", record_key="id", index=memory_url)
    batch = pa.table({"id": ["a", "b", "a", "b"], "v": [1, 2, None, 4], "op": ["c", "c", "d", "u"]})
    assert counts(table.merge(batch, op="op")) == (1, 0, 0, 0, 1)
    assert rows_of(table) == [{"id": "b", "v": 4}]


def test_late_partition_changes_are_refused(trips: Table) -> None:
    trips.merge(in_columns(TWO), op="op")
    moved = TWO[0]._replace(city="z", ts=2, op="u")
    with pytest.raises(PartitionChangeError, match=r"keys=\['a'\]"):
        trips.merge(in_columns([moved]), op="op", on_partition_change="fail")
    late = trips.merge(in_columns([moved._replace(ts=0)]), op="op", on_partition_change="fail")
    assert (late.instant, late.unchanged) == (None, 1)
    # A delete may name any partition.
    assert trips.merge(in_columns([moved._replace(op="d")]), op="op", on_partition_change="fail").deleted == 1
    assert trips.merge(in_columns([TWO[1]._replace(city="z", ts=2)]), op="op", on_partition_change="keep").updated == 1
    assert rows_of(trips)[0]["city"] == "y"


def test_required_columns_are_null_in_deletes(trips: Table) -> None:
    # As Hudi creates it; ``create_table`` makes no column required.
    required = pa.schema([pa.field(field.name, field.type, field.name != "v") for field in SCHEMA])
    definition = opened_table(trips).definition.reloaded()
    changed = definition.properties.changed({Key.CREATE_SCHEMA: to_avro(required, "trips")})
    save_properties(definition.storage, changed)
    table = rli.open_table(trips.location)
    assert table.schema is not None
    assert not table.schema.field("v").nullable
    assert counts(table.merge(in_columns([TWO[0], Change("b", None, 1, None, "d")]), op="op")) == (1, 0, 0, 0, 1)
    assert table.merge(pa.table({"id": ["a"], "ts": [2], "op": ["d"]}), op="op").deleted == 1
    with pytest.raises(SchemaError, match=r"hold no nulls: columns=\['v'\]"):
        table.merge(in_columns([TWO[0]._replace(ts=3)]).drop_columns("v"), op="op", missing="null")


def test_missing_columns_keep_stored_values(trips: Table) -> None:
    trips.merge(in_columns(TWO), op="op")
    changes = [Change("a", "z", 2, None, "u"), Change("b", "y", 2, None, "d"), Change("n", "x", 2, None, "c")]
    lacking = in_columns(changes).drop_columns("v")
    with pytest.raises(SchemaError, match=r"lack columns of the table: columns=\['v'\]"):
        trips.merge(lacking, op="op")
    assert counts(trips.merge(lacking, op="op", missing="keep")) == (1, 0, 1, 1, 0)
    assert [(row["id"], row["v"]) for row in rows_of(trips)] == [("a", 1.0), ("n", None)]


def test_transactions_remember_operations(trips: Table) -> None:
    first = trips.merge(in_columns(TWO), op="op", transaction=("cdc", 1))
    # Columns that came meanwhile, of operations too, make no other request of it.
    trips.upsert(in_columns(TWO).append_column("note", pa.array(["n", "n"])))
    again = trips.merge(in_columns(TWO), op="op", transaction=("cdc", 1))
    assert (again.repeated, again.instant) == (True, first.instant)
    with pytest.raises(TransactionMismatchError, match="committed with other records"):
        trips.merge(in_columns([TWO[0], TWO[1]._replace(op="d")]), op="op", transaction=("cdc", 1))
    with pytest.raises(TransactionMismatchError, match=r"another verb: .*committed=merge repeat=upsert"):
        trips.upsert(in_columns(TWO), transaction=("cdc", 1))


def test_dry_runs_change_nothing(trips: Table) -> None:
    trips.merge(in_columns(TWO), op="op")
    changes = in_columns([TWO[0]._replace(ts=2, op="d"), TWO[1]._replace(ts=2), Change("n", "x", 2, 2.0, "c")])
    told = trips.merge(changes, op="op", dry_run=True)
    assert (told.dry_run, told.instant, len(trips.timeline())) == (True, None, 1)
    assert counts(told) == counts(trips.merge(changes, op="op"))


def test_envelopes_come_as_json(tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = [
        {"before": None, "after": {"id": 7, "email": None}, "source": {"lsn": 1}, "op": "r", "ts_ms": 1},
        {"before": {"id": 7}, "after": {"id": 7, "email": "a@b"}, "source": {"lsn": 2}, "op": "u", "ts_ms": 2},
        {"before": None, "after": {"id": 8, "email": "c@d"}, "source": {"lsn": 3}, "op": "c", "ts_ms": 3},
        {"before": {"id": 8, "email": "c@d"}, "after": None, "source": {"lsn": 4}, "op": "d", "ts_ms": 4},
        {"before": None, "after": None, "source": None, "op": None, "ts_ms": None},
    ]
    table = orders(tmp_path)
    done = table.merge(pa.Table.from_pylist(json.loads(json.dumps(lines))))
    assert (counts(done), done.duplicates) == ((1, 0, 0, 0, 1), 2)
    assert rows_of(table) == [{"id": 7, "email": "a@b", "lsn": 2}]
    wrapped = pa.table({"schema": [{"type": "struct"}] * 2, "payload": [lines[3] | {"before": {"id": 7}}, None]})
    assert table.merge(wrapped).deleted == 1


@pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view()])
def test_images_come_in_any_type(tmp_path: Path, kind: pa.DataType) -> None:
    """Polars has views."""
    image = pa.struct([("id", kind), ("tags", pa.list_(kind))])
    rows: list[dict[str, Any]] = [
        {"before": None, "after": {"id": "a", "tags": ["x"]}, "op": "c", "source": {"lsn": 1}},
        {"before": None, "after": None, "op": None, "source": None},
        {"before": {"id": "b", "tags": None}, "after": {"id": "c", "tags": []}, "op": "u", "source": {"lsn": 2}},
    ]
    table = orders(tmp_path)
    assert counts(table.merge(events(*rows, before=image, after=image, op=kind))) == (2, 0, 0, 0, 1)
    assert [(row["id"], row["tags"]) for row in rows_of(table)] == [("a", ["x"]), ("c", [])]


def test_ordering_comes_of_any_place(tmp_path: Path) -> None:
    for number, (ordering, expected) in enumerate({"lsn": 5, "ts_ms": 9, "at": 3}.items()):
        table = rli.create_table(tmp_path / str(number), record_key="id", ordering=ordering, index="memory:")
        event = {"before": None, "after": {"id": 1, "at": 3}, "op": "c", "ts_ms": 9, "source": {"lsn": 5}}
        table.merge(events(event))
        assert rows_of(table)[0][ordering] == expected


def test_null_images_before_deletes_are_refused(tmp_path: Path) -> None:
    table = orders(tmp_path)
    image = {"id": 1, "lsn": 1}
    lost = [{"before": image, "after": None, "op": "d"}, {"before": None, "after": image, "op": "d"}]
    with pytest.raises(
        InvalidInputError, match=r"deletes lack the image of their record: column=before rows=1 sample=\[{'id': 1}\]"
    ):
        table.merge(events(*lost))
    with pytest.raises(InvalidInputError, match="writes lack the image of their record: column=after"):
        table.merge(events({"before": image, "after": None, "op": "u"}, {"before": None, "after": image, "op": "c"}))
    with pytest.raises(InvalidInputError, match=r"a truncate .*operations=\['t'\]"):
        table.merge(events({"before": None, "after": image, "op": "c"}, {"before": None, "after": None, "op": "t"}))
    partial = {"before": {"id": 1, "lsn": None}, "after": None, "op": "d"}
    with pytest.raises(SchemaError, match="an ordering value is missing: column=lsn"):
        table.merge(events(partial, before=pa.struct([("id", pa.int64()), ("lsn", pa.int64())])))


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary()])
def test_placeholders_are_refused(tmp_path: Path, kind: pa.DataType) -> None:
    table = orders(tmp_path)
    image = pa.struct([("id", pa.int64()), ("lsn", pa.int64()), ("text", kind)])
    sent = {
        "id": 1,
        "lsn": 2,
        "text": b"__debezium_unavailable_value" if kind == pa.binary() else "__debezium_unavailable_value",
    }
    with pytest.raises(
        InvalidInputError, match=r"placeholders for unchanged values: column=text rows=1 sample=\[{'id': 1}\]"
    ):
        table.merge(events({"before": None, "after": sent, "op": "u"}, after=image, before=image))
    assert table.merge(events({"before": sent, "after": None, "op": "d"}, after=image, before=image)).unchanged == 1


def test_key_changes_delete_former_keys(tmp_path: Path) -> None:
    table = orders(tmp_path)
    table.merge(pa.table({"id": [1, 2], "lsn": [1, 1], "op": ["c", "c"]}), op="op")

    def renamed(former: int | None, key: int, lsn: int) -> dict[str, Any]:
        before = None if former is None else {"id": former}
        return {"before": before, "after": {"id": key}, "op": "u", "source": {"lsn": lsn}}

    chain = events(renamed(1, 3, 2), renamed(3, 4, 3), renamed(2, 2, 4), renamed(None, 2, 5))
    done = table.merge(chain)
    assert (counts(done), done.duplicates) == ((1, 1, 0, 1, 1), 2)
    assert [(row["id"], row["lsn"]) for row in rows_of(table)] == [(2, 5), (4, 3)]


@pytest.mark.parametrize("scope", ["global", "partition"])
def test_images_with_keys_alone(tmp_path: Path, scope: str) -> None:
    """As PostgreSQL logs them by default."""
    index = f"lmdb://{tmp_path}/index?scope={scope}"
    table = rli.create_table(tmp_path / "t", record_key="id", partition_by="city", ordering="lsn", index=index)
    image = pa.struct([("id", pa.int64()), ("city", pa.string()), ("v", pa.int64())])
    whole, alone = {"id": 1, "city": "x", "v": 1}, {"id": 1}
    table.merge(events({"before": None, "after": whole, "op": "c", "source": {"lsn": 1}}, before=image))
    renamed = {"before": alone, "after": {**whole, "id": 2}, "op": "u", "source": {"lsn": 2}}
    gone = {"before": {"id": 2}, "after": None, "op": "d", "source": {"lsn": 3}}
    # An image without a key is none.
    empty = {"before": {"id": None}, "after": whole, "op": "u", "source": {"lsn": 2}}
    assert table.merge(events(empty, before=image, after=image)).updated == 1
    for event, expected in ((renamed, (1, 0, 0, 1, 0)), (gone, (0, 0, 0, 1, 0))):
        batch = events(event, before=image, after=image)
        if scope == "global":
            assert counts(table.merge(batch)) == expected
            continue
        with pytest.raises(InvalidInputError, match=r"have the key alone.*partition=\['city'\] rows=1"):
            table.merge(batch)


def test_unparsed_images_are_refused(tmp_path: Path) -> None:
    batch = events({"before": "{}", "after": {"id": 1}, "op": "u", "source": {"lsn": 1}})
    with pytest.raises(SchemaError, match="is no struct: column=before type=string; parse it first"):
        orders(tmp_path).merge(batch)


def test_nested_records_are_no_envelopes(tmp_path: Path, memory_url: str) -> None:
    table = rli.create_table(tmp_path / "t", record_key="id", ordering="ts", index=memory_url)
    struct = pa.struct([("id", pa.string()), ("price", pa.int64())])
    nested = pa.table(
        {
            "id": ["a", "b"],
            "ts": [1, 1],
            "before": pa.array([{"id": "p", "price": 1}, None], struct),
            "after": pa.array([None, {"id": "q", "price": 2}], struct),
            "op": ["c", "d"],
        }
    )
    assert counts(table.merge(nested, op="op")) == (1, 0, 0, 0, 1)
    assert rows_of(table) == [{"id": "a", "ts": 1, "before": {"id": "p", "price": 1}, "after": None}]


def test_strange_columns_beside_envelopes(trips: Table) -> None:
    with pytest.raises(SchemaError, match=r"beside Debezium's envelope: columns=\['topic'\]; drop them"):
        trips.merge(envelope(TWO).append_column("topic", pa.array(["t", "t"])))


def decimals(value: Any, kind: pa.DataType) -> pa.Table:
    image = pa.struct([("id", pa.int64()), ("lsn", pa.int64()), ("price", kind)])
    return events({"before": None, "after": {"id": 1, "lsn": 2, "price": value}, "op": "c"}, after=image, before=image)


@pytest.mark.parametrize(
    ("value", "kind", "problem"),
    [
        (
            b"\x04\xd2",
            pa.binary(),
            r"bytes came for numbers: column=price table=decimal128\(10, 2\) .*decimal.handling.mode",
        ),
        ("BNI=", pa.string(), r"column=price table=decimal128\(10, 2\) records=string"),
        (
            {"scale": 2, "value": b"\x04\xd2"},
            pa.struct([("scale", pa.int32()), ("value", pa.binary())]),
            "sent decimals as bytes with a scale: column=price .*decimal.handling.mode",
        ),
    ],
)
def test_encoded_decimals_are_refused(tmp_path: Path, value: Any, kind: pa.DataType, problem: str) -> None:
    table = orders(tmp_path)
    table.upsert(pa.table({"id": [1], "lsn": [1], "price": [Decimal("12.34")]}).cast(_priced(table)))
    with pytest.raises(SchemaError, match=problem):
        table.merge(decimals(value, kind))
    assert rows_of(table)[0]["price"] == Decimal("12.34")


def _priced(_: Table) -> pa.Schema:
    return pa.schema([("id", pa.int64()), ("lsn", pa.int64()), ("price", pa.decimal128(10, 2))])


def test_keys_of_many_columns(tmp_path: Path, memory_url: str) -> None:
    table = rli.create_table(
        tmp_path / "t", record_key=["shop", "id"], partition_by="shop", ordering="lsn", index=memory_url
    )

    def event(op: str, before: Sequence[Any] | None, after: Sequence[Any] | None, lsn: int) -> dict[str, Any]:
        images = [
            None if image is None else dict(zip(("shop", "id", "v"), image, strict=True)) for image in (before, after)
        ]
        return {"before": images[0], "after": images[1], "op": op, "source": {"lsn": lsn}}

    table.merge(events(event("c", None, ("s", 1, 1), 1), event("c", None, ("s", 2, 1), 2)))
    done = table.merge(events(event("u", ("s", 1, 1), ("t", 1, 2), 3), event("d", ("s", 2, 1), None, 4)))
    assert counts(done) == (1, 0, 0, 2, 0)
    assert rows_of(table) == [{"shop": "t", "id": 1, "v": 2, "lsn": 3}]


def test_empty_batches_change_nothing(trips: Table) -> None:
    assert trips.merge(in_columns(TWO).slice(0, 0), op="op").instant is None
    empty = pa.table({name: pa.nulls(3) for name in ("before", "after", "op", "ts_ms")})
    with pytest.raises(InvalidInputError, match="no column tells"):
        trips.merge(empty)
    tombstones = envelope(TWO).slice(0, 1)
    nothing = pa.table([pa.nulls(1, field.type) for field in tombstones.schema], schema=tombstones.schema)
    assert trips.merge(nothing).instant is None


def test_images_keep_types_and_nesting(trips: Table) -> None:
    image = pa.struct([("id", pa.string()), ("city", pa.string()), ("ts", pa.int64()), ("tags", pa.list_(pa.string()))])
    rows = [{"before": None, "after": {"id": "a", "city": "x", "ts": 1, "tags": ["p", "q"]}, "op": "c"}]
    trips.merge(events(*rows, before=image, after=image))
    assert pc.list_value_length(trips.read()["tags"]).to_pylist() == [2]


@pytest.mark.parametrize("images", ["after", "both"])
def test_changes_of_tables_are_merged(trips: Table, tmp_path: Path, images: str) -> None:
    copy = rli.create_table(tmp_path / "copy", record_key="id", partition_by="city", index="memory:")
    trips.upsert(records(("a", "x", 1, 1.0), ("b", "y", 1, 1.0), ("c", "x", 1, 1.0)))
    trips.merge(
        in_columns([Change("a", "z", 2, 2.0, "u"), Change("b", None, 2, None, "d"), Change("n", "x", 2, 2.0, "c")]),
        "op",
    )
    trips.delete(["c"])
    # Older than the deleted record: a copy without ordering column follows the commits.
    trips.upsert(records(("c", "y", 0, 3.0)))
    copy.merge(trips.changes(images=images))
    assert rows_of(copy) == rows_of(trips)
    assert copy.merge(trips.changes(images=images), "_change_type", transaction=("copy", 1)).attempts == 1
    assert rows_of(copy) == rows_of(trips)


def test_refused_deletes_are_not_remembered(trips: Table) -> None:
    trips.merge(in_columns(TWO), op="op")
    refused = [TWO[0]._replace(ts=9, op="d"), Change("n", "x", 9, None, "d")]
    assert trips.merge(in_columns(refused), op="op", when="false").unchanged == 2
    trips.delete(["a"])
    older = in_columns([TWO[0]._replace(ts=8), Change("n", "x", 8, 1.0, "c")])
    assert counts(trips.merge(older, op="op")) == (1, 0, 0, 0, 1)


def test_conditions_read_fields_of_structs(tmp_path: Path, memory_url: str) -> None:
    table = rli.create_table(tmp_path / "t", record_key="id", ordering="ts", index=memory_url)
    batch = pa.table({"id": ["a", "b"], "ts": [1, 1], "at": [{"lat": 1.0}, {"lat": 5.0}], "op": ["c", "c"]})
    table.merge(batch, op="op")
    nearer = batch.set_column(2, "at", [[{"lat": 3.0}, {"lat": 3.0}]]).set_column(1, "ts", [[2, 2]])
    assert counts(table.merge(nearer, op="op", when="source.at.lat < target.at.lat")) == (0, 1, 0, 0, 1)


def test_conditions_read_columns_of_both(trips: Table) -> None:
    trips.merge(in_columns(TWO), op="op")
    grown = in_columns([TWO[0]._replace(ts=2, city="z", op="u"), TWO[1]._replace(ts=2, op="u")])
    grown = grown.append_column("note", pa.array(["new", None]))
    # The table gets the column with this batch: stored records have null.
    told = trips.merge(grown, op="op", when="target.note is null and coalesce(source.note, '') = 'new'", missing="keep")
    assert counts(told) == (0, 0, 1, 0, 1)
    lacking = grown.drop_columns(["v", "note"])
    with pytest.raises(InvalidInputError, match=r"source\.v"):
        trips.merge(lacking, op="op", when="source.v > target.v", missing="keep")
    lacking = lacking.set_column(2, "ts", pa.array([3, 3]))
    assert trips.merge(lacking, op="op", when="target.v > 0 and target.note = 'new'", missing="keep").updated == 1
    assert [(row["v"], row["note"]) for row in rows_of(trips)] == [(1.0, "new"), (1.0, None)]


@pytest.mark.parametrize(
    ("when", "problem"),
    [
        ("source.v >", "not understood"),
        ("v > 1", "column=v found="),
        ("target.nothing = 1", "nothing"),
        (7, "a condition is a string: when=7"),
    ],
)
def test_wrong_conditions_are_refused(trips: Table, when: Any, problem: str) -> None:
    trips.merge(in_columns(TWO), op="op")
    with pytest.raises(InvalidInputError, match=problem):
        trips.merge(in_columns([TWO[0]._replace(ts=2)]), op="op", when=when)


def test_conditions_that_cannot_be_computed(trips: Table) -> None:
    trips.merge(in_columns(TWO), op="op")
    with pytest.raises(InvalidInputError, match="cannot be computed"):
        trips.merge(in_columns([TWO[0]._replace(ts=2)]), op="op", when="cast(target.city as int) > 1")
    assert trips.history()[-1].inserted == 2
    assert trips.merge(
        in_columns([Change("new", "x", 1, 1.0, "c")]), op="op", when="cast(target.city as int) > 1"
    ).inserted


def test_conditions_in_large_files(tmp_path: Path, memory_url: str) -> None:
    """Of a large file, the compared columns alone are read first."""
    table = rli.create_table(tmp_path / "t", record_key="id", ordering="ts", index=memory_url)
    count = 300_000
    rows = pa.table(
        {"id": pa.array(range(count)).cast(pa.string()), "ts": [1] * count, "v": range(count), "w": [0] * count}
    )
    table.merge(rows.append_column("op", pa.array(["c"] * count)), op="op")
    some = pa.table({"id": ["5", "299999"], "ts": [1, 1], "v": [7, 7], "w": [1, 1], "op": ["u", "u"]})
    assert counts(table.merge(some, op="op", when="source.v > target.v")) == (0, 1, 0, 0, 1)
    assert table.get(["5", "299999"])["w"].to_pylist() == [1, 0]
