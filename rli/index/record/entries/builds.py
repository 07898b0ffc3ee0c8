"""What the store of an index tells of its build: the watermarks from before, and the shards that are finished.

The entries of a shard, which is some files of the table, are put together. After a death, the build continues behind the last finished
shard.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

from rli.index.record.entries.stored_entries import StoredEntries
from rli.index.record.log.record import LogRecord
from rli.json_text import parse_json
from rli.store.contract import Store, Watermarks
from rli.view.cleaned_logs import cleaned_meanwhile
from rli.view.file_slices import FileSlice
from rli.view.shards import name_of_shard
from rli.view.snapshot import Snapshot
from rli.view.time_travel import missing_group

_BEGAN: Final = "build"
"""Control record with the watermarks of the store from before the first entry."""

_DONE: Final = "built/"
"""Begins the names of the control records of finished shards: how many records each has."""


@dataclass(frozen=True, slots=True)
class BuildNotes:
    """The notes of a build in the store that it fills."""

    store: Store

    def begin(self, applied: Watermarks) -> None:
        """Note the watermarks from before the first entry."""
        self.store.compare_and_set(_BEGAN, None, json.dumps(asdict(applied)).encode())

    def began_at(self) -> Watermarks | None:
        """The watermarks from before the first entry; None if no build has begun, or its note is damaged."""
        content = self.store.read_control(_BEGAN)
        try:
            return None if content is None else Watermarks(**parse_json(content))
        except (TypeError, ValueError):
            return None

    def give_up(self) -> None:
        """Let the next build begin again, from the state that the table has then."""
        self.store.compare_and_set(_BEGAN, self.store.read_control(_BEGAN), None)

    def rows_of(self, shard: Sequence[FileSlice]) -> int | None:
        """How many records a finished shard has; None if it is not finished."""
        content = self.store.read_control(f"{_DONE}{name_of_shard(shard)}")
        return None if content is None else int(content)

    def finish(self, shard: Sequence[FileSlice], rows: int) -> None:
        """Note that the store has all entries of a shard."""
        self.store.compare_and_set(f"{_DONE}{name_of_shard(shard)}", None, str(rows).encode())


def unfinished_build(index: StoredEntries) -> tuple[Watermarks, LogRecord] | None:
    """The watermarks and the record of a build that began and did not end; None if there is none that may go on."""
    if index.store.applied_sequence() is not None:
        return None
    applied, record = BuildNotes(index.store).began_at(), index.log.refresh().record_at(1)
    if applied is None or record is None:
        return None
    # A server that was replaced since may have lost entries of finished shards.
    return (applied, record) if index.store.applied().evidence == applied.evidence else None


def state_of_build(now: Snapshot, record: LogRecord) -> Snapshot | None:
    """The state of the table that a build has begun with; None if it cannot be read any more.

    Args:
        now: the table.
        record: of the build.

    Raises:
        CorruptTableError: a file is lost or damaged.
    """
    if not record.covers or not {instant.time for instant in now.timeline.completed}.issuperset(record.covers):
        # Commits were undone or archived since.
        return None
    state = now.reduced_to(frozenset(record.covers))
    # Of a file that is gone, the records would be passed over.
    return None if cleaned_meanwhile(state, now) or missing_group(now, state) is not None else state
