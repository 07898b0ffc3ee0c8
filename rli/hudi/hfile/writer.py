"""Writing of HFiles, a block at a time."""

from __future__ import annotations

import io
import struct
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import BinaryIO, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rli.errors import InvalidInputError
from rli.hudi.hfile import cell_format
from rli.hudi.hfile.block_index import IndexEntry, as_root, as_row
from rli.hudi.hfile.blocks import DATA, INFO, ROOT_INDEX, Codec, as_block
from rli.hudi.hfile.cell_format import Lengths
from rli.hudi.hfile.cells import concatenated
from rli.hudi.hfile.encoding import as_message, with_length
from rli.hudi.hfile.key_order import check_order
from rli.hudi.hfile.trailer import NO_BLOCK, Trailer

BLOCK_BYTES: Final = 32 << 10
"""Of a data block before it is compressed. A look-up of few keys inflates a block for each; Hudi's default is 1 MiB."""

_BYTES_AT_ONCE: Final = 1 << 20
"""Of blocks whose bytes are made at once."""

_INT: Final = struct.Struct(">i")
_LONG: Final = struct.Struct(">q")
_INFO_MAGIC: Final = b"PBUF"


def write_hfile(
    sink: BinaryIO,
    cells: Iterable[pa.RecordBatch],
    schema: str | None,
    *,
    compression: Codec = Codec.GZIP,
    block_bytes: int = BLOCK_BYTES,
) -> None:
    """Write cells as an HFile that Hudi reads.

    >>> import io
    >>> from rli.hudi.hfile.reader import HFileReader
    >>> file = io.BytesIO()
    >>> write_hfile(file, [], schema='"string"', compression=Codec.NONE)
    >>> reader = HFileReader(file, len(file.getvalue()))
    >>> reader.entries, reader.info["schema"]
    (0, b'"string"')

    Args:
        sink: where it is written, from the place where the sink stands.
        cells: batches of ``CELLS``, in bytewise order of the keys over all batches; equal keys may follow each other.
        schema: Avro schema of the values, for the file info; None if Hudi is told it otherwise.
        compression: gzip or none.
        block_bytes: a data block is closed before it grows beyond; a single cell or the cells of one key may.

    Raises:
        InvalidInputError: keys are out of order, null or longer than 32,767 bytes, or a value is null. What was written so
            far is no HFile.
    """
    file = _Writer(sink, compression)
    for blocks, ends in _blocks(cells, block_bytes):
        file.write_data(_Encoded.of(blocks), ends)
    file.finish(schema)


def small_hfiles(
    cells: pa.RecordBatch,
    ends: Sequence[int],
    schema: str | None,
    *,
    compression: Codec = Codec.GZIP,
    block_bytes: int = BLOCK_BYTES,
) -> Iterator[bytes]:
    """HFiles as ``write_hfile`` writes them, in memory and of cells that follow each other.

    Of small files, all cells are made at once: one by one, each would take several times as long.

    >>> cells = pa.record_batch([[b"a", b"c", b"b"], [b"1", b"2", b"3"]], names=["key", "value"])
    >>> len([*small_hfiles(cells, [2, 3], schema=None)])
    2

    Args:
        cells: of ``CELLS``; those of each file in bytewise order of their keys.
        ends: of each file, the row behind its last one; each file has a row at least.
        schema: as for ``write_hfile``.
        compression: as for ``write_hfile``.
        block_bytes: as for ``write_hfile``.

    Raises:
        InvalidInputError: as ``write_hfile``, before the first file.
    """
    sizes = np.append(0, np.cumsum(_checked(cells, None, ends).in_block))
    first = 0
    for files in _runs(sizes, ends):
        last = files[-1]
        blocks = _Encoded.of(cells.slice(first, last - first)) if sizes[last] - sizes[first] <= _BYTES_AT_ONCE else None
        for start, end in pairwise([first, *files]):
            sink = io.BytesIO()
            if blocks is None or sizes[end] - sizes[start] > block_bytes:
                write_hfile(
                    sink, [cells.slice(start, end - start)], schema, compression=compression, block_bytes=block_bytes
                )
            else:
                file = _Writer(sink, compression)
                file.write_data(blocks.part(start - first, end - first), [end - start])
                file.finish(schema)
            yield sink.getvalue()
        first = last


