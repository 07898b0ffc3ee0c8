"""How large a table was after each of its commits, from what the commits tell and what is stored now."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rli.hudi.timeline.timeline import Timeline
from rli.model import FileGroupId
from rli.view.file_slices import FileSlice
from rli.view.history import HistoryEntry
from rli.view.table_change import TableChange


class Version(NamedTuple):
    """A version of a file group.

    Attributes:
        bytes: of its files.
        records: in it; None if no commit tells.
    """

    bytes: int
    records: int | None


class Difference(NamedTuple):
    """By how much a commit changed the table; None where that is not known.

    Attributes:
        bytes: of live files.
        records: in the table.
    """

    bytes: int | None
    records: int | None


class Versions:
    """The present version of each file group, while the commits pass by in their order.

    Args:
        stored: all slices that are stored; those of archived commits are where the file groups begin.
        timeline: of the commits.
    """

    def __init__(self, stored: Iterable[FileSlice], timeline: Timeline) -> None:
        self._present: dict[FileGroupId, Version] = {}
        for one in sorted(stored, key=lambda found: found.instant):
            if timeline.is_archived(one.instant):
                self._present[one.group] = Version(one.size, None)

    def records_of(self, group: FileGroupId) -> int | None:
        """Records in the present version of a file group; None if no commit on the active timeline tells."""
        return self._present[group].records if group in self._present else None

    def follow(self, entry: HistoryEntry, change: TableChange) -> Difference:
        """By how much the next commit changed the table.

        Args:
            entry: of the commit.
            change: of the commit.
        """
        gone = [self._present.pop(group, None) for group in change.replaced]
        grown: list[int | None] = [None if version is None else -version.bytes for version in gone]
        for stat in change.written:
            before = self._present.get(stat.group)
            is_new = stat.previous_instant is None
            self._present[stat.group] = Version(stat.file_size, stat.writes)
            grown.append(stat.file_size if is_new else None if before is None else stat.file_size - before.bytes)
        return Difference(_sum(grown), _more_records(entry, change, gone))


def _more_records(entry: HistoryEntry, change: TableChange, gone: Sequence[Version | None]) -> int | None:
    if change.keeps_records:
        return 0
    more = (entry.inserted or 0) - (entry.deleted or 0)
    # rli counts the records of replaced file groups as deleted, other engines do not.
    replaced = [] if change.is_native else [None if version is None else version.records for version in gone]
    fewer = _sum(replaced)
    return None if fewer is None else more - fewer


def _sum(values: Iterable[int | None]) -> int | None:
    listed = list(values)
    known = [value for value in listed if value is not None]
    return sum(known) if len(known) == len(listed) else None


def totals_after(differences: Sequence[int | None], now: int | None) -> list[int | None]:
    """The total after each commit, reckoned back from the present one; None before a difference that is not known.

    Differences that lead below zero are wrong: what other engines tell of a commit may be. Nothing is known before them, either.

    >>> totals_after([5, None, 2], 10)
    [None, 8, 10]
    >>> totals_after([5, 12, 2], 10)
    [None, 8, 10]
    """
    totals: list[int | None] = []
    total = now
    for difference in reversed(differences):
        totals.append(total)
        total = None if total is None or difference is None or difference > total else total - difference
    return totals[::-1]
