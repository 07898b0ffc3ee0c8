"""How the index of a column is filled: in shards, each of them the records of some files of the table.

A shard is put as one sorted batch, and noted once the store has it. A build that died goes on behind its last finished shard, and two
processes that fill one index at a time put the same entries. Readers use the index once all shards are there and its watermark says so.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain
from typing import Final

import numpy as np

from rli.codec.encoded_keys import EncodedKeys
from rli.codec.entries import pack
from rli.index.record.columns.entry_keys import NO_FILE_GROUP, distinct, entry_keys, joined
from rli.index.record.entries.stored_entries import StoredEntries
from rli.index.record.log.actions import BOOTSTRAP
from rli.index.record.log.record import RecordDraft
from rli.index.roles import OnFiles
from rli.json_text import parse_json
from rli.store.contract import Watermarks
from rli.tasks import InThreads, lots_of
from rli.telemetry.store_calls import store_call
from rli.view.cleaned_logs import cleaned_meanwhile
from rli.view.column_values import ColumnValues
from rli.view.definition import TableDefinition
from rli.view.file_slices import FileSlice
from rli.view.flushed_commits import sync_table
from rli.view.snapshot import Snapshot
from rli.view.time_travel import missing_group, verified_snapshot

_BEGAN: Final = "build"
"""Control record with the watermarks of the store from before the first entry."""

_DONE: Final = "built/"
"""Begins the names of the control records of finished shards: how many records each has."""

_SHARD_BYTES: Final = 64 << 20
"""Of files: some million entries at most are in memory, and those of the shard that is being put."""


@dataclass(frozen=True, slots=True)
class Build:
    """A build that has begun.

    Attributes:
        index: that is filled.
        snapshot: the state of the table whose records it gets.
        applied: watermarks of the store from before the first entry.
        sequence: of the entries; 0 where the table has no records.
    """

    index: StoredEntries
    snapshot: Snapshot
    applied: Watermarks
    sequence: int

    @classmethod
    def begun(cls, index: StoredEntries, table: TableDefinition) -> Build | None:
        """Begin to fill an empty index; None if another process has begun.

        Raises:
            CorruptTableError: a file is lost or damaged.
        """
        # In the order of a bootstrap of the record index, for the same reasons (P14, P17).
        applied, snapshot = index.store.applied(), verified_snapshot(table)
        sync_table(snapshot)
        completed = [instant.time for instant in snapshot.timeline.completed]
        if not completed:
            return cls(index, snapshot, applied, 0)
        state = index.log.append(index.log.refresh(), _draft(completed))
        if state is None:
            return None
        index.store.compare_and_set(_BEGAN, None, json.dumps(asdict(applied)).encode())
        return cls(index, snapshot, applied, state.head)

    @classmethod
    def resumed(cls, index: StoredEntries, table: TableDefinition) -> Build | None:
        """The build that another process has begun, of the state that it began with; None if it has to begin again.

        Raises:
            CorruptTableError: a file is lost or damaged.
        """
        content = index.store.read_control(_BEGAN)
        record = index.log.refresh().record_at(1)
        if content is None or record is None or index.store.applied_sequence() is not None:
            return None
        snapshot = verified_snapshot(table)
        if not {instant.time for instant in snapshot.timeline.completed}.issuperset(record.covers):
            # Commits were undone or archived since.
            return None
        state = snapshot.reduced_to(frozenset(record.covers))
        if state.schema != snapshot.schema:
            # The column of this name may have been another one.
            return None
        if cleaned_meanwhile(state, snapshot) or missing_group(snapshot, state) is not None:
            # Of a file that is gone, the records would be passed over.
            return None
        return cls(index, state, Watermarks(**parse_json(content)), record.last_sequence)

    def fill(self, values: ColumnValues, on_files: OnFiles) -> int:
        """Put the entries of all shards that are not there yet; returns how many records the table had.

        Memory is bounded by the entries of two shards.

        Args:
            values: reads the column.
            on_files: is told what was read.

        Raises:
            CorruptTableError: a file is lost or damaged.
        """
        slices = sorted(self.snapshot.slices.values(), key=lambda one: one.group) if self.sequence else []
        done = {name.removeprefix(_DONE): int(rows) for name, rows in self.index.store.scan_control(_DONE)}
        rows = read = 0
        coming: Future[None] | None = None
        with ThreadPoolExecutor(1) as putting:
            for shard in shards(slices):
                if (known := done.get(name := _name_of(shard))) is None:
                    parts = [*InThreads().run(partial(self._entries, values), shard)]
                    known = sum(count for count, _ in parts)
                    if coming is not None:
                        coming.result()
                    keys = map(distinct, joined(chain.from_iterable(batches for _, batches in parts)))
                    coming = putting.submit(self._put, name, known, keys)
                rows, read = rows + known, read + len(shard)
                on_files(read, len(slices))
            if coming is not None:
                coming.result()
        return rows

    def _entries(self, values: ColumnValues, file_slice: FileSlice) -> tuple[int, list[EncodedKeys]]:
        """How many records a slice has, and the keys of their entries."""
        rows = values.of_slice(file_slice)
        found, keys = (rows[name].combine_chunks() for name in ("value", "key"))
        return len(rows), [*entry_keys(found, keys, self.index.settings.shard_count)]

    def _put(self, name: str, rows: int, keys: Iterable[EncodedKeys]) -> None:
        """Put the entries of a shard, then note it."""
        batches = [(batch, pack(self.sequence, np.full(len(batch), NO_FILE_GROUP))) for batch in keys]
        with store_call(self.index.url, "put", rows):
            self.index.store.put_all(batches)
        self.index.store.compare_and_set(f"{_DONE}{name}", None, str(rows).encode())


def _draft(completed: Sequence[str]) -> RecordDraft:
    last = completed[-1]
    return RecordDraft(instant=last, action=BOOTSTRAP, writer=BOOTSTRAP, located_at=(last,), covers=tuple(completed))


def shards(slices: Sequence[FileSlice]) -> Iterator[list[FileSlice]]:
    """The slices in order, together up to some size."""
    return lots_of(slices, lambda one: one.size, _SHARD_BYTES)


def _name_of(shard: Sequence[FileSlice]) -> str:
    """A name that no shard with other files has."""
    paths = "\n".join(file.path for one in shard for file in one.files)
    return hashlib.sha256(paths.encode()).hexdigest()
