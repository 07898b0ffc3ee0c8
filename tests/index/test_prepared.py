"""A prepared transaction can always be committed, whatever dies between it and the commit of its table (P35)."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from itertools import count
from pathlib import Path
from uuid import uuid4

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from rli import ConflictError, IndexCommit, IndexTransaction, Table, create_table
from rli.errors import IndexMismatchError, InvalidInputError, LeaseLostError
from rli.index.record.alone.transaction import open_transaction
from rli.index.record.index_alone import IndexAlone
from rli.index.record.log.record import RecordDraft
from rli.index.record.log.state import LogState
from rli.index.record.stored_index import StoredIndex
from rli.model import FileGroupId
from rli.store.contract import Store
from tests.index.test_sweeping import SMALL_CHUNKS, seem_elsewhere
from tests.support.children import start_child, was_killed
from tests.support.faults import KillAt, PointedStore
from tests.support.indexes import record_index
from tests.support.locations import commit_places, leftover_chunks, locations, places_of
from tests.support.soak import EVERY_POINT
from tests.support.stored_indexes import create_index, open_index

pytestmark = pytest.mark.invariant("P35")

A, B, C = FileGroupId("p", "a-0"), FileGroupId("p", "b-0"), FileGroupId("q", "c-0")


@pytest.fixture
def index(index_url: str) -> StoredIndex:
    """An empty index."""
    return create_index(index_url)


def prepared(index: StoredIndex, places: dict[str, FileGroupId], version: str = "1") -> IndexTransaction:
    opened = index.begin()
    opened.stage(locations(places))
    opened.prepare({"table.version": version})
    return opened


def prepared_records(index: StoredIndex) -> list[str]:
    return [name for name, _ in index.store.scan_control("prepared/")]


def leftovers(index: StoredIndex) -> list[str]:
    return [*prepared_records(index), *leftover_chunks(index)]


def test_commit_result_is_remembered(index: StoredIndex) -> None:
    with index.begin() as transaction:
        transaction.stage(locations({"k1": A, "k2": A, "k3": B}))
        transaction.stage_deletes(["k2", "k2", "never there"])
        committed = transaction.commit(metadata={"table.version": "17"})
    assert committed == IndexCommit(transaction.instant, 1, 2, 2, {"table.version": "17"})
    commit_places(index, {"k4": A})
    with open_index(index.url) if index.url.startswith("lmdb") else index as reopened:
        assert reopened.last_commit(having="table.version") == committed
        newest = reopened.last_commit()
        assert newest is not None
        assert newest.metadata == {}
        assert reopened.history() == [newest, committed]
        assert reopened.history(limit=1) == [newest]
        assert reopened.last_commit(having="other") is None


def test_history_continues_behind_checkpoint() -> None:
    with create_index(f"memory:{uuid4().hex}") as index:
        instants = [commit_places(index, {"k": (A, B)[number % 2]}) for number in range(300)]
        assert [commit.instant for commit in index.history()] == instants[::-1]


class CountedReads(PointedStore):
    """Counts the records of the commit log that are read together."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, lambda _: None)
        self.count = 0

    def scan_control(self, prefix: str, start: str = "") -> list[tuple[str, bytes]]:
        found = super().scan_control(prefix, start)
        self.count += sum(name.startswith("commit/") for name, _ in found)
        return found


def test_a_long_history_is_read_once() -> None:
    with create_index(f"memory:{uuid4().hex}") as index:
        log: LogState | None = index.log.refresh()
        instants = [f"{number:017d}" for number in range(1, 2_101)]
        for instant in instants:
            assert log is not None
            draft = RecordDraft(instant=instant, action="transaction", writer=instant, located_at=(instant,))
            log = index.log.append(log, draft)
        counted = CountedReads(index.store)
        reader = IndexAlone(counted, index.settings)
        assert reader.last_commit() is not None
        counted.count = 0
        assert [commit.instant for commit in reader.history()] == instants[::-1]
        assert counted.count < 1.2 * len(instants)


