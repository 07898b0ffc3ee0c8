"""What all blocks of a log file share.

A block is: ``#HUDI#``, int64 bytes after this number, int32 version of the form, int32 kind, the header, int64 bytes of
the content, the content, a footer in the form of the header, and int64 bytes of the block before this last number. The
header is int32 number of entries, and for each entry int32 name, int32 bytes of its value, and the value. All numbers are
big-endian.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final

from rli.errors import CorruptTableError

MAGIC: Final = b"#HUDI#"
FORM_VERSION: Final = 1
CONTENT_VERSION: Final = 3
"""Of the contents with Avro records and with deleted keys, since Hudi 0.14."""

LONG: Final = struct.Struct(">q")
INT: Final = struct.Struct(">i")
TWO_INTS: Final = struct.Struct(">ii")


class BlockKind(IntEnum):
    """What a block holds; its number in the file."""

    COMMAND = 0
    DELETE = 1
    CORRUPT = 2
    AVRO = 3
    HFILE = 4
    PARQUET = 5
    CDC = 6


class Header(IntEnum):
    """Names of entries in a block's header; their numbers in the file."""

    INSTANT = 0
    TARGET_INSTANT = 1
    SCHEMA = 2
    COMMAND = 3
    COMPACTED_INSTANTS = 4
    RECORD_POSITIONS = 5
    BLOCK_ID = 6
    IS_PARTIAL = 7
    INSTANT_OF_POSITIONS = 8


def damaged(problem: str) -> CorruptTableError:
    """The error for a log file that is damaged.

    Args:
        problem: the damage, with its place.
    """
    return CorruptTableError(
        f"a log file is damaged: {problem}",
        remedy="restore the file, or roll the table back to a savepoint; drop a damaged metadata table and let it be built anew",
    )
