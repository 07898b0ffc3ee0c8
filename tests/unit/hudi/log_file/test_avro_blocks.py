"""Records in Avro are read and written by columns as fastavro reads and writes them record by record."""

from __future__ import annotations

import io
import json
import random
import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rli import CorruptTableError, InvalidInputError, SchemaError, UnsupportedTableError
from rli.hudi.avro_schema import from_avro, to_avro
from rli.hudi.log_file.avro_block import avro_block, avro_records
from rli.hudi.log_file.encoding import encode_block
from rli.hudi.log_file.form import BlockKind, Header
from rli.hudi.log_file.reader import LogBlock
from tests.support.damage import FUZZ_ROUNDS, damaged
from tests.support.log_blocks import blocks_of, data_logs

MOMENTS: Final = st.datetimes()
FLAT: Final[dict[pa.DataType, st.SearchStrategy[Any]]] = {
    pa.bool_(): st.booleans(),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1)
    | st.sampled_from([63, 64, -64, -65, 2**55 - 1, 2**55, -(2**55), 2**62]),
    pa.float32(): st.floats(width=32, allow_nan=False),
    pa.float64(): st.floats(allow_nan=False),
    pa.string(): st.text(max_size=80),
    pa.binary(): st.binary(max_size=80),
    pa.date32(): st.dates(),
    pa.timestamp("us", tz="UTC"): MOMENTS.map(lambda moment: moment.replace(tzinfo=UTC)),
    pa.timestamp("us"): MOMENTS,
    pa.decimal128(4, 2): st.decimals(-99, 99, places=2),
    pa.decimal128(18, 0): st.integers(-(10**18) + 1, 10**18 - 1).map(Decimal),
    pa.decimal128(20, 3): st.integers(-(10**19), 10**19).map(lambda number: Decimal(number).scaleb(-3)),
    pa.decimal128(38, 0): st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal),
}


