"""The cells of a data block, as columns.

A cell is: int32 length of its key, int32 length of its value, the key, the value, and byte 0 (the version of HBase's
multi-version concurrency control, which Hudi does not use). The key is: int16 length of the row, the row, byte 0
(length of the family's name), int64 timestamp, always the largest, and byte 4 (a put).

The lengths are a chain: where a cell starts is known when the one before was read. But what stands between row and
value is the same in all cells, so it can be searched for. From where it stands, one length of the row tells where its cell
starts, and one length of the value where the next cell starts.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rli.errors import CorruptTableError
from rli.hudi.hfile.cells import CELLS
from rli.hudi.hfile.encoding import damaged
from rli.hudi.hfile.words import words

LONGEST_KEY: Final = 2**15 - 1
"""Bytes of a row."""

_HEAD: Final = np.dtype([("key", ">i4"), ("value", ">i4"), ("row", ">i2")])
_ROW: Final = struct.Struct(">h")
_LENGTHS: Final = struct.Struct(">ii")
_TAIL: Final = b"\0\x7f" + b"\xff" * 7 + b"\x04"
_TAIL_START: Final = int.from_bytes(_TAIL[:8], "big")
_TAIL_END: Final = int.from_bytes(_TAIL[-8:], "big")
_END: Final = b"\0"
_AROUND_ROW: Final = 2 + len(_TAIL)
_AROUND_CELL: Final = _LENGTHS.size + len(_END)
_SMALLEST: Final = _HEAD.itemsize + len(_TAIL) + len(_END)
_MOST_GUESSES: Final = 8
"""Lengths of rows, and of values, that are tried in a block before its cells are walked. Rows of statistics have one length,
values of the record index have few."""

_BYTES_PER_KEY: Final = 1024
"""Of a block: with more keys to look up, all its cells are told apart at once."""

_Places: TypeAlias = NDArray[np.int64]


class Lengths(NamedTuple):
    """Bytes of the keys and values of some cells."""

    keys: NDArray[np.int64]
    values: NDArray[np.int64]

    @classmethod
    def of(cls, cells: pa.RecordBatch) -> Lengths:
        """Those of cells of ``CELLS``."""
        return cls(_lengths(cells["key"]), _lengths(cells["value"]))

    @property
    def in_block(self) -> NDArray[np.int64]:
        """Bytes of each cell in a block."""
        return _SMALLEST + self.keys + self.values


def value_bytes(block_bytes: int, key_bytes: int, cells: int) -> int:
    """Bytes of the values of some cells, which take so many bytes in blocks."""
    return block_bytes - key_bytes - cells * _SMALLEST


def as_block(cells: pa.RecordBatch, lengths: Lengths) -> bytes:
    """The content of the data block with the cells.

    Args:
        cells: of ``CELLS``, in their order, of less than 2 GiB.
        lengths: of these.
    """
    rows = lengths.keys
    heads = np.empty(len(rows), _HEAD)
    heads["key"], heads["value"], heads["row"] = rows + _AROUND_ROW, lengths.values, rows
    fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(_HEAD.itemsize), len(heads), [None, pa.py_buffer(heads)])
    joined = pc.binary_join_element_wise(
        fixed.cast(pa.binary()), cells["key"], pa.scalar(_TAIL), cells["value"], pa.scalar(_END), pa.scalar(b"")
    )
    return joined.buffers()[2].to_pybytes()


def cells_of(block: bytes) -> pa.RecordBatch:
    """The cells of a data block, of ``CELLS``.

    Args:
        block: the content, uncompressed.

    Raises:
        CorruptTableError: the content is no chain of cells as Hudi writes them.
    """
    content = np.frombuffer(block, np.uint8)
    starts = _guessed(content)
    if starts is None or not _is_chain(content, starts):
        starts = _chain(block)
        if not _is_chain(content, starts):
            raise _foreign()
    keys, values = _number(content, starts, 4), _number(content, starts + 4, 4)
    # Row, what follows it, value, and what precedes the next row: elements of one array over the block's own bytes.
    bounds = np.empty(4 * len(starts) + 1, np.int32)
    bounds[0:-1:4] = starts + _HEAD.itemsize
    bounds[1::4] = bounds[0:-1:4] + keys - _AROUND_ROW
    bounds[2::4] = bounds[1::4] + len(_TAIL)
    bounds[3::4] = bounds[2::4] + values
    bounds[-1] = len(block)
    parts = pa.BinaryArray.from_buffers(pa.binary(), len(bounds) - 1, [None, pa.py_buffer(bounds), pa.py_buffer(block)])
    rows = pa.array(np.arange(0, len(parts), 4))
    return pa.record_batch([parts.take(rows), parts.take(pc.add(rows, 2))], schema=CELLS)


def cells_among(block: bytes, keys: pa.Array) -> pa.RecordBatch:
    """The cells of some keys in a data block, of ``CELLS``.

    Args:
        block: the content, uncompressed.
        keys: binary, in bytewise order.

    Raises:
        CorruptTableError: the content is no chain of cells as Hudi writes them.
    """
    if are_many(keys, block):
        return _chosen(cells_of(block), keys)
    found: list[tuple[bytes, bytes]] = []
    start = 0
    for key in keys.to_pylist():
        # Values may hold the same bytes: only the chain of lengths tells where cells start.
        sought = _ROW.pack(len(key)) + key + _TAIL
        start = _start_of(block, sought, start)
        while block.startswith(sought, start + _LENGTHS.size):
            value = start + _LENGTHS.size + len(sought)
            start = _next(block, start)
            found.append((key, block[value : start - len(_END)]))
    columns = [pa.array([cell[part] for cell in found], pa.binary()) for part in (0, 1)]
    return pa.record_batch(columns, schema=CELLS)


def are_many(keys: pa.Array, block: bytes) -> bool:
    """Whether all cells of a data block are told apart to find those of some keys; then blocks are better joined."""
    return len(keys) * _BYTES_PER_KEY > len(block)


def _chosen(cells: pa.RecordBatch, wanted: pa.Array) -> pa.RecordBatch:
    keys, places = cells["key"], range(cells.num_rows)
    first, behind = wanted[0].as_py(), wanted[-1].as_py() + b"\0"
    start, end = (bisect_left(places, bound, key=lambda place: keys[place].as_py()) for bound in (first, behind))
    within = cells.slice(start, end - start)
    # Often the keys between the first and the last one are the wanted ones, such as those of one column.
    return within if within["key"].equals(wanted) else within.filter(pc.is_in(within["key"], value_set=wanted))


def _start_of(block: bytes, sought: bytes, start: int) -> int:
    """Where the first cell starts, from a cell on, that has the sought bytes behind its lengths; that cell if there is none."""
    found, place = block.find(sought, start), start
    unpack = _LENGTHS.unpack_from
    while found >= 0:
        wanted = found - _LENGTHS.size
        # As ``_next``, whose calls would take longer than the steps.
        while place < wanted:
            key, value = unpack(block, place)
            if key < _AROUND_ROW or value < 0:
                raise _foreign()
            place += _AROUND_CELL + key + value
        if place == wanted:
            return place
        found = block.find(sought, found + 1)
    return start


def _next(block: bytes, start: int) -> int:
    """Where the next cell starts, or the block ends, as the lengths alone tell."""
    key, value = _LENGTHS.unpack_from(block, start)
    end = start + _AROUND_CELL + key + value
    if key < _AROUND_ROW or value < 0 or end > len(block):
        raise _foreign()
    return int(end)


def _chain(block: bytes) -> _Places:
    """Where cells start, as the lengths alone tell; to be checked."""
    starts, place = [], 0
    while place <= len(block) - _SMALLEST:
        starts.append(place)
        place = _next(block, place)
    return np.array(starts, np.int64)


def _foreign() -> CorruptTableError:
    return damaged("a data block holds cells of another form than Hudi writes")


def _lengths(column: pa.Array) -> _Places:
    return pc.binary_length(column).to_numpy(zero_copy_only=False).astype(np.int64)


def _number(content: NDArray[np.uint8], places: _Places, size: int) -> _Places:
    """Big-endian numbers without sign; each place must be at least ``size`` bytes before the end."""
    return words(content, size)[places].astype(np.int64)


def _tails(content: NDArray[np.uint8]) -> _Places:
    """Places of all that looks like what stands between row and value."""
    places = np.flatnonzero(content[1 : 1 + max(len(content) - len(_TAIL), 0)] == _TAIL[1])
    return places[_are_tails(content, places)]


def _are_tails(content: NDArray[np.uint8], places: _Places) -> NDArray[np.bool_]:
    """Whether what stands between row and value is at each place; it must be at least so many bytes before the end."""
    octets = words(content, 8)
    return (octets[places] == _TAIL_START) & (octets[places + len(_TAIL) - 8] == _TAIL_END)


def _guessed(content: NDArray[np.uint8]) -> _Places | None:
    """Where cells start if each tail belongs to one, and rows or values have few lengths; to be checked. None if not found."""
    tails = _tails(content)
    starts = np.full(len(tails), -1, np.int64)
    open_ = np.arange(len(tails))
    for _ in range(_MOST_GUESSES):
        if not len(open_):
            return starts
        # The first of them starts where the cell before ends.
        first = open_[0]
        length = tails[first] - (_end_of(content, starts, tails, first - 1) if first else 0) - _HEAD.itemsize
        open_ = _placed(content, starts, open_, tails[open_] - length, length)
        if not len(open_):
            return starts
        if open_[0] == first:
            return None
        behind = _end_of(content, starts, tails, open_[0] - 1) - tails[open_[0] - 1]
        guess = tails[open_ - 1] + behind + _HEAD.itemsize
        open_ = _placed(content, starts, open_, guess, tails[open_] - guess)
    return None if len(open_) else starts


def _end_of(content: NDArray[np.uint8], starts: _Places, tails: _Places, cell: np.intp) -> np.int64:
    """Where a cell ends whose start is known."""
    end: np.int64 = tails[cell] + len(_TAIL) + _number(content, starts[[cell]] + 4, 4)[0] + len(_END)
    return end


def _placed(
    content: NDArray[np.uint8], starts: _Places, cells: NDArray[np.intp], rows: _Places, lengths: _Places | np.int64
) -> NDArray[np.intp]:
    """Note where cells start whose rows may be at some places; returns those whose head says otherwise."""
    guess = rows - _HEAD.itemsize
    right = (guess >= 0) & (lengths >= 0)
    heads = np.where(right, guess, 0)
    right &= (_number(content, heads, 4) == lengths + _AROUND_ROW) & (_number(content, heads + 8, 2) == lengths)
    starts[cells[right]] = guess[right]
    return cells[~right]


def _is_chain(content: NDArray[np.uint8], starts: _Places) -> bool:
    """Whether the cells at the places fill the block without gaps, and each is as Hudi writes it."""
    if not len(starts) or starts[0] or np.any(starts > len(content) - _SMALLEST):
        return not len(starts) and not len(content)
    keys, values, rows = (_number(content, starts + offset, size) for offset, size in ((0, 4), (4, 4), (8, 2)))
    ends = starts + _LENGTHS.size + keys + values + len(_END)
    if ends[-1] != len(content) or np.any(ends[:-1] != starts[1:]) or np.any(keys != rows + _AROUND_ROW):
        return False
    tails = starts + _HEAD.itemsize + rows
    return bool(np.all(_are_tails(content, tails)) and np.all(content[ends - 1] == 0) and np.all(rows <= LONGEST_KEY))
