"""Indexings that Hudi has on the timeline: no commit is missing from an index, and each can be carried out or aborted."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from rli import ColumnIndexState, ConflictError, CorruptTableError, Table, UnsupportedTableError, create_table
from rli.findings import Verdict
from rli.metadata_table.findings import metadata_findings
from rli.table.table import opened_table
from rli.view.snapshot import Snapshot
from tests.support.indexings import begin_indexing, schedule_indexing
from tests.support.tables import turn_into_version_9

pytestmark = pytest.mark.invariant("P63")

_INSTANT = "20990101000000000"
_LATER = "20990101000000001"


@pytest.fixture
def table(tmp_path: Path) -> Table:
    table = create_table(tmp_path / "t", record_key="id", ordering="ts", name="t")
    turn_into_version_9(table)
    table.upsert(_rows("a", "b"))
    table.metadata.enable(["files", "record_index"])
    return table


def _rows(*keys: str) -> pa.Table:
    return pa.table({"id": [*keys], "ts": [1] * len(keys), "email": [f"{key}@x" for key in keys]})


def _schedule(table: Table, *partitions: str, instant: str = _INSTANT) -> Path:
    timeline = Path(table.location, ".hoodie/timeline")
    schedule_indexing(timeline, instant, partitions, table.timeline()[-1].time)
    return timeline


def test_no_commit_misses_a_begun_index(table: Table) -> None:
    begin_indexing(_schedule(table, "column_stats", "bloom_filters"), _INSTANT)
    with pytest.raises(ConflictError, match="an indexer of Hudi builds an index") as refused:
        table.upsert(_rows("c"), attempts=1)
    assert refused.value.instants == (_INSTANT,)
    with pytest.raises(ConflictError, match="an indexer of Hudi builds an index"):
        table.rollback(next(one.time for one in table.timeline() if one.is_write))
    with pytest.raises(ConflictError, match="an indexer of Hudi builds this index"):
        table.metadata.enable(["bloom_filters"])
    assert table.read().num_rows == 2


def test_damaged_plan_stops_commits_once_begun(table: Table) -> None:
    timeline = _schedule(table, "bloom_filters")
    (plan,) = timeline.glob(f"{_INSTANT}*")
    plan.write_bytes(b"")
    assert table.upsert(_rows("c")).inserted == 1
    assert table.metadata.enable(["bloom_filters"]).added == ("bloom_filters",)
    assert _verdicts(table, plan) == [Verdict.WARNING]
    begin_indexing(timeline, _INSTANT)
    assert _verdicts(table, plan) == [Verdict.PROBLEM]
    with pytest.raises(CorruptTableError, match=plan.name):
        table.upsert(_rows("d"))
    # It is listed, so no indexer builds it.
    assert table.metadata.disable(["bloom_filters"]).removed == ("bloom_filters",)
    with pytest.raises(CorruptTableError, match="rli metadata disable TABLE"):
        table.metadata.disable(["bloom_filters"])
    table.metadata.disable(["files"])
    assert not [*timeline.glob(f"{_INSTANT}*")]
    assert table.upsert(_rows("d")).inserted == 1


def _verdicts(table: Table, plan: Path) -> list[Verdict]:
    """Of findings that name a file; the look goes on behind it."""
    *found, whole = metadata_findings(Snapshot.now(opened_table(table).definition.reloaded()))
    assert whole.verdict is Verdict.OK
    return [one.verdict for one in found if plan.name in one.detail]


def test_unread_plan_keeps_its_partitions(table: Table) -> None:
    timeline = _schedule(table, "column_stats")
    (plan,) = timeline.glob(f"{_INSTANT}*")
    plan.write_bytes(b"")
    begin_indexing(timeline, _INSTANT)
    properties = Path(table.location, ".hoodie/hoodie.properties")
    inflight = "hoodie.table.metadata.partitions.inflight=column_stats"
    properties.write_text(f"{properties.read_text()}\n{inflight}\n")
    with pytest.raises(CorruptTableError, match=plan.name):
        table.metadata.disable(["column_stats"])
    assert table.metadata.disable(["record_index"]).listed == ("files",)


def test_unknown_begun_index_holds_commits_back(table: Table) -> None:
    begin_indexing(_schedule(table, "vector_index_x"), _INSTANT)
    properties = Path(table.location, ".hoodie/hoodie.properties")
    inflight = "hoodie.table.metadata.partitions.inflight=vector_index_x"
    properties.write_text(f"{properties.read_text()}\n{inflight}\n")
    with pytest.raises(ConflictError, match="an indexer of Hudi builds an index"):
        table.upsert(_rows("c"), attempts=1)


def test_indexings_pass_without_a_metadata_table(table: Table) -> None:
    table.metadata.disable()
    begin_indexing(_schedule(table, "bloom_filters"), _INSTANT)
    last = table.upsert(_rows("c")).instant
    table.rollback(last or "")
    assert sorted(table.read()["id"].to_pylist()) == ["a", "b"]


def test_overlapping_indexings_are_dropped_together(table: Table) -> None:
    timeline = _schedule(table, "bloom_filters", "column_stats")
    _schedule(table, "column_stats", "partition_stats", instant=_LATER)
    for instant in (_INSTANT, _LATER):
        begin_indexing(timeline, instant)
    removed = table.metadata.disable(["bloom_filters"]).removed
    assert {*removed} == {"bloom_filters", "column_stats", "partition_stats"}
    assert not [*timeline.glob("2099*.indexing*")]


def test_a_dead_indexing_is_dropped(table: Table) -> None:
    timeline = _schedule(table, "column_stats", "bloom_filters")
    begin_indexing(timeline, _INSTANT)
    (found,) = (index for index in table.indexes() if index.name == "bloom_filters")
    assert found.state is ColumnIndexState.BUILDING
    told = [*metadata_findings(Snapshot.now(opened_table(table).definition.reloaded()))]
    assert [one.verdict for one in told if _INSTANT in one.detail] == [Verdict.WARNING]
    assert table.drop_index("bloom_filters")
    # An indexing ends as a whole.
    assert table.indexes() == ()
    assert not [*timeline.glob(f"{_INSTANT}*")]
    table.upsert(_rows("c"))
    assert table.metadata.verify() == ()


def test_a_scheduled_indexing_is_carried_out(table: Table) -> None:
    timeline = _schedule(table, "column_stats", "bloom_filters")
    table.upsert(_rows("c"))
    assert {index.name for index in table.build_indexes()} == {"column_stats", "bloom_filters"}
    assert len([*timeline.glob(f"{_INSTANT}_*.indexing")]) == 1
    assert {index.state for index in table.indexes()} == {ColumnIndexState.VALID}
    assert table.metadata.verify() == ()
    assert table.build_indexes() == ()


def test_failed_indexing_leaves_others_to_run(table: Table) -> None:
    _schedule(table, "secondary_index_foo")
    _schedule(table, "bloom_filters", instant=_LATER)
    table.create_index("by_email", on="email", using="secondary", wait=False)
    with pytest.raises(UnsupportedTableError, match="secondary_index_foo"):
        table.build_indexes()
    states = {index.name: index.state for index in table.indexes()}
    valid = ColumnIndexState.VALID
    assert states == {"foo": ColumnIndexState.BUILDING, "bloom_filters": valid, "by_email": valid}


def test_a_listed_indexing_is_left(table: Table) -> None:
    """Hudi lists a partition before it has caught up."""
    timeline = _schedule(table, "record_index")
    begin_indexing(timeline, _INSTANT)
    assert table.build_indexes() == ()
    assert not [*timeline.glob(f"{_INSTANT}_*")]
    # Of rli, which died before it completed the instant.
    plan = (timeline / f"{_INSTANT}.indexing.requested").read_bytes()
    (timeline / f"{_INSTANT}.indexing.inflight").write_bytes(plan)
    table.build_indexes()
    assert len([*timeline.glob(f"{_INSTANT}_*.indexing")]) == 1
