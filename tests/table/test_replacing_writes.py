"""Writes that replace file groups: a clustering keeps their records, an overwrite ends them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from rli import ConflictError, Table, create_table
from rli.commit.conflicts import PlannedCommit, ReadSet
from rli.commit.prepared_write import PreparedWrite
from rli.file_group.journal_list import readable_journals
from rli.file_group.write_context import FileGroupResult
from rli.model import WriteCounts
from rli.table.table import opened_table
from rli.tasks import InProcess
from rli.view.snapshot import Snapshot
from rli.view.table_change import TableChange
from tests.support.indexes import record_index
from tests.support.log_files import group_in, log_name, log_stat, with_logs
from tests.support.tables import records

READ_NOTHING = ReadSet(frozenset())


@pytest.fixture
def two_groups(tmp_path: Path) -> Table:
    table = create_table(
        tmp_path / "t", record_key="id", partition_by="city", ordering="ts", index=f"lmdb://{tmp_path}/index"
    )
    table.upsert(records(("a", "x", 1, 1.0), ("b", "y", 1, 1.0)))
    return table


@pytest.mark.parametrize(("operation", "kept"), [("CLUSTER", ["y"]), ("INSERT_OVERWRITE", ["x", "y"])])
def test_only_clusterings_give_way(two_groups: Table, operation: str, kept: list[str]) -> None:
    before = Snapshot.now(opened_table(two_groups).definition)
    results = [FileGroupResult(group, WriteCounts(), None, None, (group,)) for group in sorted(before.slices)]
    prepared = PreparedWrite(results, pa.schema([]), operation, WriteCounts(), READ_NOTHING)
    two_groups.upsert(records(("a", "x", 2, 2.0)))
    accepted = prepared.giving_way(before, Snapshot.now(opened_table(two_groups).definition))
    assert [result.group.partition_path for result in accepted.results] == kept


def test_keys_of_overwrites_are_checked(two_groups: Table) -> None:
    definition, index = opened_table(two_groups).definition, record_index(two_groups)
    before = index.sync(definition)
    rival = two_groups.upsert(records(("k", "x", 1, 1.0))).instant or ""
    now = index.sync(definition)
    replaced = frozenset(group for group in before.snapshot.slices if group.partition_path == "y")

    def check(operation: str) -> None:
        """Check a write that places the rival's new key, and replaces a file group that nobody has changed."""
        journals = readable_journals(definition.storage, rival)
        change = TableChange(replaced=replaced, operation=operation)
        schema = now.snapshot.schema
        assert schema is not None
        planned = PlannedCommit("1", before, change, journals or (), schema, READ_NOTHING)
        planned.require_no_conflict(now, InProcess())

    check("CLUSTER")
    with pytest.raises(ConflictError, match=r"keys=\['k'\]"):
        check("INSERT_OVERWRITE")


def test_log_files_of_others_are_conflicts(two_groups: Table) -> None:
    definition, index = opened_table(two_groups).definition, record_index(two_groups)
    before = index.sync(definition)
    rival = two_groups.upsert(records(("b", "y", 2, 2.0))).instant or ""
    group, schema = group_in(before.snapshot, "x"), before.snapshot.schema
    assert schema is not None
    seen = index.sync(definition)
    now = replace(seen, snapshot=with_logs(seen.snapshot, group, log_name(group, rival)))

    change = TableChange(replaced=frozenset([group]), operation="CLUSTER")
    planned = PlannedCommit("1", before, change, (), schema, READ_NOTHING)
    planned.require_no_conflict(seen, InProcess())
    with pytest.raises(ConflictError, match=rf"groups=\['x/{group.file_id}'\]"):
        planned.require_no_conflict(now, InProcess())
    appending = replace(planned, change=TableChange(appended=(log_stat(group, log_name(group, "1")),)))
    appending.require_no_conflict(seen, InProcess())
