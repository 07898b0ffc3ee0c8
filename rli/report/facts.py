"""What a report tells of a table, as values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from rli.errors import RliError
from rli.hudi.timeline.instant import Action
from rli.model import FileGroupId
from rli.report.totals import Difference, Versions, totals_after
from rli.table.info import TableInfo
from rli.table.table import Table, opened_table
from rli.view.file_slices import FileSlice
from rli.view.history import HistoryEntry, change_of, history_entry
from rli.view.snapshot import Snapshot, told_of_now

_MOST_FOOTERS: Final = 500
"""Files of archived commits that are opened to count their records."""


@dataclass(frozen=True, slots=True)
class Commit:
    """A completed write on the active timeline.

    Attributes:
        entry: what the commit tells.
        records: in the table after it; None if not known.
        bytes: of the live files after it; None if not known.
    """

    entry: HistoryEntry
    records: int | None
    bytes: int | None


@dataclass(frozen=True, slots=True)
class TableState:
    """The timeline and the files of a table at one moment.

    Attributes:
        commits: the completed writes, the oldest first.
        others: all other instants, in order: services, savepoints, pending ones.
        slices: the live file slices.
        versions: number of stored slices of a live file group → number of such file groups.
        stored_bytes: of all files, those of superseded slices too.
        records: in the table; None if they were not counted.
        uncounted: why they were not; None if they were.
        has_archive: whether older commits were archived.
        metadata_partitions: of Hudi's metadata table, if readers use one.
    """

    commits: tuple[Commit, ...]
    others: tuple[HistoryEntry, ...]
    slices: tuple[FileSlice, ...]
    versions: Mapping[int, int]
    stored_bytes: int
    records: int | None
    uncounted: str | None
    has_archive: bool
    metadata_partitions: tuple[str, ...]

    @property
    def pending(self) -> tuple[HistoryEntry, ...]:
        """The instants that have not completed."""
        return tuple(entry for entry in self.others if entry.completion_time is None and entry.state != "completed")

    @property
    def savepoints(self) -> tuple[str, ...]:
        """The commits that a savepoint keeps."""
        return tuple(
            entry.time for entry in self.others if entry.action == Action.SAVEPOINT and entry.state == "completed"
        )


@dataclass(frozen=True, slots=True)
class TableReport:
    """What a report tells.

    Attributes:
        info: what the table is, its index, and its problems.
        state: its timeline and files.
        made: when the report was made.
    """

    info: TableInfo
    state: TableState
    made: datetime


def table_report(table: Table) -> TableReport:
    """Collect the facts of a report; each commit of the active timeline is read once, and no records.

    Raises:
        CorruptTableError: the timeline cannot be read.
    """
    info = table.info()
    return TableReport(info, told_of_now(opened_table(table).reloaded(), _state), datetime.now(UTC))


def _state(snapshot: Snapshot) -> TableState:
    stored = snapshot.slices.all_versions()
    live = snapshot.live_slices(stored)
    versions = Versions(stored, snapshot.timeline)
    writes: list[HistoryEntry] = []
    differences: list[Difference] = []
    others: list[HistoryEntry] = []
    for instant in snapshot.timeline.instants:
        change = change_of(snapshot, instant)
        entry = history_entry(instant, change)
        if instant.is_completed and instant.is_write:
            writes.append(entry)
            differences.append(versions.follow(entry, change))
        else:
            others.append(entry)
    records, uncounted = _counted(snapshot, live, versions)
    after = totals_after([one.records for one in differences], records)
    sizes = totals_after([one.bytes for one in differences], sum(one.size for one in live.values()))
    return TableState(
        commits=tuple(map(Commit, writes, after, sizes)),
        others=tuple(others),
        slices=tuple(live.values()),
        versions=_versions(stored, live),
        stored_bytes=sum(one.size for one in stored),
        records=records,
        uncounted=uncounted,
        has_archive=snapshot.table.has_archive(),
        metadata_partitions=tuple(snapshot.table.properties.metadata_partitions),
    )


def _versions(stored: Sequence[FileSlice], live: Mapping[FileGroupId, FileSlice]) -> dict[int, int]:
    of_groups = Counter(one.group for one in stored if one.group in live)
    return dict(sorted(Counter(of_groups.values()).items()))


def _counted(
    snapshot: Snapshot, live: Mapping[FileGroupId, FileSlice], versions: Versions
) -> tuple[int | None, str | None]:
    """Records in the table, or why they are not counted."""
    told = {group: versions.records_of(group) for group in live}
    untold = [live[group] for group, records in told.items() if records is None]
    if len(untold) > _MOST_FOOTERS:
        return None, f"{len(untold):,} files were written by archived commits, and are too many to be opened"
    records = sum(count or 0 for count in told.values())
    try:
        for one in untold:
            with snapshot.reader(one) as reader:
                records += reader.rows
    except RliError as error:
        return None, error.problem
    return records, None
