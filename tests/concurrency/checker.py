"""Is a history serialisable by commit sequence? In the manner of Jepsen's checkers, for a table's promises.

The model executes the acknowledged writes one after the other, in the order of their commit sequences. What each was
told must be what the model says at its place; what a reader was shown must be the model's state at one place, and that
place must lie between what had been acknowledged when the reader called and what had been asked for when it returned.

Each version of a record is written by one operation only (its value tells which), so a version that is out of place
names the anomaly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TypeVar

from tests.concurrency.history import (
    Cluster,
    Committed,
    Delete,
    Drop,
    Event,
    Found,
    History,
    Insert,
    Located,
    Overwrite,
    Places,
    Upsert,
)
from tests.support.table_model import Outcome, Rows, Version, deleted, inserted, overwritten, upserted

T = TypeVar("T")


class Kind(StrEnum):
    """The anomalies, by the names that they are known by."""

    LOST_UPDATE = "lost update"
    """What was acknowledged is not there."""

    DUPLICATE_INSERT = "duplicate insert"
    """A record key is there twice."""

    LATE_EVENT_WINS = "late event wins"
    """A record has replaced one with a greater ordering value."""

    HALF_APPLIED = "half-applied commit"
    """Part of a commit is shown."""

    DIRTY_READ = "dirty read"
    """Something is shown that was never committed."""

    STALE_READ = "stale read"
    """Something that was acknowledged before is not shown yet, or not any more."""

    GHOST_COMMIT = "ghost commit"
    """There is a commit that nobody was told of: a write took place twice, or although it was refused."""

    WRONG_COUNTS = "wrong counts"
    """A write was told of something else than what it did."""


@dataclass(frozen=True)
class Anomaly:
    """One finding.

    Attributes:
        kind: its name.
        details: for the reader of a failure.
    """

    kind: Kind
    details: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.details}"


def check(history: History) -> list[Anomaly]:
    """All anomalies of a history; none if it is serialisable by commit sequence."""
    return list(_Checker(history).anomalies())


class _Checker:
    def __init__(self, history: History) -> None:
        self._history = history
        self._by_instant = {
            event.outcome.instant: event
            for event in history.events
            if isinstance(event.outcome, Committed) and event.outcome.instant is not None
        }

    def anomalies(self) -> Iterator[Anomaly]:
        repeated = [instant for instant, count in Counter(self._history.commits).items() if count > 1]
        for instant in [*repeated, *(instant for instant in self._history.commits if instant not in self._by_instant)]:
            yield Anomaly(Kind.GHOST_COMMIT, f"instant={instant}")
        for instant, event in self._by_instant.items():
            if instant not in self._history.commits:
                yield Anomaly(Kind.LOST_UPDATE, f"an acknowledged commit is not in the log: {event}")
        for outcome, event in zip(self._outcomes, self._writes, strict=True):
            if isinstance(event.outcome, Committed) and event.outcome.counts != outcome.counts:
                yield Anomaly(Kind.WRONG_COUNTS, f"{event}, but at its place it did {outcome.counts}")
        for event in self._history.events:
            found = self._judge(event)
            if found is not None:
                yield Anomaly(found, str(event))

    def _judge(self, event: Event) -> Kind | None:
        states = self._states_around(event)
        if isinstance(event.outcome, Found):
            return self._judge_rows(event.outcome.rows, states)
        if isinstance(event.outcome, Located):
            return self._judge_places(event.outcome.places, states)
        if isinstance(event.outcome, Committed) and event.outcome.instant is None:
            fits = any(_outcome(rows, event) == Outcome(rows, event.outcome.counts) for rows in states)
            return None if fits else Kind.WRONG_COUNTS
        return None

    def _judge_rows(self, rows: Sequence[Version], states: Sequence[Rows]) -> Kind | None:
        shown = {version[0]: version for version in rows}
        if len(shown) < len(rows):
            return Kind.DUPLICATE_INSERT
        if shown in states:
            return None
        if not set(rows) <= self._versions(self._writes):
            return Kind.DIRTY_READ
        ever_stored = {version for state in self._states for version in state.values()}
        if not set(rows) <= ever_stored:
            return Kind.LATE_EVENT_WINS
        return _misplaced(shown, states, self._states)

    def _judge_places(self, places: Places, states: Sequence[Rows]) -> Kind | None:
        def located(rows: Rows) -> dict[str, str | None]:
            return {key: rows[key][1] if key in rows else None for key in places}

        if dict(places) in map(located, states):
            return None
        return _misplaced(dict(places), [located(rows) for rows in states], [located(rows) for rows in self._states])

    @cached_property
    def _writes(self) -> list[Event]:
        """The acknowledged commits by their sequence."""
        return [self._by_instant[instant] for instant in self._history.commits if instant in self._by_instant]

    @cached_property
    def _outcomes(self) -> list[Outcome]:
        outcomes: list[Outcome] = []
        rows: Rows = {}
        for event in self._writes:
            outcomes.append(_outcome(rows, event))
            rows = outcomes[-1].rows
        return outcomes

    @cached_property
    def _states(self) -> list[Rows]:
        """The table before the first commit and after each of them."""
        return [{}, *(outcome.rows for outcome in self._outcomes)]

    def _states_around(self, event: Event) -> list[Rows]:
        """The states that an operation may have met."""
        first = max((at for at, write in enumerate(self._writes, 1) if write.returned < event.called), default=0)
        last = max((at for at, write in enumerate(self._writes, 1) if write.called < event.returned), default=0)
        return self._states[first : last + 1]

    @staticmethod
    def _versions(events: Iterable[Event]) -> set[Version]:
        writes = (event.operation for event in events if isinstance(event.operation, Upsert | Insert | Overwrite))
        return {version for write in writes for version in write.batch}


def _outcome(rows: Rows, event: Event) -> Outcome:
    if isinstance(event.operation, Upsert):
        return upserted(rows, event.operation.batch)
    if isinstance(event.operation, Insert):
        return inserted(rows, event.operation.batch)
    if isinstance(event.operation, Delete):
        return deleted(rows, event.operation.keys)
    if isinstance(event.operation, Overwrite):
        return overwritten(rows, event.operation.batch, event.operation.partitions)
    if isinstance(event.operation, Drop):
        return overwritten(rows, (), event.operation.partitions)
    if isinstance(event.operation, Cluster):
        return Outcome(rows, (0, 0, 0, 0, 0))
    raise TypeError(f"no write: {event}")


def _misplaced(shown: dict[str, T], around: Sequence[dict[str, T]], ever: Sequence[dict[str, T]]) -> Kind:
    """What it is called that a reader was shown something that differs from all states around it."""
    if shown in ever:
        return Kind.STALE_READ
    keys = set(shown).union(*around)
    if all(any(shown.get(key) == state.get(key) for state in around) for key in keys):
        return Kind.HALF_APPLIED
    return Kind.LOST_UPDATE
