"""Reading of HFiles, a block at a time."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import BinaryIO, Final, NamedTuple, TypeVar

import pyarrow as pa

from rli.byte_cache import ByteCache
from rli.hudi.hfile.block_index import IndexEntry, lower_entries, root_entries
from rli.hudi.hfile.blocks import DATA, INFO, INTERMEDIATE_INDEX, LEAF_INDEX, ROOT_INDEX, BlockSource, read_exactly
from rli.hudi.hfile.cell_format import are_many, cells_among, cells_of
from rli.hudi.hfile.cells import concatenated
from rli.hudi.hfile.encoding import Cursor, damaged
from rli.hudi.hfile.key_order import check_order
from rli.hudi.hfile.trailer import TRAILER_BYTES, Trailer

_Given = TypeVar("_Given")
_INFO_MAGIC: Final = b"PBUF"

_LAST_BYTES: Final = 256 << 10
"""Of a file, which are read first: most often they hold all but the data blocks."""

_LAST_SHARE: Final = 16
"""They are no more than such a share of the file, unless the trailer is."""

_READ_AT_ONCE: Final = 8 << 20
"""Bytes of neighbouring blocks: on an object store each read is a request."""

_JOINED_BYTES: Final = 1 << 20
"""Of small blocks whose cells are told apart at once."""

_BYTES_OF_ROOTS: Final = 64 << 20
"""Of root indexes that a process keeps: to take one of thousands of entries apart takes longer than to look keys up by it."""

_MEMORY_OF_ENTRY: Final = 256
"""Beside its bytes."""


class HFileReader:
    """An HFile, of which only the trailer, the root index and the file info are held in memory.

    >>> import io
    >>> import pyarrow as pa
    >>> from rli.hudi.hfile.cells import CELLS
    >>> from rli.hudi.hfile.writer import write_hfile
    >>> file = io.BytesIO()
    >>> write_hfile(file, [pa.record_batch([[b"a", b"b"], [b"1", b"2"]], schema=CELLS)], schema=None)
    >>> reader = HFileReader(file, len(file.getvalue()))
    >>> reader.lookup(pa.array([b"b", b"c"])).to_pylist()
    [{'key': b'b', 'value': b'2'}]

    Args:
        source: the file, seekable; it stays open.
        size: its bytes.

    Attributes:
        info: entries of the file info, of Hudi and of HBase.
        entries: cells of the file.

    Raises:
        CorruptTableError: the file is damaged.
        UnsupportedTableError: it has another version or compression than rli reads.
    """

    def __init__(self, source: BinaryIO, size: int) -> None:
        end = size - TRAILER_BYTES
        if end < 0:
            raise damaged(f"the file is too short for a trailer: size={size}")
        start = min(end, max(size - _LAST_BYTES, size - size // _LAST_SHARE))
        last = read_exactly(source, start, size - start)
        self._trailer = Trailer.parse(last[-TRAILER_BYTES:])
        self._blocks = BlockSource(source, end, self._trailer.codec, last, start)
        self._root = _root_of(self._blocks.read(self._trailer.load_on_open, ROOT_INDEX), self._trailer)
        if self._trailer.entries and not self._root:
            raise damaged(f"the index names no block, although there are cells: cells={self._trailer.entries}")
        self.info: Mapping[str, bytes] = _info(self._blocks.read(self._trailer.info, INFO))
        self.entries = self._trailer.entries

    def cells(self) -> Iterator[pa.RecordBatch]:
        """All cells in the order of their keys: batches of ``CELLS``, each of a block or of several small ones.

        Raises:
            CorruptTableError: a block is damaged or missing.
        """
        count = 0
        for content in self._contents():
            batch = cells_of(content)
            count += batch.num_rows
            yield batch
        if count != self.entries:
            raise damaged(
                f"the blocks hold another number of cells than the trailer says: cells={count} said={self.entries}"
            )

    def lookup(self, keys: pa.Array) -> pa.RecordBatch:
        """The cells of the keys that the file holds, in their order.

        Only blocks that may hold one of the keys are read.

        Args:
            keys: binary, in bytewise order, without nulls.

        Returns:
            A batch of ``CELLS``.

        Raises:
            CorruptTableError: a block is damaged or missing.
            InvalidInputError: the keys are out of order.
        """
        check_order(keys)
        candidates = self._candidates(self._root, keys, self._trailer.levels)
        blocks = _joined(self._contents_at(candidates))
        return concatenated([cells_among(content, wanted) for content, wanted in blocks])

    def blocks_within(self, ranges: Sequence[tuple[bytes, bytes]]) -> Iterator[pa.RecordBatch]:
        """The cells of all blocks that may hold keys of some ranges, in their order: batches of ``CELLS``.

        Args:
            ranges: the least key of each, and the least key behind it; in order, and apart.

        Raises:
            CorruptTableError: a block is damaged or missing.
        """
        entries = self._blocks_of_ranges(self._root, ranges, self._trailer.levels)
        for content, _ in self._contents_at((entry, None) for entry in entries):
            yield cells_of(content)

    def _blocks_of_ranges(
        self, entries: Sequence[IndexEntry], ranges: Sequence[tuple[bytes, bytes]], levels: int
    ) -> Iterator[IndexEntry]:
        chosen = {number for least, behind in ranges for number in _numbers_within(entries, least, behind)}
        for number in sorted(chosen):
            if levels == 1:
                yield entries[number]
            else:
                yield from self._blocks_of_ranges(self._below(entries[number]), ranges, levels - 1)

    def _contents(self) -> Iterator[bytes]:
        """The contents of data blocks that follow each other, joined up to a size: the cells of blocks are one chain."""
        joined: list[bytes] = []
        size = 0
        for content, _ in self._contents_at((entry, None) for entry in self._data_blocks()):
            if joined and size + len(content) > _JOINED_BYTES:
                yield b"".join(joined)
                joined, size = [], 0
            joined.append(content)
            size += len(content)
        if joined:
            yield b"".join(joined)

    def _contents_at(self, entries: Iterable[tuple[IndexEntry, _Given]]) -> Iterator[tuple[bytes, _Given]]:
        """The contents of data blocks, each with what was given beside it. Neighbours are read at once, up to a size."""
        run: list[tuple[IndexEntry, _Given]] = []
        begin = end = 0
        for entry, given in entries:
            if entry.place != end or entry.place + entry.size - begin > _READ_AT_ONCE:
                yield from self._read(run, begin, end)
                run, begin = [], entry.place
            run.append((entry, given))
            end = entry.place + entry.size
        yield from self._read(run, begin, end)

    def _read(self, run: Sequence[tuple[IndexEntry, _Given]], begin: int, end: int) -> Iterator[tuple[bytes, _Given]]:
        if begin < end <= begin + _READ_AT_ONCE:
            self._blocks.hold(begin, end - begin)
        for entry, given in run:
            yield self._blocks.read(entry.place, DATA), given

    def _below(self, entry: IndexEntry) -> list[IndexEntry]:
        return lower_entries(self._blocks.read(entry.place, LEAF_INDEX, INTERMEDIATE_INDEX))

    def _data_blocks(self) -> Iterator[IndexEntry]:
        # Places ascend over each level, so that an index that names a block twice has an end.
        reached = [-1] * self._trailer.levels
        stack = [iter(self._root)]
        while stack:
            entry = next(stack[-1], None)
            if entry is None:
                stack.pop()
                continue
            level = len(stack) - 1
            if entry.place <= reached[level]:
                raise damaged(f"the index names a block twice: place={entry.place}")
            reached[level] = entry.place
            if level + 1 == self._trailer.levels:
                yield entry
            else:
                stack.append(iter(self._below(entry)))

    def _candidates(
        self, entries: Sequence[IndexEntry], keys: pa.Array, levels: int
    ) -> Iterator[tuple[IndexEntry, pa.Array]]:
        """Data blocks that may hold keys, each with those keys."""
        start = _count_below(keys, entries[0].key) if entries else len(keys)
        while start < len(keys):
            # The keys of many blocks are passed over at once.
            number = bisect.bisect_right(entries, keys[start].as_py(), key=lambda entry: entry.key) - 1
            end = _count_below(keys, entries[number + 1].key) if number + 1 < len(entries) else len(keys)
            wanted = keys.slice(start, end - start)
            if levels == 1:
                yield entries[number], wanted
            else:
                yield from self._candidates(self._below(entries[number]), wanted, levels - 1)
            start = end


def _root_of(content: bytes, trailer: Trailer) -> Sequence[IndexEntry]:
    """The entries of the root index, kept for the next reader of a file with the same one."""
    key = content, trailer.index_entries, trailer.levels
    kept = _ROOTS.get(key)
    if kept is None:
        entries = root_entries(content, trailer.index_entries, trailer.levels)
        kept = _KeptRoot(tuple(entries), 2 * len(content) + _MEMORY_OF_ENTRY * len(entries))
        _ROOTS.keep(key, kept)
    return kept.entries


class _KeptRoot(NamedTuple):
    """The entries of a root index, and how many bytes they take with its content."""

    entries: tuple[IndexEntry, ...]
    memory: int


_ROOTS: Final = ByteCache[_KeptRoot](_BYTES_OF_ROOTS, attrgetter("memory"))


def _numbers_within(entries: Sequence[IndexEntry], least: bytes, behind: bytes) -> range:
    """The numbers of the entries that may lead to keys of a range."""
    first = bisect.bisect_right(entries, least, key=lambda entry: entry.key) - 1
    return range(max(first, 0), bisect.bisect_left(entries, behind, key=lambda entry: entry.key))


def _joined(blocks: Iterable[tuple[bytes, pa.Array]]) -> Iterator[tuple[bytes, pa.Array]]:
    """Blocks with the keys sought in each; neighbours in which many are sought are joined up to a size."""
    contents: list[bytes] = []
    keys: list[pa.Array] = []
    for content, wanted in blocks:
        many = are_many(wanted, content)
        if contents and not (many and sum(map(len, contents)) + len(content) <= _JOINED_BYTES):
            yield b"".join(contents), pa.concat_arrays(keys)
            contents, keys = [], []
        if not many:
            yield content, wanted
            continue
        contents.append(content)
        keys.append(wanted)
    if contents:
        yield b"".join(contents), pa.concat_arrays(keys)


def _count_below(keys: pa.Array, bound: bytes) -> int:
    return bisect.bisect_left(range(len(keys)), bound, key=lambda place: keys[place].as_py())


def _info(content: bytes) -> dict[str, bytes]:
    cursor = Cursor(content, "the file info")
    if cursor.take(len(_INFO_MAGIC)) != _INFO_MAGIC:
        raise damaged("the file info is not in the form of version 3")
    entries = {}
    for _, pair in Cursor(cursor.take(cursor.varint()), "the file info").message():
        fields = dict(Cursor(pair, "an entry of the file info").message()) if isinstance(pair, bytes) else {}
        name, value = fields.get(1), fields.get(2, b"")
        if not isinstance(name, bytes) or not isinstance(value, bytes):
            raise damaged("an entry of the file info has no name")
        entries[name.decode(errors="replace")] = value
    return entries
