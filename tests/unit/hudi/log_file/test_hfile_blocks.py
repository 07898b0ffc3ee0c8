"""Blocks with HFiles come back whole."""

from __future__ import annotations

import pyarrow as pa

from rli.hudi.hfile.cells import CELLS
from rli.hudi.log_file.delete_block import NO_DELETES, delete_block
from rli.hudi.log_file.form import BlockKind, Header
from rli.hudi.log_file.hfile_block import hfile_blocks, hfile_of
from tests.support.log_blocks import blocks_of


def test_blocks_of_one_file_come_back() -> None:
    cells = pa.record_batch([[b"a", b"b"], [b"1", b""]], schema=CELLS)
    (block,) = hfile_blocks("20250102030405006", cells, [2], '"string"')
    file = block + delete_block("20250102030405006", NO_DELETES)
    first, second = blocks_of(file)
    assert (first.kind, second.kind) == (BlockKind.HFILE, BlockKind.DELETE)
    assert first.headers == {Header.INSTANT: "20250102030405006", Header.SCHEMA: '"string"'}
    assert list(hfile_of(first).cells()) == [cells]
