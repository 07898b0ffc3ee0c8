"""LMDB's data file, read page by page: many sorted keys go down a tree together.

A seek waits for memory at each page on its way, and a look-up of many keys waits for each of its seeks. Here all keys take
a step before any takes the next one, so the processor fetches their pages side by side.

The layout is that of LMDB 0.9 on 64-bit machines (``mdb.c``: ``MDB_page``, ``MDB_node``, ``MDB_db``). Every file of that
version has it: ``DataFile.open`` looks for the version, and without it the caller seeks. Numbers are little-endian.

============== ======================================================================================================
page           u64 number, u16 record size, u16 flags, u16 end of the pointers, u16; then what the flags say
branch page    a u16 pointer to each node: 6 bytes page below, u16 key size, key; the first node's key is empty
leaf page      a u16 pointer to each node: u32 data size, u16 flags, u16 key size, key, data
leaf page 2    the records of one size, sorted, without pointers
tree           u32 record size, u16 flags, u16 depth, three u64 counts of pages, u64 entries, u64 root page
============== ======================================================================================================

Pages that a read transaction sees do not change before it ends, so a tree is read inside the transaction that named it.
"""

from __future__ import annotations

import mmap
import os
import struct
from bisect import bisect_right
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Offsets = NDArray[np.int64]

WORD: Final = 8
"""Bytes by which keys are told apart on their way down; records and nodes begin at multiples of it."""

_WORD_BITS: Final = 3

_MAGIC_AND_VERSION: Final = (0xBEEFC0DE, 1)
_VERSION_AT: Final = 16

_HEADER: Final = 16
_FLAGS_AT: Final = 10
_POINTERS_END_AT: Final = 12
_NODE_HEADER: Final = 8

_BRANCH: Final = 0x01
_LEAF: Final = 0x02
_LEAF2: Final = 0x22
_HAS_TREE: Final = 0x02
"""Of a node: its data is the tree of its duplicates."""

_PAGE_BELOW: Final = np.uint64(0xFFFF_FFFF_FFFF)
_NODE: Final = struct.Struct("<IHH")
_TREE: Final = struct.Struct("<IHHQQQQQ")
_MOST_LEVELS: Final = 32


@dataclass(frozen=True, slots=True)
class Tree:
    """A tree of pages.

    Attributes:
        record_size: bytes of each record, if the leaves are of the second kind.
        depth: its levels, 0 if it is empty.
        entries: its records.
        root: page number.
    """

    record_size: int
    depth: int
    entries: int
    root: int

    @classmethod
    def of(cls, data: bytes) -> Self:
        """The tree that a node's data describes."""
        record_size, _, depth, _, _, _, entries, root = _TREE.unpack(data)
        return cls(record_size, depth, entries, root)


@dataclass(frozen=True, slots=True)
class Places:
    """Where sorted keys are in a tree, if they are there.

    Attributes:
        words: shape (n,), number of the first word of the last record that is not behind the key by its first word.
        leading: shape (n,), this word.
        is_tied: shape (n,), whether a page on the way begins with the same word, so that the place is not known.
    """

    words: Offsets
    leading: Words
    is_tied: NDArray[np.bool_]


