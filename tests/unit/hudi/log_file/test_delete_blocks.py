"""Blocks of deleted records are those that Hudi writes, byte by byte."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from typing import Any, Final

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rli import InvalidInputError
from rli.hudi.log_file.delete_block import NO_DELETES, delete_block, deletes
from rli.hudi.log_file.form import Header
from rli.hudi.metadata.log_blocks import BlockKind, LogBlock, log_blocks
from rli.hudi.metadata.schema import DELETE_LIST_SCHEMA
from tests.support.metadata_tables import ARCHIVES, METADATA_TABLES

SCHEMA: Final[Any] = fastavro.parse_schema(DELETE_LIST_SCHEMA)
ORDERINGS: Final = [
    (pa.bool_(), st.booleans()),
    (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.float32(), st.floats(width=32, allow_nan=False)),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.binary(), st.binary()),
    (pa.string(), st.text()),
]


def _delete_blocks(table: str) -> Iterator[LogBlock]:
    with tarfile.open(ARCHIVES / f"{table}.tar.xz") as archive:
        for member in archive:
            file = archive.extractfile(member) if ".log." in member.name else None
            if file is not None:
                yield from (block for block in log_blocks(file.read()) if block.kind is BlockKind.DELETE)


def _records(content: bytes) -> list[dict[str, Any]]:
    found: Any = fastavro.schemaless_reader(io.BytesIO(content[8:]), SCHEMA, None)
    return list(found["deleteRecordList"])


@pytest.mark.parametrize("table", METADATA_TABLES)
def test_blocks_equal_those_of_hudi(table: str) -> None:
    compared = 0
    for block in _delete_blocks(table):
        records = _records(block.content)
        partition = records[0]["partitionPath"] if records else ""
        deleted = deletes(pa.array([record["recordKey"] for record in records], pa.string()), partition)
        (ours,) = log_blocks(delete_block(block.headers[Header.INSTANT], deleted, block.headers.get(Header.SCHEMA)))
        assert (ours.content, ours.headers) == (block.content, block.headers)
        compared += bool(records)
    assert compared


@given(st.data())
def test_deletes_come_back(data: st.DataObject) -> None:
    kind, values = data.draw(st.sampled_from(ORDERINGS))
    rows = data.draw(st.lists(st.tuples(st.text(), values), max_size=20))
    deleted = deletes(pa.array([key for key, _ in rows], pa.string()), "eu", pa.array([v for _, v in rows], kind))
    (block,) = log_blocks(delete_block("1", deleted, '"string"'))
    assert [
        (record["recordKey"], record["partitionPath"], record["orderingVal"]["value"])
        for record in _records(block.content)
    ] == [(key, "eu", value) for key, value in rows]


def test_birth_block_has_80_bytes() -> None:
    assert len(delete_block("00000000000000000", NO_DELETES)) == 80


def test_deletes_with_nulls_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="column=ordering"):
        delete_block("1", deletes(pa.array(["k"]), "eu", pa.array([None], pa.int64())))
    with pytest.raises(InvalidInputError, match="type=date32"):
        delete_block("1", deletes(pa.array(["k"]), "eu", pa.array([1], pa.date32())))
