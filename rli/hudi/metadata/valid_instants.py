"""Which instants of the metadata table count.

The metadata table is written before the data commit, under the same instant. So a change of it counts only once the
instant has completed on the table's own timeline, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Final

from rli.hudi.timeline.instant import Action, Instant
from rli.hudi.timeline.timeline import Timeline

_DIGITS: Final = 17
"""Of instants of the table. Table version 6 puts more digits behind them for actions of the metadata table alone."""

_FIRST_BIRTH: Final = "010"
"""The least suffix that table version 6 puts behind the instant of a build; services and restores have smaller suffixes."""


class ValidInstants:
    """Tells which files, and which blocks of log files, of the metadata table readers may use.

    Args:
        data: timeline of the table, with all its instants.
        metadata: timeline of its metadata table, loaded after that of the table: so it has what the table completed.
        decided: instants of which the caller says whether what they wrote into log files counts.
    """

    def __init__(self, data: Timeline, metadata: Timeline, decided: Mapping[str, bool] = MappingProxyType({})) -> None:
        self._data = data
        self._metadata = metadata
        self._decided = decided

    def deciding(self, instants: Iterable[str], *, count: bool) -> ValidInstants:
        """The same, but that some instants count or do not, whatever the timelines say."""
        return ValidInstants(self._data, self._metadata, dict.fromkeys(instants, count))

    def is_later(self, instant: str, base_instant: str, covered: str) -> bool:
        """Whether what an instant wrote is in log files alone: no base file has it, written by a build or by a compaction.

        Args:
            instant: of the table.
            base_instant: of the newest base file; "" without one.
            covered: as ``covered_by`` tells of the last build.
        """
        # In table version 6, a compaction has the digits of the last deltacommit that it merges, and more behind them.
        time = self.completion_time(instant) if self.name_log_files else instant
        return time > covered and time > base_instant

    @cached_property
    def _is_completed(self) -> dict[str, bool]:
        """Instant of the table → whether it completed in any of its actions."""
        pending = dict.fromkeys((instant.time for instant in self._data.pending), False)
        return {**pending, **dict.fromkeys((instant.time for instant in self._data.completed), True)}

    @cached_property
    def _completion_times(self) -> dict[str, str]:
        return {instant.time: instant.completion_time or instant.time for instant in self._metadata.completed}

    @property
    def are_ahead(self) -> bool:
        """True if the metadata table has changes of commits that came after the table's timeline was loaded.

        They are left out as long as they are in log files. After a compaction they are not: load the table again
        before relying on locations of records.
        """
        changes = (instant.time for instant in self._metadata.completed if instant.action == Action.DELTA_COMMIT)
        return any(instant not in self._is_completed and self._is_later(instant) for instant in changes)

    def _is_later(self, instant: str) -> bool:
        """True if an instant that the table does not know came after its timeline was loaded."""
        return len(instant) <= _DIGITS and instant > (self._data.latest_time or "")

    @property
    def name_log_files(self) -> bool:
        """True if the instant in a log file's name is that of the commit that wrote it: table version 8 and later."""
        return self._metadata.layout.keeps_completion_times

    def is_committed(self, instant: str) -> bool:
        """True if the metadata table completed an instant, or archived it."""
        return instant in self._completion_times or self._metadata.is_archived(instant)

    def is_valid(self, instant: str) -> bool:
        """True if what an instant wrote into log files counts.

        An instant that the table does not know counts if the metadata table still shows it: births, and the follow-up of
        a restore, have instants of their own. One that the table rolled back does not count, nor one that is later than
        the table's timeline.
        """
        if instant in self._decided:
            return self._decided[instant]
        if instant in self._is_completed:
            return self._is_completed[instant] and self.is_committed(instant)
        is_known = instant in self._completion_times and not self._data.is_undone(instant)
        return is_known and not self._is_later(instant)

    def shown_beyond(self, base_instant: str) -> frozenset[str]:
        """Deltacommits whose changes readers may find in the files, although the table does not show their instants as completed.

        Args:
            base_instant: of the newest base file, which holds the deltacommits that had completed before.
        """
        return frozenset(
            time
            for time, completion in self._completion_times_of_changes.items()
            if not self._is_completed.get(time) and not self._data.is_archived(time)
            if completion < base_instant or self.is_valid(time)
            if time not in self._reached
        )

    @cached_property
    def _reached(self) -> frozenset[str]:
        """The builds whose entries describe only instants that the table has completed in this state."""
        return frozenset(build.time for build in self.builds if self._has_reached(build))

    def _has_reached(self, build: Instant) -> bool:
        if self.name_log_files:
            # No instant is pending, and the build came before the last completion: all instants that it shows have completed.
            return not self._data.pending and self.covered_by(build) < self._last_completion
        covered, suffix = build.time[:_DIGITS], build.time[_DIGITS:]
        is_known = self._is_completed.get(covered, False) or self._data.is_archived(covered)
        return is_known and suffix >= _FIRST_BIRTH and all(covered < instant.time for instant in self._data.pending)

    @cached_property
    def _last_completion(self) -> str:
        return max((instant.completion_time or instant.time for instant in self._data.completed), default="")

    @cached_property
    def _completion_times_of_changes(self) -> dict[str, str]:
        changes = (instant for instant in self._metadata.completed if instant.action == Action.DELTA_COMMIT)
        return {instant.time: instant.completion_time or instant.time for instant in changes}

    @cached_property
    def without_deltacommit(self) -> tuple[Instant, ...]:
        """Completed writes of the table without a deltacommit, those that came before a build included."""
        return tuple(write for write in self._data.completed_writes if not self.is_committed(write.time))

    @cached_property
    def builds(self) -> tuple[Instant, ...]:
        """Deltacommits that built partitions, as far as the active timeline tells."""
        return tuple(
            instant
            for instant in self._metadata.completed
            if instant.action == Action.DELTA_COMMIT
            and instant.time not in self._is_completed
            and not self._data.is_undone(instant.time)
            and not self._is_later(instant.time)
        )

    def covered_by(self, build: Instant) -> str:
        """The time up to which a build covers what the table completed.

        The first build of a metadata table has an instant before all others, so its completion tells. In table version 6, which keeps no
        such times, the instant of a build begins with that of the last covered one.
        """
        return (build.completion_time or build.time) if self.name_log_files else build.time[:_DIGITS]

    def covering_time(self, write: Instant) -> str:
        """The time of a write of the table that ``covered_by`` is compared with."""
        return (write.completion_time or write.time) if self.name_log_files else write.time

    @property
    def born_at(self) -> str:
        """When the first deltacommit completed that the active timeline shows; "" without one."""
        return min(self._completion_times_of_changes.values(), default="")

    def birth_time(self, instant: str) -> str:
        """Completion time of the deltacommit that made a file group; the instant itself if the active timeline lacks it."""
        return self._completion_times_of_changes.get(instant, instant)

    def completion_time(self, instant: str) -> str:
        """When an instant of the metadata table completed, as far as its active timeline tells; else the instant."""
        return self._completion_times.get(instant, instant)
