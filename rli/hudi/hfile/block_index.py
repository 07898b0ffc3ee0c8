"""The index of data blocks: their places and first keys, in one level or in several.

The root index is a row of entries: int64 place, int32 bytes of the block with its head, length of the key, key. A block of
a lower level has int32 number of entries, int32 offset of each entry and of their end, then the entries without the
length of the key. A key is int16 length of the row and the row; HBase lets more follow, and may shorten the row to what
tells it from the last key of the block before.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from itertools import pairwise
from typing import Final, NamedTuple

from rli.hudi.hfile.encoding import Cursor, as_hadoop_length, damaged

_PLACE: Final = struct.Struct(">qi")
_SHORT: Final = struct.Struct(">qibh")
"""An entry whose key's length is one byte, up to the length of the row."""

_MIDDLE_BYTES: Final = 16
_INT: Final = struct.Struct(">i")
_ROW: Final = struct.Struct(">h")


class IndexEntry(NamedTuple):
    """A block and where its keys begin.

    Attributes:
        place: of the block's head.
        size: bytes of the block with its head.
        key: the first row, or one between it and the last row before.
    """

    place: int
    size: int
    key: bytes


def as_row(key: bytes) -> bytes:
    """A key with its length in front, as the index and the file info hold it."""
    return _ROW.pack(len(key)) + key


def as_root(entries: Iterable[IndexEntry]) -> bytes:
    """The content of the root index."""
    return b"".join(
        _PLACE.pack(entry.place, entry.size) + as_hadoop_length(len(key)) + key
        for entry in entries
        for key in (as_row(entry.key),)
    )


def root_entries(content: bytes, count: int, levels: int) -> list[IndexEntry]:
    """The entries of the root index.

    Args:
        content: of its block.
        count: of entries.
        levels: of the index.

    Raises:
        CorruptTableError: it holds fewer, or more: those that are not counted would hide their cells.
    """
    # Grows with what is there, not with a count that may be wrong.
    entries, place = _short_entries(content, count)
    cursor = Cursor(content[place:], "the root index")
    entries += [_entry(cursor, None) for _ in range(count - len(entries))]
    # HBase lets the place of the middle key follow where there are several levels.
    if not cursor.at_end and not (levels > 1 and cursor.left == _MIDDLE_BYTES):
        raise damaged(f"the root index holds more than its entries: entries={count} bytes left={cursor.left}")
    return _in_order(entries)


def _short_entries(content: bytes, count: int) -> tuple[list[IndexEntry], int]:
    """The first entries, up to a key whose length has more than one byte, and where they end. There may be thousands."""
    entries: list[IndexEntry] = []
    at, end = 0, len(content)
    while len(entries) < count and at + _SHORT.size <= end:
        place, size, length, row = _SHORT.unpack_from(content, at)
        start, after = at + _SHORT.size, at + _SHORT.size - _ROW.size + length
        if length < _ROW.size or not 0 <= row <= length - _ROW.size or after > end:
            break
        entries.append(IndexEntry(place, size, content[start : start + row]))
        at = after
    return entries, at


def lower_entries(content: bytes) -> list[IndexEntry]:
    """The entries of an index block below the root.

    Raises:
        CorruptTableError: they are not where the block says.
    """
    cursor = Cursor(content, "a block of the index")
    (count,) = cursor.fixed(_INT)
    offsets = [cursor.fixed(_INT)[0] for _ in range(count + 1)]
    sizes = [end - start for start, end in pairwise(offsets)]
    return _in_order([_entry(cursor, size - _PLACE.size) for size in sizes])


def _entry(cursor: Cursor, length: int | None) -> IndexEntry:
    place, size = cursor.fixed(_PLACE)
    key = Cursor(cursor.take(cursor.hadoop_length() if length is None else length), "a key of the index")
    return IndexEntry(place, size, key.take(key.fixed(_ROW)[0]))


def _in_order(entries: list[IndexEntry]) -> list[IndexEntry]:
    if any(before.key > after.key or before.place >= after.place for before, after in pairwise(entries)):
        raise damaged("the entries of the index are out of order")
    return entries
