"""The changes that a transaction on the index alone has staged: chunks in the store, and hashes of their keys here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from rli.index.record.alone import staging
from rli.index.record.alone.key_watch import KeyWatch
from rli.index.record.alone.staged_counts import StagedCounts
from rli.index.record.alone.transaction_tasks import StagedPart, require_distinct
from rli.index.record.entries.stored_entries import StoredEntries
from rli.index.record.log.staged import Staged
from rli.locations import LocationUpdate
from rli.model import FileGroupId


class StagedChanges:
    """What a transaction has staged so far; false if that is nothing.

    Args:
        index: that the transaction changes.
        writer: identity of the transaction.
        snapshot: the commit sequence that it builds on.

    Attributes:
        file_groups: that keys are placed in.
    """

    def __init__(self, index: StoredEntries, writer: str, snapshot: int) -> None:
        self._index = index
        self._writer = writer
        self._watch = KeyWatch(index, snapshot)
        self._chunk_sizes: dict[str, int] = {}
        self._counts = StagedCounts()
        self._has_parts = False
        self._has_unwatched_keys = False
        self.file_groups: set[FileGroupId] = set()

    def __bool__(self) -> bool:
        return bool(self._chunk_sizes)

    @property
    def chunks(self) -> tuple[str, ...]:
        """The names of the chunks, in the order in which they were staged."""
        return tuple(self._chunk_sizes)

    def add(self, changes: LocationUpdate) -> None:
        """Stage changes; a key that was staged before gets the new location."""
        require_distinct(changes.record_keys)
        self.file_groups |= changes.file_groups()
        self._chunk_sizes.update(staging.write_chunks(self._index, self._writer, changes, first=len(self._chunk_sizes)))
        self._counts.add(self._watch.add(changes.record_keys), is_deleted=changes.file_ids.null_count > 0)

    def expect_parts(self) -> None:
        """Tasks of other processes are about to stage."""
        self._has_parts = True

    def accept(self, parts: Iterable[StagedPart]) -> None:
        """Take what tasks have staged: one attempt of each."""
        for part in parts:
            self._chunk_sizes.update(part.chunk_sizes)
            self.file_groups |= part.file_groups
            self._counts.add_unseen(part.placed, part.deleted)
            self._has_unwatched_keys = True

    @property
    def hashed(self) -> KeyWatch:
        """The hashes of the keys that this process has staged."""
        return self._watch

    def watched(self) -> KeyWatch:
        """The hashes of all keys. Keys that tasks have staged are hashed once they have to be compared."""
        # Tasks staged these in other processes, whose hashes have no meaning here. Most transactions never need them.
        if self._has_unwatched_keys:
            for changes in self._read():
                self._watch.add(changes.record_keys)
            self._has_unwatched_keys = False
        return self._watch

    def keys(self, count: int) -> Iterator[pa.Array]:
        """All keys, at most so many at a time.

        Raises:
            ChunksGoneError: they are not in the store any more.
        """
        for changes in self._read():
            for start in range(0, len(changes.record_keys), count):
                yield changes.record_keys.slice(start, count)

    def as_record(self) -> Staged:
        """What the commit log keeps of the changes."""
        keeps_chunks = staging.may_stay(list(self._chunk_sizes.values()), self._index.limits)
        return Staged(self.chunks, keeps_chunks, *self._counts.totals())

    def remove_others(self) -> None:
        """Remove the chunks of attempts that no task's result names."""
        if self._has_parts:
            staging.remove_others(self._index.store, self._writer, self.chunks)

    def remove(self) -> None:
        """Remove all chunks."""
        staging.remove_chunks(self._index.store, self._writer, self.chunks)
        self.remove_others()

    def _read(self) -> Iterator[LocationUpdate]:
        return staging.read_chunks(self._index.store, self._writer, self.chunks)
