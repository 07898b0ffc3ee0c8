"""Blocks of the metadata table's log files: records as HFiles, removed keys, and rollbacks.

A block is: ``#HUDI#``, int64 bytes behind this number, int32 version of the format, int32 kind, the header, int64 bytes of
the content, the content, a footer in the form of the header, and int64 bytes from the start of the block. All numbers are
big-endian. Log files of the metadata table are small, since compaction bounds them: a file is in memory as a whole.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import fastavro

from rli.errors import CorruptTableError, UnsupportedTableError
from rli.hudi.metadata.schema import DELETE_LIST_SCHEMA
from rli.hudi.timeline.avro_files import MALFORMED

_MAGIC: Final = b"#HUDI#"
_VERSION: Final = 1
_LONG: Final = struct.Struct(">q")
_INT: Final = struct.Struct(">i")
_HEAD: Final = struct.Struct(">6sqii")
_ENTRY: Final = struct.Struct(">ii")
_DELETES_IN_AVRO: Final = 3
_DELETES: Final = fastavro.parse_schema(DELETE_LIST_SCHEMA)
_REMEDY: Final = "drop this partition of the metadata table and let it be built anew"


class BlockKind(IntEnum):
    """What a block holds."""

    COMMAND = 0
    DELETE = 1
    CORRUPT = 2
    AVRO = 3
    HFILE = 4
    PARQUET = 5
    CDC = 6


class Header(IntEnum):
    """Entries of a block's header."""

    INSTANT = 0
    TARGET_INSTANT = 1
    SCHEMA = 2
    COMPACTED_INSTANTS = 4


@dataclass(frozen=True, slots=True)
class LogBlock:
    """One block.

    Attributes:
        kind: what it holds; None for what a writer left that died: bytes that are no whole block.
        headers: entries of the header, by their numbers.
        content: between header and footer.
    """

    kind: BlockKind | None
    headers: Mapping[int, str]
    content: bytes


def log_blocks(content: bytes) -> Iterator[LogBlock]:
    """The blocks of a log file, in their order.

    Args:
        content: of the file; it may be empty.

    Raises:
        CorruptTableError: a whole block is damaged inside.
        UnsupportedTableError: a block has a format of later versions.
    """
    start = 0
    while start < len(content):
        end = _end_of(content, start)
        if end is None:
            yield LogBlock(None, {}, b"")
            following = content.find(_MAGIC, start + 1)
            start = len(content) if following < 0 else following
        else:
            yield _block(content[start:end])
            start = end


def removed_keys(block: LogBlock) -> list[str]:
    """The keys in a block of removed keys.

    Raises:
        CorruptTableError: the content is damaged.
        UnsupportedTableError: it is in the form of Hudi before 0.14.
    """
    try:
        version, size = _ENTRY.unpack_from(block.content)
        if version != _DELETES_IN_AVRO:
            raise UnsupportedTableError(
                f"removed keys are in a form that rli does not read: version={version}",
                remedy="let a newer release of Hudi compact the metadata table",
            )
        # An empty list is a length alone, or one byte.
        if size <= 1:
            return []
        stream = io.BytesIO(block.content[_ENTRY.size : _ENTRY.size + size])
        found: object = fastavro.schemaless_reader(stream, _DELETES, None)
        records = found["deleteRecordList"] if isinstance(found, dict) else []
        return [str(record["recordKey"]) for record in records]
    except (*MALFORMED, struct.error) as error:
        raise _damaged("removed keys", error) from error


def _end_of(content: bytes, start: int) -> int | None:
    """Where the block at a place ends; None if there is no whole block."""
    if not content.startswith(_MAGIC, start) or start + _HEAD.size > len(content):
        return None
    size = _HEAD.unpack_from(content, start)[1]
    end = start + len(_MAGIC) + _LONG.size + size
    if size < _HEAD.size or end > len(content):
        return None
    is_closed = _LONG.unpack_from(content, end - _LONG.size)[0] == size + len(_MAGIC)
    return end if is_closed and (end == len(content) or content.startswith(_MAGIC, end)) else None


def _block(block: bytes) -> LogBlock:
    _, _, version, kind = _HEAD.unpack_from(block)
    if version != _VERSION or kind not in set(BlockKind):
        raise UnsupportedTableError(
            f"a block of a log file has a form that rli does not read: version={version} kind={kind}",
            remedy="downgrade the table to version 9 with Hudi's command line (downgrade table)",
        )
    try:
        headers, place = _headers(block, _HEAD.size)
        (length,) = _LONG.unpack_from(block, place)
        return LogBlock(BlockKind(kind), headers, _taken(block, place + _LONG.size, length))
    except (struct.error, ValueError) as error:
        raise _damaged("a block", error) from error


def _headers(block: bytes, place: int) -> tuple[dict[int, str], int]:
    (count,) = _INT.unpack_from(block, place)
    place += _INT.size
    headers: dict[int, str] = {}
    for _ in range(count):
        name, length = _ENTRY.unpack_from(block, place)
        place += _ENTRY.size
        headers[name] = _taken(block, place, length).decode()
        place += length
    return headers, place


def _taken(block: bytes, place: int, length: int) -> bytes:
    if not 0 <= length <= len(block) - place - _LONG.size:
        raise ValueError(f"a part is longer than its block: bytes={length}")
    return block[place : place + length]


def _damaged(part: str, error: Exception) -> CorruptTableError:
    return CorruptTableError(
        f"{part} of a log file of the metadata table cannot be read ({type(error).__name__}: {error})", remedy=_REMEDY
    )
