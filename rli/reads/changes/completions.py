"""The completed writes of a table in the order in which they completed."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
from typing import Final

from rli.errors import InstantNotFoundError, UnsupportedTableError
from rli.hudi.properties import Key
from rli.hudi.timeline.instant import Instant, InstantState, format_instant_time, instant_moment
from rli.hudi.timeline.timeline import Timeline
from rli.view.definition import TableDefinition

_CLOCKS_DIFFER: Final = timedelta(minutes=10)
"""Between a writer and the file server, at most."""

_MOST_REMEMBERED: Final = 16_384
"""Completion times that are kept in memory: a reader asks for those of the whole timeline again and again."""


@dataclass(frozen=True, slots=True)
class CompletedWrite:
    """A completed write.

    Attributes:
        completed: when it completed, 17 digits.
        instant: the write.
    """

    completed: str
    instant: Instant

    @property
    def time(self) -> str:
        """Of the instant."""
        return self.instant.time


@dataclass(frozen=True)
class Completions:
    """When the instants of a timeline completed.

    Attributes:
        timeline: the timeline.
        told: names of completed files of a timeline in layout 1 → when the instant completed, 17 digits. Layout 2 keeps
            completion times itself.
    """

    timeline: Timeline
    told: Mapping[str, str]

    @classmethod
    def of(cls, table: TableDefinition, timeline: Timeline) -> Completions:
        """The completion times of a timeline that was just loaded.

        Raises:
            UnsupportedTableError: the timeline is in layout 1, and the storage does not tell when files were written.
        """
        if timeline.layout.keeps_completion_times:
            return cls(timeline, {})
        in_utc = table.properties.raw.get(Key.TIMEZONE, "LOCAL").upper() == "UTC"
        # Who completes an instant writes its file under the lease. So these times have the order of the completions.
        times = table.storage.modification_times(timeline.layout.folder)
        if timeline.completed and not times:
            raise UnsupportedTableError(
                f"neither the table nor its storage tells when commits completed: table={table.location} "
                f"version={table.properties.version}",
                remedy="upgrade the table to version 8 or later with Hudi",
            )
        local = {name: time if in_utc else time.astimezone().replace(tzinfo=UTC) for name, time in times.items()}
        found = ((instant.file_name, _completed(timeline, instant, local)) for instant in timeline.completed)
        return cls(timeline, {name: time for name, time in found if time is not None})

    def time(self, instant: Instant) -> str:
        """When a completed instant completed, 17 digits.

        Raises:
            InstantNotFoundError: its file is gone.
        """
        found = instant.completion_time or self.told.get(instant.file_name)
        if found is None:
            raise InstantNotFoundError(
                f"an instant left the timeline while the changes were read: instant={instant.time}", remedy="read again"
            )
        return found

    @cached_property
    def writes(self) -> tuple[CompletedWrite, ...]:
        """The completed writes in this order."""
        found = (CompletedWrite(self.time(write), write) for write in self.timeline.completed_writes)
        return tuple(sorted(found, key=lambda write: (write.completed, write.time)))

    def find(self, time: str) -> CompletedWrite | None:
        """The completed write with an instant; None if the active timeline has none."""
        return next((write for write in self.writes if write.time == time), None)

    def is_overtaken(self, table: TableDefinition, later: Timeline) -> bool:
        """Whether a later look shows that these writes were not all that had completed at one moment.

        A folder is not listed in one step: of two writes that are published meanwhile, a listing may show the later one alone.
        """
        seen = self.timeline.write_times
        if not all(map(later.is_visible, seen)):
            return True
        if later.write_times <= seen:
            return False
        last = self.writes[-1].completed if self.writes else ""
        return any(write.completed <= last and write.time not in seen for write in Completions.of(table, later).writes)


def _completed(timeline: Timeline, instant: Instant, written: Mapping[str, datetime]) -> str | None:
    """When an instant of layout 1 completed; None if its file is gone."""
    request = timeline.layout.pending_path(instant.time, instant.action, InstantState.REQUESTED)
    completed = written.get(instant.file_name)
    return None if completed is None else _completion(instant.time, written.get(posixpath.basename(request)), completed)


@lru_cache(_MOST_REMEMBERED)
def _completion(time: str, requested: datetime | None, completed: datetime) -> str:
    """When an instant completed, by the times at which its files were written.

    A copy of a table may have other times. Then the files of the request are not as old as the instant, either, and the instant
    stands for its completion: of two commits that changed one file group, the later one has the later instant.
    """
    try:
        is_copy = requested is None or abs(requested - instant_moment(time)) > _CLOCKS_DIFFER
    except ValueError:
        is_copy = True
    return time if is_copy else format_instant_time(completed)
