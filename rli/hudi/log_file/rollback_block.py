"""Blocks that roll an instant back: Hudi writes them in tables of version 6, whose log files may hold several commits."""

from __future__ import annotations

from typing import Final

from rli.errors import UnsupportedTableError
from rli.hudi.log_file.encoding import encode_block
from rli.hudi.log_file.form import BlockKind, Header
from rli.hudi.log_file.reader import LogBlock

_ROLLBACK: Final = "0"


def rollback_block(instant: str, undone: str) -> bytes:
    """A block that takes all blocks of an instant back that come before, in this file and in earlier ones.

    >>> block = rollback_block("20250102030405007", undone="20250102030405006")
    >>> block[:6]
    b'#HUDI#'

    Args:
        instant: of the rollback.
        undone: the instant that is rolled back.
    """
    headers = {Header.INSTANT: instant, Header.COMMAND: _ROLLBACK, Header.TARGET_INSTANT: undone}
    return encode_block(BlockKind.COMMAND, headers, b"")


def undone_instant(block: LogBlock) -> str:
    """The instant that a block rolls back.

    Args:
        block: of the kind ``COMMAND``.

    Raises:
        CorruptTableError: it names none.
        UnsupportedTableError: it is another command.
    """
    command = block.header(Header.COMMAND)
    if command != _ROLLBACK:
        raise UnsupportedTableError(
            f"a log file has a command that rli does not know: command={command}",
            remedy="let Hudi compact the table",
        )
    return block.header(Header.TARGET_INSTANT)
