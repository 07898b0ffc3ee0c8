from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rli.errors import CorruptTableError, SchemaError
from rli.hudi.avro_schema import decimal_width, from_avro, to_avro
from rli.hudi.timeline.layouts import TimelineLayout
from rli.hudi.timeline.timeline import load_timeline, read_commit
from rli.storage import Storage
from tests.support.hudi_tables import hudi_table_names, unzip_hudi_table
from tests.support.soak import cases

NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
LEAVES = st.one_of(
    st.sampled_from(
        [
            *(pa.bool_(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.binary(), pa.date32()),
            *(pa.timestamp("us", tz="UTC"), pa.timestamp("us")),
        ]
    ),
    st.integers(1, 38).flatmap(lambda digits: st.integers(0, digits).map(lambda scale: pa.decimal128(digits, scale))),
)


def _fields(types: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[list[pa.Field]]:
    fields = st.builds(pa.field, NAMES, types, nullable=st.booleans())
    return st.lists(fields, min_size=1, max_size=4, unique_by=lambda field: field.name)


def _nested(types: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    element = st.builds(pa.field, st.just("element"), types, nullable=st.booleans())
    value = st.builds(pa.field, st.just("value"), types, nullable=st.booleans())
    return st.one_of(
        element.map(pa.list_),
        value.map(lambda field: pa.map_(pa.string(), field)),
        _fields(types).map(pa.struct),
    )


SCHEMAS = _fields(st.recursive(LEAVES, _nested, max_leaves=6)).map(pa.schema)


@settings(max_examples=cases(100))
@given(SCHEMAS, st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=10))
def test_schemas_survive_and_avro_accepts_them(schema: pa.Schema, table_name: str) -> None:
    text = to_avro(schema, table_name)
    assert from_avro(text) == schema
    fastavro.parse_schema(json.loads(text))


def test_names_follow_hudi() -> None:
    inner = pa.struct([pa.field("price", pa.decimal128(5, 1), nullable=False)])
    schema = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("fare", pa.list_(inner))])
    fixed = {
        "type": "fixed",
        "name": "fixed",
        "namespace": "hoodie.my__trips.my__trips_record.fare.price",
        "size": 3,
        "logicalType": "decimal",
        "precision": 5,
        "scale": 1,
    }
    record = {
        "type": "record",
        "name": "fare",
        "namespace": "hoodie.my__trips.my__trips_record",
        "fields": [{"name": "price", "type": fixed}],
    }
    assert json.loads(to_avro(schema, "my-trips")) == {
        "type": "record",
        "name": "my__trips_record",
        "namespace": "hoodie.my__trips",
        "fields": [
            {"name": "id", "type": "string"},
            {"name": "fare", "type": ["null", {"type": "array", "items": ["null", record]}], "default": None},
        ],
    }


@pytest.mark.parametrize("name", hudi_table_names("sample_table/cow/*"))
def test_real_schemas_round_trip(tmp_path: Path, name: str) -> None:
    path = unzip_hudi_table(name, tmp_path)
    storage = Storage(str(path))
    timeline = load_timeline(storage, TimelineLayout.of(2 if (path / ".hoodie" / "timeline").exists() else 1))
    for instant in timeline.completed_writes:
        stored = read_commit(storage, timeline, instant).avro_schema
        assert stored is not None
        table_name = json.loads(stored)["name"].removesuffix("_record")
        assert json.loads(to_avro(from_avro(stored), table_name)) == json.loads(stored)


@pytest.mark.parametrize(
    ("kind", "avro"),
    [
        (pa.int8(), "int"),
        (pa.int16(), "int"),
        (pa.large_string(), "string"),
        (pa.large_binary(), "bytes"),
        (pa.binary(7), "bytes"),
        (pa.timestamp("ms", tz="UTC"), {"type": "long", "logicalType": "timestamp-micros"}),
        (pa.timestamp("s"), {"type": "long", "logicalType": "local-timestamp-micros"}),
        (pa.large_list(pa.field("item", pa.int64(), nullable=False)), {"type": "array", "items": "long"}),
    ],
)
def test_types_with_common_avro_type(kind: pa.DataType, avro: object) -> None:
    (field,) = json.loads(to_avro(pa.schema([pa.field("a", kind, nullable=False)]), "t"))["fields"]
    assert field == {"name": "a", "type": avro}


