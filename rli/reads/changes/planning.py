"""Which file slices to compare for the changes of a range of commits. No record is read here."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NoReturn

import pyarrow as pa

from rli.errors import CorruptTableError, InstantNotFoundError
from rli.hudi.file_names import LogFileName
from rli.hudi.timeline.commit_metadata import CLUSTER, COMPACT, WriteStat
from rli.model import FileGroupId
from rli.reads.changes.completions import CompletedWrite, Completions
from rli.reads.changes.ranges import Bound, CommitRange, first_not_archived, require_not_undone
from rli.reads.changes.slices_around import StoredSlices
from rli.view.cleaned_logs import cleaned_meanwhile
from rli.view.definition import TableDefinition
from rli.view.file_slices import DataFile, FileSlice
from rli.view.history import moved_records
from rli.view.lost_files import require_all_files
from rli.view.second_look import read_again
from rli.view.snapshot import Snapshot
from rli.view.table_change import TableChange

_REWRITES: Final = frozenset([CLUSTER, COMPACT, "LOG_COMPACT", "BUCKET_RESCALE"])
"""Hudi's names of operations that change where records are, and no record."""

_FEW_PARTITIONS: Final = 100
"""They are listed one by one."""


def no_keys() -> pa.Array:
    """No record keys."""
    return pa.array([], pa.string())


