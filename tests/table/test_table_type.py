"""A table changes its type beside readers and writers, and goes back once it has base files alone."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from rli import SettingsError, Step, Table, TableType, UnsupportedTableError, create_table, open_table
from tests.support.tables import check_stored, records, rows_of, turn_into_version_9

pytestmark = pytest.mark.invariant("P61")

FIRST = (("a", "x", 1, 1.0), ("b", "x", 1, 1.0), ("c", "y", 1, 1.0))


@pytest.fixture(params=[6, 9])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    """A copy-on-write table with one commit, without maintenance."""
    created = create_table(
        tmp_path / "t", record_key="id", partition_by="city", ordering="ts", maintenance=False, metadata=["files"]
    )
    if request.param == 9:
        created.metadata.disable()
        turn_into_version_9(created)
        created = open_table(created.location)
        created.metadata.enable(["files", "column_stats", "partition_stats"])
    created.upsert(records(*FIRST))
    return created


def test_changed_table_appends_log_files(table: Table) -> None:
    reader, writer = open_table(table.location), open_table(table.location)
    first = table.timeline()[-1].time
    table.set_table_type("merge_on_read")
    done = writer.upsert(records(("a", "x", 2, 2.0)))
    assert (done.updated, done.files_appended, done.files_rewritten) == (1, 1, 0)
    assert [row["ts"] for row in rows_of(reader)] == [2, 1, 1]
    assert [row["ts"] for row in rows_of(reader.read(as_of=first))] == [1, 1, 1]
    assert reader.read(filters="ts > 1").num_rows == 1
    assert table.info().table_type is TableType.MERGE_ON_READ
    check_stored(table)
    table.restore(first)
    assert [row["ts"] for row in rows_of(reader)] == [1, 1, 1]
    check_stored(table)


@pytest.mark.parametrize("step", [Step.INFLIGHT, Step.WRITTEN])
def test_write_under_way_is_repeated(table: Table, step: Step) -> None:
    changed: list[Step] = []

    def change(reported: Step) -> None:
        if reported is step and not changed:
            changed.append(reported)
            open_table(table.location).set_table_type("merge_on_read")

    done = table.upsert(records(("a", "x", 2, 2.0)), on_step=change)
    assert (done.updated, done.attempts, done.files_appended) == (1, 2, 1)
    check_stored(table)


def test_table_goes_back_without_logs(table: Table) -> None:
    table.set_table_type("merge_on_read")
    table.upsert(records(("a", "x", 2, 2.0), ("d", "z", 2, 2.0)))
    with pytest.raises(UnsupportedTableError, match=r"holds a log file.*rli compact TABLE"):
        table.set_table_type("copy_on_write")
    table.schedule_compaction()
    with pytest.raises(UnsupportedTableError, match="an instant is pending"):
        table.set_table_type("copy_on_write")
    table.compact()
    with pytest.raises(UnsupportedTableError, match="pass over a deltacommit"):
        table.set_table_type("copy_on_write")
    before = rows_of(table)
    table.metadata.compact()
    table.archive(keep_commits=1)
    table.set_table_type("copy_on_write")
    assert rows_of(table) == rows_of(open_table(table.location)) == before
    done = table.upsert(records(("b", "x", 3, 3.0)))
    assert (done.files_rewritten, done.files_appended) == (1, 0)
    assert {instant.action for instant in table.timeline() if instant.is_write} == {"commit"}
    check_stored(table)
    table.clean(keep_commits=1)
    assert not [*Path(table.location).glob("[!.]*/.*.log.*")]
    assert [row["ts"] for row in rows_of(table)] == [2, 3, 1, 2]


def test_past_state_has_its_columns(table: Table) -> None:
    """Also behind a compaction that was planned before, and carried out after the table got another column."""
    table.set_table_type("merge_on_read")
    table.upsert(records(("a", "x", 2, 2.0)))
    table.schedule_compaction()
    before = table.upsert(records(("a", "x", 3, 3.0))).instant or ""
    table.upsert(records(("a", "x", 4, 4.0)).append_column("w", pa.array(["new"])))
    table.compact()
    assert table.read(as_of=before).column_names == ["id", "city", "ts", "v"]
    assert table.read().column_names == ["id", "city", "ts", "v", "w"]


def test_unknown_type_is_refused(table: Table) -> None:
    with pytest.raises(SettingsError, match="merge_on_read"):
        table.set_table_type("merge-on-reed")
