"""Which file slices to compare for the changes of a range of commits. No record is read here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Final, NoReturn

import pyarrow as pa

from rli.errors import CorruptTableError, InstantNotFoundError
from rli.hudi.table_features import require_copy_on_write
from rli.hudi.timeline.commit_metadata import CLUSTER
from rli.model import FileGroupId
from rli.reads.changes.completions import CompletedWrite, Completions
from rli.reads.changes.ranges import Bound, CommitRange, first_not_archived, require_not_undone
from rli.view.definition import TableDefinition
from rli.view.file_slices import FileSlice
from rli.view.history import moved_records
from rli.view.lost_files import require_all_files
from rli.view.second_look import read_again
from rli.view.snapshot import Snapshot
from rli.view.table_change import TableChange

_REWRITES: Final = frozenset([CLUSTER, "COMPACT", "LOG_COMPACT", "BUCKET_RESCALE"])
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
        after: its slice after the commit; None if it is not there any more.
        adds: whether the commit may have brought keys into the file group.
        removes: whether it may have taken keys out of it.
        moved: keys of records that came from another file group, or went to another one, and were written by the commit.
        carried: likewise, of records that the commit did not change.
    """

    group: FileGroupId
    before: FileSlice | None
    after: FileSlice | None
    adds: bool = True
    removes: bool = True
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
        UnsupportedTableError: the table is merge-on-read.
    """
    require_copy_on_write(table.properties, "tell their changes")
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
        if completions.is_overtaken(table, table.load_timeline()):
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
        self.last_unreadable: CompletedWrite | None = None

    def commits(self, writes: Sequence[CompletedWrite]) -> tuple[CommitDelta, ...]:
        """What some writes did; also notes the last one of those whose files are gone."""
        changes = [(write, self._snapshot.change(write.instant)) for write in writes]
        changes = [(write, change) for write, change in changes if change.operation.upper() not in _REWRITES]
        _require_in_order(changes)
        stored = self._stored({group for _, change in changes for group in change.groups})
        found = [self._commit(write, change, stored) for write, change in changes]
        return tuple(commit for commit in found if commit.groups)

    def require_none_lost(self) -> None:
        """Raise ``CorruptTableError`` if a file is missing that no later commit has replaced."""
        if self.last_unreadable is not None:
            require_all_files(self._snapshot)

    def _stored(self, groups: Iterable[FileGroupId]) -> Mapping[FileGroupId, Mapping[str, FileSlice]]:
        """The stored versions of some file groups by their instants."""
        paths = {group.partition_path for group in groups}
        listed = self._snapshot.slices.all_versions(paths if len(paths) <= _FEW_PARTITIONS else None)
        found: dict[FileGroupId, dict[str, FileSlice]] = defaultdict(dict)
        for file_slice in listed:
            found[file_slice.group][file_slice.instant] = file_slice
        return found

    def _commit(
        self, write: CompletedWrite, change: TableChange, stored: Mapping[FileGroupId, Mapping[str, FileSlice]]
    ) -> CommitDelta:
        groups = []
        for stat in change.stats:
            versions = stored.get(stat.group, {})
            before = None if stat.previous_instant is None else versions.get(stat.previous_instant)
            after = versions.get(write.time)
            if after is None or (before is None and stat.previous_instant is not None):
                self._note_unreadable(write)
            # The counts of other engines need not be exact.
            is_counted = change.is_native and before is not None
            groups.append(
                GroupDelta(
                    stat.group,
                    before,
                    after,
                    adds=not is_counted or stat.inserts > 0,
                    removes=not is_counted or stat.deletes > 0,
                )
            )
        for group in sorted(change.replaced):
            before = self._version_before(write, stored.get(group, {}))
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

    def _note_unreadable(self, write: CompletedWrite) -> None:
        # They come in the order of their completion.
        self.last_unreadable = write

    def _version_before(self, write: CompletedWrite, versions: Mapping[str, FileSlice]) -> FileSlice | None:
        """The newest version of a file group that was there when a write replaced it."""
        timeline = self._snapshot.timeline
        earlier = {other.time for other in self._earlier(write)}
        times = [time for time in versions if time in earlier or timeline.is_archived(time)]
        return versions[max(times)] if times else None

    def _earlier(self, write: CompletedWrite) -> Iterator[CompletedWrite]:
        return takewhile(lambda other: other != write, self._completions.writes)


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
