"""Bytes in the table: they are stored, so they never change."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
import pytest

from rli.errors import CorruptIndexError
from rli.testing.batches import entry, key_batch
from rli_hbase import keyspace
from rli_hbase.control_record import MAX_HISTORY, Kind, RecordState, next_state, pieces_body
from rli_hbase.entries import from_cells, to_batches, to_cells


def test_row_is_shard_and_key() -> None:
    keys = key_batch([b"ab", b"\0\xff"], [0x0102, 0xFFFF])
    assert keyspace.short_rows(keys) == [b"\x01\x02ab", b"\xff\xff\0\xff"]
    assert keyspace.short_rows(key_batch([])) == []


def test_long_key_row_has_its_digest() -> None:
    key = b"k" * 70_000
    assert keyspace.long_rows(key_batch([key], 3)) == [b"\0\x03" + blake2b(key, digest_size=32).digest()]


def test_columns_carry_generation_stamp() -> None:
    columns = keyspace.Columns.of(b"\x01abcdefghijklmnop")
    assert (columns.entry, columns.control, columns.long_prefix) == (b"e:abcd", b"c:abcd", b"l:abcd")


def test_control_rows() -> None:
    assert keyspace.record_row("commit/0000000001") == b"\xff\xffrcommit/0000000001"
    assert keyspace.name_of_record(b"\xff\xffrrr") == "rr"
    assert keyspace.piece_row(b"12345678", 258) == b"\xff\xffp12345678\0\0\x01\x02"
    assert keyspace.successor(keyspace.record_row("")) == b"\xff\xffs"


def test_shards_end_where_next_begins() -> None:
    assert (keyspace.shard_row(0x00FF), keyspace.end_of_shard(0x00FF)) == (b"\0\xff", b"\x01\0")
    assert keyspace.end_of_shard(0xFFFF) is None


def test_cell_is_big_endian_entry() -> None:
    entries = np.array([entry(1, 2), entry(0xFFFF_FFFF, 0xFFFF_FFFF)], dtype=np.uint64)
    cells = to_cells(entries)
    assert cells == [b"\0\0\0\x01\0\0\0\x02", b"\xff" * 8]
    assert from_cells([cells[0], None, cells[1]]).tolist() == [entry(1, 2), 0, entry(0xFFFF_FFFF, 0xFFFF_FFFF)]
    with pytest.raises(CorruptIndexError):
        from_cells([b"1234567", b"123456789"])


def test_batches_have_one_width_each() -> None:
    found = [(b"\0\x01", b"a", bytes(8)), (b"\0\x02", b"bb", b"\0" * 7 + b"\x05"), (b"\0\x01", b"c", bytes(8))]
    batches = [(keys.to_bytes(), keys.shards.tolist(), entries.tolist()) for keys, entries in to_batches(found)]
    assert batches == [([b"a", b"c"], [1, 1], [0, 0]), ([b"bb"], [2], [5])]


def test_states_of_a_control_record() -> None:
    first = next_state(None, b"token--1", Kind.HERE, b"value")
    second = next_state(first, b"token--2", Kind.IN_PIECES, pieces_body(3))
    third = next_state(second, b"token--3", Kind.REMOVED, b"")
    assert first.to_bytes() == b"=token--1\0value"
    assert second.to_bytes() == b"+token--2\x01token--1\0\0\0\x03"
    assert third.to_bytes() == b"-token--3\x02token--2token--1"
    assert [state.piece_count for state in (first, second, third)] == [0, 3, 0]
    for state in (first, second, third):
        assert RecordState.from_bytes(state.to_bytes()) == state
        assert third.followed(state.token)
    assert not first.followed(b"token--2")


def test_control_record_history_is_bounded() -> None:
    tokens = [b"%08d" % number for number in range(MAX_HISTORY + 2)]
    state: RecordState | None = None
    for token in tokens:
        state = next_state(state, token, Kind.HERE, b"")
    assert state is not None
    assert not state.has_whole_history
    assert state.followed(tokens[1])
    assert not state.followed(tokens[0])
    assert RecordState.from_bytes(state.to_bytes()) == state


@pytest.mark.parametrize("cell", [b"", b"=", b"?12345678\0"])
def test_a_damaged_control_record_is_refused(cell: bytes) -> None:
    with pytest.raises(CorruptIndexError):
        RecordState.from_bytes(cell)
