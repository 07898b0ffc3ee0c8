"""The record-level index: where does the record of a key live?"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Self

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
from rli.index.record.alone.commits import IndexCommit, PendingTransaction
from rli.index.record.alone.sweeping import SILENT_SECONDS, sweep
from rli.index.record.alone.transaction import IndexTransaction
from rli.index.record.entries.expiring import count_expired
from rli.index.record.entries.identity import IndexSnapshot
from rli.index.record.entries.limits import IndexLimits
from rli.index.record.entries.purging import floor_of_look_ups
from rli.index.record.entries.self_check import IndexCheck, check_index
from rli.index.record.entries.stored_entries import StoredEntries
from rli.index.record.time_left import TimeLeft
from rli.index.reports import IndexStats
from rli.model import Scope
from rli.settings import IndexSettings
from rli.store.contract import Store
from rli.store.home import SupportsHome


class RecordIndex(StoredEntries, ABC):
    """A record-level index of one table, global unless its URL says otherwise. Use ``open_index`` or ``create_index`` to get one.

    It is either used alone, for a table that rli does not write, or it follows the timeline of a table.

    Threads may share it; ``close`` it when none of them uses it any more. A transaction belongs to one thread. Pickled,
    it is its URL and settings, with a snapshot: another process that opens it fails with ``IndexNotReadyError`` where it
    finds another index at the URL, or one that is behind (P20).
    """

    @property
    def home(self) -> str | None:
        """Names the machine and the data where all of the index is on one machine; None where others reach it too."""
        return self.store.home if isinstance(self.store, SupportsHome) else None

    # Look-ups --------------------------------------------------------------------------------------------------

    def lookup(
        self, record_keys: Sequence[str] | pa.Array | pa.ChunkedArray, *, timeout: float = LOOKUP_SECONDS
    ) -> pa.Table:
        """Where each record key lives.

        Args:
            record_keys: texts without nulls; they may repeat.
            timeout: seconds; for how long to wait for a commit that is in the index in part, or to apply a transaction.

        Returns:
            A table with ``LOCATION_SCHEMA``, a row for each key in input order, nulls where the key is absent. It
            shows every commit whole or not at all. If keys are unique in their partition only, a key has a row for each
            partition that holds it; it is looked up in every partition of the table.

        Raises:
            InvalidKeyError: a key is null or not text.
            IndexNotReadyError: a commit of a table is in the index in part, and nobody completed it in that time. The
                index alone cannot: look up through the table (``rli.open_table``), or sync that.
            StoreUnavailableError: the store does not answer.
        """
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
            complete: as for ``settled``.
            partition_paths: where to look each key up, if keys are unique in their partition; None: everywhere.

        Raises:
            IndexNotReadyError: as ``lookup``.
        """
        if self.scope is Scope.GLOBAL or partition_paths is not None:
            stored = record_keys if partition_paths is None else self.codec.stored_keys(record_keys, partition_paths)
            _, entries = self.settled(lambda applied: (record_keys, self.get(stored, applied)), timeout, complete)
            return self.locations(record_keys, entries, self.present_cutoff())
        distinct = record_keys.unique()
        self.require_all_known("look keys up in every partition")
        keys, entries = self.settled(partial(self.get_everywhere, distinct), timeout, complete)
        found = self.locations(keys, entries, self.present_cutoff())
        return joined_locations(record_keys, distinct, found.filter(found.column("file_id").is_valid()))

    def present_cutoff(self) -> str | None:
        """As ``cutoff``, as of the last commit."""
        return None if self.ttl is None else self.cutoff(self.log.refresh())

    def settled(
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

    @abstractmethod
    def begin(self) -> IndexTransaction:
        """Begin a transaction on the index alone, for a table that rli does not write.

        Raises:
            IndexMismatchError: the index belongs to a table, whose commits alone may change it.
        """

    @abstractmethod
    def pending(self) -> list[PendingTransaction]:
        """The transactions that were prepared, and neither committed nor aborted; the oldest first.

        Each holds its keys until it is decided. If its writer died, ask the table whether it has the commit of this
        transaction, then commit or abort it.

        Example:
            >>> with index.begin() as txn:
            ...     txn.stage(pa.table({"record_key": ["k1"], "partition_path": ["p"], "file_id": ["f-0"]}))
            ...     txn.prepare({"delta.version": "17"})
            >>> [left] = index.pending()
            >>> left.metadata, left.placed
            ({'delta.version': '17'}, 1)
            >>> left.abort()
        """

    def history(self, limit: int | None = None) -> list[IndexCommit]:
        """The commits of transactions, the newest first.

        Args:
            limit: how many to return at most; all by default.

        Raises:
            IndexMismatchError: the index belongs to a table, whose timeline has its commits.
        """
        if limit is not None and limit < 1:
            raise InvalidInputError(f"a limit is 1 or more: limit={limit}", remedy="give a greater one, or none")
        return list(islice(self._commits(), limit))

    def last_commit(self, having: str | None = None) -> IndexCommit | None:
        """The newest commit of a transaction; None if there is none.

        Args:
            having: a name of metadata; commits without it are passed over. By its text a caller knows up to which version of
                its own table the index is.

        Raises:
            IndexMismatchError: the index belongs to a table, whose timeline has its commits.
        """
        return next((commit for commit in self._commits() if having is None or having in commit.metadata), None)

    @abstractmethod
    def _commits(self) -> Iterator[IndexCommit]:
        """The commits of transactions, the newest first."""

    def sweep(self, *, silent_seconds: float = SILENT_SECONDS) -> int:
        """Remove the staged changes of transactions whose processes died before the commit.

        Each process does so before it stages changes, and then once an hour. Only an index that is used on its own has
        such changes.

        Args:
            silent_seconds: for how long a process of another host may show no sign of life. Should it live, its
                transaction fails with ``LeaseLostError``.

        Returns:
            How many transactions were removed.
        """
        return sweep(self, silent_seconds)

    @abstractmethod
    def purge(self) -> int:
        """Remove the tombstones of deleted keys, in an index that is used on its own and a store that can (LMDB).

        A transaction that began before fails with ``ConflictError``, unless it has not looked any key up. Cleans remove
        those of a table's index.

        Returns:
            How many were removed.
        """

    # The index as a whole --------------------------------------------------------------------------------------

    def stats(self) -> IndexStats:
        """Size and state; reads the whole index where its store does not count, or its keys expire."""
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
        """Read all entries and compare them with the index's own commit log; writers may go on.

        It needs no table, so it cannot tell whether an entry is right: ``Table.verify_index`` does.

        Raises:
            CorruptIndexError: the commit log is damaged.
            StoreUnavailableError: the store does not answer.
        """
        return check_index(self)

    def drop(self) -> None:
        """Remove the index with all its entries; the table is not touched."""
        self.store.drop()

    def close(self) -> None:
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    @abstractmethod
    def _owner(self) -> str:
        """Whose it is, in short."""

    def __repr__(self) -> str:
        return f"<rli.RecordIndex {self.url!r} {self._owner} key_mode={str(self.settings.key_mode)!r}>"

    def __reduce__(self) -> tuple[object, ...]:
        return _reopened, (type(self), self.store, self.settings, self.limits, IndexSnapshot.of(self.store))


def _reopened(
    kind: type[RecordIndex], store: Store, settings: IndexSettings, limits: IndexLimits, snapshot: IndexSnapshot
) -> RecordIndex:
    try:
        snapshot.require_reached(store)
    except RliError:
        store.close()
        raise
    return kind(store, settings, limits)
