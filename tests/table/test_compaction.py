"""Compaction of merge-on-read tables that Hudi wrote: what changes, what stays, and who may do what beside it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import rli
from rli import InvalidInputError, Query, Step, Table, UnsupportedTableError
from rli.hudi.timeline.commit_metadata import COMPACT
from rli.hudi.timeline.compaction_plan import CompactionPlan
from rli.hudi.timeline.instant import Action
from rli.publication.instants import TableInstant
from rli.table.table import opened_table
from tests.support.metadata_tables import unpack_metadata_table

pytestmark = pytest.mark.invariant("P58")


@pytest.fixture(params=["v9_logs", "v6_logs"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    """Hudi's table with log files and a metadata table, taken up by rli."""
    opened = rli.open_table(unpack_metadata_table(request.param, tmp_path))
    opened.bootstrap_index("simple:")
    return opened


def rows(table: Table, query: Query = Query.SNAPSHOT, filters: str | None = None) -> list[tuple[str, int, str]]:
    found = rli.open_table(table.location).read(query=query, filters=filters).to_pylist()
    return sorted((row["id"], row["ts"], row["v"]) for row in found)


def deep(table: Table) -> int:
    """File groups with log files."""
    return sum(bool(one.logs) for one in opened_table(table).snapshot().slices.values())


def test_compaction_changes_no_record(table: Table) -> None:
    before, groups = rows(table), deep(table)
    stored = table.read(columns=["_hoodie_record_key", "_hoodie_commit_time", "_hoodie_commit_seqno"])
    done = table.compact()
    assert (len(done.instants), done.file_groups, done.held_back_by) == (1, groups, None)
    assert rows(table) == rows(table, Query.READ_OPTIMIZED) == before
    assert [row for row in before if row[1] >= 40] == rows(table, filters="ts >= 40")
    kept = table.read(columns=stored.column_names)
    assert sorted(kept.to_pylist(), key=str) == sorted(stored.to_pylist(), key=str)
    last = table.history()[-1]
    assert (last.time, last.action, last.operation) == (done.instants[0], "commit", COMPACT)
    assert deep(table) == 0
    assert table.compact().instants == ()


def test_filters_use_new_statistics(table: Table) -> None:
    assert table.compact().file_groups
    explained = table.scan(filters="ts >= 100").explain()
    assert explained.files.read < explained.files.total
    assert [row[0] for row in rows(table, filters="ts >= 100")] == ["k12"]


def test_schedule_is_carried_out_later(table: Table) -> None:
    before, groups = rows(table), deep(table)
    foretold = table.schedule_compaction(dry_run=True)
    planned = table.schedule_compaction()
    assert (foretold.instant, foretold.file_groups) == (None, groups)
    assert (planned.file_groups, planned.log_files) == (foretold.file_groups, foretold.log_files)
    assert table.schedule_compaction().instant is None
    assert rows(table) == before
    assert table.compact(dry_run=True).instants == (planned.instant,)
    assert table.compact().instants == (planned.instant,)
    assert rows(table, Query.READ_OPTIMIZED) == before


def test_deepest_slices_come_first(table: Table) -> None:
    slices = opened_table(table).snapshot().slices.values()
    shares = {one.group.file_id: sum(log.size for log in one.logs) / one.base.size for one in slices if one.base}
    planned = table.schedule_compaction(most_bytes=1)
    plan = TableInstant(opened_table(table).definition, planned.instant or "", "compaction").plan()
    (chosen,) = CompactionPlan.from_avro(plan or b"", "plan").operations
    assert shares[chosen.file_id] == max(shares.values())
    assert table.compact(least_share=100.0).instants == (planned.instant,)
    assert table.compact(least_share=100.0).instants == ()


