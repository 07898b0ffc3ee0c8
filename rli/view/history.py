"""What has become of a table, instant by instant: who did what, when, and how long it took."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rli.hudi.timeline.instant import UNDOING_ACTIONS, Instant, instant_moment
from rli.view.snapshot import Snapshot
from rli.view.table_change import NO_CHANGE, TableChange


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One instant of a table's timeline. What is not known is None: other engines keep less with their commits.

    Attributes:
        time: of the instant, when it began.
        action: such as "commit", "clean" or "rollback".
        state: "requested", "inflight" or "completed".
        completion_time: when it completed; None for a pending instant, and in tables of version 6.
        operation: name of a write's operation, such as "UPSERT".
        writer: user and host of a write; None for a write of another engine.
        seconds: from the begin of the write to its publication.
        inserted, updated, moved, deleted, unchanged, duplicates: rows of a write; see ``WriteCounts``. Of a write of another
            engine, moves are unknown: each counts as deleted in one file and inserted in another one.
        files: base files that a write wrote.
        written_bytes: their size.
        attempts: how often a write was tried; None where the commit does not tell.
        conflicts: how many of these attempts lost against other writers.
        phases: seconds of a write by ``Phase``, up to the lease; ``retries`` are earlier attempts.
        undone: the instants that a rollback or a restore has undone.
        transaction: application id and number that the caller gave.
        metadata: strings that the caller gave.
        metadata_dropped: partitions of Hudi's metadata table that a write did not keep, each with the reason.
    """

    time: str
    action: str
    state: str
    completion_time: str | None
    operation: str | None = None
    writer: str | None = None
    seconds: float | None = None
    inserted: int | None = None
    updated: int | None = None
    moved: int | None = None
    deleted: int | None = None
    unchanged: int | None = None
    duplicates: int | None = None
    files: int | None = None
    written_bytes: int | None = None
    attempts: int | None = None
    conflicts: int | None = None
    phases: dict[str, float] = field(default_factory=dict)
    undone: tuple[str, ...] = ()
    transaction: tuple[str, int] | None = None
    metadata: dict[str, str] = field(default_factory=dict)
    metadata_dropped: dict[str, str] = field(default_factory=dict)


def history(snapshot: Snapshot, limit: int | None = None) -> Iterator[HistoryEntry]:
    """The last instants of the active timeline, the oldest first; ``limit`` None for all.

    Raises:
        CorruptTableError: the content of a commit cannot be read.
    """
    instants: Sequence[Instant] = snapshot.timeline.instants
    for instant in instants if limit is None else instants[max(0, len(instants) - limit) :]:
        yield history_entry(instant, change_of(snapshot, instant))


def moved_records(change: TableChange) -> int | None:
    """How many records a write moved to another partition; None where nobody has counted them."""
    return _counts(change).get("moved")


def change_of(snapshot: Snapshot, instant: Instant) -> TableChange:
    """What an instant changed, as far as its history entry needs it; raises as ``Snapshot.change``."""
    is_told = instant.is_completed and (instant.is_write or instant.action in UNDOING_ACTIONS)
    return snapshot.change(instant) if is_told else NO_CHANGE


def history_entry(instant: Instant, change: TableChange) -> HistoryEntry:
    """The entry of an instant, from ``change_of`` it."""
    known = instant.time, instant.action, str(instant.state), instant.completion_time
    if not instant.is_completed:
        return HistoryEntry(*known)
    if not instant.is_write:
        return HistoryEntry(*known, seconds=_seconds_between(instant), undone=change.undone)
    facts, effort = change.facts, change.facts.effort
    counts = _counts(change)
    return HistoryEntry(
        *known,
        operation=change.operation,
        writer=facts.writer,
        seconds=_seconds_between(instant) if facts.seconds is None else facts.seconds,
        inserted=counts["inserted"],
        updated=counts["updated"],
        moved=counts.get("moved"),
        deleted=counts["deleted"],
        unchanged=counts.get("unchanged"),
        duplicates=counts.get("duplicates"),
        files=len(change.stats),
        written_bytes=sum(stat.written_bytes for stat in change.stats),
        attempts=None if effort is None else effort.attempts,
        conflicts=None if effort is None else effort.conflicts,
        phases={} if effort is None else dict(effort.phases),
        transaction=change.transaction,
        metadata=change.caller_metadata,
        metadata_dropped=change.dropped_partitions,
    )


def _counts(change: TableChange) -> Mapping[str, int]:
    told = change.facts.counts if change.is_native else {}
    return told or {
        "inserted": sum(stat.inserts for stat in change.stats),
        "updated": sum(stat.update_writes for stat in change.stats),
        "deleted": sum(stat.deletes for stat in change.stats),
    }


def _seconds_between(instant: Instant) -> float | None:
    if instant.completion_time is None:
        return None
    try:
        return (instant_moment(instant.completion_time) - instant_moment(instant.time)).total_seconds()
    except ValueError:
        return None
