"""The store: what the index needs of a key-value store, and nothing more.

A store keeps two kinds of things for one index:

* **entries**: encoded record key → 64-bit entry (``rli.codec.entries``), written in batches, versioned: a stored
  entry is replaced only by one with a greater commit sequence. So writing a batch is idempotent and commutative:
  it may be repeated, interrupted half way and repeated, or raced by another process, and the outcome is the same.
* **control records**: few, small, named byte strings (settings, commit log, lease), changed by compare-and-set.

``rli.testing.StoreConformance`` is the executable form of this contract.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rli.codec.encoded_keys import EncodedKeys
from rli.codec.entries import Entries
from rli.settings import IndexSettings


@dataclass(frozen=True, slots=True)
class StoreStats:
    """Size of what a store holds for one index.

    Attributes:
        live_entries: keys with a location.
        tombstones: keys that were deleted and whose sequence is still kept.
        stored_bytes: all bytes that the index costs the store, free space inside its files included; None where
            the store cannot tell.
    """

    live_entries: int
    tombstones: int
    stored_bytes: int | None


class Store(ABC):
    """A key-value store that holds one index.

    Instances may be used by several threads and survive pickling: a copy opens its own connection. They are not
    used across a fork. Every method raises ``StoreUnavailableError`` when the store does not answer or cannot
    take what it is given; after such an error a write may have been applied in part, and is to be repeated.
    """

    preferred_shards: ClassVar[int] = 16
    """How many shards suit the store when nobody says."""

    @property
    @abstractmethod
    def url(self) -> str:
        """The URL that opens this store again, in another process as well."""

    def require_suitable(self, settings: IndexSettings) -> None:  # noqa: B027  (most stores take any)
        """Raise ``SettingsError`` if the store cannot keep an index with these settings; by default it takes any."""

    # Entries ---------------------------------------------------------------------------------------------------

    @abstractmethod
    def get(self, keys: EncodedKeys) -> Entries:
        """The entry of each key, in the order of ``keys``; 0 where the store holds none.

        Keys may repeat and come in any order; a deleted key gives its tombstone.
        """

    @abstractmethod
    def put(self, keys: EncodedKeys, entries: Entries) -> None:
        """Write each entry (shape (n,)) unless the stored one has the same or a greater sequence.

        Keys are distinct and come in any order; a tombstone is an entry like any other. When the call returns,
        all of it survives the death of this process.
        """

    @abstractmethod
    def scan(self, shard: int, batch_size: int) -> Iterator[tuple[EncodedKeys, Entries]]:
        """All entries of one shard, tombstones included, in batches of at most ``batch_size`` of one width.

        An entry that is in the store before and after the scan is seen exactly once.
        """

    # Control records -------------------------------------------------------------------------------------------

    @abstractmethod
    def read_control(self, name: str) -> bytes | None:
        """The value of a control record, None where there is none."""

    @abstractmethod
    def scan_control(self, prefix: str, start: str = "") -> list[tuple[str, bytes]]:
        """Control records whose name begins with ``prefix`` and is not below ``start``, ordered by name."""

    @abstractmethod
    def compare_and_set(self, name: str, expected: bytes | None, value: bytes | None) -> bool:
        """Set a control record to ``value`` (None removes it) if it is ``expected`` (None: absent), atomically.

        Returns whether it was set. Names are ASCII, at most 200 characters; values may be of several megabytes.
        """

    # The store as a whole --------------------------------------------------------------------------------------

    @abstractmethod
    def drop(self) -> None:
        """Remove every entry and control record of this index, and nothing else."""

    @abstractmethod
    def stats(self) -> StoreStats:
        """Count and size of what is stored."""

    @abstractmethod
    def close(self) -> None:
        """Give connections and handles back; the store is not used afterwards."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
