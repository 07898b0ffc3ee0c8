"""The slices that a file group had before a commit, and has had since: by completion time, from the files that are stored.

A base file is the state of its file group from its commit on. A log file is read over the base file that it belongs to: a
compaction changes no record, so the base file of a later one serves as well, if the log file is behind it.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

from rli.hudi.timeline.commit_metadata import WriteStat
from rli.hudi.timeline.instant import Action
from rli.model import FileGroupId
from rli.reads.changes.completions import CompletedWrite, Completions
from rli.view.cleaned_logs import files_of_pending_cleans
from rli.view.file_slices import DataFile, FileSlice, SeenInstants, is_behind, latest_slices

_NOT_LATER = -1
"""Place of an instant that is not among the completed writes: it was archived, if its files count at all."""


@dataclass(frozen=True, slots=True)
class SlicesAround:
    """What a commit has made of a file group.

    Attributes:
        before: the slice before the commit; None if the file group was not there.
        after: the slice after it; None if a file of the commit is not stored.
        appended: the log files of the commit; none if it has written a base file.
    """

    before: FileSlice | None
    after: FileSlice | None
    appended: tuple[DataFile, ...]


class StoredSlices:
    """Finds the slices of some file groups as of a commit.

    Args:
        completions: the commits.
        listed: the stored files of the file groups: a slice for each base file and each log file.

    Attributes:
        compactions: the instants of completed compactions, if the table is merge-on-read.
    """

    def __init__(self, completions: Completions, listed: Iterable[FileSlice]) -> None:
        self._completions = completions
        self._timeline = completions.timeline
        # Of a slice that is being cleaned, some files may have gone already.
        going = files_of_pending_cleans(self._timeline)
        self._listed: dict[FileGroupId, list[FileSlice]] = {}
        for one in listed:
            if not going or going.isdisjoint(_names(one.files)):
                self._listed.setdefault(one.group, []).append(one)
        self.compactions = frozenset(
            write.time for write in self._timeline.completed_writes if write.action == Action.COMMIT
        )
        self._seen = cache(self._seen_until)

    @cached_property
    def _places(self) -> Mapping[str, int]:
        return {write.time: place for place, write in enumerate(self._completions.writes)}

    def around(self, write: CompletedWrite, stats: Sequence[WriteStat]) -> SlicesAround:
        """The slices of a file group around a commit.

        Args:
            write: the commit.
            stats: what it has written in the file group.
        """
        group, place = stats[0].group, self._places[write.time]
        listed = self._listed.get(group, ())
        own = {posixpath.basename(stat.path) for stat in stats}
        logs = [one for one in listed if one.base is None and not own.isdisjoint(_names(one.files))]
        stored = {name for one in listed for name in _names(one.files)}
        appended = tuple(log for one in logs for log in one.logs)
        begun = frozenset(
            posixpath.basename(stat.path) for stat in stats if stat.appended_to and not stat.appended_to.offset
        )
        before = self._slice(group, place - 1, appended, without=begun)
        after = self._slice(group, place, appended) if own <= stored else None
        return SlicesAround(before, after, appended)

    def before(self, write: CompletedWrite, group: FileGroupId) -> FileSlice | None:
        """The slice that a file group had before a commit; None if none is stored."""
        return self._slice(group, self._places[write.time] - 1, ())

    def _slice(
        self, group: FileGroupId, last: int, appended: Sequence[DataFile], without: frozenset[str] = frozenset()
    ) -> FileSlice | None:
        """The slice of a file group when so many commits had completed, over a base file that log files are behind."""
        some = [
            one
            for one in self._listed.get(group, ())
            if self._counts(one, last, appended) and without.isdisjoint(_names(one.files))
        ]
        found = latest_slices(some, self._timeline, {}).get(group)
        return found if found is None or found.seen is None else replace(found, seen=self._seen(last))

    def _counts(self, one: FileSlice, last: int, appended: Sequence[DataFile]) -> bool:
        if one.base is None and not self._timeline.layout.keeps_completion_times:
            # Blocks tell their commits: see ``SeenInstants``.
            return True
        if self._places.get(one.instant, _NOT_LATER) <= last:
            return True
        is_below = one.base is not None and one.instant in self.compactions and bool(appended)
        return is_below and all(is_behind(log, one.instant, self._timeline) for log in appended)

    def _seen_until(self, last: int) -> SeenInstants:
        times = frozenset(write.time for write in self._completions.writes[: last + 1])
        return replace(SeenInstants.of(self._timeline), completed=times)


def _names(files: Iterable[DataFile]) -> set[str]:
    return {posixpath.basename(file.path) for file in files}