class DataFile:
    """A data file that is mapped for reading.

    Attributes:
        size: bytes that are mapped.
        page_size: bytes of a page.
    """

    def __init__(self, mapped: mmap.mmap, page_size: int) -> None:
        self.size = len(mapped)
        self._mapped = mapped
        self.page_size = page_size
        self._halves = np.frombuffer(mapped, np.dtype("<u2"), self.size // 2)
        self._words = np.frombuffer(mapped, np.dtype("<u8"), self.size // WORD)

    @classmethod
    def open(cls, path: str, identity: tuple[int, int] | None, page_size: int) -> Self | None:
        """Map a data file; None if it cannot be mapped, has not this device and inode, or not the layout of LMDB 0.9."""
        try:
            with open(path, "rb") as file:
                status = os.fstat(file.fileno())
                if (status.st_dev, status.st_ino) != identity:
                    return None
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError):
            return None
        has_layout = len(mapped) >= page_size and struct.unpack_from("<II", mapped, _VERSION_AT) == _MAGIC_AND_VERSION
        return cls(mapped, page_size) if has_layout else None

    @property
    def is_whole(self) -> bool:
        """Whether the file has not grown since it was mapped."""
        return self._mapped.size() == self.size

    def content(self, start: int, size: int) -> bytes:
        """A copy of some bytes of the file; raises ``IndexError`` where it ends before."""
        if start < 0 or start + size > self.size:
            raise IndexError("the file ends before a page that it names")
        return self._mapped[start : start + size]

    def words(self, numbers: Offsets) -> Words:
        """The words of the file with these numbers, in the order in which bytes are compared."""
        # Of the modes, the others copy more. Where writers do not know of a read, a page may be overwritten while it is read: then
        # the numbers on it lead anywhere, and the read is repeated.
        return self._words.take(numbers, mode="clip").byteswap(inplace=True)

    def duplicates(self, tree: Tree, key: bytes) -> Tree | None:
        """The tree of a key's duplicates; None if it has none, or so few that they have no pages of their own."""
        page = tree.root
        for _ in range(min(tree.depth, _MOST_LEVELS) - 1):
            page = self._below(self._last_node(page, key, first=1))
        if tree.depth == 0 or not self._flags(page) & _LEAF:
            return None
        node = self._last_node(page, key, first=0)
        size, flags, key_size = _NODE.unpack_from(self._mapped, node)
        data = node + _NODE_HEADER + key_size
        is_of_key = self._mapped[node + _NODE_HEADER : data] == key
        if not is_of_key or not flags & _HAS_TREE or size != _TREE.size:
            return None
        return Tree.of(self._mapped[data : data + size])

    def find(self, tree: Tree, wanted: Words) -> Places | None:
        """Where each key of some sorted ones is, by its first word as it is compared (shape (n,)).

        None if the tree is not of the expected pages, of records of whole words.

        Raises:
            IndexError, ValueError: its pages are damaged.
        """
        if tree.depth == 0 or tree.record_size % WORD:
            return None
        pages, lowest = np.array([tree.root], np.int64), np.zeros(1, np.uint64)
        is_tied = np.zeros(len(wanted), np.bool_)
        at = np.zeros(len(wanted), np.intp)
        for _ in range(min(tree.depth, _MOST_LEVELS) - 1):
            if not self._are_all(pages, _BRANCH):
                return None
            hit = np.flatnonzero(np.bincount(at, minlength=len(pages)))
            pages, lowest = self._children(pages[hit], lowest[hit])
            at = np.searchsorted(lowest, wanted, side="right") - 1
            is_tied |= lowest[at] == wanted
        if not self._are_all(pages[np.flatnonzero(np.bincount(at, minlength=len(pages)))], _LEAF2):
            return None
        words = self._last_records(pages[at] * self.page_size, tree.record_size // WORD, wanted)
        return Places(words, self.words(words), is_tied)

    def _last_records(self, starts: Offsets, words_of_record: int, wanted: Words) -> Offsets:
        """The first word of the last record in each key's leaf that is not behind it; else of the first record."""
        counts = self._counts(starts)
        if _HEADER + int(counts.max(initial=0)) * words_of_record * WORD > self.page_size:
            raise ValueError("a leaf has more records than room")
        found = starts + _HEADER >> _WORD_BITS
        last = found + (counts - 1) * words_of_record
        step = 1 << int(counts.max(initial=1) - 1).bit_length()
        while step := step >> 1:
            middle = np.minimum(found + step * words_of_record, last)
            found = np.where(self.words(middle) <= wanted, middle, found)
        return found

    def _children(self, pages: Offsets, lowest: Words) -> tuple[Offsets, Words]:
        """The pages below some branch pages, and the first word that each begins with, given those of the branch pages.

        Raises:
            ValueError: the pages are damaged.
        """
        starts = pages * self.page_size
        counts = self._counts(starts)
        firsts = np.cumsum(counts) - counts
        pointers = np.repeat((starts + _HEADER >> 1) - firsts, counts) + np.arange(counts.sum())
        offsets = self._halves.take(pointers, mode="clip")
        nodes = np.repeat(starts, counts) + offsets >> _WORD_BITS
        words = self.words(nodes + 1)
        words[firsts] = lowest
        is_in_order = bool((words[1:] >= words[:-1]).all())
        if not is_in_order or int(offsets.max(initial=0)) >= self.page_size or (offsets & (WORD - 1)).any():
            raise ValueError("a branch page has nodes out of order")
        below = self._words.take(nodes, mode="clip") & _PAGE_BELOW
        return below.astype(np.int64), words

    def _counts(self, starts: Offsets) -> Offsets:
        ends = self._halves.take(starts + _POINTERS_END_AT >> 1, mode="clip").astype(np.int64)
        return ends - _HEADER >> 1

    def _are_all(self, pages: Offsets, flags: int) -> bool:
        if int(pages.max(initial=0)) >= self.size // self.page_size:
            return False
        found = self._halves.take(pages * self.page_size + _FLAGS_AT >> 1, mode="clip")
        return bool(((found & flags) == flags).all())

    def _flags(self, page: int) -> int:
        return int(self._halves[page * self.page_size + _FLAGS_AT >> 1])

    def _last_node(self, page: int, key: bytes, first: int) -> int:
        """Offset of the last node, from the one numbered ``first`` on, whose key is not behind ``key``; else the one before."""
        start = page * self.page_size
        count = int(self._halves[start + _POINTERS_END_AT >> 1]) - _HEADER >> 1
        nodes = range(first, count)
        behind = first + bisect_right(nodes, key, key=lambda number: self._key(self._node(start, number)))
        return self._node(start, max(behind - 1, 0))

    def _node(self, start: int, number: int) -> int:
        return start + int(self._halves[(start + _HEADER >> 1) + number])

    def _key(self, node: int) -> bytes:
        _, _, size = _NODE.unpack_from(self._mapped, node)
        return self._mapped[node + _NODE_HEADER : node + _NODE_HEADER + size]

    def _below(self, node: int) -> int:
        return int.from_bytes(self._mapped[node : node + 6], "little")
