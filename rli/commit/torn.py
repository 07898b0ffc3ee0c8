"""Torn commits: what a power cut leaves of the last commits where they were acknowledged before they were on the disk.

File systems write names, contents and folders when they like to. So a torn commit is one of the last of the timeline, and

- its file is empty, or
- its file cannot be read, or a base file that it names is missing or cut short. It counts as torn if the machine has
  started since the file was written, and the disk need not have had it: the table has ``durability="os"``, or the index's
  commit log does not know the commit, so nobody acknowledged it. Any other such commit was whole once. It is damaged,
  which is for people to mend. Or
- its name is gone, while the index has followed it (``durability="os"`` alone).

The next writer rolls torn commits back, on the timeline. It does so under the lease, and only with commits that rli made:
a commit of rli gets its name when its content is whole, so no torn one is about to become whole. Where a savepoint keeps one
of them, an error says so, and nothing is rolled back until the savepoint is deleted. An empty commit of another
engine may be: readers take it for inflight, and writers wait for that engine, because a commit after an empty one would
make the table unreadable.
"""

from __future__ import annotations

import math
import posixpath
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass

from rli.commit.recovery import exclusive
from rli.coordination.liveness import is_older_than_machine
from rli.errors import CorruptTableError, InstantNotFoundError
from rli.file_group.journal_list import readable_journals
from rli.hudi.timeline.instant import Instant
from rli.hudi.timeline.rollback_metadata import RollbackPlan
from rli.hudi.timeline.timeline import Timeline
from rli.index.any_index import is_built, repaired, standing_in
from rli.index.contract import TableIndex
from rli.index.roles import RemembersCommits
from rli.model import Durability, LeasePlace
from rli.publication.fence import Fence
from rli.services.rollback import ROLLBACK
from rli.services.undo_plan import has_folder_of_rli
from rli.tasks import InProcess
from rli.telemetry import events
from rli.view import paths
from rli.view.definition import TableDefinition
from rli.view.file_listing import files_written_at
from rli.view.kept_instants import KeptInstants, broken_saved_commit
from rli.view.snapshot import Snapshot
from rli.view.whole_commits import broken_part


@dataclass(frozen=True, slots=True)
class TornCommit:
    """A commit of rli of which something is missing.

    Attributes:
        time: its instant.
        action: ``commit``, ``deltacommit`` or ``replacecommit``.
        part: the first file that is missing, empty or cut short.
    """

    time: str
    action: str
    part: str


def torn_commits(table: TableDefinition, index: TableIndex) -> tuple[list[TornCommit], Timeline]:
    """The torn commits, the newest first, and the timeline that shows them, or the rest of them."""
    if not table.storage.is_local:
        return [], table.load_timeline()
    # The log first: what it knows by now has completed by now (P7).
    followed = list[tuple[str, str]]()
    if isinstance(index, RemembersCommits) and table.require_settings().durability is Durability.OS:
        followed = index.last_followed()
    timeline = table.load_timeline()
    snapshot = Snapshot(table, timeline)
    own = dict(followed)
    found = {torn.time: torn for torn in (*_empty(snapshot, own), *_broken(snapshot, index, own))}
    found |= {torn.time: torn for torn in _lost(snapshot, followed, found.keys())}
    if not found or not is_built(index):
        return [], timeline
    # Commits that the index does not know yet came after all others.
    known = standing_in(index, found)
    unknown = sorted(found.keys() - set(known), reverse=True)
    return [found[time] for time in (*unknown, *known)], timeline


def undo_torn(
    table: TableDefinition, index: TableIndex, writer: str, *, patience: float = math.inf, is_index_kept: bool = True
) -> tuple[dict[str, str], Timeline]:
    """Roll back the last commits of rli as far as they are torn.

    Args:
        table: the table.
        index: its index.
        writer: identity of the caller, for the lease.
        patience: seconds; for how long to wait for the lease at most, if it is needed.
        is_index_kept: whether the index is to follow; False if it is about to be bootstrapped.

    Returns:
        For each of them the instant of its rollback, and a timeline without torn commits of rli.

    Raises:
        LeaseBusyError: the lease was not free in that time.
        CorruptTableError: a savepoint keeps one of them; nothing is rolled back.
    """
    torn, timeline = torn_commits(table, index)
    if not torn:
        return {}, timeline
    _require_unsaved(torn, timeline)
    # A rollback of a torn commit must not be torn itself.
    table = table.durable()
    with exclusive(table, index, writer, patience=patience) as lease:
        fence = Fence(table, lease.require_held)
        # Asked again under the lease: what seemed to be torn was perhaps being rolled back.
        torn, timeline = torn_commits(table, index)
        _require_unsaved(torn, timeline)
        is_told = _is_told_by_journals(table, index, torn)
        undone = {commit.time: _undo(table, commit, fence) for commit in torn}
        if is_index_kept and not is_told:
            events.TORN_JOURNALS.log(table=table.location)
            repaired(table, index, InProcess())
    return undone, table.load_timeline()