def test_pending_write_holds_plan_back(table: Table) -> None:
    definition = opened_table(table).definition
    pending = TableInstant(definition, "20300101000000000", "deltacommit")
    assert pending.request()
    planned = table.schedule_compaction()
    if definition.properties.version == 6:
        assert (planned.instant, planned.held_back_by) == (None, pending.time)
        assert table.compact().held_back_by == pending.time
    else:
        assert planned.held_back_by is None
        assert planned.instant


def test_attempt_of_hudi_is_left(table: Table) -> None:
    before = rows(table)
    planned = table.schedule_compaction()
    instant = TableInstant(opened_table(table).definition, planned.instant or "", "compaction")
    instant.begin()
    storage = opened_table(table).definition.storage
    slices = opened_table(table).snapshot().slices.values()
    group = next(one.group for one in slices if one.logs)
    dead = f"{group.partition_path}/{group.file_id}_9-9-9_{planned.instant}.parquet".lstrip("/")
    for path in (dead, f".hoodie/.temp/{planned.instant}/{dead}.marker.MERGE"):
        storage.make_folder(path.rpartition("/")[0])
        storage.write_bytes(path, b"")
    left = table.compact()
    assert (left.instants, left.left) == ((), (planned.instant,))
    assert table.compact(take_over=True).instants == (planned.instant,)
    assert not storage.exists(dead)
    assert rows(table) == rows(table, Query.READ_OPTIMIZED) == before


def test_missing_planned_file_is_named(table: Table) -> None:
    planned = table.schedule_compaction()
    path = next(one.logs[0].path for one in opened_table(table).snapshot().slices.values() if one.logs)
    Path(table.location, path).unlink()
    with pytest.raises(rli.CorruptTableError, match=path.rpartition("/")[2]):
        table.compact()
    assert table.compact(dry_run=True).instants == (planned.instant,)


def trips(number: int, ts: int) -> pa.Table:
    return pa.table({"id": [f"k{one}" for one in range(number)], "ts": [ts] * number, "v": [str(ts)] * number})


def test_own_writes_beside_a_plan(tmp_path: Path) -> None:
    kept = ["files", "column_stats", "partition_stats", "bloom_filters", "record_index"]
    made = rli.create_table(
        tmp_path / "own", record_key="id", ordering="ts", table_type="merge_on_read", metadata=kept, maintenance=False
    )
    made.upsert(trips(20, 1))
    made.upsert(trips(5, 2))
    made.delete(["k4", "k9"])
    planned = made.schedule_compaction()
    made.upsert(trips(3, 3))
    made.delete(["k8"])
    expected = rows(made)
    assert (len(expected), planned.log_files) == (17, 2)
    for merged in (2, 2):
        assert made.compact().log_files == merged
        assert rows(made) == expected
        assert made.verify_index().agrees
        assert made.metadata.verify() == ()
    assert rows(made, Query.READ_OPTIMIZED) == expected
    assert set(made.lookup(["k0", "k4"])["file_id"].is_valid().to_pylist()) == {True, False}


def test_writers_compact_by_themselves(tmp_path: Path) -> None:
    often = rli.Maintenance(compaction_inline_max_delta_commits=3)
    made = rli.create_table(
        tmp_path / "own", record_key="id", ordering="ts", table_type="merge_on_read", maintenance=often
    )
    for ts in range(1, 8):
        made.upsert(trips(20, ts))
    operations = [entry.operation for entry in made.history()]
    assert [number for number, operation in enumerate(operations) if operation == COMPACT] == [3, 7]
    assert rows(made) == [(f"k{one}", 7, "7") for one in sorted(range(20), key=str)]
    made.set_maintenance(often.model_copy(update={"compaction_inline_max_delta_commits": None}))
    assert rli.open_table(made.location).settings.maintenance.compaction_inline_max_delta_commits is None


