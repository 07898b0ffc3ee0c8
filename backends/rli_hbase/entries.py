"""What all kinds of rows with entries have in common.

HBase itself decides which of two entries is newer: a cell's timestamp is the commit sequence. So nothing is compared
here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import TypeAlias

import numpy as np

from rli.errors import CorruptIndexError, StoreUnavailableError
from rli.store import ENTRY_WIDTH, EncodedKeys, Entries, sequences
from rli_hbase.table import IndexTable
from rli_hbase.thrift import BatchMutation

_ABSENT = bytes(ENTRY_WIDTH)

Item: TypeAlias = tuple[bytes, bytes, bytes]
"""Shard, key and cell of an entry."""


class EntryRows(ABC):
    """Entries of one kind of keys in the table of an index."""

    def __init__(self, table: IndexTable) -> None:
        self._table = table

    @abstractmethod
    def get(self, keys: EncodedKeys) -> Entries:
        """The entry of each key, in order, 0 where absent; keys may repeat."""

    @abstractmethod
    def mutations(self, keys: EncodedKeys, cells: list[bytes]) -> list[BatchMutation]:
        """Puts of one cell for each key."""

    @abstractmethod
    def scan(self, start: bytes, stop: bytes | None, batch_size: int) -> Iterator[list[Item]]:
        """Shard, key and cell of all entries in rows from ``start`` to before ``stop``; at most so many at once."""

    @abstractmethod
    def find(self, prefixes: EncodedKeys) -> Iterator[list[Item]]:
        """Shard, key and cell of all entries whose keys begin with one of some prefixes, page by page."""

    @property
    @abstractmethod
    def batch(self) -> int:
        """How many rows a request reads or writes at most."""

    def put(self, keys: EncodedKeys, entries: Entries) -> None:
        """Write the entries (shape (n,)); ``keys`` are distinct.

        Nothing is read: a cell's timestamp is its sequence, and HBase gives the cell of the greatest timestamp, whatever
        is written when.
        """
        of_keys = sequences(entries)
        try:
            for sequence in np.unique(of_keys).tolist():
                mine = of_keys == sequence
                # Neighbours side by side take a region server half the time.
                rows = sorted(self.mutations(keys.take(mine), to_cells(entries[mine])), key=attrgetter("row"))
                # One timestamp for each request, so each sequence has requests of its own. The server decides which
                # cell is newer, so a repeat, a race and a late request all end alike (P8), and no comparison is sent.
                self._table.rows.write(rows, sequence, self.batch)
        except StoreUnavailableError:
            # HBase does not say of a failed put that the table is gone; of a read it does.
            self.get(keys.take(np.arange(len(entries)) < 1))
            raise


def to_cells(entries: Entries) -> list[bytes]:
    """Each entry as its cell."""
    cells: list[bytes] = entries.astype(">u8").view(f"V{ENTRY_WIDTH}").tolist()
    return cells


def from_cells(cells: Iterable[bytes | None]) -> Entries:
    """The entries of cells, 0 for None.

    Raises:
        CorruptIndexError: a cell is not one of an entry.
    """
    every = [_ABSENT if cell is None else cell for cell in cells]
    if any(len(cell) != ENTRY_WIDTH for cell in every):
        raise CorruptIndexError("corrupt index entry", remedy="drop the index and bootstrap it again")
    return np.frombuffer(b"".join(every), dtype=">u8").astype(np.uint64)


def to_batches(found: list[Item]) -> Iterator[tuple[EncodedKeys, Entries]]:
    """Entries as shard, key and cell, grouped by the width of the key."""
    by_width: defaultdict[int, list[Item]] = defaultdict(list)
    for item in found:
        by_width[len(item[1])].append(item)
    for width, items in by_width.items():
        shards, keys, cells = zip(*items, strict=True)
        yield (
            EncodedKeys(
                np.frombuffer(b"".join(keys), dtype=f"V{width}"),
                np.frombuffer(b"".join(shards), dtype=">u2").astype(np.uint16),
            ),
            from_cells(cells),
        )