def _nested(kinds: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    fields = st.tuples(kinds, st.booleans())
    return st.one_of(
        fields.map(lambda field: pa.list_(pa.field("element", field[0], nullable=field[1]))),
        fields.map(lambda field: pa.map_(pa.string(), pa.field("value", field[0], nullable=field[1]))),
        st.lists(fields, min_size=1, max_size=3).map(
            lambda found: pa.struct(
                [pa.field(f"f{number}", kind, nullable=null) for number, (kind, null) in enumerate(found)]
            )
        ),
    )


KINDS: Final = st.recursive(st.sampled_from(list(FLAT)), _nested, max_leaves=5)
COLUMNS: Final = st.lists(st.tuples(KINDS, st.booleans()), min_size=1, max_size=4).map(
    lambda found: pa.schema([pa.field(f"c{number}", kind, nullable=null) for number, (kind, null) in enumerate(found)])
)


def _values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_map(kind):
        return st.dictionaries(st.text(max_size=3), _cells(kind.item_field), max_size=3).map(
            lambda pairs: list(pairs.items())
        )
    if pa.types.is_list(kind):
        return st.lists(_cells(kind.value_field), max_size=4)
    if pa.types.is_struct(kind):
        return st.fixed_dictionaries({field.name: _cells(field) for field in kind})
    return FLAT[kind]


def _cells(field: pa.Field) -> st.SearchStrategy[Any]:
    return _values(field.type) | st.none() if field.nullable else _values(field.type)


def _for_fastavro(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_map(kind):
        return {key: _for_fastavro(item, kind.item_type) for key, item in value}
    if pa.types.is_list(kind):
        return [_for_fastavro(item, kind.value_type) for item in value]
    if pa.types.is_struct(kind):
        return {field.name: _for_fastavro(value[field.name], field.type) for field in kind}
    if pa.types.is_timestamp(kind):
        since = value - datetime(1970, 1, 1, tzinfo=value.tzinfo)
        return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    return (value - date(1970, 1, 1)).days if pa.types.is_date(kind) else value


def _by_fastavro(batch: pa.RecordBatch, schema: str) -> bytes:
    """The content that Hudi writes, record by record."""
    parsed: Any = fastavro.parse_schema(_without_times(json.loads(schema)))
    content = struct.pack(">ii", 3, batch.num_rows)
    for row in batch.to_pylist():
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, parsed, _for_fastavro(row, pa.struct(batch.schema)))
        content += struct.pack(">i", len(buffer.getvalue())) + buffer.getvalue()
    return content


def _without_times(schema: Any) -> Any:
    """The schema with plain numbers for dates and times."""
    if isinstance(schema, list):
        return [_without_times(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {name: _without_times(part) for name, part in schema.items()}
    return kept if schema.get("logicalType", "decimal") == "decimal" else schema["type"]


def _block(content: bytes, schema: str) -> LogBlock:
    (block,) = blocks_of(encode_block(BlockKind.AVRO, {Header.INSTANT: "1", Header.SCHEMA: schema}, content))
    return block


def _read(block: LogBlock) -> pa.Table:
    return pa.Table.from_batches(avro_records(block), from_avro(block.header(Header.SCHEMA)))


@given(st.data())
def test_columns_equal_single_records(data: st.DataObject) -> None:
    columns = data.draw(COLUMNS)
    rows = data.draw(st.lists(st.fixed_dictionaries({field.name: _cells(field) for field in columns}), max_size=24))
    batch, schema = pa.RecordBatch.from_pylist(rows, columns), to_avro(columns, "t")
    # A slice of a longer batch has offsets into its arrays.
    start = data.draw(st.integers(0, len(rows)))
    for part in (batch, batch.slice(start)):
        (block,) = blocks_of(avro_block("1", [part], schema))
        assert block.content() == _by_fastavro(part, schema)
        found = _read(block)
        found.validate(full=True)
        assert found == pa.Table.from_batches([part])


def test_records_of_hudi_are_read() -> None:
    seen = 0
    for path, log in data_logs():
        for block in (block for block in blocks_of(log) if block.kind is BlockKind.AVRO):
            schema, found = block.header(Header.SCHEMA), _read(block)
            found.validate(full=True)
            batches = found.combine_chunks().to_batches()
            assert _by_fastavro(batches[0], schema) == block.content(), path
            (ours,) = blocks_of(avro_block(block.header(Header.INSTANT), batches, schema))
            assert ours.content() == block.content(), path
            seen += found.num_rows
    assert seen > 20


def test_long_lists_come_back() -> None:
    kind = pa.list_(pa.field("element", pa.struct([("n", pa.int64()), ("pairs", pa.map_(pa.string(), pa.date32()))])))
    random = np.random.default_rng(3)
    sizes = [0, 1, 2, 3000, None, *(int(size) for size in random.integers(0, 40, 60))]
    item = {"n": 2**60, "pairs": [("a", date(2020, 1, 1)), ("b", None)]}
    column = pa.array([None if size is None else [item, None] * size for size in sizes], kind)
    batch = pa.record_batch([column], schema=pa.schema([("items", kind)]))
    schema = to_avro(batch.schema, "t")
    (block,) = blocks_of(avro_block("1", [batch], schema))
    assert _read(block)["items"].to_pylist() == column.to_pylist()


def test_batches_have_bounded_rows() -> None:
    batch = pa.record_batch({"n": pa.array(np.arange(70_000))})
    (block,) = blocks_of(avro_block("1", [batch, batch.slice(0, 0), batch], to_avro(batch.schema, "t")))
    rows = [found.num_rows for found in avro_records(block)]
    assert (max(rows), sum(rows)) == (32_768, 140_000)
    assert _read(block)["n"].combine_chunks().equals(pa.concat_arrays([batch["n"], batch["n"]]))


@pytest.mark.parametrize(
    "items",
    [
        b"\x04\x02\x06\x02\x08\x00",
        # With the bytes of each block.
        b"\x03\x04\x02\x06\x01\x02\x08\x00",
    ],
)
def test_lists_of_blocks_are_read(items: bytes) -> None:
    schema = to_avro(
        pa.schema([pa.field("c", pa.list_(pa.field("element", pa.int64(), nullable=False)), nullable=False)]), "t"
    )
    one = struct.pack(">i", len(items)) + items
    for count in (1, 40):
        assert _read(_block(struct.pack(">ii", 3, count) + one * count, schema))["c"].to_pylist() == [[1, 3, 4]] * count


def test_other_forms_of_types_are_read() -> None:
    schema = {
        "type": "record", "name": "r", "fields": [
            {"name": "union", "type": ["string", "null"]},
            {"name": "alone", "type": ["long"]},
            {"name": "symbol", "type": {"type": "enum", "name": "e", "symbols": ["a", "b"]}},
            {"name": "again", "type": ["null", "e"]},
            {"name": "code", "type": {"type": "fixed", "name": "f", "size": 3}},
            {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
            {"name": "time", "type": {"type": "int", "logicalType": "time-millis"}},
            {"name": "moment", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        ]
    }  # fmt: skip
    record = b"\x00\x02x\x00\x06\x02\x02\x00abc\x04\xff\x38\x04\x06"
    content = struct.pack(">iii", 3, 1, len(record)) + record
    (row,) = _read(_block(content, json.dumps(schema))).to_pylist()
    assert (row["union"], row["alone"], row["symbol"], row["again"], row["code"]) == ("x", 3, "b", "a", b"abc")
    assert (row["price"], row["time"].microsecond, row["moment"].microsecond) == (Decimal("-2.00"), 2000, 3000)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("string", b"\x01"),
        ("string", b"\x02\xff"),
        ("string", b"\x08abc"),
        ("int", b"\xff\xff\xff\xff\x7f"),
        ("long", b"\xff" * 9 + b"\x02"),
        ("long", b"\x80"),
        ("boolean", b"\x02"),
        (["null", "long"], b"\x04\x00"),
        (["null", "long"], b"\x02\x00\x00"),
        ({"type": "array", "items": "long"}, b"\x02"),
        ({"type": "array", "items": "long"}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f\x00"),
        ({"type": "array", "items": "long"}, b"\xff" * 9 + b"\x01\x00"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 0}, b"\x04\x7f\xff"),
        ({"type": "enum", "name": "e", "symbols": ["a"]}, b"\x02"),
    ],
)
def test_damaged_values_are_told(kind: Any, value: bytes) -> None:
    schema = json.dumps({"type": "record", "name": "r", "fields": [{"name": "c", "type": kind}]})
    # One record, and a whole batch of them.
    for count in (1, 40):
        content = struct.pack(">ii", 3, count) + (struct.pack(">i", len(value)) + value) * count
        with pytest.raises(CorruptTableError):
            _read(_block(content, schema))


def test_endless_number_is_told_early() -> None:
    """Without a bound, each of its bytes would make the number, and the time for the next byte, larger."""
    kind = {"type": "array", "items": "string"}
    schema = json.dumps({"type": "record", "name": "r", "fields": [{"name": "c", "type": kind}]})
    value = b"\x02" + b"\xff" * 3_000_000
    with pytest.raises(CorruptTableError, match="64 bits"):
        _read(_block(struct.pack(">iii", 3, 1, len(value)) + value, schema))


def test_damaged_contents_are_told() -> None:
    rng = random.Random(5)
    blocks = [block for _, log in data_logs() for block in blocks_of(log) if block.kind is BlockKind.AVRO]
    for _ in range(FUZZ_ROUNDS):
        block = rng.choice(blocks)
        content = damaged(block.content(), rng)
        try:
            found = _read(_block(content, block.header(Header.SCHEMA)))
        except (CorruptTableError, UnsupportedTableError):
            continue
        found.validate(full=True)


def test_damaged_schemas_are_told() -> None:
    rng = random.Random(6)
    blocks = [block for _, log in data_logs() for block in blocks_of(log) if block.kind is BlockKind.AVRO]
    for _ in range(FUZZ_ROUNDS):
        block = rng.choice(blocks)
        schema = damaged(block.header(Header.SCHEMA).encode(), rng).decode(errors="replace")
        try:
            _read(_block(block.content(), schema)).validate(full=True)
        except (CorruptTableError, UnsupportedTableError, SchemaError):
            continue


def test_values_without_bytes_are_refused() -> None:
    nothing = {"type": "record", "name": "n", "fields": []}
    schema = {"type": "record", "name": "r", "fields": [{"name": "c", "type": {"type": "array", "items": nothing}}]}
    with pytest.raises(CorruptTableError):
        _read(_block(struct.pack(">iii", 3, 1, 6) + b"\xfe\xff\xff\xff\x0f\x00", json.dumps(schema)))


def test_unfit_records_are_refused() -> None:
    columns = pa.schema([pa.field("n", pa.int64(), nullable=False)])
    schema = to_avro(columns, "t")
    with pytest.raises(InvalidInputError, match="other columns"):
        avro_block("1", [pa.record_batch({"n": pa.array([1], pa.int32())})], schema)
    with pytest.raises(InvalidInputError, match="null"):
        avro_block("1", [pa.record_batch([pa.array([None], pa.int64())], schema=columns)], schema)
