"""Keys that two writers inserted at once are found, told and healed; one record of each key stays."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from rli import (
    ConflictError,
    CorruptTableError,
    IndexMismatchError,
    LeaseBusyError,
    Step,
    Table,
    TableType,
    create_table,
    open_table,
)
from rli.cli.app import app
from rli.coordination.lease import LEASE, HeldLease
from rli.coordination.shared_records import shared_records
from rli.table.table import opened_table
from tests.support.rows import sorted_rows
from tests.support.table_types import of_both_types
from tests.support.unshared_commits import write_at_once


def records(*rows: tuple[str, str, int]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(("id", "city", "ts"), row, strict=True)) for row in rows])


def new_table(folder: Path, index: str | None = None, table_type: TableType = TableType.COPY_ON_WRITE) -> Table:
    return create_table(
        folder / "t",
        record_key="id",
        partition_by="city",
        ordering="ts",
        small_file_size=0,
        index=index,
        table_type=table_type,
    )


def doubled(
    folder: Path, ours: int, theirs: int, index: str | None = None, table_type: TableType = TableType.COPY_ON_WRITE
) -> Table:
    """A table with a key in two places, of the ordering values of both writers, beside other records."""
    table = new_table(folder, index, table_type)
    table.upsert(records(("a", "Rome", 1), ("b", "Oslo", 1)))
    write_at_once(
        table,
        records(("k", "Rome", ours), ("m", "Rome", 1)),
        records(("k", "Oslo", theirs), ("h", "Oslo", 1)),
    )
    return table


@pytest.mark.parametrize(("ours", "theirs", "kept"), [(2, 1, "Rome"), (1, 2, "Oslo"), (1, 1, "Oslo")])
@of_both_types
def test_the_greater_ordering_value_stays(
    tmp_path: Path, ours: int, theirs: int, kept: str, table_type: TableType
) -> None:
    table = doubled(tmp_path, ours, theirs, table_type=table_type)
    assert not table.verify_index().agrees
    foretold = table.deduplicate(dry_run=True)
    assert (foretold.keys, foretold.records_removed, foretold.instant) == (1, 1, None)
    [told] = foretold.repeated
    assert (told.key, told.kept, [path for path, _ in told.removed]) == (
        "k",
        kept,
        [{"Rome": "Oslo", "Oslo": "Rome"}[kept]],
    )
    assert [row["id"] for row in sorted_rows(table.read())].count("k") == 2

    done = table.deduplicate()
    assert done.repeated == foretold.repeated
    rows = [
        ("a", "Rome", 1),
        ("b", "Oslo", 1),
        ("h", "Oslo", 1),
        ("k", kept, 2 if ours != theirs else 1),
        ("m", "Rome", 1),
    ]
    assert sorted_rows(table.read()) == sorted_rows(records(*rows))
    assert table.verify_index().agrees
    assert table.lookup(["k"]).column("partition_path").to_pylist() == [kept]
    again = table.deduplicate()
    assert (again.instant, again.keys) == (None, 0)


@pytest.mark.parametrize("index", ["global-simple:", "global-bloom:"])
def test_indexes_of_files_are_healed(tmp_path: Path, index: str) -> None:
    table = doubled(tmp_path, 2, 1, index=index)
    assert table.verify_index().repeated == 1
    assert table.deduplicate().records_removed == 1
    assert table.verify_index().agrees
    assert table.upsert(records(("k", "Oslo", 3))).moved == 1


def test_metadata_table_follows(tmp_path: Path) -> None:
    table = doubled(tmp_path, 2, 1)
    table.metadata.enable(["files", "column_stats"])
    table.deduplicate()
    assert table.metadata.verify() == ()


def test_rollback_brings_both_back(tmp_path: Path) -> None:
    table = doubled(tmp_path, 2, 1)
    before = sorted_rows(table.read())
    done = table.deduplicate()
    assert done.instant is not None
    table.rollback(done.instant)
    assert sorted_rows(table.read()) == before
    assert table.deduplicate().keys == 1


def test_keys_of_partitions_are_kept(tmp_path: Path) -> None:
    table = new_table(tmp_path, index="simple:")
    table.upsert(records(("k", "Rome", 1), ("k", "Oslo", 1)))
    assert table.deduplicate().keys == 0
    write_at_once(table, records(("n", "Bari", 1)), records(("n", "Bari", 2)))
    assert table.deduplicate().keys == 1
    assert sorted_rows(table.read()) == sorted_rows(records(("k", "Rome", 1), ("k", "Oslo", 1), ("n", "Bari", 2)))


def test_repeats_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = doubled(tmp_path, 2, 1)
    with caplog.at_level(logging.ERROR):
        table.sync_index()
    assert "inserted record keys that the table held already" in caplog.text
    report = table.verify_index()
    assert (report.misplaced, report.doubled) == (1, 1)
    with pytest.raises(CorruptTableError, match="rli deduplicate"):
        table.repair_index()
    checked = CliRunner().invoke(app, ["doctor", table.location])
    assert "rli deduplicate" in checked.output
    done = CliRunner().invoke(app, ["deduplicate", table.location, "--json"])
    assert json.loads(done.output)["records_removed"] == 1
    assert table.repair_index().agrees


def test_records_in_log_files_count(tmp_path: Path) -> None:
    table = doubled(tmp_path, 2, 1, "global-simple:", TableType.MERGE_ON_READ)
    with pytest.raises(CorruptTableError, match="rli deduplicate"):
        table.upsert(records(("k", "Oslo", 9)))
    assert table.upsert(records(("m", "Rome", 9))).files_appended == 1
    assert table.deduplicate().records_removed == 1
    left = [("a", "Rome", 1), ("b", "Oslo", 1), ("h", "Oslo", 1), ("k", "Rome", 2), ("m", "Rome", 9)]
    assert sorted_rows(table.read()) == sorted_rows(records(*left))
    assert sorted_rows(table.read(query="read_optimized")) == sorted_rows(records(*left))
    assert table.verify_index().agrees
    assert table.upsert(records(("k", "Rome", 3))).files_appended == 1


def test_moves_of_others_are_no_repeats(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = new_table(tmp_path)
    table.upsert(records(("a", "Rome", 1), ("b", "Rome", 1)))
    write_at_once(table, records(("c", "Bari", 1)), records(("a", "Oslo", 2)))
    table.sync_index()
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
    assert table.verify_index().agrees


@of_both_types
@pytest.mark.parametrize("metadata", [[], ["files", "column_stats"]], ids=str)
def test_buckets_made_twice_are_joined(tmp_path: Path, table_type: TableType, metadata: list[str]) -> None:
    """Hudi's check passes a second first file group of a bucket, unless its jobs are told to compare buckets."""
    table = new_table(tmp_path, "bucket:?buckets=1", table_type)
    table.upsert(records(("a", "Oslo", 1)))
    write_at_once(table, records(("k", "Rome", 2), ("m", "Rome", 1)), records(("k", "Rome", 1), ("h", "Rome", 1)))
    if metadata:
        table.metadata.enable(metadata)
    with pytest.raises(IndexMismatchError, match="rli deduplicate"):
        table.upsert(records(("k", "Rome", 3)))
    foretold = table.deduplicate(dry_run=True)
    done = table.deduplicate()
    assert (done.keys, done.records_removed, done.repeated) == (1, 1, foretold.repeated)
    left = [("a", "Oslo", 1), ("h", "Rome", 1), ("k", "Rome", 2), ("m", "Rome", 1)]
    assert sorted_rows(table.read()) == sorted_rows(records(*left))
    assert table.verify_index().agrees
    assert not metadata or table.metadata.verify() == ()
    assert done.instant is not None
    table.rollback(done.instant)
    assert table.deduplicate().keys == 1
    assert table.upsert(records(("k", "Rome", 3), ("h", "Rome", 3))).updated == 2
    assert table.deduplicate().instant is None


