"""What operators may want to know of the writers of a table: who holds the lease, who is at work, what a power cut has torn."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from rli.commit.lease_breaking import lease_holder
from rli.commit.torn import torn_commits
from rli.coordination.heartbeats import Heartbeats
from rli.coordination.liveness import Holding
from rli.coordination.of_table import coordination_of
from rli.findings import Finding, Verdict
from rli.hudi.timeline.instant import Instant
from rli.index.contract import TableIndex
from rli.view import paths
from rli.view.definition import TableDefinition
from rli.view.kept_instants import KeptInstants, broken_saved_commit
from rli.view.snapshot import Snapshot

_NAMED: Final = 5


def lease_finding(table: TableDefinition, index: TableIndex) -> Finding:
    """Who holds the lease of a table."""
    holder = lease_holder(table, index)
    if holder is None:
        return Finding("lease", Verdict.OK, "nobody holds it")
    if holder.damage is not None:
        return Finding("lease", Verdict.PROBLEM, holder.damage, "run: rli lease break TABLE")
    detail = f"writer={holder.writer} host={holder.host} pid={holder.pid} expires={holder.expires_at}"
    return Finding("lease", Verdict.OK, detail)


def torn_findings(table: TableDefinition, index: TableIndex) -> Iterator[Finding]:
    """Commits that a power cut has torn; until they are undone, table and index differ."""
    torn, timeline = torn_commits(table, index)
    saved = KeptInstants(timeline).saved
    for commit in torn[:_NAMED]:
        yield Finding(
            "power",
            Verdict.PROBLEM,
            f"a power cut has torn a last commit: instant={commit.time} file={commit.part}",
            broken_saved_commit(commit.time, commit.part).remedy
            if commit.time in saved
            else "write to the table: the next write rolls it back; or run: rli index sync TABLE",
        )


def writer_findings(table: TableDefinition, index: TableIndex, snapshot: Snapshot | None) -> Iterator[Finding]:
    """Who is writing, and what writers left that died.

    Args:
        table: the table.
        index: its index.
        snapshot: the table's state; None if it cannot be told.
    """
    coordination = coordination_of(table, index)
    dead = coordination.writers.abandoned()
    if dead:
        yield Finding(
            "writers",
            Verdict.WARNING,
            f"dead writers left unfinished writes: instants={dead[:_NAMED]}",
            "nothing: the next write cleans up after them",
        )
    if snapshot is None:
        return
    signs = coordination.liveness.signs()
    for instant in snapshot.timeline.pending:
        if instant.time not in dead:
            yield _pending(snapshot, instant, signs.get(instant.time))


def _pending(snapshot: Snapshot, instant: Instant, sign: Holding | None) -> Finding:
    detail = f"instant={instant.time} action={instant.action} state={instant.state}"
    if sign is not None:
        seconds = sign.expires_at - time.time()
        return Finding(
            "writers", Verdict.OK, f"being written: {detail} pid={sign.process.pid} expires_in={seconds:.0f}s"
        )
    if instant.is_write and _without_commit(snapshot, instant.time):
        return Finding(
            "timeline",
            Verdict.PROBLEM,
            f"the completed file of a commit is missing: {detail}",
            "restore it from a backup. If the power went off, write to the table: the next write rolls back a torn commit, "
            "unless a savepoint keeps it",
        )
    return _of_other_engine(Heartbeats.of(snapshot.table), instant, detail)


def _of_other_engine(heartbeats: Heartbeats, instant: Instant, detail: str) -> Finding:
    since_beat = heartbeats.seconds_since(instant.time)
    beat = "none" if since_beat is None else f"{since_beat:.0f}s ago"
    if since_beat is not None and heartbeats.is_recent(since_beat):
        return Finding("writers", Verdict.OK, f"a writer of Hudi is at work: {detail} heartbeat={beat}")
    return Finding(
        "writers",
        Verdict.WARNING,
        f"another engine has not finished an instant, and no recent heartbeat was found: {detail} heartbeat={beat}",
        "if no job of that engine is running, let the engine roll it back. A running job of Hudi without heartbeats has the table "
        "to itself (hoodie.clean.failed.writes.policy=EAGER): end it before rli writes, see docs/how-to/beside-hudi-writers.md",
    )


def _without_commit(snapshot: Snapshot, time: str) -> bool:
    """Whether rli completed a write that the timeline shows as pending: its completed file is gone.

    Args:
        snapshot: the present state.
        time: of the pending write, which no living writer has.
    """
    storage = snapshot.table.storage
    is_undone = snapshot.timeline.is_undone(time) or any(
        i.action in ("rollback", "restore") for i in snapshot.timeline.pending
    )
    if is_undone or storage.list_files(paths.UNDOING):
        return False
    # A write that died has its work folder; that of a completed one is gone, and its journals stay.
    if not storage.exists(paths.journal_folder(time)) or storage.exists(paths.work_folder(time)):
        return False
    # It may have been completed meanwhile.
    return any(instant.time == time for instant in snapshot.table.load_timeline().pending)
