"""The checker names each anomaly, and finds none where there is none."""

from __future__ import annotations

import pytest

from tests.concurrency.checker import Kind, check
from tests.concurrency.history import (
    Committed,
    Delete,
    Drop,
    Event,
    Found,
    History,
    Located,
    Lookup,
    Operation,
    Overwrite,
    Read,
    Refused,
    Upsert,
)
from tests.support.table_model import Version

A1, A2, A0 = ("a", "x", 1, 1.0), ("a", "x", 2, 2.0), ("a", "x", 0, 3.0)
A_MOVED = ("a", "y", 3, 4.0)
B1, B2 = ("b", "x", 1, 5.0), ("b", "y", 2, 6.0)

INSERTED, UPDATED, LATE = (1, 0, 0, 0, 0), (0, 1, 0, 0, 0), (0, 0, 0, 0, 1)


def wrote(
    instant: str | None, operation: Operation, counts: tuple[int, int, int, int, int], at: tuple[float, float]
) -> Event:
    return Event(operation, Committed(instant, counts), *at)


def upserted(instant: str | None, counts: tuple[int, int, int, int, int], at: float, *batch: Version) -> Event:
    return wrote(instant, Upsert(batch), counts, (at, at + 0.5))


def read(at: float, *rows: Version) -> Event:
    return Event(Read(), Found(rows), at, at + 0.5)


def looked_up(at: float, **places: str | None) -> Event:
    return Event(Lookup(tuple(places)), Located(places), at, at + 0.5)


def kinds(commits: str, *events: Event) -> set[Kind]:
    return {anomaly.kind for anomaly in check(History(tuple(commits), events))}


FIRST, SECOND = upserted("1", INSERTED, 1, A1), upserted("2", UPDATED, 2, A2)


def test_a_serial_history_has_no_anomalies() -> None:
    gone = wrote("3", Delete(("a", "nobody")), (0, 0, 0, 1, 1), (3, 3.5))
    late = upserted("4", (1, 0, 0, 0, 0), 4, A0)
    passed_over = upserted(None, LATE, 2.7, A0)
    looks = [looked_up(0, a=None), looked_up(2.6, a="x", b=None)]
    events = [FIRST, SECOND, gone, late, passed_over, *looks, read(0), read(1.5), read(2.6, A2), read(3.6), read(5, A0)]
    assert kinds("1234", *events) == set()


def test_concurrent_operations_may_be_reordered() -> None:
    long = Event(Upsert((A2,)), Committed("2", UPDATED), 1.6, 9)
    for rows in ((A1,), (A2,)):
        assert kinds("12", FIRST, long, read(3, *rows)) == set()


def test_overwrites_replace_whole_partitions() -> None:
    both = upserted("1", (2, 0, 0, 0, 0), 1, A1, B1)
    replaced = wrote("2", Overwrite((A0,)), (0, 1, 0, 1, 0), (2, 2.5))
    dropped = wrote("3", Drop(("x", "y")), (0, 0, 0, 1, 0), (3, 3.5))
    assert kinds("123", both, replaced, dropped, read(2.6, A0), read(4)) == set()
    # Two overwrites that add up: the second has not seen what the first has written.
    other = wrote("2", Overwrite((B1,)), (1, 0, 0, 0, 0), (2, 2.5))
    assert kinds("12", FIRST, other, read(3, A1, B1)) == {Kind.WRONG_COUNTS, Kind.LOST_UPDATE}


def test_commits_are_ordered_by_sequence() -> None:
    early, later = upserted("2", INSERTED, 1, A1), upserted("1", UPDATED, 2, A2)
    assert kinds("21", early, later, read(3, A2)) == set()


REFUSED = Event(Upsert((A2,)), Refused("ConflictError"), 2, 3)
MOVED, MOVED_LATER = (upserted("2", (0, 0, 1, 0, 0), at, A_MOVED) for at in (2, 4))
B_INSERTED, B_MOVED = upserted("2", INSERTED, 2, B1), upserted("4", (0, 0, 1, 0, 0), 4, B2)


@pytest.mark.parametrize(
    ("expected", "commits", "events"),
    [
        (Kind.LOST_UPDATE, "1234", [FIRST, B_INSERTED, upserted("3", UPDATED, 3, A2), B_MOVED, read(5, A1, B2)]),
        (Kind.LOST_UPDATE, "1", [FIRST, SECOND]),
        (Kind.DUPLICATE_INSERT, "12", [FIRST, MOVED, read(3, A1, A_MOVED)]),
        (Kind.WRONG_COUNTS, "12", [FIRST, upserted("2", INSERTED, 2, A2)]),
        (Kind.WRONG_COUNTS, "1", [FIRST, upserted(None, LATE, 2, A2)]),
        (Kind.LATE_EVENT_WINS, "123", [FIRST, SECOND, upserted("3", LATE, 3, A0), read(4, A0)]),
        (Kind.DIRTY_READ, "1", [FIRST, REFUSED, read(4, A2)]),
        (Kind.DIRTY_READ, "1", [FIRST, read(4, A1, B1)]),
        (Kind.STALE_READ, "12", [FIRST, SECOND, read(3, A1)]),
        (Kind.STALE_READ, "12", [FIRST, SECOND, looked_up(3, a=None)]),
        (Kind.STALE_READ, "12", [FIRST, MOVED_LATER, looked_up(2, a="y")]),
        (Kind.GHOST_COMMIT, "12", [FIRST, REFUSED]),
    ],
)
def test_an_anomaly_is_named(expected: Kind, commits: str, events: list[Event]) -> None:
    assert kinds(commits, *events) == {expected}


def test_half_commit_differs_from_lost_commit() -> None:
    both = upserted("1", (2, 0, 0, 0, 0), 1, A1, B1)
    moved = Event(Upsert((A_MOVED, B2)), Committed("2", (0, 0, 2, 0, 0)), 2, 9)
    assert kinds("12", both, moved, looked_up(3, a="y", b="x")) == {Kind.HALF_APPLIED}
    assert kinds("12", both, moved, read(3, A_MOVED, B1)) == {Kind.HALF_APPLIED}
    assert kinds("12", both, moved, looked_up(3, a="y", b=None)) == {Kind.LOST_UPDATE}


def test_repeated_log_entry_is_ghost_commit() -> None:
    assert Kind.GHOST_COMMIT in kinds("11", FIRST)
