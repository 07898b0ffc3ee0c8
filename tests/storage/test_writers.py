"""Writers of a table in an object store: killed, paused and many at once, as in a local folder."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from itertools import count, cycle
from pathlib import Path

import pytest

from rli import ConflictError, LeasePlace, Step, Table, TableType, create_table, open_table
from rli.table.table import opened_table
from tests.concurrency.checker import check
from tests.concurrency.clients import Point, clients, history_of
from tests.concurrency.history import Committed, Read, Refused, Upsert
from tests.concurrency.test_histories import SEED, require_serialisable
from tests.crash.writes import (
    AFTER,
    BEFORE,
    FIRST,
    SECOND,
    STEPS_BEFORE_PUBLICATION,
    die,
    do_write,
    index_url,
    open_copy,
    place_table,
    pointed,
    read_rows,
    require_recovery,
    write_and_die_at_step,
)
from tests.support.children import was_killed
from tests.support.object_store import ObjectStore
from tests.support.requests import at_requests
from tests.support.soak import EVERY_POINT, in_ci
from tests.support.table_model import upserted
from tests.support.table_types import BOTH_TYPES, of_both_types
from tests.support.tables import check_stored, records

pytestmark = [pytest.mark.crash, pytest.mark.slow]

LEASE_SECONDS = 1.0
FOLLOW_UPS = ("upsert", "rollback", "sync", "delete")
EACH = [*zip(Step, cycle(FOLLOW_UPS), strict=False)]
FEW = [case for case in EACH if case[0] in {Step.FILE_PROMOTED, Step.PROMOTED, Step.PUBLISHED}]
"""Where what an object store does differs: the others are killed on disks (``tests/crash``)."""

BASE = Upsert((("a", "x", 1, 0.1), ("b", "x", 1, 0.2), ("c", "y", 1, 0.3)))
PAUSED = Upsert((("a", "x", 5, 1.1), ("new", "y", 5, 1.2), ("b", "y", 5, 1.3)))
RIVAL = Upsert((("a", "x", 6, 2.1), ("new", "z", 4, 2.2), ("c", "y", 6, 2.3)))


def new_table(
    server: ObjectStore,
    index: str,
    lease: LeasePlace,
    lease_seconds: float = 30,
    table_type: TableType = TableType.COPY_ON_WRITE,
) -> Table:
    return create_table(
        f"s3://{server.new_bucket()}/t",
        record_key="id",
        partition_by="city",
        ordering="ts",
        index=index,
        shards=3,
        lease=lease,
        lease_seconds=lease_seconds,
        table_type=table_type,
        storage_options=server.options,
    )


class Copies:
    """Copies of a table of two commits, each in a bucket of its own, with their indexes."""

    def __init__(
        self,
        server: ObjectStore,
        folder: Path,
        metadata: Sequence[str] = (),
        table_type: TableType = TableType.COPY_ON_WRITE,
    ) -> None:
        self._server = server
        self._folder = folder
        self._template = folder / "template"
        self._template.mkdir()
        self._numbers = count()
        with new_table(server, index_url(self._template), LeasePlace.INDEX, table_type=table_type) as table:
            table.upsert(records(*FIRST))
            table.upsert(records(*SECOND))
            if metadata:
                table.metadata.enable(metadata)
            self._bucket = opened_table(table).definition.storage.root.partition("/")[0]

    def make(self) -> Path:
        """A folder for ``open_copy``."""
        folder = Path(shutil.copytree(self._template, self._folder / str(next(self._numbers))))
        place_table(folder, f"s3://{self._server.copy_of(self._bucket)}/t", self._server.options)
        return folder


@pytest.fixture(scope="module")
def copies(object_store: ObjectStore, tmp_path_factory: pytest.TempPathFactory) -> Copies:
    return Copies(object_store, tmp_path_factory.mktemp("copies"))


@pytest.fixture(scope="module", params=BOTH_TYPES.values(), ids=[*BOTH_TYPES])
def copies_of_type(
    request: pytest.FixtureRequest, object_store: ObjectStore, tmp_path_factory: pytest.TempPathFactory
) -> Copies:
    return Copies(object_store, tmp_path_factory.mktemp("copies"), table_type=request.param)


@pytest.fixture(scope="module")
def copies_with_metadata(object_store: ObjectStore, tmp_path_factory: pytest.TempPathFactory) -> Copies:
    return Copies(object_store, tmp_path_factory.mktemp("copies"), ["files", "column_stats", "record_index"])


@pytest.fixture
def indexes(tmp_path: Path) -> Iterator[str]:
    """URLs of indexes of one table."""
    return (f"lmdb://{tmp_path}/{number}" for number in count())


@pytest.mark.parametrize(("step", "follow_up"), in_ci(FEW, of=EACH))
def test_a_kill_at_a_step(copies_of_type: Copies, step: Step, follow_up: str) -> None:
    folder = copies_of_type.make()
    assert was_killed(write_and_die_at_step, folder, "upsert", step, 1)
    took_effect = require_recovery(folder, "upsert", follow_up)
    assert took_effect == (step not in STEPS_BEFORE_PUBLICATION)


def upsert_and_die_at_request(folder: Path, number: int) -> None:
    """A child's work: an upsert that dies before it sends the n-th request after it began to publish."""
    left = [number]

    def before(_name: str) -> None:
        left[0] -= 1
        if not left[0]:
            die()

    def at_point(point: str) -> None:
        if point.startswith("before draft") and point.endswith(first):
            publishing.__enter__()
        elif point.startswith("after publish") and point.endswith(".commit"):
            publishing.__exit__(None, None, None)

    publishing, table = at_requests(before), open_copy(folder)
    first = "/deltacommit" if table.metadata.status().partitions else "/commit"
    do_write(pointed(table, at_point), "upsert")


