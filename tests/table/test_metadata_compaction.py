"""A compacted metadata table says what it said before, in fewer files."""

from __future__ import annotations

from pathlib import Path

import pytest

from rli import Maintenance, Table, create_table, open_table
from rli.findings import Verdict
from rli.hudi.timeline.avro_files import read_record
from rli.metadata_table.findings import metadata_findings
from rli.table.table import opened_table
from tests.support.metadata_tables import METADATA_TABLES, unpack_metadata_table
from tests.support.tables import records, turn_into_version_9

_PARTITIONS = ["files", "column_stats", "record_index"]


def made(folder: Path, version: int, maintenance: Maintenance | None = None) -> Table:
    """A table with a metadata table and one commit."""
    table = create_table(
        folder / "t", record_key="id", partition_by="city", ordering="ts", maintenance=maintenance or False
    )
    if version == 9:
        turn_into_version_9(table)
    table.metadata.enable(_PARTITIONS)
    commit(table, 0)
    return table


def commit(table: Table, number: int) -> None:
    table.upsert(records(("a", "x", number, 1.0), (f"n{number}", "y", 1, 2.0)))


def files(table: Table) -> set[str]:
    folder = Path(table.location, ".hoodie", "metadata")
    return {path.name for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", [*METADATA_TABLES, "v9_partitioned_index"])
def test_compaction_over_logs_of_hudi_agrees(name: str, tmp_path: Path) -> None:
    scope = "?scope=partition" if name == "v9_partitioned_index" else ""
    table = open_table(unpack_metadata_table(name, tmp_path))
    table.bootstrap_index(f"lmdb://{tmp_path}/index{scope}")
    before = table.metadata.status()
    foretold, done = table.metadata.compact(dry_run=True), table.metadata.compact()
    assert done.instant is not None
    assert (done.file_groups, done.deltacommits) == (foretold.file_groups, before.deltacommits)
    assert table.metadata.verify() == ()
    assert all(part.log_files == 0 for part in table.metadata.status().partitions)
    assert table.metadata.compact().instant is None


@pytest.mark.parametrize("version", [6, 9])
def test_old_files_go_after_compactions(version: int, tmp_path: Path) -> None:
    table = made(tmp_path, version)
    counts = []
    for number in range(1, 5):
        commit(table, number)
        table.metadata.compact()
        assert table.metadata.verify() == (), number
        counts.append(sum(name.lstrip(".").startswith("files-") for name in files(table)))
    assert counts[-1] == counts[-2]
    plans = [*Path(table.location).glob(".hoodie/metadata/.hoodie/**/*.compaction.requested")]
    operations = [operation for plan in plans for operation in read_record(plan.read_bytes())["operations"]]
    # Hudi runs no plan without this metric.
    assert all(each["metrics"]["TOTAL_LOG_FILES"] == len(each["deltaFilePaths"]) > 0 for each in operations)


@pytest.mark.parametrize("version", [6, 9])
def test_pending_instant_holds_compaction_back(version: int, tmp_path: Path) -> None:
    table = made(tmp_path, version)
    timeline = Path(table.location, ".hoodie", "timeline" if version == 9 else "")
    pending = "20200101000000000"
    (timeline / f"{pending}.commit.requested").touch()
    if version == 9:
        # Of a writer that has brought its changes into the metadata table, and not committed.
        metadata = Path(table.location, ".hoodie", "metadata", ".hoodie", "timeline")
        (metadata / f"{pending}.deltacommit.requested").touch()
    before = files(table)
    done = table.metadata.compact()
    assert (done.instant, done.held_back_by) == (None, pending)
    assert files(table) == before
    (found,) = metadata_findings(opened_table(table).snapshot())
    assert (found.verdict, f"held_back_by={pending}" in found.detail) == (Verdict.OK, True)
    for number in range(1, 32):
        commit(table, number)
    (found,) = metadata_findings(opened_table(table).snapshot())
    assert (found.verdict, f"held_back_by={pending}" in found.detail) == (Verdict.WARNING, True)


@pytest.mark.parametrize("version", [6, 9])
def test_writers_compact_after_ten_commits(version: int, tmp_path: Path) -> None:
    table = made(tmp_path, version, Maintenance(clean_max_commits=5, cleaner_commits_retained=50))
    most = 0
    for number in range(1, 25):
        commit(table, number)
        most = max(most, table.metadata.status().deltacommits)
    assert most < 15
    assert table.metadata.verify() == ()