def _runs(sizes: NDArray[np.int64], ends: Sequence[int]) -> Iterator[list[int]]:
    """The ends of files that follow each other: of those that are small together, and of each larger one."""
    run: list[int] = []
    first = 0
    for end in ends:
        if run and sizes[end] - sizes[first] > _BYTES_AT_ONCE:
            yield run
            first, run = run[-1], []
        run.append(end)
    if run:
        yield run


@dataclass(frozen=True, slots=True)
class _Encoded:
    """Cells and their bytes in data blocks.

    Attributes:
        keys: of the cells.
        content: the cells, one behind the other.
        ends: bytes up to the end of each cell, and 0 before.
        key_ends: bytes of the keys up to each cell, likewise.
    """

    keys: pa.Array
    content: memoryview
    ends: NDArray[np.int64]
    key_ends: NDArray[np.int64]

    @classmethod
    def of(cls, cells: pa.RecordBatch) -> Self:
        lengths = Lengths.of(cells)
        ends, key_ends = np.zeros(cells.num_rows + 1, np.int64), np.zeros(cells.num_rows + 1, np.int64)
        np.cumsum(lengths.in_block, out=ends[1:])
        np.cumsum(lengths.keys, out=key_ends[1:])
        return cls(cells["key"], memoryview(cell_format.as_block(cells, lengths)), ends, key_ends)

    def part(self, start: int, end: int) -> _Encoded:
        """The cells of some rows."""
        ends, key_ends = self.ends[start : end + 1], self.key_ends[start : end + 1]
        content = self.content[ends[0] : ends[-1]]
        return _Encoded(self.keys.slice(start, end - start), content, ends - ends[0], key_ends - key_ends[0])


