"""The store: what the index needs of a key-value store, and nothing more.

A store keeps two kinds of things for one index:

* **entries**: encoded record key → 64-bit entry (``rli.codec.entries``), written in batches, versioned: a stored
  entry is replaced only by one with a greater commit sequence. So writing a batch is idempotent and commutative:
  it may be repeated, interrupted half way and repeated, or raced by another process, and the outcome is the same.
* **control records**: few, small, named byte strings (settings, commit log, lease), changed by compare-and-set.

And it keeps **watermarks**: up to which commit sequence it has the entries of all commits. A store of several servers,
each of which may lose its last changes while the others keep theirs, keeps one in each part that can be lost on its own.

``rli.testing.StoreConformance`` is the executable form of this contract.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, Self

import numpy as np
from numpy.typing import NDArray

from rli.codec.encoded_keys import EncodedKeys
from rli.codec.entries import Entries
from rli.errors import CorruptIndexError, SettingsError
from rli.settings import IndexSettings
from rli.urls import without_password

SETTINGS: Final = "settings"
"""The control record that holds the settings of the index (``rli.settings.IndexSettings``)."""

APPLIED: Final = "applied"
"""The control record that holds the watermark of a store that goes back in time as a whole, if at all."""

_LONGEST_WATERMARK: Final = 10
_FOUND_AT_ONCE: Final = 1 << 16
_SHOWN: Final = 32


@dataclass(frozen=True, slots=True)
class Watermarks:
    """Up to which commit sequence entries are in a store.

    Attributes:
        least: every part of the store has the entries of all commits up to this one; None before the first watermark.
        greatest: some part has them up to this one. Far greater than ``least`` where a part has lost entries.
        written: no part was given entries of a greater commit sequence; 0 where the store does not note it. Entries of
            commits that the log does not know show that the log was lost.
        evidence: by which the store tells later whether a part may have lost entries since; the store's own.
    """

    least: int | None
    greatest: int | None
    written: int = 0
    evidence: Mapping[str, str] = field(default_factory=dict)


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

    A store that may lose its last changes when a server is restarted raises ``StoreRestartedError`` from ``put`` and
    ``compare_and_set`` for what its caller does by a commit log read before: read ``applied`` and the log again.
    """

    preferred_shards: ClassVar[int] = 16
    """How many shards suit the store when nobody says."""

    gains_by_threads: ClassVar[bool] = True
    """Whether several threads that look keys up, or write entries, take less time than one does."""

    finds_in_order: ClassVar[bool] = False
    """Whether ``find`` takes no longer in a large shard than in a small one."""

    build_batch: ClassVar[int] = 0
    """How many entries a build best puts together, in the order of their shards, also if memory does not hold them; 0: as they come."""

    counts: ClassVar[bool] = True
    """Whether ``stats`` answers without reading all entries."""

    @property
    @abstractmethod
    def url(self) -> str:
        """The URL that opens this store again, in another process as well."""

    def url_beside(self, name: str) -> str:
        """The URL of another store on the same servers or in the same folder; another one for each name.

        Args:
            name: small letters, digits and ``_``.

        Raises:
            SettingsError: there can be none. By default, there cannot.
        """
        raise SettingsError(
            f"the store can have no other one beside it: url={without_password(self.url)} name={name}",
            remedy="keep the index of the column in the metadata table, or choose another store",
        )

    def require_suitable(self, settings: IndexSettings) -> None:  # noqa: B027  (most stores take any)
        """Raise ``SettingsError`` if the store cannot keep an index with these settings; by default it takes any."""

    # Entries ---------------------------------------------------------------------------------------------------

    @abstractmethod
    def get(self, keys: EncodedKeys) -> Entries:
        """The entry of each key, in the order of ``keys``; 0 where the store holds none.

        Keys may repeat and come in any order; a deleted key gives its tombstone.
        """

    def look_up(self, batches: Sequence[EncodedKeys], applied: int = 0) -> list[Entries]:  # noqa: ARG002
        """What ``get`` gives for each of some batches, of whatever widths, in as few requests as the store can.

        Args:
            batches: the keys.
            applied: the caller knows that all commits up to this sequence were applied.

        Raises:
            IndexNotReadyError: a part of the store that keys belong to has lost entries of these commits. Stores that
                go back in time as a whole, if at all, need not look.
        """
        return [self.get(keys) for keys in batches]

    @abstractmethod
    def put(self, keys: EncodedKeys, entries: Entries) -> None:
        """Write each entry (shape (n,)) unless the stored one has a greater sequence.

        Where the stored one has the same sequence, either may stay: the index gives out each sequence once, so both are
        the same entry, which is written again. Keys are distinct and come in any order; a tombstone is an entry like any
        other. When the call returns, all of it survives the death of this process.
        """

    def put_all(self, batches: Sequence[tuple[EncodedKeys, Entries]]) -> None:
        """``put`` some batches, of whatever widths, in as few requests as the store can."""
        for keys, entries in batches:
            self.put(keys, entries)

    @abstractmethod
    def scan(self, shard: int, batch_size: int) -> Iterator[tuple[EncodedKeys, Entries]]:
        """All entries of one shard, tombstones included, in batches of at most ``batch_size`` of one width.

        An entry that is in the store before and after the scan is seen exactly once.
        """

    def find(self, prefixes: EncodedKeys, applied: int = 0) -> Iterator[tuple[EncodedKeys, Entries]]:  # noqa: ARG002
        """All entries whose keys begin with one of some prefixes, tombstones included, in batches of one width.

        There may be more of them than fit into memory, and the caller may stop at any batch. By default, the shards of the prefixes are scanned: stores that keep keys in order need not do that.
        If the index was dropped, a store may give fewer: then its next call raises ``IndexNotFoundError``.

        Args:
            prefixes: distinct, each with the only shard where it is sought.
            applied: the caller knows that all commits up to this sequence were applied.

        Raises:
            IndexNotReadyError: as ``look_up``.
        """
        for shard in np.unique(prefixes.shards).tolist():
            sought = np.unique(prefixes.keys[prefixes.shards == shard])
            for keys, entries in self.scan(shard, _FOUND_AT_ONCE):
                chosen = keys_that_begin(keys, sought)
                if chosen.any():
                    yield keys.take(chosen), entries[chosen]

    # Control records -------------------------------------------------------------------------------------------

    @abstractmethod
    def read_control(self, name: str) -> bytes | None:
        """The value of a control record, None where there is none."""

    def read_controls(self, names: Sequence[str]) -> list[bytes | None]:
        """What ``read_control`` gives for each of some names, in as few requests as the store can.

        The values need not be of one moment, nor be read in the order of the names: each is of some moment of the call. If the
        index was dropped, a store may give records as absent: then its next call raises ``IndexNotFoundError``.
        """
        return [self.read_control(name) for name in names]

    @abstractmethod
    def scan_control(self, prefix: str, start: str = "") -> list[tuple[str, bytes]]:
        """Control records whose name begins with ``prefix`` and is not below ``start``, ordered by name."""

    @abstractmethod
    def compare_and_set(self, name: str, expected: bytes | None, value: bytes | None) -> bool:
        """Set a control record to ``value`` (None removes it) if it is ``expected`` (None: absent), atomically.

        Returns whether it was set. Names are ASCII, at most 200 characters; values may be of several megabytes.
        """

    @property
    def setbacks(self) -> int:
        """How often this instance noticed that the store lost changes of control records, or that it may have.

        ``applied_sequence`` looks. Where the number changes, control records that were read before may not hold any
        more. Always 0 for stores that lose nothing that they acknowledged.
        """
        return 0

    # Watermarks ------------------------------------------------------------------------------------------------

    def applied_sequence(self) -> int | None:
        """The last commit sequence that was marked as applied; None before the first watermark."""
        return sequence_in(self.read_control(APPLIED))

    def applied_beside(self, names: Sequence[str]) -> tuple[int | None, list[bytes | None]]:
        """What ``applied_sequence`` gives, and ``read_controls`` of some names, in as few requests as the store can.

        They need not be of one moment.
        """
        return self.applied_sequence(), self.read_controls(names)

    def applied(self) -> Watermarks:
        """The watermarks of every part of the store; to be read before the entries that ``mark_applied`` will count."""
        sequence = self.applied_sequence()
        return Watermarks(sequence, sequence)

    def mark_applied(self, since: Watermarks, sequence: int) -> bool:
        """Note that the entries of all commits after ``since.least`` and up to ``sequence`` are in the store.

        Returns:
            Whether that was noted, or a greater sequence before. False where a part of the store has gone back to an
            earlier state, or may have, since ``since`` was read: read it again, and write again what it asks for.
        """
        while True:
            stored = self.applied_sequence()
            if stored is not None and stored >= sequence:
                return True
            if (stored or 0) < (since.least or 0):
                return False
            expected = None if stored is None else str(stored).encode()
            if self.compare_and_set(APPLIED, expected, str(sequence).encode()):
                return True

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