def test_a_commit_may_have_metadata_alone(index: StoredIndex) -> None:
    with index.begin() as transaction:
        committed = transaction.commit({"table.version": "2"})
    assert (committed.sequence, committed.placed, committed.deleted) == (1, 0, 0)
    with index.begin() as transaction:
        assert transaction.commit() == IndexCommit(None, None, 0, 0)
    assert len(index.history()) == 1


@pytest.mark.parametrize("metadata", [{"a": 1}, {1: "a"}, {"": "a"}, {"a": "\ud800"}, [("a", "b")], "a"])
def test_unstorable_metadata_is_refused(index: StoredIndex, metadata: dict[str, str]) -> None:
    with index.begin() as transaction:
        transaction.stage(locations({"k": A}))
        for call in (transaction.commit, transaction.prepare):
            with pytest.raises(InvalidInputError, match="metadata"):
                call(metadata)
        transaction.commit()


@pytest.mark.parametrize(
    "given",
    [
        lambda table: table.to_reader(),
        lambda table: table.to_batches()[0],
        lambda table: table.to_pandas(),
        lambda table: table.to_pandas().set_index(pd.Index([7])),
        pl.from_arrow,
    ],
)
def test_stage_takes_whatever_upsert_takes(index: StoredIndex, given: Callable[[pa.Table], object]) -> None:
    with index.begin() as transaction:
        transaction.stage(given(locations({"k": A})))
        transaction.commit()
    assert places_of(index, ["k"]) == {"k": A}


def test_what_is_no_table_is_refused(index: StoredIndex) -> None:
    with index.begin() as transaction, pytest.raises(InvalidInputError, match=r"give a pyarrow\.Table, record batches"):
        transaction.stage([{"record_key": "k"}])


def test_prepared_transaction_is_invisible(index: StoredIndex) -> None:
    with prepared(index, {"k": A}, "7") as transaction:
        assert places_of(index, ["k"]) == {}
        [pending] = index.pending()
        assert (pending.id, pending.instant) == (transaction.id, transaction.instant)
        assert (pending.placed, pending.deleted, pending.metadata) == (1, 0, {"table.version": "7"})
        assert not pending.writer_is_dead
        committed = transaction.commit({"rows": "1"})
    assert committed.metadata == {"table.version": "7", "rows": "1"}
    assert places_of(index, ["k"]) == {"k": A}
    assert index.pending() == []
    assert index.history() == [committed]
    assert leftovers(index) == []


def test_prepared_transaction_holds_its_keys(index: StoredIndex) -> None:
    """Began before or after: nobody takes a key, or tags it, until the transaction is decided."""
    commit_places(index, {"k": A, "other": A})
    before = index.begin()
    holder = prepared(index, {"k": B, "new": B}, "7")
    after = index.begin()
    for opened in (before, after):
        opened.stage(locations({"k": C, "other": C}))
        with pytest.raises(ConflictError, match=r"RecordIndex\.pending") as raised:
            opened.tag(["new", "other"])
        assert raised.value.keys == ("new",)
        assert places_of(opened, ["other"]) == {"other": A}
    with pytest.raises(ConflictError, match=r"'table\.version': '7'") as raised:
        before.commit()
    assert (raised.value.keys, raised.value.instants) == (("k",), (holder.instant,))
    with pytest.raises(ConflictError):
        after.prepare()
    assert prepared_records(index) == [f"prepared/{holder.id}"]
    commit_places(index, {"other": B})
    holder.commit()
    assert places_of(index, ["k", "new", "other"]) == {"k": B, "new": B, "other": B}
    assert leftover_chunks(index) == []


def test_appending_writer_heeds_new_preparation(index_url: str) -> None:
    """It has looked for prepared transactions, and found none."""
    with create_index(index_url) as index, open_index(index_url) as other:
        holders: list[IndexTransaction] = []

        def prepare_first(point: str) -> None:
            if point.startswith("before compare_and_set commit/") and not holders:
                holders.append(prepared(other, {"k": B}))

        late = IndexAlone(PointedStore(index.store, prepare_first), index.settings).begin()
        late.stage(locations({"k": A}))
        with pytest.raises(ConflictError, match="held by a prepared transaction"):
            late.commit()
        holders[0].commit()
        assert places_of(index, ["k"]) == {"k": B}


