"""Whether a state of the table can still be told, or its files were cleaned or its commits archived."""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import takewhile

from rli.errors import CorruptTableError, InstantNotFoundError
from rli.hudi.metadata.partitions import PartitionKind
from rli.hudi.timeline.timeline import Timeline
from rli.model import FileGroupId
from rli.view.cleaned_logs import cleaned_meanwhile, require_not_cleaned
from rli.view.definition import TableDefinition
from rli.view.diff import first_changes, undone_writes, was_cleaned
from rli.view.kept_instants import KeptInstants
from rli.view.lost_files import require_all_files, require_files
from rli.view.second_look import Told, read_again
from rli.view.snapshot import Snapshot


def whole_snapshot(table: TableDefinition, as_of: str | None = None) -> Snapshot:
    """The table, now or as of an instant, with a list of all its files, from which none is missing (P16).

    Args:
        table: the table.
        as_of: 17 digits.

    Raises:
        InstantNotFoundError: the table had no commit yet, files of that state were cleaned, or its commits archived.
        CorruptTableError: a base file is lost.
        TableNotFoundError: the table was dropped.
    """
    return told_of_whole(table, lambda snapshot: snapshot, as_of)


def told_of_whole(table: TableDefinition, tell: Callable[[Snapshot], Told], as_of: str | None = None) -> Told:
    """What a function tells of a ``whole_snapshot``; it is called again if others have overtaken it (P44)."""
    return read_again(table, lambda table: tell(_whole(table, as_of)))


def verified_snapshot(table: TableDefinition) -> Snapshot:
    """As ``whole_snapshot`` of now, where no file is lost that any commit of the active timeline has written.

    Raises:
        CorruptTableError: a base file is lost, or a commit cannot be read.
    """
    return told_of_verified(table, lambda snapshot: snapshot)


def told_of_verified(table: TableDefinition, tell: Callable[[Snapshot], Told]) -> Told:
    """What a function tells of a ``verified_snapshot``; it is called again if others have overtaken it (P44)."""

    def verified(snapshot: Snapshot) -> Told:
        require_all_files(snapshot)
        return tell(snapshot)

    return told_of_whole(table, verified)


def _whole(table: TableDefinition, as_of: str | None) -> Snapshot:
    snapshot = Snapshot.for_reads(table)
    try:
        return _whole_from(snapshot, as_of)
    except CorruptTableError as error:
        if snapshot.metadata is None:
            raise
        # A file that the commits tell of is missing from the list. If the folders have it, the list is to blame.
        found = _whole_from(Snapshot.now(table), as_of)
        snapshot.metadata.distrust(PartitionKind.FILES, error)
        return found


def _whole_from(current: Snapshot, as_of: str | None) -> Snapshot:
    while True:
        table, chosen = current.table, current if as_of is None else current.as_of(as_of)
        chosen.slices.list_all()
        # What was deleted before it could be listed is told by a timeline that is loaded after that.
        later = Snapshot(table, table.timeline_behind(current.timeline))
        if _was_unbroken(current.timeline, later.timeline):
            KeptInstants(current.timeline).require_saved(as_of, has_archive=table.has_archive)
            if _holds(chosen, later):
                # Behind the second timeline: only a difference that no later commit explains is a lost file (P41).
                require_files(chosen)
                # Read now: the commit that has it may be undone.
                _ = chosen.schema
                return chosen
        current = later if current.metadata is None else Snapshot.for_reads(table)


def _was_unbroken(timeline: Timeline, later: Timeline) -> bool:
    """Whether a timeline lacks no instant from its middle (see ``is_unbroken``), as a later one tells."""
    return timeline.first is None or any(instant.time == timeline.first for instant in later.instants)


def _holds(earlier: Snapshot, later: Snapshot) -> bool:
    """Whether a state lists all its files, and shows all writes before its last one, as a later timeline tells.

    Raises:
        InstantNotFoundError: the state is of the past, and has begun no commit, or files of it were cleaned.
    """
    if earlier.timeline.as_of is not None:
        _require_begun(later, earlier)
        require_files_as_of(later, earlier)
    elif missing_group(later, earlier) is not None or cleaned_meanwhile(earlier, later):
        return False
    return _still_holds(later, earlier)