def test_deep_slices_get_a_base_file(tmp_path: Path) -> None:
    """However seldom a compaction runs, a slice has no more log files than the limit."""
    seldom = rli.Maintenance(compaction_inline_max_delta_commits=None, compaction_inline_max_log_files=2)
    made = rli.create_table(
        tmp_path / "own", record_key="id", ordering="ts", table_type="merge_on_read", maintenance=seldom
    )
    made.upsert(trips(20, 1))
    files = [(made.upsert(trips(5, ts)).files_appended, made.delete([f"k1{ts}"]).files_appended) for ts in range(2, 5)]
    assert files == [(1, 1), (0, 1), (1, 0)]
    assert [key for key, _, _ in rows(made)] == sorted({f"k{one}" for one in range(20)} - {"k12", "k13", "k14"})
    assert made.verify_index().agrees
    # A slice with a planned compaction is merged by that.
    made.upsert(trips(5, 8))
    made.upsert(trips(5, 9))
    assert made.schedule_compaction().log_files == 2
    assert made.upsert(trips(5, 10)).files_appended == 1
    assert made.compact().log_files == 2


def test_rollback_passes_a_compaction(tmp_path: Path) -> None:
    made = rli.create_table(
        tmp_path / "own", record_key="id", ordering="ts", table_type="merge_on_read", maintenance=False
    )
    made.upsert(trips(20, 1))
    made.upsert(trips(5, 2))
    before = rows(made)
    last = made.upsert(trips(3, 3)).instant or ""
    assert made.compact().file_groups == 1
    made.rollback(last)
    assert rows(made) == before
    assert made.compact(dry_run=True).instants == ()
    assert made.compact().log_files == 1
    assert rows(made) == rows(made, Query.READ_OPTIMIZED) == before
    assert made.verify_index().agrees


def test_plan_that_shows_late(tmp_path: Path) -> None:
    """Its instant is older than that of a write that has not seen it."""
    made = rli.create_table(
        tmp_path / "own", record_key="id", ordering="ts", table_type="merge_on_read", maintenance=False
    )
    made.upsert(trips(4, 1))
    made.upsert(trips(2, 2))
    definition = opened_table(made).definition
    instant = TableInstant(definition, made.schedule_compaction().instant or "", Action.COMPACTION)
    plans = [instant.plan() or b""]
    instant.drop()

    def show(step: Step) -> None:
        if step is Step.INFLIGHT and plans:
            assert definition.storage.create(instant.pending_paths[-1], plans.pop())

    assert made.upsert(trips(1, 3), on_step=show).attempts == 2
    before = rows(made)
    assert made.compact().instants == (instant.time,)
    assert rows(made) == before == [("k0", 3, "3"), ("k1", 2, "2"), ("k2", 1, "1"), ("k3", 1, "1")]


@pytest.mark.parametrize("undo", ["rollback", "restore"])
def test_plans_go_with_undone_files(undo: str, tmp_path: Path) -> None:
    made = rli.create_table(
        tmp_path / "own", record_key="id", ordering="ts", table_type="merge_on_read", maintenance=False
    )
    made.upsert(trips(4, 1))
    kept = made.upsert(trips(2, 2)).instant or ""
    before = rows(made)
    undone = made.upsert(trips(1, 3)).instant or ""
    assert made.schedule_compaction().log_files == 2
    made.rollback(undone) if undo == "rollback" else made.restore(kept)
    assert made.compact().log_files == 1
    assert rows(made) == rows(made, Query.READ_OPTIMIZED) == before


def test_only_log_files_are_compacted(tmp_path: Path) -> None:
    made = rli.create_table(tmp_path / "trips", record_key="id")
    for refused in (made.compact, made.schedule_compaction):
        for dry_run in (False, True):
            with pytest.raises(UnsupportedTableError, match="copy-on-write table has no log files"):
                refused(dry_run=dry_run)


def test_choices_are_checked(table: Table) -> None:
    with pytest.raises(InvalidInputError, match="least_share"):
        table.compact(least_share=-1.0)
    with pytest.raises(InvalidInputError, match="most_bytes"):
        table.schedule_compaction(most_bytes=0)