@pytest.mark.parametrize(("kind", "every"), [("copies", 17), ("copies_with_metadata", 53)])
def test_kill_at_every_publication_request(request: pytest.FixtureRequest, kind: str, every: int) -> None:
    """Once it is decided, a commit takes place, although nobody sees it before somebody finishes it."""
    outcomes, copies = [], request.getfixturevalue(kind)
    for number in count(1, 1 if EVERY_POINT else every):
        folder = copies.make()
        was_finished = not was_killed(upsert_and_die_at_request, folder, number)
        table = open_copy(folder)
        seen = read_rows(table)
        assert seen in (BEFORE, AFTER["upsert"])
        batch = [("next", "y", 9, 9.0)]
        table.upsert(records(*batch))
        after = read_rows(table)
        took_effect = after == upserted(AFTER["upsert"], batch).rows
        assert took_effect or after == upserted(BEFORE, batch).rows
        assert took_effect or seen == BEFORE
        assert table.metadata.verify() == ()
        check_stored(table)
        outcomes.append(took_effect)
        table.close()
        if was_finished:
            break
    assert outcomes == sorted(outcomes)
    assert set(outcomes) == {False, True}


@pytest.mark.parametrize(
    ("point", "attempts", "lease"),
    in_ci(
        [
            (Step.FILE_PROMOTED, 4, LeasePlace.INDEX),
            (Point.BEFORE_PUBLISHING, 1, LeasePlace.TABLE),
            (Point.DECIDED, 1, LeasePlace.INDEX),
        ],
        of=[
            (point, attempts, lease)
            for point, attempts in [
                (Step.LEASED, 1),
                (Step.FILE_PROMOTED, 4),
                (Point.BEFORE_PUBLISHING, 1),
                (Point.BEFORE_PUBLISHING, 4),
                (Point.DECIDED, 1),
            ]
            for lease in LeasePlace
        ],
    ),
)
def test_lease_successor_fences_predecessor(
    object_store: ObjectStore, indexes: Iterator[str], point: Step | Point, attempts: int, lease: LeasePlace
) -> None:
    table = new_table(object_store, next(indexes), lease, LEASE_SECONDS)
    urls = [None, other_index(table, next(indexes))] if lease is LeasePlace.TABLE else [None]
    with clients(table.location, 2, indexes=urls, storage_options=object_store.options) as (paused, rival):
        events = [rival.do(BASE)]
        rival.hold(RIVAL, Step.WRITTEN)
        with paused.stopped(PAUSED, point, attempts):
            events += [rival.finish(), rival.do(Read())]
        ours = paused.finish()
        events += [ours, paused.do(Read())]
    if point is Point.DECIDED or attempts > 1:
        assert isinstance(ours.outcome, Committed), ours
    else:
        assert ours.outcome == Refused("LeaseLostError")
    table.sync_index()
    assert check(history_of(table, events)) == []
    check_stored(table)


def other_index(table: Table, url: str) -> str:
    """Make another index of a table."""
    with open_table(table.location, index=url, storage_options=opened_table(table).definition.storage.options) as other:
        other.bootstrap_index(shards=3)
    return url


@of_both_types
@pytest.mark.parametrize("lease", list(LeasePlace))
def test_a_history_is_serialisable(
    object_store: ObjectStore, indexes: Iterator[str], lease: LeasePlace, table_type: TableType
) -> None:
    table = new_table(object_store, next(indexes), lease, table_type=table_type)
    urls = [None, other_index(table, next(indexes))] if lease is LeasePlace.TABLE else [None]
    require_serialisable(table, SEED, urls)


def test_writers_await_decided_commit(object_store: ObjectStore, indexes: Iterator[str]) -> None:
    """The process that decided it lives on, as after Ctrl-C; another writer waits for the lease by then."""
    table = new_table(object_store, next(indexes), LeasePlace.INDEX, LEASE_SECONDS)
    rival = open_table(table.location, storage_options=object_store.options)
    table.upsert(records(("a", "x", 1, 0.1)))
    copies = count(1)

    def before(name: str) -> None:
        # The first copy promotes the only base file.
        if name == "copy" and next(copies) == 2:
            raise KeyboardInterrupt

    def interrupt_the_first(step: Step) -> None:
        if step is Step.WRITTEN:
            with at_requests(before), pytest.raises(KeyboardInterrupt):
                table.upsert(records(("a", "x", 2, 0.2)))
            assert read_rows(table)["a"][2] == 1

    with pytest.raises(ConflictError):
        rival.upsert(records(("a", "x", 3, 0.3)), attempts=1, on_step=interrupt_the_first)
    assert read_rows(table)["a"][2] == 2
    assert rival.upsert(records(("a", "x", 3, 0.3))).updated == 1
    assert read_rows(table)["a"][2] == 3
    check_stored(table)


@pytest.mark.parametrize("lease", list(LeasePlace))
def test_unchanged_transaction_is_committed(
    object_store: ObjectStore, indexes: Iterator[str], lease: LeasePlace
) -> None:
    table = new_table(object_store, next(indexes), lease)
    table.upsert(records(("a", "x", 5, 1.0)))
    first = table.upsert(records(("a", "x", 1, 0.0)), transaction=("job", 1))
    assert first.instant is not None
    assert first.unchanged == 1
    table.delete(["a"])
    # Without the record of the transaction, it would be inserted.
    assert table.upsert(records(("a", "x", 1, 0.0)), transaction=("job", 1)) == first
