"""An index is built again at its own URL while a writer is stopped: the write fails, or its commit stands; nothing is lost."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from rli import LeasePlace, Step, create_table, open_table
from tests.concurrency.checker import check
from tests.concurrency.clients import Point, clients, history_of
from tests.concurrency.history import Committed, Delete, Lookup, Operation, Read, Refused, Upsert
from tests.support.docker import Service
from tests.support.redis import dropped_afterwards, redis_url
from tests.support.soak import in_ci
from tests.support.tables import check_stored, turn_into_version_9

pytestmark = [pytest.mark.invariant("P4", "P20"), pytest.mark.slow, pytest.mark.crash]

LEASE_SECONDS = 0.5

BASE = Upsert((("a", "x", 1, 0.1), ("b", "x", 1, 0.2), ("c", "y", 1, 0.3)))
STOPPED = Upsert((("a", "x", 5, 1.1), ("new", "y", 5, 1.2), ("b", "y", 5, 1.3)))
SAME_FILES = Upsert((("a", "x", 6, 2.1), ("new", "z", 4, 2.2), ("c", "y", 6, 2.3)))
SAME_KEY = Upsert((("new", "z", 4, 2.2), ("other", "z", 6, 2.3)))

POINTS: tuple[Step | Point, ...] = (Step.TAGGED, Step.MANIFESTED, Step.LEASED, Point.BEFORE_PUBLISHING, Step.PUBLISHED)
RIVALS: dict[str, Operation | None] = {"alone": None, "same files": SAME_FILES, "same key": SAME_KEY}


def stopped_with(rivals: list[str]) -> list[tuple[Step | Point, str, LeasePlace]]:
    """Cases of a writer that is stopped: each point with each rival; with each place of the lease in ``make soak``, else in turn."""
    pairs, places = product(enumerate(POINTS), enumerate(rivals)), [*LeasePlace]
    in_turn = [(point, rival, places[(first + second) % len(places)]) for (first, point), (second, rival) in pairs]
    return in_ci(in_turn, of=[*product(POINTS, rivals, places)])


def require_nothing_lost(
    folder: Path, index: str, lease: LeasePlace, point: Step | Point, rival: Operation | None
) -> None:
    table = create_table(
        folder / "t",
        record_key="id",
        partition_by="city",
        ordering="ts",
        index=index,
        lease=lease,
        lease_seconds=LEASE_SECONDS,
    )
    turn_into_version_9(table)
    with clients(table.location, 2) as (stopped, other):
        events = [other.do(BASE)]
        # So that the numbers of the former index are greater than those of the new one.
        events += [other.do(Upsert((("z", "x", number, 0.4 + number / 10),))) for number in range(4)]
        with stopped.stopped(STOPPED, point, attempts=4):
            with open_table(table.location) as own:
                own.bootstrap_index()
            if rival is not None:
                events += [other.do(rival), other.do(Read())]
        ours = stopped.finish()
        events += [ours, other.do(Lookup(("a", "b", "c", "new"))), other.do(Delete(("b",)))]
    assert isinstance(ours.outcome, Committed) or ours.outcome == Refused("IndexNotFoundError")
    assert isinstance(ours.outcome, Committed) or point is not Step.PUBLISHED
    with open_table(table.location) as again:
        again.sync_index()
        assert check(history_of(again, events)) == []
        check_stored(again)


@pytest.mark.parametrize(("point", "rival", "lease"), stopped_with([*RIVALS]))
def test_a_stopped_writer_loses_nothing(tmp_path: Path, point: Step | Point, rival: str, lease: LeasePlace) -> None:
    require_nothing_lost(tmp_path, f"lmdb://{tmp_path}/i", lease, point, RIVALS[rival])


@pytest.mark.docker
@pytest.mark.parametrize(("point", "rival", "lease"), stopped_with(["alone", "same key"]))
def test_stopped_redis_writer_loses_nothing(
    tmp_path: Path, redis_server: Service, point: Step | Point, rival: str, lease: LeasePlace
) -> None:
    with dropped_afterwards(redis_url(redis_server)) as url:
        require_nothing_lost(tmp_path, url, lease, point, RIVALS[rival])
