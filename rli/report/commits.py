"""Sections of a report about the commits: what they changed, what they took, which of them lost against others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from rli.model import Phase
from rli.report.buckets import bucketed
from rli.report.charts import Chart, Series
from rli.report.elements import folded, paragraph, section, short_bytes, short_count, short_seconds, table
from rli.report.facts import Commit, TableState
from rli.sizes import human_bytes
from rli.view.history import HistoryEntry

_LAST_COMMITS: Final = 50
_SLOWEST: Final = 10
_LISTED: Final = 20


def commits_section(state: TableState) -> str:
    """Records changed and bytes written, the numbers of operations, and the last commits."""
    groups = bucketed(state.commits)
    labels = [group.label for group in groups]
    changes = [
        Series(name, color, [group.sum(_entry_value(name)) for group in groups])
        for name, color in (("inserted", "c2"), ("updated", "c1"), ("moved", "c3"), ("deleted", "c5"))
    ]
    written = [group.sum(_entry_value("written_bytes")) for group in groups]
    each = "commit" if len(groups) == len(state.commits) else "time"
    return section(
        "Commits",
        Chart(f"Records changed, by {each}", "commit (UTC)", labels, changes, short_count).bars(),
        Chart(
            f"Bytes written, by {each}", "commit (UTC)", labels, [Series("bytes", "c1", written)], short_bytes, 1024
        ).bars(),
        table("Instants, by operation", ["operation", "instants"], _operations(state).most_common()),
        folded(
            f"The last {_LAST_COMMITS} commits",
            table("Commits, the newest first", _COLUMNS, map(_row, [*reversed(state.commits)][:_LAST_COMMITS])),
        ),
    )


def _entry_value(name: str) -> Callable[[Commit], float | None]:
    return lambda commit: getattr(commit.entry, name)


def _seconds_of(phase: Phase) -> Callable[[Commit], float | None]:
    return lambda commit: commit.entry.phases.get(phase)


def _operations(state: TableState) -> Counter[str]:
    names = Counter((commit.entry.operation or "unknown").lower() for commit in state.commits)
    names.update(entry.action for entry in state.others if entry.state == "completed")
    return names


_COLUMNS: Final = (
    *("instant", "operation", "inserted", "updated", "moved", "deleted", "files", "written"),
    *("took", "attempts", "conflicts", "writer"),
)


def _row(commit: Commit) -> list[object]:
    entry = commit.entry
    return [
        entry.time,
        (entry.operation or entry.action).lower(),
        entry.inserted,
        entry.updated,
        entry.moved,
        entry.deleted,
        entry.files,
        human_bytes(entry.written_bytes),
        None if entry.seconds is None else short_seconds(entry.seconds),
        entry.attempts,
        entry.conflicts,
        entry.writer,
    ]


_PHASES: Final = {
    Phase.BEGIN: "c6",
    Phase.TAG: "c1",
    Phase.WRITE: "c2",
    Phase.LEASE: "c4",
    Phase.RETRIES: "c5",
}


def time_section(state: TableState) -> str:
    """Seconds by phase, the slowest commits, and the last ones with conflicts."""
    groups = bucketed(state.commits)
    series = [
        Series(str(phase), color, [group.sum(_seconds_of(phase)) for group in groups])
        for phase, color in _PHASES.items()
    ]
    told = [commit.entry for commit in state.commits if commit.entry.conflicts is not None]
    conflicts = sum(entry.conflicts or 0 for entry in told)
    slow = sorted((commit.entry for commit in state.commits), key=lambda entry: entry.seconds or 0, reverse=True)
    contested = [entry for entry in reversed(told) if entry.conflicts]
    return section(
        "Time and conflicts",
        Chart(
            "Seconds of writes, by phase", "commit (UTC)", [group.label for group in groups], series, short_seconds
        ).bars(),
        paragraph(
            f"{conflicts:,} attempts of {len(contested):,} commits lost against other writers. "
            f"{len(told):,} of {len(state.commits):,} commits tell."
        ),
        table(
            "The slowest commits", ["instant", "operation", "took", *map(str, _PHASES)], map(_phases, slow[:_SLOWEST])
        ),
        table(
            "The last commits with conflicts",
            ["instant", "operation", "conflicts", "attempts", "writer"],
            _lost(contested),
        )
        if contested
        else "",
    )


def _phases(entry: HistoryEntry) -> list[object]:
    taken = [None if (seconds := entry.phases.get(phase)) is None else short_seconds(seconds) for phase in _PHASES]
    whole = None if entry.seconds is None else short_seconds(entry.seconds)
    return [entry.time, (entry.operation or entry.action).lower(), whole, *taken]


def _lost(entries: Iterable[HistoryEntry]) -> list[list[object]]:
    listed = [*entries][:_LISTED]
    return [
        [one.time, (one.operation or one.action).lower(), one.conflicts, one.attempts, one.writer] for one in listed
    ]