def _require_unsaved(torn: Iterable[TornCommit], timeline: Timeline) -> None:
    """Pass torn commits of which no savepoint keeps any: such a commit was on the disk, and was damaged later (P49)."""
    saved = KeptInstants(timeline).saved
    for commit in torn:
        if commit.time in saved:
            raise broken_saved_commit(commit.time, commit.part)


def _undo(table: TableDefinition, torn: TornCommit, fence: Fence) -> str:
    events.TORN_COMMIT.log(table=table.location, instant=torn.time, file=torn.part)
    # From the names alone: the commit's own content may be the very part that is missing.
    plan = RollbackPlan(torn.time, torn.action, _files_of(table, torn))
    rollback = ROLLBACK.announce(plan.to_avro(), table.load_timeline(), fence)
    ROLLBACK.finish(rollback, fence)
    table.storage.delete_folder(paths.work_folder(torn.time))
    return rollback.time


def require_no_empty_commit(table: TableDefinition, timeline: Timeline) -> None:
    """Raise ``CorruptTableError`` if the last commit is empty: another engine's, once those of rli are undone."""
    for instant in timeline.torn:
        raise CorruptTableError(
            f"the last commit of another engine is empty: table={table.location} file={instant.file_name}",
            remedy=(
                "that engine is about to write it, or the power went off: write again later. If that engine no longer "
                "runs, remove the file and let that engine roll the write back"
            ),
        )


def _empty(snapshot: Snapshot, own: Container[str]) -> Iterator[TornCommit]:
    for instant in snapshot.timeline.torn:
        if instant.time in own or has_folder_of_rli(snapshot.table.storage, instant.time):
            yield _torn(snapshot, instant)


def _broken(snapshot: Snapshot, index: TableIndex, own: Container[str]) -> Iterator[TornCommit]:
    """Commits that cannot be read, or whose base files cannot, from the last one back to one that is whole."""
    # It stops at the first whole commit, which must stay. Commits are undone from the newest back, so a broken commit
    # behind a whole one is out of reach, and counts as damaged.
    for instant in reversed(snapshot.timeline.completed_writes):
        is_own = instant.time in own or has_folder_of_rli(snapshot.table.storage, instant.time)
        if not (is_own and _may_be_torn(snapshot, index, instant)):
            return
        try:
            part = broken_part(snapshot, instant)
        except InstantNotFoundError:
            # It is being rolled back.
            return
        if part is None:
            return
        yield _torn(snapshot, instant, part)


def _torn(snapshot: Snapshot, instant: Instant, part: str | None = None) -> TornCommit:
    path = snapshot.timeline.layout.path(instant.file_name)
    return TornCommit(instant.time, instant.completed_action, part or path)


def _may_be_torn(snapshot: Snapshot, index: TableIndex, instant: Instant) -> bool:
    """Whether the power may have gone off before a commit was on the disk as a whole."""
    table = snapshot.table
    settings = table.require_settings()
    # Where each host has its own index, another one may know the commit.
    # A sync flushes a commit before it registers it. So with ``durability="disk"`` a commit in the log was on the disk,
    # and what is missing now was lost later.
    if settings.durability is Durability.DISK and (settings.lease is not LeasePlace.INDEX or _knows(index, instant)):
        return False
    return is_older_than_machine(table.storage, snapshot.timeline.layout.path(instant.file_name))


def _knows(index: TableIndex, instant: Instant) -> bool:
    """Whether a commit may have been acknowledged, as far as the index tells."""
    return not isinstance(index, RemembersCommits) or index.knows(instant.time)


def _lost(snapshot: Snapshot, followed: Iterable[tuple[str, str]], torn: Iterable[str]) -> Iterator[TornCommit]:
    """Commits whose names are gone, from the last one that the index has followed back to one that is there."""
    timeline = snapshot.timeline
    passed_over = {*torn}
    for time, action in followed:
        if time in passed_over or timeline.is_undone(time):
            continue
        if timeline.is_visible(time):
            return
        yield TornCommit(time, action, timeline.layout.completed_path(time, action, "*"))


def _is_told_by_journals(table: TableDefinition, index: TableIndex, torn: Iterable[TornCommit]) -> bool:
    """Whether journals tell all changes that the index has followed."""
    known = standing_in(index, (commit.time for commit in torn))
    return all(readable_journals(table.storage, time) is not None for time in known)


def _files_of(table: TableDefinition, torn: TornCommit) -> dict[str, tuple[str, ...]]:
    """Partition path → full paths of the base files that a torn commit wrote, those included that are gone."""
    # Its journals tell of file groups whose base files are gone, by the names that journals share with base files.
    journals = readable_journals(table.storage, torn.time) or ()
    by_journal = (
        posixpath.join(journal.group.partition_path, f"{posixpath.splitext(journal.name)[0]}_{torn.time}.parquet")
        for journal in journals
    )
    return _by_partition(table, {*files_written_at(table.storage, torn.time), *by_journal})


def _by_partition(table: TableDefinition, files: Iterable[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(files):
        found[posixpath.dirname(path)].append(table.storage.planned_path(path))
    return {partition_path: tuple(names) for partition_path, names in found.items()}
