"""What has become of a table, instant by instant: who did what, when, and how long it took."""

from __future__ import annotations

import getpass
import json
import socket
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from rli.hudi.timeline.instant import UNDOING_ACTIONS, Instant, instant_moment
from rli.model import WriteCounts
from rli.view.snapshot import Snapshot
from rli.view.table_change import NO_CHANGE, TableChange

_COUNTS: Final = "rli.counts"
_WRITER: Final = "rli.writer"
_SECONDS: Final = "rli.seconds"

_COUNTED: Final = ("inserted", "updated", "moved", "deleted", "unchanged")
_COUNTED_SINCE: Final = ("duplicates",)
"""What commits of earlier versions do not tell."""


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
        undone: the instants that a rollback or a restore has undone.
        transaction: application id and number that the caller gave.
        metadata: texts that the caller gave.
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
    undone: tuple[str, ...] = ()
    transaction: tuple[str, int] | None = None
    metadata: dict[str, str] = field(default_factory=dict)


def facts_of_commit(counts: WriteCounts, began: str, now: datetime) -> dict[str, str]:
    """Entries of a commit's extra metadata, from which its history is told.

    Args:
        counts: what became of the records.
        began: the write's instant.
        now: by the clock that the table's instants are taken from.
    """
    seconds = (now.replace(tzinfo=UTC) - instant_moment(began)).total_seconds()
    return {
        _COUNTS: json.dumps({name: getattr(counts, name) for name in (*_COUNTED, *_COUNTED_SINCE)}),
        _WRITER: _this_writer(),
        _SECONDS: f"{max(0.0, seconds):.3f}",
    }


def history(snapshot: Snapshot, limit: int | None = None) -> Iterator[HistoryEntry]:
    """The last instants of the active timeline, the oldest first; ``limit`` None for all.

    Raises:
        CorruptTableError: the content of a commit cannot be read.
    """
    instants: Sequence[Instant] = snapshot.timeline.instants
    for instant in instants if limit is None else instants[max(0, len(instants) - limit) :]:
        yield _entry(snapshot, instant)


def moved_records(change: TableChange) -> int | None:
    """How many records a write moved to another partition; None where nobody has counted them."""
    return _counts(change).get("moved")


def _entry(snapshot: Snapshot, instant: Instant) -> HistoryEntry:
    known = instant.time, instant.action, str(instant.state), instant.completion_time
    if not instant.is_completed:
        return HistoryEntry(*known)
    if not instant.is_write:
        change = snapshot.change(instant) if instant.action in UNDOING_ACTIONS else NO_CHANGE
        return HistoryEntry(*known, seconds=_seconds_between(instant), undone=change.undone)
    change = snapshot.change(instant)
    counts = _counts(change)
    return HistoryEntry(
        *known,
        operation=change.operation,
        writer=change.extra.get(_WRITER),
        seconds=_seconds(change, instant),
        inserted=counts["inserted"],
        updated=counts["updated"],
        moved=counts.get("moved"),
        deleted=counts["deleted"],
        unchanged=counts.get("unchanged"),
        duplicates=counts.get("duplicates"),
        files=len(change.written),
        written_bytes=sum(stat.written_bytes for stat in change.written),
        transaction=change.transaction,
        metadata=change.caller_metadata,
    )


def _counts(change: TableChange) -> dict[str, int]:
    stored = change.extra.get(_COUNTS) if change.is_native else None
    if stored is not None:
        # A damaged text must not keep the rest of the history from being shown.
        with suppress(ValueError, KeyError, TypeError):
            told = json.loads(stored)
            names = (*_COUNTED, *(name for name in _COUNTED_SINCE if name in told))
            return {name: int(told[name]) for name in names}
    return {
        "inserted": sum(stat.inserts for stat in change.written),
        "updated": sum(stat.update_writes for stat in change.written),
        "deleted": sum(stat.deletes for stat in change.written),
    }


def _seconds(change: TableChange, instant: Instant) -> float | None:
    try:
        return float(change.extra[_SECONDS])
    except (KeyError, ValueError):
        return _seconds_between(instant)


def _seconds_between(instant: Instant) -> float | None:
    if instant.completion_time is None:
        return None
    try:
        return (instant_moment(instant.completion_time) - instant_moment(instant.time)).total_seconds()
    except ValueError:
        return None


def _this_writer() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError, ImportError):
        # A container may run under a number that has no name.
        user = "unknown"
    return f"{user}@{socket.gethostname()}"
