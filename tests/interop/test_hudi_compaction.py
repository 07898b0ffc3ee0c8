"""Compactions of merge-on-read tables: rli carries out what Apache Hudi has scheduled, and Hudi what rli has scheduled."""

from __future__ import annotations

from pathlib import Path

import pytest

import rli
from rli import Table
from tests.support.hudi import HudiEngine
from tests.support.hudi_options import with_hudi
from tests.support.merge_on_read import has_metadata, options, require_equal, rows, versions

pytestmark = [pytest.mark.hudi, pytest.mark.spark, pytest.mark.slow, pytest.mark.invariant("P58")]


def deep_table(engine: HudiEngine, path: Path) -> Table:
    """A table with log files, taken up by rli."""
    given = options(engine, metadata=has_metadata(engine))
    engine.write(path, rows(*((f"k{number}", 10, "a", False) for number in range(9))), given, "overwrite")
    engine.write(path, rows(("k1", 5, "late", False), ("k2", 30, "b", False), ("k3", 30, "b", True)), given)
    engine.write(path, rows(("k4", 0, "", False)), {**given, "hoodie.datasource.write.operation": "delete"})
    table = rli.open_table(path)
    table.bootstrap_index("simple:")
    return table


def require_compacted(engine: HudiEngine, path: Path, expected: list[tuple[str, int, str]]) -> None:
    require_equal(engine, path)
    table = rli.open_table(path)
    assert versions(table.read()) == versions(table.read(query="read_optimized")) == expected
    assert table.compact(dry_run=True).file_groups == 0


@with_hudi("1.2.0", in_soak=("1.0.2", "0.15.0"))
def test_either_engine_carries_plans_out(engine: HudiEngine, tmp_path: Path) -> None:
    path = tmp_path / "trips"
    given = options(engine, metadata=has_metadata(engine))
    table = deep_table(engine, path)
    name = f"compacted_{engine.version.replace('.', '_')}"
    engine.sql(f"create table {name} using hudi location '{path}'")

    def compact_by_hudi(instant: str) -> None:
        engine.sql(f"call run_compaction(op => 'run', table => '{name}', timestamp => {instant})")

    # rli plans, Hudi writes beside the plan and carries it out.
    before = versions(table.read())
    scheduled = table.schedule_compaction()
    assert (scheduled.file_groups, scheduled.log_files) == (1, 2)
    assert versions(table.read()) == before
    engine.write(path, rows(("k5", 40, "beside", False)), given)
    require_equal(engine, path, is_read_by_rust=engine.version != "0.15.0")
    beside = versions(table.read())
    compact_by_hudi(scheduled.instant or "")
    require_equal(engine, path)
    assert versions(table.read()) == beside
    assert versions(table.read(query="read_optimized")) == before

    # Hudi plans, writes beside the plan, and rli carries it out.
    engine.write(path, rows(("k6", 50, "c", False), ("k7", 50, "c", True)), given)
    before = versions(table.read())
    at_once = "hoodie.compact.inline.max.delta.commits=1"
    engine.sql(f"call run_compaction(op => 'schedule', table => '{name}', options => '{at_once}')")
    (planned,) = table.compact(dry_run=True).instants
    engine.write(path, rows(("k6", 60, "beside", False)), given)
    beside = versions(table.read())
    done = table.compact()
    assert (done.instants, done.file_groups, done.left) == ((planned,), 1, ())
    require_equal(engine, path)
    assert versions(table.read()) == beside
    assert versions(table.read(query="read_optimized")) == before

    # rli does both, and Hudi goes on.
    assert table.compact().file_groups == 1
    require_compacted(engine, path, beside)
    engine.write(path, rows(("k6", 70, "d", False), ("k8", 70, "d", True)), given)
    require_equal(engine, path)
    assert table.compact().file_groups == 1
    require_compacted(engine, path, versions(table.read()))