@pytest.mark.parametrize(
    "kind",
    [
        *(pa.uint64(), pa.float16(), pa.date64(), pa.time64("us"), pa.timestamp("ns"), pa.duration("s"), pa.null()),
        *(
            pa.decimal256(50, 2),
            pa.decimal128(5, -1),
            pa.map_(pa.int32(), pa.string()),
            pa.dictionary(pa.int8(), "string"),
        ),
    ],
)
def test_types_without_avro_form_are_refused(kind: pa.DataType) -> None:
    schema = pa.schema([pa.field("outer", pa.struct([pa.field("inner", kind)]))])
    with pytest.raises(SchemaError, match=r"column='outer\.inner'"):
        to_avro(schema, "t")


@pytest.mark.parametrize("name", ["Domain name", "größe", "1a", "a-b", "a.b", ""])
def test_names_invalid_in_hudi_are_refused(name: str) -> None:
    with pytest.raises(SchemaError, match="rename it"):
        to_avro(pa.schema([pa.field(name, pa.int64())]), "t")


def test_foreign_unions_defaults_and_references() -> None:
    text = """{"type": "record", "name": "t", "namespace": "n", "fields": [
        {"name": "a", "type": ["int", "null"]},
        {"name": "b", "type": {"type": "fixed", "name": "money", "size": 3, "logicalType": "decimal", "precision": 5}},
        {"name": "c", "type": ["null", "money"]},
        {"name": "d", "type": ["null", "n.money"]},
        {"name": "e", "type": {"type": "enum", "name": "e", "symbols": ["x"]}},
        {"name": "f", "type": {"type": "string", "avro.java.string": "String"}},
        {"name": "größe", "type": {"type": "long", "logicalType": "timestamp-millis"}}
    ]}"""
    money = pa.decimal128(5, 0)
    assert from_avro(text) == pa.schema(
        [
            pa.field("a", pa.int32()),
            pa.field("b", money, nullable=False),
            pa.field("c", money),
            pa.field("d", money),
            pa.field("e", pa.string(), nullable=False),
            pa.field("f", pa.string(), nullable=False),
            pa.field("größe", pa.timestamp("ms", tz="UTC"), nullable=False),
        ]
    )


@pytest.mark.parametrize("stored", ["[]", "7", ["a"], {"type": "record"}, 7])
def test_what_is_no_schema_is_named(stored: Any) -> None:
    with pytest.raises(CorruptTableError, match="not an Avro schema"):
        from_avro(stored)


def test_union_of_several_types_is_refused() -> None:
    text = '{"type": "record", "name": "t", "fields": [{"name": "a", "type": ["int", "string"]}]}'
    with pytest.raises(SchemaError, match="column='a'"):
        from_avro(text)


@pytest.mark.parametrize("text", ["", "{}", "[]", '"int"', '{"type": "int"}', '{"type": "record", "name": "t"}'])
def test_what_is_no_schema_is_reported(text: str) -> None:
    with pytest.raises(CorruptTableError, match="not an Avro schema"):
        from_avro(text)


def test_an_unknown_reference_is_reported() -> None:
    with pytest.raises(CorruptTableError, match="not an Avro schema"):
        from_avro('{"type": "record", "name": "t", "fields": [{"name": "a", "type": "money"}]}')


@given(st.integers(1, 38))
def test_decimals_take_the_fewest_bytes(precision: int) -> None:
    width = decimal_width(precision)
    assert 10**precision - 1 < 2 ** (8 * width - 1)
    assert width == 1 or 10**precision - 1 >= 2 ** (8 * width - 9)
