"""Log files are read block by block, over torn blocks, and never beyond their bytes."""

from __future__ import annotations

import io
import random
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rli import CorruptTableError, UnsupportedTableError
from rli.hudi.log_file.delete_block import NO_DELETES, delete_block
from rli.hudi.log_file.encoding import encode_block
from rli.hudi.log_file.form import BlockKind, Header
from rli.hudi.log_file.reader import LogFileReader
from tests.support.damage import FUZZ_ROUNDS, damaged
from tests.support.log_blocks import blocks_of, data_logs, metadata_logs
from tests.support.metadata_tables import METADATA_TABLES

BLOCK: Final = encode_block(BlockKind.HFILE, {Header.INSTANT: "1", Header.SCHEMA: "s"}, b"content")
HEADERS: Final = st.dictionaries(st.sampled_from(Header), st.text(max_size=20), max_size=4)
CONTENTS: Final = st.one_of(st.binary(max_size=40), st.sampled_from([BLOCK, b"#HUDI#", b"x" * 100_000]))
BLOCKS: Final = st.lists(st.tuples(st.sampled_from(BlockKind), HEADERS, CONTENTS), max_size=4)


class Counted(io.BytesIO):
    """A file that counts the bytes read."""

    count = 0

    def read(self, size: int | None = -1) -> bytes:
        content = super().read(size)
        self.count += len(content)
        return content


@given(BLOCKS)
def test_blocks_come_back(blocks: list[tuple[BlockKind, dict[Header, str], bytes]]) -> None:
    found = blocks_of(b"".join(encode_block(*block) for block in blocks))
    assert [(block.kind, block.headers, block.content()) for block in found] == blocks
    assert [block.open().read() for block in found] == [content for _, _, content in blocks]


@given(st.binary(max_size=60), st.integers(1, len(BLOCK) - 1), st.integers(0, 70_000))
def test_torn_blocks_are_passed_over(rest: bytes, cut: int, padding: int) -> None:
    torn = BLOCK[:cut] + rest.replace(b"#HUDI#", b"") + bytes(padding)
    first, *middle, last = blocks_of(BLOCK + torn + BLOCK)
    assert {block.kind for block in middle} <= {BlockKind.CORRUPT}
    # A block ends where its own number says so, and in front of the next block's magic: what follows it is no part of it.
    assert first.kind is BlockKind.CORRUPT or first.content() == b"content"
    assert last.content() == b"content"


@pytest.mark.parametrize("cut", range(1, len(BLOCK)))
def test_torn_tails_are_told(cut: int) -> None:
    first, last = blocks_of(BLOCK + BLOCK[:cut])
    assert (first.kind, last.kind, last.headers) == (BlockKind.HFILE, BlockKind.CORRUPT, {})


@pytest.mark.parametrize("table", METADATA_TABLES)
def test_blocks_of_hudi_are_written_back(table: str) -> None:
    for log in metadata_logs(table):
        blocks = blocks_of(log)
        headers = [{Header(name): value for name, value in block.headers.items()} for block in blocks]
        again = [encode_block(block.kind, head, block.content()) for block, head in zip(blocks, headers, strict=True)]
        assert b"".join(again) == log


def test_blocks_of_tables_are_read() -> None:
    kinds = {block.kind for _, log in data_logs() for block in blocks_of(log)}
    assert kinds == {BlockKind.COMMAND, BlockKind.DELETE, BlockKind.AVRO, BlockKind.PARQUET}


def test_contents_are_read_on_demand() -> None:
    content = encode_block(BlockKind.PARQUET, {Header.INSTANT: "1"}, bytes(10 << 20)) * 3
    file = Counted(content)
    blocks = list(LogFileReader(file, len(content)).blocks())
    assert file.count < 1 << 20
    assert [len(block.open().read(100)) for block in blocks] == [100] * 3
    assert file.count < 1 << 20


def test_many_magics_are_passed_over_fast() -> None:
    content = b"#HUDI#" * 20_000
    file = Counted(content)
    assert {block.kind for block in LogFileReader(file, len(content)).blocks()} == {BlockKind.CORRUPT}
    assert file.count < 4 * len(content)


def test_damaged_files_are_told() -> None:
    rng = random.Random(3)
    logs = [*metadata_logs("v6"), *(log for _, log in data_logs("*/mor/**/v6_*"))]
    for _ in range(FUZZ_ROUNDS):
        content = damaged(rng.choice(logs), rng)
        file = Counted(content)
        try:
            for block in LogFileReader(file, len(content)).blocks():
                assert len(block.content()) == block.size
        except (CorruptTableError, UnsupportedTableError):
            pass
        assert file.count < 1 << 20 + 8 * len(content)


def test_impossible_headers_are_told() -> None:
    whole = delete_block("1", NO_DELETES)
    for place, number in ((22, 2**31 - 1), (22, -1), (30, 2**31 - 1), (30, -5), (39, 99)):
        content = whole[:place] + number.to_bytes(4, "big", signed=True) + whole[place + 4 :]
        with pytest.raises(CorruptTableError):
            blocks_of(content)


def test_later_forms_are_refused() -> None:
    whole = delete_block("1", NO_DELETES)
    for place, number in ((14, 2), (18, 7)):
        with pytest.raises(UnsupportedTableError):
            blocks_of(whole[:place] + number.to_bytes(4, "big") + whole[place + 4 :])