def test_join_passes_commits_elsewhere(tmp_path: Path) -> None:
    table = new_table(tmp_path, "bucket:?buckets=1")
    table.upsert(records(("a", "Oslo", 1)))
    write_at_once(table, records(("m", "Rome", 1)), records(("h", "Rome", 1)))

    def commit(step: Step) -> None:
        if step is Step.WRITTEN:
            open_table(table.location).upsert(records(("a", "Oslo", 2)))

    done = table.deduplicate(on_step=commit, attempts=1)
    assert done.instant is not None
    assert done.keys == 0
    assert sorted_rows(table.read(["id"])) == [{"id": "a"}, {"id": "h"}, {"id": "m"}]
    assert table.verify_index().agrees


def test_rings_have_no_pairs(tmp_path: Path) -> None:
    """The ring names the file group of a bucket, so two writers make one of the same name, and the check of either engine sees it."""
    table = new_table(tmp_path, "consistent-bucket:?buckets=1")

    def insert_first(step: Step) -> None:
        if step is Step.WRITTEN and not table.read(["id"]).num_rows:
            open_table(table.location).upsert(records(("k", "Rome", 1)))

    with pytest.raises(ConflictError, match="rewrote file groups"):
        table.upsert(records(("k", "Rome", 2)), attempts=1, on_step=insert_first)
    assert table.deduplicate().instant is None


def test_wait_for_lease_is_bounded(tmp_path: Path) -> None:
    table = doubled(tmp_path, 2, 1)
    opened = opened_table(table)
    holder = HeldLease(shared_records(opened.definition, opened.index), LEASE, "a long service")
    assert holder.take(over=None)
    with pytest.raises(LeaseBusyError, match="'a long service'"):
        table.deduplicate(timeout=0)
    refused = CliRunner().invoke(app, ["deduplicate", table.location, "--timeout", "0"])
    assert (refused.exit_code, "a long service" in refused.output) == (3, True)
    assert holder.release()
    assert table.deduplicate(timeout=0).records_removed == 1