def test_preparation_yields_to_earlier_commit(index_url: str) -> None:
    with create_index(index_url) as index, open_index(index_url) as other:
        taken: list[str] = []

        def commit_first(point: str) -> None:
            if point.startswith("before compare_and_set commit/") and not taken:
                taken.append(commit_places(other, {"k": B}))

        late = IndexAlone(PointedStore(index.store, commit_first), index.settings).begin()
        late.stage(locations({"k": A}))
        with pytest.raises(ConflictError) as raised:
            late.prepare()
        assert raised.value.instants == tuple(taken)
        assert leftovers(index) == []


def test_concurrent_preparations_have_single_winner(index_url: str) -> None:
    with create_index(index_url) as index, open_index(index_url) as other:
        second: list[IndexTransaction] = []

        def prepare_too(point: str) -> None:
            if point.startswith("after compare_and_set prepared/") and not second:
                second.append(prepared(other, {"k": B}))

        first = IndexAlone(PointedStore(index.store, prepare_too), index.settings).begin()
        first.stage(locations({"k": A}))
        with pytest.raises(ConflictError):
            first.prepare()
        second[0].commit()
        assert places_of(index, ["k"]) == {"k": B}


def test_prepared_transaction_survives_error(index: StoredIndex) -> None:
    """The table may have the commit although its client raised an error."""

    def fail() -> None:
        with prepared(index, {"k": A}):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    [pending] = index.pending()
    pending.commit()
    assert places_of(index, ["k"]) == {"k": A}


def test_an_abort_frees_the_keys(index: StoredIndex) -> None:
    transaction = prepared(index, {"k": A})
    transaction.abort()
    assert leftovers(index) == []
    commit_places(index, {"k": B})
    assert places_of(index, ["k"]) == {"k": B}
    assert len(index.history()) == 1


def test_a_decision_stands(index: StoredIndex) -> None:
    """The second process to decide is told what was decided."""
    committed, aborted = prepared(index, {"k": A}, "1"), prepared(index, {"l": A}, "2")
    first, second = index.pending()
    assert first.commit() == committed.commit()
    for late in (first.abort, second.abort):
        late() if late == second.abort else _refused(late, "was committed by another process")
    _refused(second.commit, "was aborted by another process")
    _refused(aborted.commit, "was aborted by another process")
    assert places_of(index, ["k", "l"]) == {"k": A}


def _refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ConflictError, match=message):
        call()


def test_a_prepared_transaction_takes_nothing_more(index: StoredIndex) -> None:
    transaction = prepared(index, {"k": A})
    for call in (
        transaction.prepare,
        lambda: open_transaction(transaction),
        lambda: transaction.stage(locations({"l": A})),
        lambda: transaction.stage_deletes(["k"]),
    ):
        with pytest.raises(InvalidInputError, match="is prepared"):
            call()
    transaction.commit()


def test_table_index_has_table_history(tmp_path: Path) -> None:
    table: Table = create_table(str(tmp_path / "t"), record_key="id")
    index = record_index(table)
    assert index.pending() == []
    for call in (index.history, index.last_commit):
        with pytest.raises(IndexMismatchError, match="rli timeline"):
            call()


def stage_prepare_and_die(url: str) -> None:
    index = open_index(url)
    prepared(index, {"prepared": A})
    index.begin().stage(locations({"staged": A}))
    os._exit(0)


def test_preparation_survives_dead_process(tmp_path: Path) -> None:
    url = f"lmdb://{tmp_path}/index"
    with create_index(url) as index:
        start_child(stage_prepare_and_die, url).join()
        commit_places(index, {"next": B})
        assert index.sweep() == 0
        [pending] = index.pending()
        assert pending.writer_is_dead
        assert len(leftover_chunks(index)) == 1
        pending.commit()
        assert places_of(index, ["prepared", "staged", "next"]) == {"prepared": A, "next": B}


