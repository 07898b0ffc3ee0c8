"""A look-up shows every commit that was acknowledged, whatever became of its writer (P8)."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from rli import IndexNotReadyError, Step, Table, create_table, open_index, open_table
from rli.commit.recovery import exclusive
from rli.coordination.lease import LEASE, TableLease
from rli.coordination.liveness import Holding
from rli.coordination.shared_records import shared_records
from rli.coordination.writers import writer_record
from rli.hudi.timeline.timeline import Timeline
from rli.publication.fence import Fence
from rli.services.rollback import ROLLBACK, rollback_plan
from rli.table.table import opened_table
from rli.view.definition import TableDefinition
from rli.view.snapshot import Snapshot
from tests.crash.writes import pointed
from tests.support.children import was_killed
from tests.support.indexes import record_index
from tests.support.rollbacks import roll_back_in_part
from tests.support.tables import check_stored, records

KEYS = ("a", "b")


@pytest.fixture
def table(tmp_path: Path) -> Table:
    table = create_table(
        tmp_path / "t", record_key="id", partition_by="city", ordering="ts", index=f"lmdb://{tmp_path}/i"
    )
    table.upsert(records(("a", "x", 1, 1.0)))
    return table


def publish_and_die(location: str) -> None:
    """Write, and be killed before the index is told."""

    def die(step: Step) -> None:
        if step is Step.PUBLISHED:
            os.kill(os.getpid(), signal.SIGKILL)

    open_table(location).upsert(records(("a", "y", 2, 2.0), ("b", "x", 2, 2.0)), on_step=die)


def where(table: Table, timeout: float = 60.0) -> list[str | None]:
    places: list[str | None] = table.lookup(KEYS, timeout=timeout).column("partition_path").to_pylist()
    return places


def let_its_host_be_another(table: Table) -> None:
    """Nobody here can see whether the dead writer lives, and its clock is trusted for ten minutes."""
    store, instant = record_index(table).store, table.timeline()[-1].time
    content = store.read_control(writer_record(instant)) or b""
    holding = Holding.from_json(content)
    elsewhere = replace(holding, process=replace(holding.process, host="elsewhere"), expires_at=time.time() + 600)
    assert store.compare_and_set(writer_record(instant), content, elsewhere.to_json())


@pytest.mark.invariant("P8")
@pytest.mark.parametrize("host", ["this host", "another host"])
def test_lookup_applies_commit_of_dead_writer(table: Table, host: str) -> None:
    assert was_killed(publish_and_die, table.location)
    if host == "another host":
        let_its_host_be_another(table)
    assert where(table) == ["y", "x"]
    assert record_index(table).applied_sequence() == record_index(table).log.refresh().head
    table.upsert(records(("c", "x", 3, 3.0)))
    check_stored(table)


def test_lookup_wait_is_bounded(table: Table) -> None:
    assert was_killed(publish_and_die, table.location)
    let_its_host_be_another(table)
    with pytest.raises(IndexNotReadyError, match=r"older than the table.*rli index sync"):
        where(table, timeout=0)
    assert where(table) == ["y", "x"]


def test_parallel_lookups_apply_single_commit(table: Table) -> None:
    assert was_killed(publish_and_die, table.location)
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(where, [table] * 8)) == [["y", "x"]] * 8
    assert table.verify_index().agrees


@pytest.mark.invariant("P8", "P12")
def test_lookup_finishes_rollback_of_dead_process(table: Table) -> None:
    undone = table.upsert(records(("a", "y", 2, 2.0), ("b", "x", 2, 2.0))).instant or ""
    definition = opened_table(table).definition
    with exclusive(definition, opened_table(table).index, "rollback") as lease:
        snapshot = Snapshot.now(definition)
        plan = rollback_plan(snapshot, snapshot.timeline.find(undone))
        ROLLBACK.announce(plan, snapshot.timeline, Fence(definition, lease.require_held))
        # The commit becomes pending again, and nobody but the holder of the lease may go on from there.
        (completed,) = (i for i in table.timeline() if i.time == undone)
        Path(table.location, definition.timeline_layout.path(completed.file_name)).unlink()
        with pytest.raises(IndexNotReadyError, match=f"being rolled back.*{undone}.*try again"):
            where(table, timeout=0.1)
    assert where(table) == ["x", None]
    check_stored(table)


def test_lookup_of_private_index_awaits_rollback(tmp_path: Path) -> None:
    """With the lease in the table, too: what is half undone is not shown."""
    table = create_table(
        tmp_path / "t", record_key="id", partition_by="city", index=f"lmdb://{tmp_path}/i", lease="table"
    )
    table.upsert(records(("a", "x", 1, 1.0)))
    roll_back_in_part(table, table.upsert(records(("a", "y", 2, 2.0), ("b", "x", 2, 2.0))).instant or "")
    with pytest.raises(IndexNotReadyError, match="being rolled back"):
        where(table, timeout=0)
    assert where(table) == ["x", None]
    check_stored(table)


def test_lookup_lease_wait_is_bounded(table: Table) -> None:
    """It would finish a rollback, and another process gets the lease first and keeps it."""
    roll_back_in_part(table, table.upsert(records(("b", "x", 2, 2.0))).instant or "")
    with ExitStack() as held:

        def at_point(point: str) -> None:
            if point == "before compare_and_set lease":
                held.enter_context(
                    TableLease(shared_records(opened_table(table).definition, opened_table(table).index)).hold("clean")
                )

        with pytest.raises(IndexNotReadyError, match="being rolled back"):
            where(pointed(table, at_point), timeout=1)
        assert record_index(table).store.read_control(LEASE) is not None
    assert where(table) == ["x", None]


def test_standalone_index_points_to_table_lookup(table: Table, tmp_path: Path) -> None:
    with open_index(f"lmdb://{tmp_path}/i") as index:
        assert was_killed(publish_in_part_and_die, table.location)
        with pytest.raises(
            IndexNotReadyError, match=r"only partly in the index.*rli index sync TABLE.*rli\.open_table"
        ):
            index.lookup(["a"], timeout=0)
        assert where(table) == ["y", "x"]
        assert index.lookup(["a"], timeout=0).column("partition_path").to_pylist() == ["y"]


def publish_in_part_and_die(location: str) -> None:
    """Write, and be killed when some entries are in the index."""

    def die(step: Step) -> None:
        if step is Step.CHANGES_APPLIED:
            os.kill(os.getpid(), signal.SIGKILL)

    open_table(location).upsert(records(("a", "y", 2, 2.0), ("b", "x", 2, 2.0)), on_step=die)


def test_lookup_follows_rollback_and_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log was read before, the timeline after: it shows neither the commit that the log knows nor its rollback."""
    table = create_table(
        tmp_path / "t", record_key="id", partition_by="city", ordering="ts", index=f"lmdb://{tmp_path}/i"
    )
    for ts in range(4):
        table.upsert(records(("a", "x", ts, 1.0), ("b", str(ts), ts, 1.0)))
    reader, load = open_table(table.location), TableDefinition.load_timeline
    assert reader.lookup(["b"])["partition_path"].to_pylist() == ["3"]
    interfered: list[bool] = []

    def load_late(self: TableDefinition) -> Timeline:
        if not interfered:
            interfered.append(True)
            table.rollback("last")
            for ts in range(10, 14):
                table.upsert(records(("a", "x", ts, 1.0)))
            table.clean(keep_commits=1)
            table.archive(keep_commits=1)
        return load(self)

    monkeypatch.setattr(TableDefinition, "load_timeline", load_late)
    assert reader.lookup(["a", "b"])["partition_path"].to_pylist() == ["x", "2"]
    assert interfered
    assert reader.get(["b"]).column("ts").to_pylist() == [2]
