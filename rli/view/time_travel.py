"""Whether a state of the table can still be told, or its files were cleaned or its commits archived."""

from __future__ import annotations

from collections.abc import Collection

from rli.errors import InstantNotFoundError, RliError
from rli.model import FileGroupId
from rli.view.definition import TableDefinition
from rli.view.file_slices import FileSlice
from rli.view.lost_files import require_all_files, require_files
from rli.view.slice_diff import FirstChange, first_changes
from rli.view.snapshot import Snapshot, told_of_now


def whole_snapshot(table: TableDefinition, as_of: str | None = None) -> Snapshot:
    """The table, now or as of an instant, with a list of all its files, from which none is missing (P16).

    Args:
        table: the table.
        as_of: 17 digits.

    Raises:
        InstantNotFoundError: the table had no commit yet, files of that state were cleaned, or its commits archived.
        CorruptTableError: a base file is lost.
    """
    if as_of is None:
        return told_of_now(table, _whole_with_schema)
    return _whole(Snapshot.now(table), as_of)


def _whole_with_schema(current: Snapshot) -> Snapshot:
    whole = _whole(current, None)
    # Read now: the commit that has it may be undone.
    _ = whole.schema
    return whole


def _whole(current: Snapshot, as_of: str | None) -> Snapshot:
    while True:
        chosen = current if as_of is None else current.as_of(as_of)
        chosen.slices.list_all()
        # What was deleted before it could be listed is told by a timeline that is loaded after that.
        current = Snapshot.now(current.table)
        if as_of is not None:
            _require_begun(current, chosen)
            require_files_as_of(current, chosen)
        elif missing_group(current, chosen) is not None:
            continue
        if not _is_visible(current, chosen):
            continue
        try:
            require_files(chosen)
        except InstantNotFoundError:
            if is_latest(current):
                raise
            current = Snapshot.now(current.table)
        else:
            return chosen


def verified_snapshot(table: TableDefinition) -> Snapshot:
    """As ``whole_snapshot`` of now, where no file is lost that any commit of the active timeline has written.

    Raises:
        CorruptTableError: a base file is lost, or a commit cannot be read.
    """
    return told_of_now(table, _verified)


def _verified(current: Snapshot) -> Snapshot:
    whole = _whole_with_schema(current)
    require_all_files(whole)
    return whole


def is_whole(snapshot: Snapshot) -> bool:
    """Whether a snapshot of the present state lists all its files; if not, it is out of date (P16).

    Raises:
        CorruptTableError: a base file is lost, or a commit cannot be read.
    """
    snapshot.slices.list_all()
    current = Snapshot.now(snapshot.table)
    if missing_group(current, snapshot) is not None or not _is_visible(current, snapshot):
        return False
    try:
        require_all_files(snapshot)
    except InstantNotFoundError:
        if is_latest(snapshot):
            raise
        return False
    return True


def _require_begun(current: Snapshot, past: Snapshot) -> None:
    writes = [instant.time for instant in current.timeline.completed_writes]
    if writes and not past.timeline.completed_writes and not past.table.has_archive():
        raise InstantNotFoundError(
            f"the table had no commit at this time: instant={past.timeline.as_of} first={min(writes)}; choose a later "
            "instant"
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
            f"the commits of this time have left the active timeline: instant={as_of} first={first}; choose a later "
            "instant"
        )
    group = missing_group(current, past)
    if group is not None:
        raise InstantNotFoundError(
            f"the files of this instant were cleaned: instant={past.timeline.as_of} "
            f"partition={group.partition_path} file_id={group.file_id}; choose a later instant"
        )


def is_latest(snapshot: Snapshot) -> bool:
    """Whether nothing has happened since a snapshot; if something has, files that it names may be gone (P16)."""
    return snapshot.timeline.instants == snapshot.table.load_timeline().instants


class RemovedFiles:
    """Tells files that others removed beside a look-up from files that are missing (P16)."""

    def __init__(self) -> None:
        self._problem = ""

    def require_removed(self, snapshot: Snapshot, problem: RliError) -> None:
        """Pass a problem that others may have made since a snapshot; raise it if they did not, or if it comes again."""
        if is_latest(snapshot) or str(problem) == self._problem:
            raise problem
        self._problem = str(problem)


def is_whole_for(snapshot: Snapshot, groups: Collection[FileGroupId] | None = None) -> bool:
    """Whether a snapshot of the present state shows some file groups as they were; if not, it is out of date (P16).

    Args:
        snapshot: the state; the file groups have been listed, and may have been read.
        groups: the file groups; None for all.
    """
    current = Snapshot.now(snapshot.table)
    if current.timeline == snapshot.timeline:
        return True
    return missing_group(current, snapshot, groups) is None and _is_visible(current, snapshot)


def missing_group(
    current: Snapshot, past: Snapshot, groups: Collection[FileGroupId] | None = None
) -> FileGroupId | None:
    """The first file group, of some or of all, whose slice is missing from an earlier state; None if none is."""
    seen = frozenset(instant.time for instant in past.timeline.completed_writes)
    changes = sorted(first_changes(current, seen).items(), key=lambda item: item[0])
    asked = ((group, change) for group, change in changes if groups is None or group in groups)
    return next((group for group, change in asked if _is_missing(past, past.slices.get(group), change)), None)


def _is_visible(current: Snapshot, earlier: Snapshot) -> bool:
    """Whether nothing of an earlier state was undone since."""
    return all(current.timeline.is_visible(write.time) for write in earlier.timeline.completed_writes)


def _is_missing(past: Snapshot, held: FileSlice | None, change: FirstChange) -> bool:
    """Whether a file group had a version that the past state does not hold any more."""
    if change.is_replacement:
        first, as_of = past.timeline.first, past.timeline.as_of
        # Before the active timeline nobody can tell whether a file group was there already when it was replaced.
        return held is None and (as_of is None or (first is not None and as_of >= first))
    was_there = change.built_on is not None and past.timeline.is_visible(change.built_on)
    return was_there and (held is None or held.instant != change.built_on)
