"""What every database of entries can do, whatever the form in which it keeps its keys."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rli.store import EncodedKeys, Entries

if TYPE_CHECKING:
    import lmdb

Transaction: TypeAlias = "lmdb.Transaction[bytes]"
Database: TypeAlias = "lmdb._Database"  # noqa: SLF001  (the type has no other name)


@dataclass(frozen=True, slots=True)
class Page:
    """Some entries of a shard.

    Attributes:
        batches: the entries, each batch of one width.
        next_start: where the next page starts, None after the last one.
    """

    batches: list[tuple[EncodedKeys, Entries]]
    next_start: bytes | None


@dataclass(frozen=True, slots=True)
class Found:
    """Some entries that a look-up by prefixes has found.

    Attributes:
        batches: the entries, each batch of one width.
        rest: the prefixes that are still to be sought.
        start: where the search for the first of them goes on; empty where it begins.
    """

    batches: list[tuple[EncodedKeys, Entries]]
    rest: EncodedKeys
    start: bytes = b""


class EntryTable(ABC):
    """Entries in one database of the environment."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @abstractmethod
    def get(self, transaction: Transaction, keys: EncodedKeys) -> Entries:
        """The entry of each key, 0 where absent. ``keys`` are in sort order and may repeat."""

    def look_up(self, transaction: Transaction, keys: EncodedKeys) -> Entries:
        """As ``get``, in a read transaction, which sees nothing but pages of the data file."""
        return self.get(transaction, keys)

    @abstractmethod
    def write(self, transaction: Transaction, keys: EncodedKeys, stored: Entries, entries: Entries) -> None:
        """Put ``entries`` in the place of ``stored`` (0: absent). ``keys`` are in sort order and distinct."""

    @abstractmethod
    def remove(self, transaction: Transaction, keys: EncodedKeys, stored: Entries) -> None:
        """Remove the entries ``stored`` of ``keys``, which are in sort order and distinct."""

    @abstractmethod
    def read_page(self, transaction: Transaction, shard: int, start: bytes, limit: int) -> Page:
        """At most ``limit`` entries of a shard, from a page's ``next_start`` on; from the first where it is empty."""

    @abstractmethod
    def find(self, transaction: Transaction, prefixes: EncodedKeys, start: bytes, limit: int) -> Found:
        """Entries whose keys begin with one of some prefixes, which are in sort order, distinct, and at least one.

        Args:
            transaction: of a read.
            prefixes: all, or the ``rest`` of an earlier look-up.
            start: of that look-up; empty for all.
            limit: entries that are read at most.
        """

    @abstractmethod
    def count_in_shards(self, transaction: Transaction, shards: NDArray[np.uint16]) -> int:
        """About how many entries there are in some shards (distinct), tombstones included."""

    def count(self, transaction: Transaction) -> int:
        """How many entries the database holds, tombstones included."""
        return int(transaction.stat(self._database)["entries"])