@dataclass(frozen=True, slots=True)
class GroupDelta:
    """What a commit did to one file group. Picklable.

    Attributes:
        group: the file group.
        before: its slice before the commit; None if it was not there.
        after: its slice after the commit; None if it is not there any more. The log files of the commit alone, if each of their records
            takes the place of one that was there.
        adds: whether the commit may have brought keys into the file group.
        removes: whether it may have taken keys out of it.
        appended: the log files of the commit, which name the keys that may have changed; none if it has written a base file.
        moved: keys of records that came from another file group, or went to another one, and were written by the commit.
        carried: likewise, of records that the commit did not change.
    """

    group: FileGroupId
    before: FileSlice | None
    after: FileSlice | None
    adds: bool = True
    removes: bool = True
    appended: tuple[DataFile, ...] = ()
    moved: pa.Array = field(default_factory=no_keys, repr=False, compare=False)
    carried: pa.Array = field(default_factory=no_keys, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class CommitDelta:
    """What one commit did to the file groups of a table. Picklable.

    Attributes:
        write: the commit.
        groups: the file groups that it changed.
        is_native: whether rli has made it.
        replaces: whether it replaced whole file groups.
        moves: how many records it moved to another file group; None where nobody has counted them.
    """

    write: CompletedWrite
    groups: tuple[GroupDelta, ...]
    is_native: bool
    replaces: bool
    moves: int | None


@dataclass(frozen=True)
class RangePlan:
    """The commits of a range.

    Attributes:
        snapshot: the table as it was when the range was planned.
        commits: those that may have changed records, in the order of their completion.
        position: the instant of the last commit of the range: where a reader goes on. None if the range is empty.
    """

    snapshot: Snapshot
    commits: tuple[CommitDelta, ...]
    position: str | None


def plan_range(table: TableDefinition, since: object, until: object) -> RangePlan:
    """Plan a range of commits; ``since`` and ``until`` as ``CommitRange.of`` takes them, and its errors.

    Raises:
        InstantNotFoundError: commits of the range were archived, their files cleaned, or a commit before it was undone.
        CorruptTableError: a file of the present state is lost, or a commit cannot be read.
        UnsupportedTableError: nobody tells when the commits completed.
    """
    return read_again(table, lambda table: _planned(table, since, until))


def _planned(table: TableDefinition, since: object, until: object) -> RangePlan:
    while True:
        snapshot = Snapshot.now(table)
        completions = Completions.of(table, snapshot.timeline)
        wanted = CommitRange.of(table, completions, since, until)
        if wanted.since is not None:
            require_not_undone(completions, wanted.since)
        first = first_not_archived(table, completions, wanted.since)
        planning = _Planning(snapshot, completions)
        begin = wanted if first is None else CommitRange(Bound(first.completed, first), wanted.until)
        writes = list(begin.of_writes(completions))
        commits = planning.commits(writes)
        # What was removed before it could be listed is told by a timeline that is loaded after that.
        later = table.load_timeline()
        if completions.is_overtaken(table, later) or cleaned_meanwhile(snapshot, replace(snapshot, timeline=later)):
            continue
        planning.require_none_lost()
        unreadable = planning.last_unreadable or first
        if unreadable is not None:
            _raise_unreadable(since, unreadable, is_archived=unreadable is first)
        return RangePlan(snapshot, commits, writes[-1].time if writes else None)


class _Planning:
    """Compares the slices that the commits of one timeline name with those that are stored."""

    def __init__(self, snapshot: Snapshot, completions: Completions) -> None:
        self._snapshot = snapshot
        self._completions = completions
        self._stored = StoredSlices(completions, [])
        self.last_unreadable: CompletedWrite | None = None

    def commits(self, writes: Sequence[CompletedWrite]) -> tuple[CommitDelta, ...]:
        """What some writes did; also notes the last one of those whose files are gone."""
        changes = [(write, self._snapshot.change(write.instant)) for write in writes]
        changes = [(write, change) for write, change in changes if change.operation.upper() not in _REWRITES]
        _require_in_order(changes)
        self._stored = StoredSlices(
            self._completions, self._listed({group for _, it in changes for group in it.groups})
        )
        found = [self._commit(write, change) for write, change in changes]
        return tuple(commit for commit in found if commit.groups)

    def require_none_lost(self) -> None:
        """Raise ``CorruptTableError`` if a file is missing that no later commit has replaced."""
        if self.last_unreadable is not None:
            require_all_files(self._snapshot)

    def _listed(self, groups: Iterable[FileGroupId]) -> list[FileSlice]:
        """The stored files of the partitions of some file groups."""
        paths = {group.partition_path for group in groups}
        return self._snapshot.slices.all_versions(paths if len(paths) <= _FEW_PARTITIONS else None)

    def _commit(self, write: CompletedWrite, change: TableChange) -> CommitDelta:
        stats: dict[FileGroupId, list[WriteStat]] = {}
        for stat in change.stats:
            stats.setdefault(stat.group, []).append(stat)
        groups = [self._written(write, change, some) for some in stats.values()]
        for group in sorted(change.replaced):
            before = self._stored.before(write, group)
            if before is None:
                self._note_unreadable(write)
            groups.append(GroupDelta(group, before, None))
        return CommitDelta(
            write,
            tuple(groups),
            is_native=change.is_native,
            replaces=bool(change.replaced),
            moves=moved_records(change),
        )

    def _written(self, write: CompletedWrite, change: TableChange, stats: Sequence[WriteStat]) -> GroupDelta:
        found = self._stored.around(write, stats)
        before, after = found.before, found.after
        if after is None or not all(self._is_built_on(before, stat) for stat in stats):
            self._note_unreadable(write)
        # The counts of other engines need not be exact.
        is_counted = change.is_native and before is not None
        adds = not is_counted or any(stat.inserts for stat in stats)
        removes = not is_counted or any(stat.deletes for stat in stats)
        if found.appended and after is not None and not adds:
            # rli appends only records that take the place of stored ones.
            after = replace(after, base=None, logs=found.appended)
        return GroupDelta(stats[0].group, before, after, adds, removes, found.appended)

    def _is_built_on(self, before: FileSlice | None, stat: WriteStat) -> bool:
        """Whether a slice is the one that a commit has changed, as far as the commit tells."""
        if stat.appended_to is None:
            built_on = stat.previous_instant
            return built_on is None or (before is not None and before.instant == built_on)
        if before is not None and before.base is not None:
            return True
        # Without a base file, the log files are all that there was, and the first of them has new records.
        named = LogFileName.parse(posixpath.basename(stat.path)).instant
        if stat.appended_to.base_file or named in self._stored.compactions:
            return False
        return before is not None or bool(stat.inserts) or not (stat.update_writes or stat.deletes)

    def _note_unreadable(self, write: CompletedWrite) -> None:
        # They come in the order of their completion.
        self.last_unreadable = write


def _require_in_order(changes: Sequence[tuple[CompletedWrite, TableChange]]) -> None:
    """Raise ``CorruptTableError`` if a commit was built on one that seems to have completed after it."""
    places = {write.time: place for place, (write, _) in enumerate(changes)}
    for place, (write, change) in enumerate(changes):
        for stat in change.stats:
            if places.get(stat.previous_instant or "", -1) > place:
                raise CorruptTableError(
                    "the times of the timeline's files are not those at which the commits completed: "
                    f"commit={write.time} completed={write.completed} built_on={stat.previous_instant}",
                    remedy="restore the times of the files, or read the table itself",
                )


def _raise_unreadable(since: object, unreadable: CompletedWrite, *, is_archived: bool) -> NoReturn:
    what = "commits have left the active timeline" if is_archived else "files of commits were cleaned"
    raise InstantNotFoundError(
        f"the changes of this range cannot be told any more, {what}: since={since or None} "
        f"first_readable={unreadable.time}",
        remedy=(
            "load the table again and read its changes from there, or read those that are left with "
            f"since={unreadable.time}"
        ),
    )
