"""Blocks with records in Parquet come back, those of Hudi too."""

from __future__ import annotations

import random
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest

from rli import CorruptTableError, InvalidInputError
from rli.hudi.avro_schema import from_avro, to_avro
from rli.hudi.log_file.encoding import encode_block
from rli.hudi.log_file.form import BlockKind, Header
from rli.hudi.log_file.parquet_block import parquet_block, parquet_records
from rli.hudi.log_file.reader import LogBlock
from tests.support.damage import FUZZ_ROUNDS, damaged
from tests.support.log_blocks import blocks_of, data_logs

COLUMNS = pa.schema([
    ("id", pa.string()),
    ("day", pa.date32()),
    ("price", pa.decimal128(12, 2)),
    ("pairs", pa.map_(pa.string(), pa.int64())),
    ("items", pa.list_(pa.field("element", pa.float64()))),
])  # fmt: skip


def _hudi_blocks() -> list[LogBlock]:
    logs = (log for _, log in data_logs("*/mor/parquet/*"))
    return [block for log in logs for block in blocks_of(log) if block.kind is BlockKind.PARQUET]


def test_records_come_back() -> None:
    rows = [
        {"id": f"k{n}", "day": date(1200, 1, 1), "price": Decimal("1.50"), "pairs": [("a", n)], "items": [None, 0.5]}
        for n in range(100)
    ]
    batch = pa.RecordBatch.from_pylist(rows, COLUMNS)
    nulls = pa.RecordBatch.from_arrays([pa.nulls(33_000, kind) for kind in COLUMNS.types], schema=COLUMNS)
    (block,) = blocks_of(parquet_block("1", [batch, nulls], to_avro(COLUMNS, "t")))
    found = list(parquet_records(block))
    assert max(part.num_rows for part in found) <= 32_768
    assert pa.Table.from_batches(found).to_pylist() == rows + nulls.to_pylist()


def test_records_of_hudi_are_read() -> None:
    blocks = _hudi_blocks()
    for block in blocks:
        found = pa.Table.from_batches(parquet_records(block))
        assert found.column_names == from_avro(block.header(Header.SCHEMA)).names
        assert set(found["_hoodie_commit_time"].to_pylist()) == {block.header(Header.INSTANT)}
    assert blocks


def test_unfit_records_are_refused() -> None:
    columns = pa.schema([pa.field("n", pa.int64(), nullable=False)])
    with pytest.raises(InvalidInputError, match="other columns"):
        parquet_block("1", [pa.record_batch({"m": pa.array([1])})], to_avro(columns, "t"))
    with pytest.raises(InvalidInputError, match="column=n"):
        parquet_block("1", [pa.record_batch({"n": pa.array([None], pa.int64())})], to_avro(columns, "t"))


def test_damaged_contents_are_told() -> None:
    rng = random.Random(8)
    blocks = _hudi_blocks()
    for _ in range(FUZZ_ROUNDS):
        content = damaged(rng.choice(blocks).content(), rng)
        (block,) = blocks_of(encode_block(BlockKind.PARQUET, {Header.INSTANT: "1"}, content))
        try:
            list(parquet_records(block))
        except CorruptTableError:
            continue
