"""The record index in its store: how it answers look-ups, and what insiders ask of it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import pyarrow as pa

from rli.codec import entries as codec
from rli.codec.entries import Entries
from rli.codec.key_arrays import as_key_array
from rli.errors import (
    InvalidInputError,
    RliError,
)
from rli.index.contract import LOOKUP_SECONDS
from rli.index.locators import joined_locations
from rli.index.record.alone.sweeping import SILENT_SECONDS, sweep
from rli.index.record.entries.expiring import count_expired
from rli.index.record.entries.identity import IndexSnapshot
from rli.index.record.entries.limits import IndexLimits
from rli.index.record.entries.purging import floor_of_look_ups
from rli.index.record.entries.self_check import IndexCheck, check_index
from rli.index.record.entries.stored_entries import StoredEntries
from rli.index.record.record_index import RecordIndex
from rli.index.record.time_left import TimeLeft
from rli.index.reports import IndexStats
from rli.model import Scope
from rli.settings import IndexSettings
from rli.store.contract import Store
from rli.store.home import SupportsHome

SETTINGS: Final = "settings"
"""Name of the control record with the settings of a record index."""


class StoredIndex(StoredEntries, RecordIndex):
    """A record index with its entries. Pickled, it is its URL and settings, with a snapshot (P20)."""

    @property
    def home(self) -> str | None:
        """Names the machine and the data where all of the index is on one machine; None where others reach it too."""
        return self.store.home if isinstance(self.store, SupportsHome) else None

    # Look-ups --------------------------------------------------------------------------------------------------

    def lookup(
        self, record_keys: Sequence[str] | pa.Array | pa.ChunkedArray, *, timeout: float = LOOKUP_SECONDS
    ) -> pa.Table:
        return self.located(as_key_array(record_keys), timeout)

    def located(
        self,
        record_keys: pa.Array,
        timeout: float,
        complete: Callable[[TimeLeft], object] | None = None,
        partition_paths: pa.Array | None = None,
    ) -> pa.Table:
        """As ``lookup``, for string arrays of shape (n,); keys may repeat.

        Args:
            record_keys: in any order.
            timeout: as for ``lookup``.
            complete: as for ``as_of_one_commit``.
            partition_paths: where to look each key up, if keys are unique in their partition; None: everywhere.

        Raises:
            IndexNotReadyError: as ``lookup``.
        """
        if self.scope is Scope.GLOBAL or partition_paths is not None:
            stored = record_keys if partition_paths is None else self.codec.stored_keys(record_keys, partition_paths)
            _, entries = self.as_of_one_commit(
                lambda applied: (record_keys, self.get(stored, applied)), timeout, complete
            )
            return self.locations(record_keys, entries, self.present_cutoff())
        distinct = record_keys.unique()
        self.require_all_known("look keys up in every partition")
        keys, entries = self.as_of_one_commit(partial(self.get_everywhere, distinct), timeout, complete)
        found = self.locations(keys, entries, self.present_cutoff())
        return joined_locations(record_keys, distinct, found.filter(found.column("file_id").is_valid()))

    def present_cutoff(self) -> str | None:
        """As ``cutoff``, as of the last commit."""
        return None if self.ttl is None else self.cutoff(self.log.refresh())

    def as_of_one_commit(
        self,
        look_up: Callable[[int], tuple[pa.Array, Entries]],
        timeout: float,
        complete: Callable[[TimeLeft], object] | None = None,
    ) -> tuple[pa.Array, Entries]:
        """Record keys and their entries, all as of one commit (P8).

        Args:
            look_up: gives them, knowing that all commits up to a sequence were applied; it may be called again.
            timeout: as for ``lookup``.
            complete: brings commits of the table into the index that are there in part, in that time; None for
                a caller that knows only the index.

        Raises:
            IndexNotReadyError: as ``lookup``.
        """
        left = TimeLeft.of(self, timeout, self._advice)
        complete = complete or self._complete_commits
        while True:
            # Before the entries: whatever is applied by now is found whole.
            applied = self.applied_sequence() or 0
            keys, entries = look_up(applied)
            if floor_of_look_ups(self) > applied:
                # Tombstones of later commits may be gone, by which those would have been noticed (P30).
                left.require()
                continue
            if codec.sequences(entries).max(initial=0) <= applied:
                return keys, entries
            left.require()
            complete(left)

    @abstractmethod
    def _complete_commits(self, left: TimeLeft) -> None:
        """Bring commits into the index that are there in part, or wait a moment for another process to do so."""

    @property
    @abstractmethod
    def _advice(self) -> str:
        """What to do about a commit that stays in the index in part."""

    # Changes ---------------------------------------------------------------------------------------------------

    def sweep(self, *, silent_seconds: float = SILENT_SECONDS) -> int:
        return sweep(self, silent_seconds)

    # The index as a whole --------------------------------------------------------------------------------------

    def stats(self) -> IndexStats:
        log = self.log.refresh()
        stored = self.store.stats()
        kept = stored.live_entries + stored.tombstones
        return IndexStats(
            kind="record",
            scope=self.scope,
            entries=stored.live_entries,
            tombstones=stored.tombstones,
            bytes=stored.stored_bytes,
            bytes_per_entry=None if stored.stored_bytes is None or not kept else stored.stored_bytes / kept,
            shards=self.settings.shard_count,
            file_groups=log.group_count,
            last_sequence=log.head,
            applied_sequence=self.applied_sequence(),
            last_instant=log.instants.last,
            key_mode=self.settings.key_mode,
            url=self.url,
            expired=None if self.ttl is None else count_expired(self),
        )

    def verify(self) -> IndexCheck:
        return check_index(self)

    def drop(self) -> None:
        self.store.drop()

    def close(self) -> None:
        self.store.close()

    @property
    @abstractmethod
    def _owner(self) -> str:
        """Whose it is, in short."""

    def __repr__(self) -> str:
        return f"<rli.RecordIndex {self.url!r} {self._owner} key_mode={str(self.settings.key_mode)!r}>"

    def __reduce__(self) -> tuple[object, ...]:
        return _reopened, (type(self), self.store, self.settings, self.limits, IndexSnapshot.of(self.store))


def _reopened(
    kind: type[StoredIndex], store: Store, settings: IndexSettings, limits: IndexLimits, snapshot: IndexSnapshot
) -> StoredIndex:
    try:
        snapshot.require_reached(store)
    except RliError:
        store.close()
        raise
    return kind(store, settings, limits)


def stored_index(index: RecordIndex) -> StoredIndex:
    """For engines and operators' tools: the store, entries and commit log of an index.

    Raises:
        InvalidInputError: neither ``open_index`` nor ``create_index`` made it.
    """
    if isinstance(index, StoredIndex):
        return index
    raise InvalidInputError(
        f"this is no index of rli: type={type(index).__qualname__}", remedy="open the index with rli.open_index"
    )