def keys_that_begin(keys: EncodedKeys, prefixes: NDArray[np.void]) -> NDArray[np.bool_]:
    """Which keys (shape (n,)) begin with one of some prefixes, all of one width.

    >>> keys = EncodedKeys(np.array([b"ab1", b"cd1"], dtype="V3"), np.zeros(2, np.uint16))
    >>> keys_that_begin(keys, np.array([b"cd"], dtype="V2")).tolist()
    [False, True]
    """
    width = prefixes.dtype.itemsize
    if keys.width < width:
        return np.zeros(len(keys), np.bool_)
    leading = np.ascontiguousarray(keys.keys).view(np.uint8).reshape(len(keys), keys.width)[:, :width]
    return np.isin(np.ascontiguousarray(leading).view(f"V{width}")[:, 0], prefixes)


def sequence_in(stored: bytes | None) -> int | None:
    """The sequence in the control record ``APPLIED``, None where there is no record.

    Only the canonical text of a number passes: a watermark is raised by comparing it with that.
    """
    if stored is None:
        return None
    if len(stored) <= _LONGEST_WATERMARK and stored.isdigit() and str(int(stored)).encode() == stored:
        return int(stored)
    raise CorruptIndexError(
        f"the watermark of applied commits is damaged: record={APPLIED} content={stored[:_SHOWN]!r}",
        remedy="bootstrap the index again: rli index bootstrap TABLE",
    )
