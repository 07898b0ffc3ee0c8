"""The growth that a report shows is that of the table, as reads of its earlier states tell."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from rli import Table, create_table, open_table
from rli.report.facts import table_report
from rli.table.table import opened_table
from tests.support.hudi_tables import unzip_hudi_table
from tests.support.tables import records


@pytest.fixture
def grown(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """A table after writes of every kind."""
    table = create_table(
        str(tmp_path_factory.mktemp("report") / "grown"),
        record_key="id",
        partition_by="city",
        ordering="ts",
        maintenance=False,
    )
    table.upsert(records(*((f"k{n}", "x" if n % 2 else "y", 1, 1.0) for n in range(40))))
    table.upsert(records(("k1", "y", 2, 2.0), ("new", "z", 2, 1.0)))
    table.delete([f"k{n}" for n in range(10)])
    table.overwrite_partitions(records(("k11", "x", 3, 1.0), ("other", "x", 3, 1.0)))
    table.upsert(records(("last", "q", 1, 1.0), ("k12", "y", 9, 1.0)))
    return table


def test_growth_is_that_of_earlier_states(grown: Table) -> None:
    require_true_growth(grown, commits=5)


@pytest.mark.parametrize("name", ["v9_txns_simple_meta", "v9_txns_nonpart_nometa"])
def test_growth_of_hudis_tables_is_true(name: str, tmp_path: Path) -> None:
    """Inserts, updates, deletes, overwrites and clusterings of Hudi."""
    table = open_table(str(unzip_hudi_table(f"sample_table/cow/{name}", tmp_path)))
    require_true_growth(table, commits=11)


def require_true_growth(table: Table, commits: int) -> None:
    state = table_report(table).state
    assert len(state.commits) >= commits
    for commit in state.commits:
        read = table.read(as_of=commit.entry.time)
        files = opened_table(table).snapshot(commit.entry.time).slices.values()
        assert (commit.records, commit.bytes) == (read.num_rows, sum(one.size for one in files)), commit.entry
    assert state.records == table.read().num_rows


def test_growth_is_told_after_archiving(grown: Table) -> None:
    for number in range(6):
        grown.upsert(records(("last", "q", 2 + number, 1.0)))
    grown.clean(keep_commits=3)
    grown.archive(keep_commits=4)
    report = table_report(grown)
    assert report.state.has_archive
    assert report.state.records == grown.read().num_rows
    assert all(commit.records == report.state.records for commit in report.state.commits)
    assert report.state.commits[-1].bytes == report.info.bytes


def test_report_of_unwritten_table(tmp_path_factory: pytest.TempPathFactory) -> None:
    table = create_table(str(tmp_path_factory.mktemp("report") / "empty"), record_key="id")
    state = table_report(table).state
    assert (state.records, state.commits, state.slices) == (0, (), ())
    table.upsert(pa.table({"id": ["a"]}))
    assert [commit.records for commit in table_report(table).state.commits] == [1]
