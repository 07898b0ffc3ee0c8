"""Blocks of deleted records are those that Hudi writes, byte by byte, and come back."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import chain
from typing import Final

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rli import CorruptTableError, InvalidInputError, UnsupportedTableError
from rli.hudi.log_file.delete_block import NO_DELETES, delete_block, deletes
from rli.hudi.log_file.delete_records import deleted_records
from rli.hudi.log_file.encoding import encode_block
from rli.hudi.log_file.form import BlockKind, Header
from rli.hudi.log_file.reader import LogBlock
from tests.support.damage import FUZZ_ROUNDS, damaged
from tests.support.log_blocks import blocks_of, data_logs, metadata_logs
from tests.support.metadata_tables import METADATA_TABLES

ORDERINGS: Final = [
    (pa.bool_(), st.booleans()),
    (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.float32(), st.floats(width=32, allow_nan=False)),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.binary(), st.binary()),
    (pa.string(), st.text()),
]


def _delete_blocks(logs: Iterator[bytes]) -> list[LogBlock]:
    return [block for log in logs for block in blocks_of(log) if block.kind is BlockKind.DELETE]


def _block_of(content: bytes) -> LogBlock:
    (block,) = blocks_of(encode_block(BlockKind.DELETE, {Header.INSTANT: "1"}, content))
    return block


@pytest.mark.parametrize("table", [*METADATA_TABLES, "data"])
def test_blocks_equal_those_of_hudi(table: str) -> None:
    logs = metadata_logs(table) if table != "data" else (log for _, log in data_logs())
    compared = 0
    for block in _delete_blocks(logs):
        (deleted,) = list(deleted_records(block)) or [NO_DELETES]
        (ours,) = blocks_of(delete_block(block.header(Header.INSTANT), deleted, block.headers.get(Header.SCHEMA)))
        assert (ours.content(), ours.headers) == (block.content(), block.headers)
        compared += bool(deleted.num_rows)
    assert compared


@given(st.data())
def test_deletes_come_back(data: st.DataObject) -> None:
    kind, values = data.draw(st.sampled_from(ORDERINGS))
    rows = data.draw(st.lists(st.tuples(st.text(), values), max_size=20))
    deleted = deletes(pa.array([key for key, _ in rows], pa.string()), "eu", pa.array([v for _, v in rows], kind))
    (block,) = blocks_of(delete_block("1", deleted, '"string"'))
    assert pa.Table.from_batches(deleted_records(block), deleted.schema) == pa.Table.from_batches([deleted])


@given(st.data())
@settings(max_examples=30)
def test_deletes_of_like_lengths_return(data: st.DataObject) -> None:
    """Their bounds are found by columns, up to the first one with other lengths."""
    kind, values = data.draw(st.sampled_from(ORDERINGS))
    runs = data.draw(st.lists(st.tuples(st.integers(1, 500), st.integers(0, 200), values), min_size=1, max_size=5))
    keys = [chr(97 + number % 26) * length for count, length, _ in runs for number in range(count)]
    ordering = [value for count, _, value in runs for _ in range(count)]
    deleted = deletes(pa.array(keys), "eu", pa.array(ordering, kind))
    (block,) = blocks_of(delete_block("1", deleted, '"string"'))
    assert pa.Table.from_batches(deleted_records(block), deleted.schema) == pa.Table.from_batches([deleted])


def test_numbers_of_other_lengths_come_back() -> None:
    ordering = pa.array([number // 3 * 5 for number in range(6_000)], pa.int64())
    deleted = deletes(pa.array([f"key-{number % 9}" for number in range(6_000)]), "eu", ordering)
    (block,) = blocks_of(delete_block("1", deleted, '"string"'))
    assert pa.Table.from_batches(deleted_records(block), deleted.schema) == pa.Table.from_batches([deleted])


@pytest.mark.parametrize(
    "last", [b"\x0e\x7eabc", b"\x0a\0\0", b"\x0e" + b"\xfe" + b"\xff" * 8 + b"\x01"], ids=["string", "double", "long"]
)
def test_ordering_values_beyond_the_end(last: bytes) -> None:
    body = b"\x02\x02\x02a\x02\0" + last
    content = (3).to_bytes(4, "big") + len(body).to_bytes(4, "big") + body
    with pytest.raises(CorruptTableError, match=r"ends within one|another length"):
        list(deleted_records(_block_of(content)))


def test_birth_block_has_80_bytes() -> None:
    assert len(delete_block("00000000000000000", NO_DELETES)) == 80


def test_deletes_with_nulls_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="column=ordering"):
        delete_block("1", deletes(pa.array(["k"]), "eu", pa.array([None], pa.int64())))
    with pytest.raises(InvalidInputError, match="type=date32"):
        delete_block("1", deletes(pa.array(["k"]), "eu", pa.array([1], pa.date32())))


def test_batches_have_one_ordering_type() -> None:
    # Two deletes without ordering value around one with a date of two wrappers.
    records = [
        b"\x02\x02a\x02\x00\x00",
        b"\x02\x02b\x02\x00\x10\x02",
        b"\x02\x02c\x02\x00\x18\x03",
        b"\x02\x02d\x02\x00\x00",
    ]
    body = b"\x08" + b"".join(records) + b"\x00"
    batches = list(deleted_records(_block_of(b"\0\0\0\3\0\0\0" + bytes([len(body)]) + body)))
    assert [(batch["record_key"].to_pylist(), batch["ordering"].type) for batch in batches] == [
        (["a"], pa.null()),
        (["b"], pa.date32()),
        (["c"], pa.date32()),
        (["d"], pa.null()),
    ]
    assert [batch["ordering"].cast(pa.int32()).to_pylist() for batch in batches[1:3]] == [[1], [-2]]


def test_older_forms_are_refused() -> None:
    with pytest.raises(UnsupportedTableError, match="version=2"):
        list(deleted_records(_block_of(b"\0\0\0\2\0\0\0\0")))
    with pytest.raises(UnsupportedTableError, match="several columns"):
        list(deleted_records(_block_of(b"\0\0\0\3\0\0\0\x08\x02\x02\x02a\x02\x00\x1a\x00\x00")))


@pytest.mark.parametrize(
    "body",
    [
        b"\x02\x00\x02\x00\x04\x00\x00",
        b"\x02\x02\x02a\x00\x04\x00\x00",
        b"\x02\x02\x03a\x02\x00\x04\x00\x00",
        b"\x02\x02\x02a\x02\x00\x05\x00\x00",
        b"\x02\x02\x02a\x02\x00\x1c\x00\x00",
        b"\x02\x02\x02a\x02\x00\x04\x00",
        b"\x02\x02\x02a\x02\x00\x04\x00\x00\x00",
        b"\x02\x02\x02\xff\x02\x00\x04\x00\x00",
        b"\x02\x02\x02a\x02\x00\x04" + b"\xff" * 12 + b"\x00\x00",
        b"\xfe\xff\xff\xff\x0f\x02",
    ],
)
def test_damaged_deletes_are_told(body: bytes) -> None:
    with pytest.raises(CorruptTableError):
        list(deleted_records(_block_of(b"\0\0\0\3\0\0\0" + bytes([len(body)]) + body)))


def test_damaged_lists_are_told() -> None:
    rng = random.Random(7)
    blocks = _delete_blocks(chain(metadata_logs("v9"), (log for _, log in data_logs("*/mor/avro/v9_txns_*"))))
    for _ in range(FUZZ_ROUNDS):
        content = damaged(rng.choice(blocks).content(), rng)
        try:
            rows = sum(batch.num_rows for batch in deleted_records(_block_of(content)))
        except (CorruptTableError, UnsupportedTableError):
            continue
        assert rows <= len(content)
