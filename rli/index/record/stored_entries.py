"""The entries of an index in its store, and the commit log that says what their numbers mean."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rli.codec import entries as codec
from rli.codec.entries import Entries
from rli.codec.key_codec import KeyCodec
from rli.errors import CorruptIndexError
from rli.index.record.commit_log import CommitLog
from rli.index.record.log_state import LogState
from rli.index.record.owner import Owner
from rli.index.record.snapshot import require_applied
from rli.locations import LOCATION_SCHEMA, LocationUpdate, named_groups
from rli.model import FileGroupId
from rli.settings import IndexSettings
from rli.store.contract import Store, Watermarks
from rli.store.home import SupportsHome
from rli.telemetry.store_calls import store_call
from rli.urls import without_password


class StoredEntries:
    """What an index keeps in its store: an entry for each record key, the commit log, and how far it was applied.

    Attributes:
        store: where all of it is.
        settings: of the index.
        codec: turns record keys into the bytes that are stored.
        log: the commit log.
        owner: this process, as the owner of staged changes.
    """

    def __init__(self, store: Store, settings: IndexSettings) -> None:
        self.store = store
        self.settings = settings
        self.codec = KeyCodec(settings)
        self.log = CommitLog(store)
        self.owner = Owner(store)
        self._shown_url = without_password(store.url)

    @property
    def url(self) -> str:
        """Where the index is; a password is not shown."""
        return self._shown_url

    @property
    def home(self) -> str | None:
        """Names the machine and the data where all of the index is on one machine; None where others reach it too."""
        return self.store.home if isinstance(self.store, SupportsHome) else None

    def get(self, record_keys: pa.Array, applied: int = 0) -> Entries:
        """The entry of each record key (string array, shape (n,)), in order; tombstones included.

        Args:
            record_keys: to look up.
            applied: the caller knows that all commits up to this sequence were applied.

        Raises:
            IndexNotReadyError: a part of the store has lost entries of these commits.
        """
        found = np.zeros(len(record_keys), dtype=np.uint64)
        places, batches = tuple(zip(*self.codec.encode(record_keys), strict=True)) or ((), ())
        with store_call(self.url, "look_up", len(record_keys)):
            for positions, entries in zip(places, self.store.look_up(batches, applied), strict=True):
                found[positions] = entries
        return found

    def get_as_of(self, record_keys: pa.Array, sequence: int) -> Entries:
        """The entry of each record key, with all commits up to a sequence applied; entries may be newer than that.

        Raises:
            IndexNotReadyError: the index is behind.
        """
        return self.get(record_keys, require_applied(self.store, sequence))

    def locations(self, record_keys: pa.Array, entries: Entries) -> pa.Table:
        """Entries in words: a table with ``LOCATION_SCHEMA``; nulls where an entry is absent or a tombstone."""
        log = self.log_of(entries)
        live = codec.is_live(entries)
        found = entries[live]
        names = (*log.groups_of(codec.file_groups(found)), log.instants_of(codec.sequences(found)))
        if len(found) < len(entries):
            row_of = pa.array(np.cumsum(live) - 1, mask=~live)
            names = tuple(column.take(row_of) for column in names)
        return pa.table([record_keys, *names], schema=LOCATION_SCHEMA)

    def log_of(self, entries: Entries) -> LogState:
        """A state of the commit log that knows all numbers of the entries; read only where the log has grown.

        Raises:
            CorruptIndexError: an entry has a number that the commit log never gave out.
        """
        log = self.log.last_read
        if self.log.is_doubtful or not log.knows_all(entries):
            log = self.log.refresh()
            if not log.knows_all(entries):
                raise CorruptIndexError(
                    f"the index holds entries of unknown commits: url={self.url}; bootstrap the index again"
                )
        return log

    def put(self, record_keys: pa.Array, entries: Entries) -> None:
        """Write an entry for each record key (distinct, shape (n,)) unless a newer one is stored."""
        encoded = [(keys, entries[positions]) for positions, keys in self.codec.encode(record_keys)]
        with store_call(self.url, "put", len(record_keys)):
            self.store.put_all(encoded)

    def apply(self, update: LocationUpdate, log: LogState, sequence: int | NDArray[np.int64]) -> None:
        """Write an update as that of one commit sequence, or of one for each key. May be repeated and raced.

        Args:
            update: new locations.
            log: a state of the commit log, as a call of the caller returned it (P18); it has the file groups.
            sequence: of the commit.

        Raises:
            CorruptIndexError: the log names no such file group.
        """
        numbers = _file_group_numbers(log, update.partition_paths, update.file_ids)
        self.put(update.record_keys, codec.pack(sequence, numbers))

    def applied_sequence(self) -> int | None:
        """The sequence up to which all commits are in the index; None if it was never bootstrapped."""
        return self.store.applied_sequence()

    def read_progress(self) -> tuple[Watermarks, LogState]:
        """Up to which sequence each part of the index has all entries, and the commit log, read after that.

        Raises:
            CorruptIndexError: the commit log has lost commits whose entries are in the index.
        """
        applied = self.store.applied()
        log = self.log.refresh()
        if max(applied.greatest or 0, applied.written) > log.head:
            raise CorruptIndexError(
                f"the index's commit log went back to an earlier state than the entries: url={self.url} "
                f"log={log.head} entries={max(applied.greatest or 0, applied.written)}; a server lost acknowledged writes: "
                "drop the index and bootstrap it again"
            )
        return applied, log

    def scan(self, shard: int, batch_size: int = 65_536) -> Iterator[tuple[pa.StringArray, Entries]]:
        """All entries of a shard with their record keys, tombstones included, in batches."""
        for keys, entries in self.store.scan(shard, batch_size):
            yield self.codec.decode(keys), entries


def _file_group_numbers(log: LogState, partition_paths: pa.Array, file_ids: pa.Array) -> NDArray[np.uint64]:
    """The number of each row's file group, ``TOMBSTONE`` where the file id is null.

    Raises:
        CorruptIndexError: the commit log names no such file group.
    """
    named = named_groups(partition_paths, file_ids)
    number_of = log.numbers_of([group for group in named.groups if group])
    numbers = [codec.TOMBSTONE if group is None else _known(number_of, group) for group in named.groups]
    return np.array(numbers, dtype=np.uint64)[named.codes] if numbers else np.empty(0, np.uint64)


def _known(numbers: Mapping[FileGroupId, int], group: FileGroupId) -> int:
    number = numbers.get(group)
    if number is None:
        raise CorruptIndexError(
            f"the index does not know this file group: partition={group.partition_path} file_id={group.file_id}; "
            "bootstrap the index again"
        )
    return number
