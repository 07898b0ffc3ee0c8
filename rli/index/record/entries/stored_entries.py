"""The entries of an index in its store, and the commit log that says what their numbers mean."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Final, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rli.codec import entries as codec
from rli.codec.encoded_keys import EncodedKeys
from rli.codec.entries import ABSENT, Entries
from rli.codec.key_codec import KeyCodec
from rli.errors import CorruptIndexError
from rli.index.record.entries.known_partitions import KnownPartitions
from rli.index.record.entries.limits import DEFAULT_LIMITS, IndexLimits
from rli.index.record.entries.owner import Owner
from rli.index.record.entries.time_to_live import expired_before, have_expired
from rli.index.record.log.commit_log import CommitLog
from rli.index.record.log.state import LogState
from rli.index_urls import IndexUrl
from rli.locations import LOCATION_SCHEMA, LocationUpdate, named_groups
from rli.model import FileGroupId, Scope
from rli.settings import IndexSettings
from rli.store.contract import Store, Watermarks
from rli.tasks import InThreads
from rli.telemetry.store_calls import store_call

_KEYS_AT_ONCE: Final = 1 << 18
"""Stored keys that are looked up together, where one record key has a stored key in each partition."""

Batch: TypeAlias = tuple[EncodedKeys, Entries]
"""Keys of one width with their entries."""


class StoredEntries:
    """What an index keeps in its store: an entry for each key, the commit log, and how far it was applied.

    A *stored key* is a record key; with partition scope, it is a partition path and a record key as one text.

    Attributes:
        store: where all of it is.
        settings: of the index.
        codec: turns record keys into the bytes that are stored.
        log: the commit log.
        owner: this process, as the owner of staged changes.
        scope: where a record key is unique.
        partitions: those that the index knows.
        ttl: seconds for which a key is known after the last commit that wrote its record; None: for ever.
        limits: of the work at a time.
    """

    rebuilding: ClassVar[str] = "rli index bootstrap TABLE"
    """The command that builds such an index again."""

    def __init__(self, store: Store, settings: IndexSettings, limits: IndexLimits = DEFAULT_LIMITS) -> None:
        self.store = store
        self.settings = settings
        self.codec = KeyCodec(settings)
        self.log = CommitLog(store)
        self.owner = Owner(store)
        self.scope = settings.scope
        self.ttl = settings.ttl
        self.limits = limits
        self.partitions = KnownPartitions(settings.partitions)
        self._shown_url = str(IndexUrl(store.url, settings.scope, settings.partitions, settings.ttl))

    @property
    def url(self) -> str:
        """Where the index is; a password is not shown."""
        return self._shown_url

    def get(self, stored_keys: pa.Array, applied: int = 0) -> Entries:
        """The entry of each stored key (string array, shape (n,)), in order; tombstones included.

        Args:
            stored_keys: to look up.
            applied: the caller knows that all commits up to this sequence were applied.

        Raises:
            IndexNotReadyError: a part of the store has lost entries of these commits.
        """
        at_once = self.limits.keys_of_thread
        if len(stored_keys) <= at_once or not self.store.gains_by_threads:
            return self._get_together(stored_keys, applied)
        parts = [stored_keys.slice(start, at_once) for start in range(0, len(stored_keys), at_once)]
        return np.concatenate([*InThreads().run(lambda part: self._get_together(part, applied), parts)])

    def _get_together(self, stored_keys: pa.Array, applied: int) -> Entries:
        found = np.zeros(len(stored_keys), dtype=np.uint64)
        places, batches = tuple(zip(*self.codec.encode(stored_keys), strict=True)) or ((), ())
        with store_call(self.url, "look_up", len(stored_keys)):
            for positions, entries in zip(places, self.store.look_up(batches, applied), strict=True):
                found[positions] = entries
        return found

    def get_everywhere(self, record_keys: pa.Array, applied: int) -> tuple[pa.Array, Entries]:
        """The entries of record keys (distinct, shape (n,)) in all partitions; raises as ``get``.

        With partition scope, each key is looked up in every partition that the index knows.

        Returns:
            Record keys and their entries, in the order of the keys, tombstones included: with partition scope only the
            entries that are there, in the order of the partitions.
        """
        if self.scope is Scope.GLOBAL:
            return record_keys, self.get(record_keys, applied)
        every_path = self.log.refresh().dictionary.partition_paths
        known = self.partitions.rows_in(every_path)
        paths = every_path if known is None else every_path.filter(known)
        keys, entries = [record_keys.slice(0, 0)], [np.empty(0, np.uint64)]
        step = max(1, _KEYS_AT_ONCE // max(1, len(paths)))
        for start in range(0, len(record_keys), step):
            some = record_keys.slice(start, step)
            repeated = some.take(pa.array(np.repeat(np.arange(len(some)), len(paths))))
            in_each = paths.take(pa.array(np.tile(np.arange(len(paths)), len(some))))
            found = self.get(self.codec.stored_keys(repeated, in_each), applied)
            keys.append(repeated.filter(pa.array(found != ABSENT)))
            entries.append(found[found != ABSENT])
        return pa.concat_arrays(keys), np.concatenate(entries)

    def require_all_known(self, question: str) -> None:
        """Raise ``InvalidInputError`` if the table has, or had, partitions that the index does not know."""
        if not self.partitions.are_all:
            self.partitions.require(self.log.refresh().dictionary.partition_paths.to_pylist(), self.url, question)

    def locations(self, record_keys: pa.Array, entries: Entries, cutoff: str | None = None) -> pa.Table:
        """Entries in words: a table with ``LOCATION_SCHEMA``; nulls where an entry is absent, a tombstone or expired.

        Args:
            record_keys: string array, shape (n,).
            entries: of these keys.
            cutoff: see ``cutoff``.
        """
        dictionary = self.log_of(entries).dictionary
        live = codec.is_live(entries)
        if cutoff:
            live &= ~have_expired(dictionary, entries, cutoff)
        found = entries[live]
        names = (*dictionary.groups_of(codec.file_groups(found)), dictionary.instants_of(codec.sequences(found)))
        if len(found) < len(entries):
            row_of = pa.array(np.cumsum(live) - 1, mask=~live)
            names = tuple(column.take(row_of) for column in names)
        return pa.table([record_keys, *names], schema=LOCATION_SCHEMA)

    def cutoff(self, log: LogState, clock: str | None = None) -> str | None:
        """The instant before which a record was written last if its key has expired; None where keys do not expire.

        Args:
            log: a state of the commit log.
            clock: the instant of a write that asks. The clock never goes back behind what the log names.
        """
        if self.ttl is None:
            return None
        known = [time for time in (clock, log.instants.last) if time is not None]
        return expired_before(self.ttl, max(known, default=None))

    def log_of(self, entries: Entries) -> LogState:
        """A state of the commit log that knows all numbers of the entries; read only where the log has grown.

        Raises:
            CorruptIndexError: an entry has a number that the commit log never gave out.
        """
        # In this order: another thread may read the log anew in between, which ends the doubt, but not for an older state.
        is_doubtful = self.log.is_doubtful
        log = self.log.last_read
        if is_doubtful or not log.dictionary.knows_all(entries):
            log = self.log.refresh()
            if not log.dictionary.knows_all(entries):
                raise CorruptIndexError(
                    f"the index holds entries of unknown commits: url={self.url}", remedy="bootstrap the index again"
                )
        return log

    def put(self, stored_keys: pa.Array, entries: Entries) -> None:
        """Write an entry for each stored key (distinct, shape (n,)) unless a newer one is stored."""
        self.put_all(self._batches(stored_keys, entries))

    def apply(self, update: LocationUpdate, log: LogState, sequence: int | NDArray[np.int64]) -> None:
        """Write an update as that of one commit sequence, or of one for each key. May be repeated and raced.

        Args:
            update: as for ``encoded``; the keys are distinct.
            log: likewise.
            sequence: likewise.

        Raises:
            CorruptIndexError: the log names no such file group.
        """
        self.put_all(self.encoded(update, log, sequence))

    def encoded(self, update: LocationUpdate, log: LogState, sequence: int | NDArray[np.int64]) -> list[Batch]:
        """An update as keys and entries of the store, in batches of one width.

        What it tells of partitions that the index does not know is passed over.

        Args:
            update: new locations.
            log: a state of the commit log, as a call of the caller returned it (P18); it has the file groups.
            sequence: of the commit.

        Raises:
            CorruptIndexError: the log names no such file group.
        """
        by_path = self.scope is Scope.PARTITION or not self.partitions.are_all
        if by_path and pa.types.is_dictionary(update.partition_paths.type):
            update = replace(update, partition_paths=update.partition_paths.dictionary_decode())
        known = self.partitions.rows_in(update.partition_paths)
        if known is not None:
            update = update.filtered(known)
            sequence = sequence[known.to_numpy(zero_copy_only=False)] if isinstance(sequence, np.ndarray) else sequence
        numbers = _file_group_numbers(log, update.partition_paths, update.file_ids)
        stored_keys = self.codec.stored_keys(update.record_keys, update.partition_paths)
        return self._batches(stored_keys, codec.pack(sequence, numbers))

    def _batches(self, stored_keys: pa.Array, entries: Entries) -> list[Batch]:
        return [(keys, entries[positions]) for positions, keys in self.codec.encode(stored_keys)]

    def put_all(self, batches: Sequence[Batch]) -> None:
        """Write the entries of batches, in each of which a key is once, unless newer ones are stored."""
        with store_call(self.url, "put", sum(len(keys) for keys, _ in batches)):
            self.store.put_all(batches)

    def applied_sequence(self) -> int | None:
        """The sequence up to which all commits are in the index; None if it was never bootstrapped."""
        return self.store.applied_sequence()

    def applied_and_log(self) -> tuple[int | None, LogState]:
        """``applied_sequence`` and the commit log, which need not be of one moment."""
        return self.log.refresh_with_applied()

    def read_progress(self) -> tuple[Watermarks, LogState]:
        """Up to which sequence each part of the index has all entries, and the commit log, read after that.

        Raises:
            CorruptIndexError: the commit log has lost commits whose entries are in the index.
        """
        applied, log = self.store.applied(), self.log.refresh()
        if not _has_log(applied, log):
            # The store may have gone back, log and entries alike, just between the two.
            applied, log = self.store.applied(), self.log.refresh()
        if not _has_log(applied, log):
            raise CorruptIndexError(
                f"the index's commit log went back to an earlier state than the entries: url={self.url} log={log.head} "
                f"entries={_last_entry(applied)}",
                remedy="a server lost acknowledged writes: drop the index and bootstrap it again",
            )
        return applied, log

    def scan(self, shard: int, batch_size: int = 65_536) -> Iterator[tuple[pa.StringArray, Entries]]:
        """All entries of a shard with their stored keys, tombstones included, in batches."""
        for keys, entries in self.store.scan(shard, batch_size):
            yield self.codec.decode(keys), entries


def _last_entry(applied: Watermarks) -> int:
    """The greatest sequence of entries that any part of a store has, or had."""
    return max(applied.greatest or 0, applied.written)


def _has_log(applied: Watermarks, log: LogState) -> bool:
    """Whether the log, read after the watermarks, knows the commits of all entries."""
    return _last_entry(applied) <= log.head


def _file_group_numbers(log: LogState, partition_paths: pa.Array, file_ids: pa.Array) -> NDArray[np.uint64]:
    """The number of each row's file group, ``TOMBSTONE`` where the file id is null.

    Raises:
        CorruptIndexError: the commit log names no such file group.
    """
    named = named_groups(partition_paths, file_ids)
    number_of = log.dictionary.numbers_of([group for group in named.groups if group])
    numbers = [codec.TOMBSTONE if group is None else _known(number_of, group) for group in named.groups]
    return np.array(numbers, dtype=np.uint64)[named.codes] if numbers else np.empty(0, np.uint64)


def _known(numbers: Mapping[FileGroupId, int], group: FileGroupId) -> int:
    number = numbers.get(group)
    if number is None:
        raise CorruptIndexError(
            f"the index does not know this file group: partition={group.partition_path} file_id={group.file_id}",
            remedy="bootstrap the index again",
        )
    return number