@pytest.mark.parametrize("when", ["before compare_and_set prepared/", "before compare_and_set commit/", "last"])
def test_presumed_dead_process_prepares_nothing(index_url: str, when: str) -> None:
    with create_index(index_url) as index, open_index(index_url) as other:
        swept: list[int] = []
        is_announced: list[str] = []

        def sweep_first(point: str) -> None:
            is_here = bool(is_announced) if when == "last" else point.startswith(when)
            if is_here and not swept:
                seem_elsewhere(other, silent_days=8)
                swept.append(other.sweep())
            if point.startswith("after compare_and_set commit/"):
                is_announced.append(point)

        opened = IndexAlone(PointedStore(index.store, sweep_first), index.settings).begin()
        opened.stage(locations({"k": A}))
        with pytest.raises(LeaseLostError, match="taken for dead"):
            opened.prepare()
        assert swept == [1]
        assert leftovers(index) == []
        commit_places(index, {"k": B})
        assert places_of(index, ["k"]) == {"k": B}


def die_while_preparing(url: str) -> None:
    def die_once_announced(point: str) -> None:
        if point.startswith("after compare_and_set commit/"):
            os.kill(os.getpid(), signal.SIGKILL)

    opened = open_index(url)
    prepared(IndexAlone(PointedStore(opened.store, die_once_announced), opened.settings), {"k": A})


def test_death_while_preparing_frees_keys(tmp_path: Path) -> None:
    url = f"lmdb://{tmp_path}/index"
    with create_index(url) as index:
        # This process has looked for dead ones, and will not do so again for an hour.
        commit_places(index, {"earlier": A})
        start_child(die_while_preparing, url).join()
        assert len(prepared_records(index)) == 1
        commit_places(index, {"k": B})
        assert places_of(index, ["k"]) == {"k": B}
        assert prepared_records(index) == []
        assert index.pending() == []


class WhenSought(PointedStore):
    """Does something when the prepared transactions, or the changes of one of them, are read."""

    def __init__(self, store: Store, prefix: str, then: Callable[[], object]) -> None:
        super().__init__(store, lambda _: None)
        self.prefix = prefix
        self.then = then

    def scan_control(self, prefix: str, start: str = "") -> list[tuple[str, bytes]]:
        if prefix.startswith(self.prefix):
            self.then()
        return super().scan_control(prefix, start)

    def read_control(self, name: str) -> bytes | None:
        if name.startswith(self.prefix):
            self.then()
        return super().read_control(name)


@pytest.mark.parametrize("last", [IndexTransaction.commit, IndexTransaction.prepare])
def test_presumed_dead_process_fails_beside_preparation(
    index_url: str, last: Callable[[IndexTransaction], object]
) -> None:
    with create_index(index_url) as index, open_index(index_url) as other:
        prepared(other, {"k": A})
        swept: list[int] = []

        def sweep_once() -> None:
            if is_last and not swept:
                seem_elsewhere(other, silent_days=8)
                swept.append(other.sweep())

        is_last = False
        opened = IndexAlone(WhenSought(index.store, "prepared/", sweep_once), index.settings).begin()
        opened.stage(locations({"k": B}))
        is_last = True
        with pytest.raises(LeaseLostError, match="taken for dead"):
            last(opened)
        assert swept == [1]


def test_keys_are_compared_with_preparation_once(index_url: str) -> None:
    with create_index(index_url) as index, open_index(index_url) as other:
        holder = prepared(other, {"held": A})
        committed = count()

        def commit_another() -> None:
            if (number := next(committed)) < 10:
                commit_places(other, {f"small {number}": C})

        opened = IndexAlone(WhenSought(index.store, f"stage/{holder.id}", commit_another), index.settings).begin()
        opened.stage(locations({"k": B}))
        opened.commit()
        assert next(committed) == 1
        assert places_of(index, ["k", "small 0"]) == {"k": B, "small 0": C}


# A table of another format, and kills ------------------------------------------------------------------------------


def table_commit(folder: Path, transaction_id: str, places: dict[str, FileGroupId]) -> None:
    """A table whose commits are files that appear whole."""
    content = json.dumps({"transaction": transaction_id, "places": places})
    draft = folder / f"draft-{os.getpid()}"
    draft.write_text(content)
    draft.rename(folder / f"{len(table_commits(folder)) + 1:06d}.json")


def table_commits(folder: Path) -> list[dict[str, object]]:
    return [json.loads(path.read_text()) for path in sorted(folder.glob("0*.json"))]


