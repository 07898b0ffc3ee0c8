"""What changed between two states of a table: the writes, the file groups, and the file slices before and after.

A file slice counts as changed if any of its files did: its base file, or a log file. What a change means is left to the
callers: a conflict, a removed file, a change of the index.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass

from rli.hudi.timeline.instant import Instant
from rli.hudi.timeline.timeline import Timeline
from rli.model import FileGroupId
from rli.view.file_slices import FileSlice
from rli.view.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class FirstChange:
    """The first of some writes' changes of a file group.

    Attributes:
        built_on: instant of the version that was rewritten; None for a new file group, and where nobody says.
        is_replacement: whether the file group was replaced as a whole; nobody says which version it had then.
    """

    built_on: str | None
    is_replacement: bool


@dataclass(frozen=True, slots=True)
class GroupChange:
    """One file group in two states.

    Attributes:
        group: the file group.
        before: its live slice in the earlier state; None if it was not there.
        after: its live slice in the later state; None if it is not there any more.
    """

    group: FileGroupId
    before: FileSlice | None
    after: FileSlice | None


@dataclass(frozen=True, slots=True)
class StateDiff:
    """The difference of two states.

    Attributes:
        instants: of the writes that were added or undone, ascending.
        groups: the file groups with another slice, in their order.
    """

    instants: tuple[str, ...]
    groups: tuple[GroupChange, ...]


def added_writes(now: Timeline, seen: Container[str]) -> list[Instant]:
    """The completed writes of a timeline besides those of ``seen``, in order."""
    return [write for write in now.completed_writes if write.time not in seen]


def undone_writes(now: Timeline, seen: Iterable[str]) -> list[str]:
    """The times of ``seen`` that a timeline shows no more, ascending; archived writes count as shown."""
    return sorted(time for time in seen if not now.is_visible(time))


def archived_instants(now: Timeline, before: Timeline) -> tuple[str, ...]:
    """The times of the completed instants of an earlier timeline that have left for the archive since."""
    shown = {instant.time for instant in now.instants}
    return tuple(
        instant.time
        for instant in before.instants
        if instant.is_completed and instant.time not in shown and now.is_archived(instant.time)
    )


def first_changes(snapshot: Snapshot, seen: Container[str]) -> dict[FileGroupId, FirstChange]:
    """The file groups that the completed writes of a snapshot changed, but for those at the instants of ``seen``."""
    found: dict[FileGroupId, FirstChange] = {}
    for instant in added_writes(snapshot.timeline, seen):
        change = snapshot.change(instant)
        for stat in change.stats:
            # The first one counts: it names the version that the earlier state had. Later writes build on versions in
            # between. A log file of Hudi 1 names its own commit, and so no version.
            if stat.previous_instant != instant.time:
                found.setdefault(stat.group, FirstChange(stat.previous_instant, is_replacement=False))
        for group in change.replaced:
            found.setdefault(group, FirstChange(None, is_replacement=True))
    return found


def was_cleaned(before: Snapshot, held: FileSlice | None, change: FirstChange) -> bool:
    """Whether a file group had a version in an earlier state of which the file is gone.

    Args:
        before: the earlier state.
        held: the file group's live slice in it, as its files are listed now.
        change: the first change after that state, which names the version.
    """
    if change.is_replacement:
        first, as_of = before.timeline.first, before.timeline.as_of
        # Before the active timeline nobody can tell whether a file group was there already when it was replaced.
        return held is None and (as_of is None or (first is not None and as_of >= first))
    was_there = change.built_on is not None and before.timeline.is_visible(change.built_on)
    # An older version may still be there, for a savepoint.
    return was_there and (held is None or held.instant != change.built_on)


def changed_groups(
    before: Snapshot, now: Snapshot, groups: Collection[FileGroupId] | None = None
) -> tuple[GroupChange, ...]:
    """The file groups whose slices differ in two states, by their live slices alone.

    Args:
        before: the earlier state.
        now: the later one.
        groups: the file groups that matter; None for all.
    """
    if groups is None:
        then, since = dict(before.slices), dict(now.slices)
    else:
        then, since = before.slices.of_groups(groups), now.slices.of_groups(groups)
    # Slices are compared, not commits: a change that was undone again is no change, and a file group that a rollback
    # took back to an earlier version is one, although no commit wrote it.
    differing = [group for group in then.keys() | since.keys() if then.get(group) != since.get(group)]
    if any(then[group].seen is not None for group in differing if group in then):
        differing = [*_with_changes(before, now, then, since, differing)]
    return tuple(GroupChange(group, then.get(group), since.get(group)) for group in sorted(differing))


def _with_changes(
    before: Snapshot,
    now: Snapshot,
    then: Mapping[FileGroupId, FileSlice],
    since: Mapping[FileGroupId, FileSlice],
    differing: Iterable[FileGroupId],
) -> Iterator[FileGroupId]:
    """Those of some differing file groups of which more differs than the commits of the whole table that count.

    In table version 6, several commits may write to a log file. So a slice with the same files has changed if a commit in between
    names its file group. Of an undone commit a file has gone, or one has come that takes its records back.
    """
    written = {
        group for write in added_writes(now.timeline, before.timeline.write_times) for group in now.change(write).groups
    }
    for group in differing:
        earlier, later = then.get(group), since.get(group)
        if earlier is None or later is None or earlier.files != later.files or group in written:
            yield group


def diff(before: Snapshot, now: Snapshot) -> StateDiff | None:
    """What changed from one state to a later one; None if no write was added or undone."""
    seen = before.timeline.write_times
    added, undone = added_writes(now.timeline, seen), undone_writes(now.timeline, seen)
    if not added and not undone:
        return None
    instants = tuple(sorted({*(write.time for write in added), *undone}))
    if undone or now.timeline.first != before.timeline.first:
        # What was undone, or has left the timeline, cannot be asked for the file groups that it changed.
        return StateDiff(instants, changed_groups(before, now))
    # Otherwise the commits name all that can differ, and only these file groups are listed.
    groups = {group for write in added for group in now.change(write).groups}
    return StateDiff(instants, changed_groups(before, now, groups))
