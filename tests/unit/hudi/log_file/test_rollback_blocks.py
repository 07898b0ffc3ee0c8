"""Blocks that roll back are those that Hudi writes."""

from __future__ import annotations

import pytest

from rli import CorruptTableError, UnsupportedTableError
from rli.hudi.log_file.encoding import encode_block
from rli.hudi.log_file.form import BlockKind, Header
from rli.hudi.log_file.rollback_block import rollback_block, undone_instant
from tests.support.log_blocks import blocks_of, data_logs


def test_rollbacks_equal_those_of_hudi() -> None:
    (log,) = (log for _, log in data_logs("*/mor/**/*rollback*") if blocks_of(log)[-1].kind is BlockKind.COMMAND)
    (block,) = blocks_of(log)
    assert rollback_block(block.header(Header.INSTANT), undone_instant(block)) == log


def test_other_commands_are_refused() -> None:
    with pytest.raises(UnsupportedTableError, match="command=1"):
        undone_instant(*blocks_of(encode_block(BlockKind.COMMAND, {Header.COMMAND: "1"}, b"")))
    with pytest.raises(CorruptTableError, match="TARGET_INSTANT"):
        undone_instant(*blocks_of(encode_block(BlockKind.COMMAND, {Header.COMMAND: "0"}, b"")))
