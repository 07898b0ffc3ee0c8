"""Torn commits: what a power cut leaves of the last commits where they were acknowledged before they were on the disk.

Tables with ``durability="os"`` may have some, and those that an older version wrote. The file of such a commit is empty,
because file systems write contents later than names. The next writer rolls it back, on the timeline. It does so under the lease, and only with commits that rli made: a commit of rli gets its name when its content is whole, so no torn
one is about to become whole. An empty commit of another engine may be: readers take it for inflight, and writers wait for
that engine, because a commit after an empty one would make the table unreadable.
"""

from __future__ import annotations

import math
import posixpath
from collections import defaultdict
from collections.abc import Iterable

from rli.errors import CorruptTableError, IndexNotReadyError
from rli.index.record_index import RecordIndex
from rli.layout.file_slices import list_base_files
from rli.table.coordination.recovery import exclusive
from rli.table.following.undoing import readable_journals
from rli.table.services.fence import Fence
from rli.table.services.rollback import finish_rollback
from rli.table.state import paths
from rli.table.state.definition import TableDefinition
from rli.table.state.snapshot import Snapshot
from rli.timeline.instant import Action, Instant
from rli.timeline.rollback_metadata import RollbackPlan
from rli.timeline.timeline import Timeline


def roll_back_torn(table: TableDefinition, index: RecordIndex, writer: str, *, patience: float = math.inf) -> list[str]:
    """Roll back the last commits of rli as far as they are torn; returns their times, the newest first.

    Args:
        table: the table.
        index: its index.
        writer: identity of the caller, for the lease.
        patience: seconds; for how long to wait for the lease at most, if it is needed.

    Raises:
        LeaseBusyError: it was not free in that time.
        IndexNotReadyError: the index has followed such a commit, and nothing is left that tells what it changed.
        CorruptTableError: the last commit of another engine is empty.
    """
    undone: list[str] = []
    if not table.storage.is_local:
        return undone
    timeline = table.load_timeline()
    if _last_torn(table, timeline) is None:
        _require_none_of_others(table, timeline)
        return undone
    with exclusive(table, index, writer, patience=patience) as lease:
        fence = Fence(table, lease.require_held)
        # Asked again under the lease: what seemed to be torn was perhaps being rolled back.
        while (torn := _last_torn(table, table.load_timeline())) is not None:
            _require_undoable(table, index, torn)
            snapshot = Snapshot.now(table)
            plan = RollbackPlan(torn.time, torn.action, _files_of(table, torn))
            rollback = snapshot.timeline.next_time(table.now())
            fence.announce(rollback, Action.ROLLBACK, plan.to_avro())
            undone.append(finish_rollback(table, rollback, fence))
        _require_none_of_others(table, table.load_timeline())
    return undone


def _require_none_of_others(table: TableDefinition, timeline: Timeline) -> None:
    for instant in timeline.torn:
        raise CorruptTableError(
            f"the last commit of another engine is empty: table={table.location} file={instant.file_name}; that engine is "
            "about to write it, or the power went off: write again later. If that engine runs no more, remove the file and "
            "let that engine roll the write back"
        )


def _last_torn(table: TableDefinition, timeline: Timeline) -> Instant | None:
    """The last write, if rli made it and it is torn."""
    own = [instant for instant in timeline.torn if _has_journal(table, instant)]
    return max(own, key=lambda instant: instant.time, default=None)


def _has_journal(table: TableDefinition, instant: Instant) -> bool:
    """Whether rli made a commit, of which nothing else can be read."""
    folders = (paths.journal_folder(instant.time), paths.work_folder(instant.time))
    return any(table.storage.exists(folder) for folder in folders)


def _require_undoable(table: TableDefinition, index: RecordIndex, torn: Instant) -> None:
    if index.log.refresh().knows(torn.time) and readable_journals(table.storage, torn.time) is None:
        raise IndexNotReadyError(
            f"a commit was lost, perhaps in a power cut, and the index has followed it: table={table.location} "
            f"instant={torn.time}; neither the commit nor its journals can be read, so bootstrap the index again: "
            "rli index bootstrap TABLE"
        )


def _files_of(table: TableDefinition, torn: Instant) -> dict[str, tuple[str, ...]]:
    """Partition path → full paths of the base files that a torn commit wrote, those included that are gone."""
    # Its journals tell of file groups whose base files are gone, by the names that journals share with base files.
    journals = readable_journals(table.storage, torn.time) or ()
    by_journal = (
        posixpath.join(journal.group.partition_path, f"{posixpath.splitext(journal.name)[0]}_{torn.time}.parquet")
        for journal in journals
    )
    listed = (part.path for part in list_base_files(table.storage) if part.instant == torn.time)
    return _by_partition(table, {*listed, *by_journal})


def _by_partition(table: TableDefinition, files: Iterable[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(files):
        found[posixpath.dirname(path)].append(table.storage.full_path(path))
    return {partition_path: tuple(names) for partition_path, names in found.items()}