def table_state(folder: Path) -> dict[str, FileGroupId]:
    state: dict[str, FileGroupId] = {}
    for commit in table_commits(folder):
        places = commit["places"]
        assert isinstance(places, dict)
        state |= {key: FileGroupId(*place) for key, place in places.items()}
    return state


BATCHES = {"first": {f"k{number}": A for number in range(5)}, "second": {"k1": B, "k4": C, "new": C}}


def write(url: str, folder: str, batch: str, point: int) -> None:
    """Commit a batch to the table and the index; the process dies at the given change of either."""
    kill = KillAt(point)
    opened = open_index(url)
    index = IndexAlone(PointedStore(opened.store, kill), opened.settings, SMALL_CHUNKS)
    with index.begin() as transaction:
        transaction.stage(locations(BATCHES[batch]))
        transaction.prepare({"batch": batch})
        kill("before the table's commit")
        table_commit(Path(folder), transaction.id, BATCHES[batch])
        kill("after the table's commit")
        transaction.commit()


def heal(index: StoredIndex, folder: Path) -> None:
    committed = {commit["transaction"] for commit in table_commits(folder)}
    for pending in index.pending():
        assert pending.writer_is_dead
        if pending.id in committed:
            pending.commit()
        else:
            pending.abort()


@pytest.mark.crash
def test_killed_preparation_can_be_reconciled(tmp_path: Path) -> None:
    template, table = tmp_path / "template", tmp_path / "table"
    table.mkdir()
    create_index(f"lmdb://{template}", shards=2).close()
    write(f"lmdb://{template}", str(table), "first", 0)
    outcomes = []
    for point in count(1, 1 if EVERY_POINT else 3):
        url = f"lmdb://{shutil.copytree(template, tmp_path / str(point))}"
        folder = shutil.copytree(table, tmp_path / f"{point}.table")
        killed = was_killed(write, url, str(folder), "second", point)
        with open_index(url) as index:
            heal(index, folder)
            outcomes.append(len(table_commits(folder)))
            assert places_of(index, ["k0", "k1", "k4", "new"]) == {
                key: place for key, place in table_state(folder).items() if key in {"k0", "k1", "k4", "new"}
            }
            commit_places(index, {"k1": C, "new": A})
            assert leftovers(index) == []
            assert [commit.metadata.get("batch") for commit in index.history()] == [None, "second", "first"][
                :: 1 if outcomes[-1] == 2 else 2
            ]
        if not killed:
            break
    assert set(outcomes) == {1, 2}
    assert outcomes == sorted(outcomes)


def decide_and_die(url: str, folder: str, point: int) -> None:
    opened = open_index(url)
    heal(IndexAlone(PointedStore(opened.store, KillAt(point)), opened.settings), Path(folder))


@pytest.mark.crash
@pytest.mark.parametrize("is_committed", [True, False])
def test_interrupted_decision_is_finished(tmp_path: Path, *, is_committed: bool) -> None:
    template, table = tmp_path / "template", tmp_path / "table"
    table.mkdir()
    create_index(f"lmdb://{template}", shards=2).close()
    start_child(prepare_many_and_die, f"lmdb://{template}", str(table), is_committed).join()
    for point in count(1, 1 if EVERY_POINT else 3):
        url = f"lmdb://{shutil.copytree(template, tmp_path / str(point))}"
        killed = was_killed(decide_and_die, url, str(table), point)
        with open_index(url) as index:
            heal(index, table)
            assert places_of(index, ["k0", "k4"]) == ({"k0": A, "k4": A} if is_committed else {})
            commit_places(index, {"k0": B})
            assert leftovers(index) == []
        if not killed:
            break
    assert point > 5


def prepare_many_and_die(url: str, folder: str, is_committed: bool) -> None:  # noqa: FBT001
    opened = open_index(url)
    transaction = IndexAlone(opened.store, opened.settings, SMALL_CHUNKS).begin()
    transaction.stage(locations(BATCHES["first"]))
    transaction.prepare()
    if is_committed:
        table_commit(Path(folder), transaction.id, BATCHES["first"])
    os._exit(0)