def is_whole(snapshot: Snapshot) -> bool:
    """Whether a snapshot of the present state lists all its files; if not, it is out of date (P16).

    Raises:
        CorruptTableError: a base file is lost, or a commit cannot be read.
        InstantNotFoundError: others have overtaken the snapshot.
    """
    snapshot.slices.list_all()
    current = Snapshot.now(snapshot.table)
    if missing_group(current, snapshot) is not None or not _still_holds(current, snapshot):
        return False
    require_all_files(snapshot)
    return True


def _require_begun(current: Snapshot, past: Snapshot) -> None:
    writes = [instant.time for instant in current.timeline.completed_writes]
    if writes and not past.timeline.completed_writes and not past.table.has_archive():
        raise InstantNotFoundError(
            f"the table had no commit at this time: instant={past.timeline.as_of} first={min(writes)}",
            remedy="choose a later instant",
        )


def require_files_as_of(current: Snapshot, past: Snapshot) -> None:
    """Pass a past state whose files are all there, as far as the later commits of the timeline tell.

    Args:
        current: the table as it is now.
        past: the table as of an instant.

    Raises:
        InstantNotFoundError: files of that state were cleaned, of which one is named; or its commits were archived.
    """
    first, as_of = past.timeline.first, past.timeline.as_of
    is_older = first is not None and as_of is not None and as_of < first
    if is_older and all(as_of != saved.time for saved in current.timeline.savepoints) and past.table.has_archive():
        raise InstantNotFoundError(
            f"the commits of this time have left the active timeline: instant={as_of} first={first}",
            remedy="choose a later instant",
        )
    require_not_cleaned(current, past)
    group = missing_group(current, past)
    if group is not None:
        raise InstantNotFoundError(
            f"the files of this instant were cleaned: instant={past.timeline.as_of} partition={group.partition_path} "
            f"file_id={group.file_id}",
            remedy="choose a later instant",
        )


def is_latest(snapshot: Snapshot) -> bool:
    """Whether nothing has happened since a snapshot; if something has, files that it names may be gone (P16)."""
    return snapshot.timeline.instants == snapshot.table.load_timeline().instants


def has_last_write(snapshot: Snapshot) -> bool:
    """Whether the last write of a state is completed still: the newest is undone first, and hidden before its files go."""
    last = snapshot.timeline.latest_write
    return last is not None and snapshot.table.storage.exists(snapshot.timeline.layout.path(last.file_name))


def is_whole_for(snapshot: Snapshot, groups: Collection[FileGroupId] | None = None) -> bool:
    """Whether a snapshot of the present state shows some file groups as they were; if not, it is out of date (P16).

    Args:
        snapshot: the state; the file groups have been listed, and may have been read.
        groups: the file groups; None for all.
    """
    return is_shown_by(Snapshot.now(snapshot.table), snapshot, groups)


def is_shown_by(current: Snapshot, earlier: Snapshot, groups: Collection[FileGroupId] | None = None) -> bool:
    """As ``is_whole_for`` of an earlier state, told by one that was loaded behind the reading."""
    if current.timeline == earlier.timeline:
        return True
    return missing_group(current, earlier, groups) is None and _still_holds(current, earlier)


def missing_group(
    current: Snapshot, past: Snapshot, groups: Collection[FileGroupId] | None = None
) -> FileGroupId | None:
    """The first file group, of some or of all, whose slice is missing from an earlier state; None if none is."""
    changes = sorted(first_changes(current, past.timeline.write_times).items(), key=lambda item: item[0])
    asked = ((group, change) for group, change in changes if groups is None or group in groups)
    return next((group for group, change in asked if was_cleaned(past, past.slices.get(group), change)), None)


def _still_holds(current: Snapshot, earlier: Snapshot) -> bool:
    """Whether nothing of an earlier state was undone since, and it shows all writes that came before its last one.

    A folder is not listed in one step: of two writes that are published meanwhile, a listing may show the later one alone.
    """
    seen = earlier.timeline.write_times
    # An undoing hides the commit first and removes files second. So if no commit is hidden yet, its files were all
    # there when they were listed.
    if undone_writes(current.timeline, seen):
        return False
    last, as_of = earlier.timeline.latest_write, earlier.timeline.as_of
    if last is None:
        return True
    before = takewhile(lambda write: write.time != last.time, current.timeline.completed_writes)
    return all(write.time in seen or (as_of is not None and write.time > as_of) for write in before)
