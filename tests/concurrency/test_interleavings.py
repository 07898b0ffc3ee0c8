"""Real processes whose writes interleave in the worst way: no anomaly; and each anomaly once a protection is off."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from rli import Step, Table, create_table
from tests.concurrency.checker import Kind, check
from tests.concurrency.clients import Client, Point, Protection, clients, history_of
from tests.concurrency.history import Cluster, Delete, Event, Insert, Lookup, Overwrite, Read, Refused, Upsert
from tests.support.tables import check_stored

BASE = Upsert((("1", "x", 1, 0.1), ("long key", "x", 1, 0.2), ("other", "x", 1, 0.3)))
KEYS = ("1", "long key", "other", "new")

Scenario: TypeAlias = Callable[[Client, Client], list[Event]]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """An empty table whose index any process can open; each commit opens file groups of its own."""
    return create_table(
        tmp_path / "t",
        record_key="id",
        partition_by="city",
        ordering="ts",
        index=f"lmdb://{tmp_path}/i",
        shards=3,
        small_file_size=0,
    )


def both_update_one_file_group(first: Client, second: Client) -> list[Event]:
    base = first.do(BASE)
    first.hold(Upsert((("1", "x", 2, 1.1),)), Step.WRITTEN)
    theirs = second.do(Upsert((("other", "x", 2, 2.1),)))
    return [base, theirs, first.finish(), second.do(Upsert((("new", "z", 1, 2.2),))), second.do(Read())]


def both_insert_one_key(first: Client, second: Client) -> list[Event]:
    base = first.do(BASE)
    first.hold(Upsert((("new", "y", 2, 1.1),)), Step.WRITTEN)
    theirs = second.do(Upsert((("new", "z", 2, 2.1),)))
    return [base, theirs, first.finish(), second.do(Read()), second.do(Lookup(KEYS))]


def a_late_event_commits_last(first: Client, second: Client) -> list[Event]:
    base = first.do(BASE)
    first.hold(Upsert((("1", "x", 9, 1.1),)), Step.WRITTEN)
    second.hold(Upsert((("1", "x", 5, 2.1), ("other", "x", 5, 2.2))), Step.WRITTEN)
    return [base, first.finish(), second.finish(), first.do(Read())]


def a_clustering_meets_an_update(first: Client, second: Client) -> list[Event]:
    base = [first.do(BASE), first.do(Upsert((("new", "x", 1, 1.1),)))]
    first.hold(Cluster(), Step.WRITTEN, attempts=1)
    theirs = second.do(Upsert((("1", "x", 2, 2.1),)))
    return [*base, theirs, first.finish(), second.do(Upsert((("more", "z", 1, 2.2),))), second.do(Read())]


def an_update_meets_a_clustering(first: Client, second: Client) -> list[Event]:
    base = [first.do(BASE), first.do(Upsert((("new", "x", 1, 1.1),)))]
    first.hold(Upsert((("1", "x", 2, 1.2),)), Step.WRITTEN)
    theirs = second.do(Cluster())
    return [*base, theirs, first.finish(), second.do(Upsert((("more", "z", 1, 2.2),))), second.do(Read())]


def both_overwrite_an_empty_partition(first: Client, second: Client) -> list[Event]:
    base = first.do(BASE)
    first.hold(Overwrite((("new", "z", 1, 1.1),)), Step.WRITTEN)
    theirs = second.do(Overwrite((("1", "z", 1, 2.1),)))
    return [base, theirs, first.finish(), second.do(Read()), second.do(Lookup(KEYS))]


def an_empty_overwrite_meets_an_insert(first: Client, second: Client) -> list[Event]:
    base = first.do(BASE)
    first.hold(Overwrite((), ("x",)), Step.WRITTEN)
    theirs = [second.do(Insert((("new", "x", 1, 2.1),))), second.do(Upsert((("1", "z", 2, 2.2),)))]
    return [base, *theirs, first.finish(), second.do(Read()), second.do(Lookup(KEYS))]


def a_delete_meets_an_overwrite(first: Client, second: Client) -> list[Event]:
    base = first.do(BASE)
    first.hold(Delete(("1", "new")), Step.WRITTEN)
    theirs = second.do(Overwrite((("1", "x", 0, 2.1),)))
    return [base, theirs, first.finish(), second.do(Read()), second.do(Lookup(KEYS))]


def a_look_up_meets_half_a_commit(first: Client, second: Client) -> list[Event]:
    base = first.do(BASE)
    first.hold(Upsert((("1", "y", 2, 1.1), ("long key", "y", 2, 1.2), ("new", "y", 2, 1.3))), Point.FIRST_PUT)
    second.start(Lookup(KEYS), Point.WAITS_FOR_WRITER)
    shown = second.reach()
    written = first.finish()
    return [base, written, second.finish() if shown is None else shown]


def a_reader_meets_files_that_are_not_published(first: Client, second: Client) -> list[Event]:
    base = first.do(BASE)
    first.hold(Upsert((("1", "x", 2, 1.1), ("new", "y", 2, 1.2))), Step.PROMOTED)
    shown = second.do(Read())
    first.kill()
    refused = Event(
        Upsert((("1", "x", 2, 1.1), ("new", "y", 2, 1.2))), Refused("killed"), base.returned, shown.returned
    )
    return [base, shown, refused, second.do(Upsert((("other", "x", 3, 2.1),))), second.do(Read())]


CASES: list[tuple[Scenario, Protection, Kind]] = [
    (both_update_one_file_group, Protection.CONFLICT_CHECK, Kind.LOST_UPDATE),
    (both_insert_one_key, Protection.CONFLICT_CHECK, Kind.DUPLICATE_INSERT),
    (a_late_event_commits_last, Protection.CONFLICT_CHECK, Kind.LATE_EVENT_WINS),
    (a_clustering_meets_an_update, Protection.CONFLICT_CHECK, Kind.LOST_UPDATE),
    (an_update_meets_a_clustering, Protection.CONFLICT_CHECK, Kind.LOST_UPDATE),
    (both_overwrite_an_empty_partition, Protection.CONFLICT_CHECK, Kind.LOST_UPDATE),
    (an_empty_overwrite_meets_an_insert, Protection.CONFLICT_CHECK, Kind.LOST_UPDATE),
    (a_delete_meets_an_overwrite, Protection.CONFLICT_CHECK, Kind.STALE_READ),
    (a_look_up_meets_half_a_commit, Protection.WHOLE_COMMITS, Kind.HALF_APPLIED),
    (a_reader_meets_files_that_are_not_published, Protection.COMPLETED_INSTANTS, Kind.DIRTY_READ),
]


@pytest.mark.parametrize("scenario", [scenario for scenario, _, _ in CASES])
def test_the_worst_interleaving_is_serialisable(table: Table, scenario: Scenario) -> None:
    with clients(table.location, 2) as (first, second):
        events = scenario(first, second)
    assert check(history_of(table, events)) == []
    check_stored(table)


@pytest.mark.parametrize(("scenario", "off", "kind"), CASES)
def test_checker_names_unprotected_anomaly(table: Table, scenario: Scenario, off: Protection, kind: Kind) -> None:
    with clients(table.location, 2, off) as (first, second):
        events = scenario(first, second)
    assert kind in {anomaly.kind for anomaly in check(history_of(table, events))}
