"""Copies of a table's locations that follow it by its journals alone, such as one in the state of a Spark stream.

A copy knows its ``Position``: which writes it holds. Whoever asks it brings it to a state of the table: the journals of
the writes in between say which keys went and came. Where they cannot say it, the copy is of no use, and is made again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from rli.codec.key_arrays import joined_strings
from rli.errors import CorruptTableError
from rli.file_group.journal import RELOCATION_SCHEMA
from rli.file_group.journal_list import load_journals
from rli.storage import Storage
from rli.view.diff import added_writes, undone_writes
from rli.view.snapshot import Snapshot

_LISTS: Final = "|"
_TIMES: Final = ","
_LOCATION: Final = ("partition_path", "file_id", "record_key")
_PRIOR_LOCATION: Final = ("prior_partition_path", "prior_file_id", "record_key")


@dataclass(frozen=True, slots=True)
class Position:
    """Which state of a table a copy of its locations holds.

    Attributes:
        table_id: of the table.
        writes: the times of the completed writes on the active timeline.
        pending: the times of those that had not completed.
    """

    table_id: str
    writes: frozenset[str]
    pending: frozenset[str]

    @classmethod
    def of(cls, snapshot: Snapshot) -> Position:
        """The position of a copy that holds all of a snapshot."""
        timeline = snapshot.timeline
        pending = frozenset(instant.time for instant in timeline.pending if instant.is_write)
        return cls(snapshot.table.require_settings().table_id, timeline.write_times, pending)

    @classmethod
    def from_string(cls, text: str) -> Position:
        """Read what ``to_string`` made."""
        table_id, *lists = text.split(_LISTS)
        writes, pending = (frozenset(times.split(_TIMES)) - {""} for times in lists)
        return cls(table_id, writes, pending)

    def to_string(self) -> str:
        """One line."""
        return _LISTS.join([self.table_id, *(_TIMES.join(sorted(times)) for times in (self.writes, self.pending))])


def unseen_writes(since: Position, now: Snapshot) -> tuple[str, ...] | None:
    """The writes that a copy must follow to hold a later snapshot, in their order.

    Returns:
        None where the timeline does not tell: a write that the copy holds was undone, or one that it may not hold has
        left the active timeline.
    """
    timeline = now.timeline
    if since.table_id != now.table.require_settings().table_id:
        return None
    if undone_writes(timeline, since.writes):
        return None
    # A write that the copy does not hold was pending then, or began later and is newer than all that it holds.
    # Instants leave the active timeline in the order of their times.
    first = timeline.first or ""
    if any(time < first for time in since.pending) or max(since.writes, default=first) < first:
        return None
    if not since.writes and now.table.has_archive():
        return None
    return tuple(write.time for write in added_writes(timeline, since.writes))


def relocations_of(storage: Storage, instant: str) -> pa.Table | None:
    """Which keys a commit put elsewhere, with ``RELOCATION_SCHEMA``.

    Returns:
        None where no journal tells: another engine made the commit, or its journal is gone.
    """
    try:
        journals = load_journals(storage, instant)
        if journals is None:
            return None
        parts = (batch for journal in journals for batch in journal.relocations(storage))
        return pa.concat_tables([RELOCATION_SCHEMA.empty_table(), *parts])
    except CorruptTableError:
        return None


def relocated(locations: pa.Table, commits: Iterable[pa.Table]) -> pa.Table:
    """Locations after some commits.

    It does no harm to repeat commits that some of the locations hold already, if all later ones are repeated too: each
    takes a key away from where the one before has put it.

    Args:
        locations: with the columns ``record_key``, ``partition_path`` and ``file_id``, and any others.
        commits: relocations of each, in their order; keys of which there are no locations may be among them.

    Returns:
        The locations in any order; other columns are null where a key came.
    """
    for commit in commits:
        if commit.num_rows:
            locations = _after(locations, commit)
    return locations


def _after(locations: pa.Table, commit: pa.Table) -> pa.Table:
    went = commit.filter(pc.is_valid(commit.column("prior_file_id")))
    came = commit.filter(pc.is_valid(commit.column("file_id")))
    is_concerned = pc.is_in(locations.column("record_key"), value_set=commit.column("record_key").combine_chunks())
    concerned = locations.filter(is_concerned)
    replaced = pa.chunked_array(
        [
            *joined_strings(map(went.column, _PRIOR_LOCATION)).chunks,
            *joined_strings(map(came.column, _LOCATION)).chunks,
        ],
        pa.string(),
    )
    stays = pc.invert(pc.is_in(joined_strings(map(concerned.column, _LOCATION)), value_set=replaced.combine_chunks()))
    rows = [locations.filter(pc.invert(is_concerned)), concerned.filter(stays)]
    others = [field for field in locations.schema if field.name not in _LOCATION]
    nothing = [pa.nulls(came.num_rows, field.type) for field in others]
    arrived = pa.table(
        [*(came.column(name) for name in _LOCATION), *nothing], names=[*_LOCATION, *(field.name for field in others)]
    )
    return pa.concat_tables([*rows, arrived.select(locations.column_names).cast(locations.schema)])
