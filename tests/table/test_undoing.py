"""What other engines undo is followed from the files; here their traces are made with our own rollback."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rli import (
    IndexNotReadyError,
    InstantNotFoundError,
    Maintenance,
    Table,
    UnsupportedTableError,
    create_table,
    open_table,
)
from rli.commit.recovery import exclusive
from rli.hudi.file_names import BaseFileName
from rli.publication.fence import Fence
from rli.services.rollback import ROLLBACK, rollback_plan
from rli.table.table import opened_table
from rli.view import paths
from rli.view.snapshot import Snapshot
from tests.crash.writes import pointed
from tests.support.tables import check_stored, forget_the_journal, records, rows_of, turn_into_version_9


@pytest.fixture(params=[6, 9])
def table(request: pytest.FixtureRequest, trips: Table) -> Table:
    """An empty table of either layout of the timeline."""
    if request.param == 9:
        turn_into_version_9(trips)
    return trips


def _write_and_forget(table: Table) -> str:
    table.upsert(records(("a", "x", 1, 1.0), ("b", "x", 1, 1.0), ("c", "y", 1, 1.0)))
    instant = table.upsert(
        records(("a", "y", 2, 2.0), ("b", "x", 2, 2.0), ("d", "z", 2, 2.0), ("e", "x", 2, 2.0))
    ).instant
    assert instant is not None
    forget_the_journal(table, instant)
    return instant


def test_commit_without_journal_is_undone(table: Table) -> None:
    instant = _write_and_forget(table)
    table.rollback(instant)
    assert table.lookup(["a", "b", "c", "d", "e"])["partition_path"].to_pylist() == ["x", "x", "y", None, None]
    check_stored(table)
    assert table.upsert(records(("d", "x", 1, 1.0), ("a", "z", 3, 1.0))).inserted == 1
    check_stored(table)


def test_first_commit_without_journal_is_undone(table: Table) -> None:
    instant = table.upsert(records(("a", "x", 1, 1.0))).instant or ""
    forget_the_journal(table, instant)
    table.rollback(instant)
    assert table.lookup(["a"])["partition_path"].to_pylist() == [None]
    table.upsert(records(("b", "y", 1, 1.0)))
    check_stored(table)


def test_files_of_undone_commit_never_count(table: Table) -> None:
    """Hudi takes files that are older than its first instant for data of an archived one."""
    instant = table.upsert(records(("wrong", "x", 1, 1.0))).instant or ""
    (path,) = Path(table.location, "x").glob("*.parquet")
    content = path.read_bytes()
    table.rollback(instant)
    table.upsert(records(("a", "x", 1, 1.0)))
    path.write_bytes(content)
    timeline = opened_table(table).snapshot().timeline
    assert timeline.first is not None
    assert BaseFileName.parse(path.name).instant < timeline.first
    assert [row["id"] for row in rows_of(table)] == ["a"]
    assert table.bootstrap_index() == 1
    assert table.clean(keep_commits=1).files_deleted == 1
    assert not path.exists()
    check_stored(table)


def test_rollback_finishes_under_other_path(tmp_path: Path) -> None:
    """Through a symbolic link, or another mount: the plan names files as its planner saw them."""
    planner = create_table(
        tmp_path / "real", record_key="id", partition_by="city", ordering="ts", index=f"lmdb://{tmp_path}/i"
    )
    planner.upsert(records(("a", "x", 1, 1.0)))
    undone = planner.upsert(records(("b", "x", 1, 1.0), ("c", "y", 1, 1.0))).instant or ""
    definition = opened_table(planner).definition
    with exclusive(definition, opened_table(planner).index, "rollback") as lease:
        snapshot = Snapshot.now(definition)
        plan = rollback_plan(snapshot, snapshot.timeline.find(undone))
        ROLLBACK.announce(plan, snapshot.timeline, Fence(definition, lease.require_held))
    planner.close()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with open_table(tmp_path / "link") as table:
        table.upsert(records(("d", "x", 1, 1.0)))
        assert [row["id"] for row in rows_of(table)] == ["a", "d"]
    assert [path for path in (tmp_path / "real").rglob("*.parquet") if undone in path.name] == []


def test_index_refuses_during_foreign_rollback(table: Table) -> None:
    instant = _write_and_forget(table)
    (completed,) = (i for i in table.timeline() if i.time == instant)
    path = Path(table.location, opened_table(table).definition.timeline_layout.path(completed.file_name))
    content = path.read_bytes()
    path.unlink()
    for call in (table.sync_index, lambda: table.delete(["a"])):
        with pytest.raises(IndexNotReadyError, match=f"another engine is rolling back.*{instant}"):
            call()
    path.write_bytes(content)
    assert table.delete(["a"]).deleted == 1
    check_stored(table)


def _keep_by_savepoint(table: Table, instant: str) -> None:
    table.savepoint(instant)


def _clean_as_others_do(table: Table, _: str) -> None:
    first = min(table.timeline(), key=lambda instant: instant.time)
    (path,) = Path(table.location, "x").glob(f"*_{first.time}.parquet")
    path.unlink()


def _archive_before(table: Table, _: str) -> None:
    table.clean(keep_commits=1)
    table.archive(keep_commits=2)


@pytest.mark.parametrize("keep", [_keep_by_savepoint, _clean_as_others_do, _archive_before])
def test_refused_rollback_keeps_later_clusterings(tmp_path: Path, keep: Callable[[Table, str], None]) -> None:
    table = create_table(
        tmp_path / "t", record_key="id", partition_by="city", small_file_size=0, maintenance=Maintenance.off()
    )
    table.upsert(records(("a", "x", 1, 1.0)))
    table.upsert(records(("b", "x", 1, 1.0)))
    instant = table.upsert(records(("a", "x", 2, 1.0), ("c", "x", 1, 1.0))).instant or ""
    assert table.cluster().files_replaced == 3
    keep(table, instant)
    before, rows = table.timeline(), rows_of(table)
    with pytest.raises((UnsupportedTableError, InstantNotFoundError)):
        table.rollback(instant)
    assert (table.timeline(), rows_of(table)) == (before, rows)
    check_stored(table)


def test_saved_commit_is_not_rolled_back(table: Table) -> None:
    instant = table.upsert(records(("a", "x", 1, 1.0))).instant or ""
    layout = opened_table(table).definition.timeline_layout
    path = Path(table.location, layout.completed_path(instant, "savepoint", f"{int(instant) + 9000}"))
    path.write_bytes(b"")
    with pytest.raises(UnsupportedTableError, match="a savepoint keeps"):
        table.rollback(instant)
    path.unlink()
    table.rollback(instant)
    check_stored(table)


@pytest.mark.parametrize("name", [f".20260101000000000.rollback.{'0' * 32}.tmp", ".DS_Store"])
def test_leftover_files_cost_no_lease(tmp_path: Path, name: str) -> None:
    table = create_table(tmp_path / "t", record_key="id", partition_by="city", ordering="ts", maintenance=False)
    table.upsert(records(("a", "x", 1, 1.0)))
    folder = Path(table.location, paths.UNDOING)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(b"")
    points: list[str] = []
    pointed(table, points.append).upsert(records(("a", "x", 2, 2.0)))
    # The lease is taken for the commit alone.
    assert next(point for point in points if "compare_and_set" in point).startswith("before compare_and_set writer/")
    # Those of rli are removed, and those of others are not.
    assert [path.name for path in folder.iterdir()] == [name] * (not name.endswith(".tmp"))


@pytest.mark.invariant("P12", "P21")
@pytest.mark.parametrize("folder", [paths.UNDOING, paths.SERVICES])
def test_services_of_newer_versions_block(table: Table, folder: str) -> None:
    """A writer that does not know a service cannot finish it, and must not build on half of it."""
    table.upsert(records(("a", "x", 1, 1.0)))
    mark = Path(table.location, folder, "20260101000000000.future")
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.write_bytes(b"")
    with pytest.raises(UnsupportedTableError, match=r"service=future instant=20260101000000000.*newer version"):
        table.upsert(records(("a", "x", 2, 2.0)))
    assert mark.exists()
    mark.unlink()
    table.upsert(records(("b", "x", 3, 3.0)))
    assert [(row["id"], row["ts"]) for row in rows_of(table)] == [("a", 1), ("b", 3)]
    check_stored(table)