class _Writer:
    def __init__(self, sink: BinaryIO, codec: Codec) -> None:
        self._sink = sink
        self._codec = codec
        self._place = 0
        self._index: list[IndexEntry] = []
        self._last_key = b""
        self._cells = self._key_bytes = self._block_bytes = 0

    def write_data(self, cells: _Encoded, ends: Sequence[int]) -> None:
        """Write blocks of cells: ``ends`` has the row behind each."""
        for start, end in pairwise([0, *ends]):
            before = self._index[-1].place if self._index else -1
            place = self._write(DATA, cells.content[cells.ends[start] : cells.ends[end]], before)
            self._index.append(IndexEntry(place, self._place - place, cells.keys[start].as_py()))
        self._last_key = cells.keys[-1].as_py()
        self._cells += len(cells.keys)
        self._block_bytes += len(cells.content)
        self._key_bytes += int(cells.key_ends[-1])

    def finish(self, schema: str | None) -> None:
        load_on_open = self._write(ROOT_INDEX, as_root(self._index))
        # Of the meta blocks, of which there are none.
        self._write(ROOT_INDEX, b"")
        message = as_message((1, _pair(*entry)) for entry in self._info(schema).items())
        info = self._write(INFO, _INFO_MAGIC + with_length(message))
        trailer = Trailer(
            info=info,
            load_on_open=load_on_open,
            uncompressed_bytes=self._block_bytes,
            index_entries=len(self._index),
            entries=self._cells,
            levels=1,
            first_block=self._index[0].place if self._index else NO_BLOCK,
            last_block=self._index[-1].place if self._index else 0,
            codec=self._codec,
        )
        self._sink.write(trailer.encode())

    def _info(self, schema: str | None) -> dict[str, bytes]:
        cells = max(self._cells, 1)
        # The first two announce the last byte of each cell.
        return {
            "KEY_VALUE_VERSION": _INT.pack(1),
            "MAX_MEMSTORE_TS_KEY": _LONG.pack(0),
            # HBase's reader opens no file that has one without a length.
            **({"hfile.LASTKEY": as_row(self._last_key)} if self._cells else {}),
            "hfile.AVG_KEY_LEN": _INT.pack(self._key_bytes // cells),
            "hfile.AVG_VALUE_LEN": _INT.pack(
                cell_format.value_bytes(self._block_bytes, self._key_bytes, self._cells) // cells
            ),
            "hfile.CREATE_TIME_TS": _LONG.pack(time.time_ns() // 1_000_000),
            **({} if schema is None else {"schema": schema.encode()}),
        }

    def _write(self, magic: bytes, content: bytes | memoryview, before: int = -1) -> int:
        place = self._place
        self._place += self._sink.write(as_block(magic, content, self._codec, before))
        return place


def _pair(name: str, value: bytes) -> bytes:
    """An entry of the file info."""
    return as_message([(1, name.encode()), (2, value)])


def _blocks(batches: Iterable[pa.RecordBatch], block_bytes: int) -> Iterator[tuple[pa.RecordBatch, list[int]]]:
    """The cells of one data block or of several, with the row behind each block."""
    held: list[pa.RecordBatch] = []
    size, last = 0, None
    at_once = max(block_bytes, _BYTES_AT_ONCE)
    for batch in batches:
        if not batch.num_rows:
            continue
        lengths = _checked(batch, last)
        last = batch["key"][-1].as_py()
        held.append(batch)
        size += int(lengths.in_block.sum())
        if size > at_once:
            cells = concatenated(held)
            # The last block may have room left.
            *full, rest = _divided(cells, block_bytes)
            yield from _grouped(cells, full, at_once)
            held = [cells.slice(rest.start)]
            size = int(Lengths.of(held[0]).in_block.sum())
    if held:
        cells = concatenated(held)
        if size <= block_bytes:
            yield cells, [cells.num_rows]
            return
        yield from _grouped(cells, list(_divided(cells, block_bytes)), at_once)


def _checked(batch: pa.RecordBatch, last: bytes | None, starts: Sequence[int] = ()) -> Lengths:
    check_order(batch["key"], last, starts)
    if batch["value"].null_count:
        raise InvalidInputError("a value of an HFile is null", remedy="give removed records an empty value")
    lengths = Lengths.of(batch)
    longest = int(lengths.keys.max())
    if longest > cell_format.LONGEST_KEY:
        raise InvalidInputError(
            f"a key is too long for an HFile: bytes={longest}",
            remedy=f"use keys of up to {cell_format.LONGEST_KEY} bytes",
        )
    return lengths


def _divided(cells: pa.RecordBatch, block_bytes: int) -> Iterator[slice]:
    """The rows of each block of cells that follow each other."""
    ends = np.cumsum(Lengths.of(cells).in_block)
    keys = cells["key"]
    # Where a block may start: at the first cell of a key.
    firsts = np.append(np.flatnonzero(pc.not_equal(keys[1:], keys[:-1]).to_numpy(zero_copy_only=False)) + 1, len(keys))
    start = 0
    while start < len(keys):
        room = np.searchsorted(ends, (ends[start - 1] if start else 0) + block_bytes, side="right")
        place = np.searchsorted(firsts, room, side="right") - 1
        if place < 0 or firsts[place] <= start:
            # The cells of one key are more than a block's bytes.
            place = np.searchsorted(firsts, start, side="right")
        end = int(firsts[place])
        yield slice(start, end)
        start = end


def _grouped(
    cells: pa.RecordBatch, blocks: Sequence[slice], at_once: int
) -> Iterator[tuple[pa.RecordBatch, list[int]]]:
    """Blocks in groups of so many bytes: the cells of each group, and the row behind each of its blocks."""
    sizes = np.append(0, np.cumsum(Lengths.of(cells).in_block))
    group: list[slice] = []
    for block in blocks:
        if group and sizes[block.stop] - sizes[group[0].start] > at_once:
            yield _together(cells, group)
            group = []
        group.append(block)
    if group:
        yield _together(cells, group)


def _together(cells: pa.RecordBatch, group: Sequence[slice]) -> tuple[pa.RecordBatch, list[int]]:
    start, end = group[0].start, group[-1].stop
    return cells.slice(start, end - start), [block.stop - start for block in group]
