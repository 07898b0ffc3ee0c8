"""The record index of the metadata table as the index of a table, also if it is missing, damaged or out of date."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from rli import (
    ConflictError,
    CorruptIndexError,
    IndexMismatchError,
    IndexNotReadyError,
    InvalidInputError,
    LeaseBusyError,
    Scope,
    SettingsError,
    Table,
    UnsupportedTableError,
    create_table,
)
from rli.coordination.lease import LEASE, HeldLease
from rli.coordination.shared_records import shared_records
from rli.hudi.properties import Key, save_properties
from rli.index.metadata_record.opening import opened_reader
from rli.storage import Storage
from rli.table.table import opened_table
from rli.view.paths import JOURNAL
from rli.view.snapshot import Snapshot
from tests.support.index_kinds import IN_METADATA_TABLE, KINDS, Kind, stored_rows
from tests.support.metadata_tables import state_before_later_commits
from tests.support.tables import records, rows_of

METADATA = ".hoodie/metadata"


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = IN_METADATA_TABLE["metadata"].create(tmp_path)
    made.upsert(records(("a", "x", 1, 1.0), ("b", "y", 1, 2.0)))
    return made


def change_properties(table: Table, changes: dict[str, str | None]) -> None:
    definition = opened_table(table).definition.reloaded()
    save_properties(definition.storage, definition.properties.changed(changes))


def damage(table: Table) -> None:
    assert table.metadata.compact().instant
    for path in Path(table.location, METADATA, "record_index").iterdir():
        if path.suffix == ".hfile" and path.stat().st_size:
            path.write_bytes(path.read_bytes()[:-10])


def with_older_record_index(table: Table, change: Callable[[], object]) -> None:
    """Change a table, and take the changes out of its record index, as after a fault of an engine."""
    folder = Path(table.location, METADATA)

    def present() -> tuple[set[Path], set[Path]]:
        return {*(folder / "record_index").iterdir()}, {*(folder / ".hoodie").glob("*.deltacommit")}

    kept_files, kept_commits = present()
    change()
    files, commits = present()
    for file in files - kept_files:
        file.unlink()
    for commit in commits - kept_commits:
        content = json.loads(commit.read_bytes())
        assert content["partitionToWriteStats"].pop("record_index")
        commit.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({Key.METADATA_PARTITIONS: "files"}, "absent"),
        ({Key.METADATA_PARTITIONS: "files", Key.METADATA_PARTITIONS_INFLIGHT: "record_index"}, "inflight"),
    ],
)
def test_missing_partition_is_an_error(table: Table, changes: dict[str, str | None], state: str) -> None:
    change_properties(table, changes)
    for ask in (lambda: table.lookup(["a"]), lambda: table.upsert(records(("a", "x", 2, 2.0))), table.verify_index):
        with pytest.raises(IndexNotReadyError, match=f"no record index.*state={state}.*rli metadata enable"):
            ask()
    if state == "absent":
        table.metadata.enable(["record_index"])
        assert table.upsert(records(("a", "x", 2, 2.0))).updated == 1
        assert table.verify_index().agrees


def test_damaged_partition_is_built_again(table: Table) -> None:
    damage(table)
    for ask in (lambda: table.lookup(["a", "z"]), lambda: table.upsert(records(("a", "x", 2, 2.0)))):
        with pytest.raises(CorruptIndexError, match="rli index bootstrap TABLE"):
            ask()
    assert len(rows_of(table)) == 2
    assert table.bootstrap_index() == 2
    assert table.upsert(records(("a", "x", 2, 2.0))).updated == 1


@pytest.mark.parametrize(
    "harm",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-10]),
        lambda path: path.write_bytes(path.read_bytes()[:-10] + bytes(10)),
        lambda path: path.unlink(),
    ],
    ids=["cut", "torn", "missing"],
)
@pytest.mark.parametrize("kind", [*IN_METADATA_TABLE])
def test_lost_changes_are_no_absent_keys(tmp_path: Path, kind: str, harm: Callable[[Path], object]) -> None:
    table = IN_METADATA_TABLE[kind].create(tmp_path)
    table.upsert(records(("a", "x", 1, 1.0), ("b", "y", 1, 2.0)))
    url = table.index.url
    logs = [path for path in Path(table.location, METADATA, "record_index").iterdir() if ".log." in path.name]
    for path in logs:
        # A birth may leave a log file without a change in each file group.
        if path.stat().st_size > 200:
            harm(path)
    for ask in (lambda: table.lookup(["a"]), lambda: table.upsert(records(("a", "y", 2, 2.0)))):
        with pytest.raises(CorruptIndexError, match=r"is damaged.*rli index bootstrap TABLE"):
            ask()
    assert table.bootstrap_index(url) == 2
    written = table.upsert(records(("a", "x", 2, 2.0), ("c", "x", 2, 2.0)))
    assert (written.updated, written.inserted) == (1, 1)
    assert table.verify_index().agrees


@pytest.mark.parametrize("kind", [*IN_METADATA_TABLE])
def test_lost_file_group_shrinks_no_index(tmp_path: Path, kind: str) -> None:
    # The number of file groups places the keys; of those behind the last one, names of files tell nothing.
    table = IN_METADATA_TABLE[kind].create(tmp_path)
    table.upsert(records(("a", "x", 1, 1.0), ("c", "y", 1, 2.0)))
    folder = Path(table.location, METADATA, "record_index")
    last = max(path.name.split("_")[0] for path in folder.iterdir() if path.stat().st_size > 200)
    for path in folder.glob(f"{last}_*"):
        path.unlink()
    for ask in (lambda: table.lookup(["a"]), lambda: table.upsert(records(("c", "y", 2, 2.0)))):
        with pytest.raises(CorruptIndexError, match=r"is damaged.*rli index bootstrap TABLE"):
            ask()


def test_lookup_reads_no_merged_commit(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    # Enough keys for each file group.
    table.upsert(records(*((f"k{number}", "x", 1, 1.0) for number in range(40))))
    assert table.metadata.compact().instant
    table.upsert(records(("a", "x", 2, 2.0)))
    seen, read = list[str](), Storage.read_bytes

    def look(storage: Storage, path: str) -> bytes | None:
        seen.append(path)
        return read(storage, path)

    monkeypatch.setattr(Storage, "read_bytes", look)
    assert table.lookup(["a"]).num_rows == 1
    assert sum(path.endswith(".deltacommit") for path in seen) == 1


def of_birth(table: Table) -> None:
    # Only a damaged partition is built again.
    for path in Path(table.location, METADATA, "record_index").iterdir():
        if path.stat().st_size > 200:
            path.unlink()
    assert table.bootstrap_index(table.index.url) == 2


def of_compaction(table: Table) -> None:
    assert table.metadata.compact().instant


@pytest.mark.parametrize("make", [of_birth, of_compaction])
@pytest.mark.parametrize("kind", [*IN_METADATA_TABLE])
def test_lost_base_files_hide_no_keys(tmp_path: Path, kind: str, make: Callable[[Table], None]) -> None:
    table = IN_METADATA_TABLE[kind].create(tmp_path)
    table.upsert(records(("a", "x", 1, 1.0), ("b", "y", 1, 2.0)))
    make(table)
    assert table.lookup(["a"]).num_rows == 1
    lost = [*Path(table.location, METADATA, "record_index").glob("*.hfile")]
    for path in lost:
        path.unlink()
    assert lost
    for ask in (lambda: table.lookup(["a"]), lambda: table.upsert(records(("a", "y", 2, 2.0)))):
        with pytest.raises(CorruptIndexError, match=r"is damaged.*rli index bootstrap TABLE"):
            ask()
    assert table.bootstrap_index(table.index.url) == 2
    assert table.upsert(records(("a", "x", 2, 2.0))).updated == 1


def test_first_commit_may_hold_no_key(tmp_path: Path) -> None:
    with IN_METADATA_TABLE["metadata-partition"].create(tmp_path) as table:
        # It keeps a delete, and has no file group in the index.
        table.delete(["a"], ordering=[5])
        assert table.upsert(records(("a", "x", 4, 1.0), ("b", "x", 1, 1.0))).inserted == 1
        assert table.lookup(["a", "b"])["partition_path"].to_pylist() == [None, "x"]
        assert table.verify_index().agrees


def test_stale_entries_lead_to_files(table: Table, caplog: pytest.LogCaptureFixture) -> None:
    with_older_record_index(table, lambda: table.overwrite_partitions(records(("a", "x", 3, 3.0), ("c", "x", 3, 3.0))))
    with caplog.at_level(logging.WARNING):
        found = table.lookup(["a", "b", "z"]).to_pylist()
    assert [row["partition_path"] for row in found] == ["x", "y", None]
    assert table.get(["a"])["v"].to_pylist() == [3.0]
    assert "keys=1 sample=a" in caplog.text


def test_verification_names_differences(table: Table) -> None:
    def change() -> None:
        table.delete(["b"])
        table.upsert(records(("a", "z", 2, 2.0), ("c", "x", 2, 2.0)))

    with_older_record_index(table, change)
    report = table.verify_index()
    assert (report.missing, report.misplaced, report.dangling) == (1, 1, 1)
    assert (report.records, report.entries, sorted(report.sample)) == (2, 2, ["a", "b", "c"])
    assert not table.index.repair().agrees
    assert table.verify_index().agrees
    assert table.lookup(["a", "b", "c"])["partition_path"].to_pylist() == ["z", None, "x"]


def test_state_overtaken_by_compaction_conflicts(table: Table) -> None:
    opened = opened_table(table)
    opened.index.sync(opened.reloaded()).locator()
    early, late = (opened.index.sync(opened.reloaded()) for _ in range(2))
    pinned = early.locator()
    table.delete(["a"])
    keys = records(("a", "x", 0, 0.0))["id"].combine_chunks()
    # A commit that is only in log files is left out.
    assert late.locator().locate_all(keys).num_rows == 1
    late = opened.index.sync(opened.reloaded())
    table.upsert(records(("a", "y", 4, 4.0)))
    table.metadata.compact()
    assert pinned.locate_all(keys)["partition_path"].to_pylist() == ["x"]
    with pytest.raises(ConflictError, match="others changed the table"):
        late.locator()
    assert table.lookup(["a"])["partition_path"].to_pylist() == ["y"]


def test_state_before_the_build_conflicts(tmp_path: Path) -> None:
    table = Kind("global-simple:", Scope.GLOBAL, version=9).create(tmp_path)
    table.upsert(records(("a", "x", 1, 1.0), ("b", "y", 1, 1.0)))
    earlier = opened_table(table).definition.load_timeline()
    table.upsert(records(("a", "y", 2, 2.0)))
    # The first partitions of a metadata table have an instant before all others.
    table.metadata.enable(["record_index"])
    with pytest.raises(ConflictError, match="others changed the table"):
        opened_reader(state_before_later_commits(table, earlier), Scope.GLOBAL)
    now = Snapshot.now(opened_table(table).definition.reloaded())
    assert opened_reader(now, Scope.GLOBAL).lookup("record_index", pa.array(["a", "b"])).num_rows == 2


def test_index_partition_stays_enabled(table: Table) -> None:
    for partitions in (["record_index"], ["files"], None):
        for dry_run in (True, False):
            with pytest.raises(InvalidInputError, match="rli index migrate"):
                table.metadata.disable(partitions, dry_run=dry_run)
    table.index.migrate("global-simple:")
    assert "record_index" in table.metadata.disable(["record_index"]).removed


@pytest.mark.parametrize(
    "undo", [lambda table: table.rollback("last"), lambda table: table.restore(table.timeline()[0].time)]
)
def test_undone_commits_of_others_keep_index(table: Table, undo: Callable[[Table], object]) -> None:
    table.upsert(records(("a", "z", 2, 2.0), ("c", "y", 2, 2.0)))
    # Hudi's writers leave no journals.
    shutil.rmtree(Path(table.location, JOURNAL))
    undo(table)
    assert "record_index" in {found.partition for found in table.metadata.status().partitions}
    found = table.upsert(records(("a", "y", 3, 3.0), ("c", "y", 3, 3.0)))
    assert (found.inserted, found.moved) == (1, 1)
    assert table.verify_index().agrees


def test_dropped_index_leaves_metadata_table(table: Table) -> None:
    table.drop_index()
    assert {found.partition for found in table.metadata.status().partitions} == {"files"}
    with pytest.raises(IndexNotReadyError, match="rli metadata enable"):
        table.upsert(records(("c", "x", 1, 1.0)))
    table.drop_index()
    assert table.bootstrap_index() == 2
    assert table.upsert(records(("a", "y", 2, 2.0))).moved == 1


def test_bootstrap_builds_damaged_lists_again(table: Table) -> None:
    """The index agrees with the files, and nobody may remove the lists while it is the index."""
    for file in Path(table.location, METADATA, "files").glob("*.hfile"):
        file.unlink()
    assert table.bootstrap_index() == 2
    assert table.metadata.verify() == ()
    assert table.upsert(records(("a", "y", 2, 2.0))).moved == 1


def test_bootstrap_waits_for_lease(table: Table) -> None:
    table.drop_index()
    opened = opened_table(table)
    holder = HeldLease(shared_records(opened.definition, opened.index), LEASE, "a long service")
    assert holder.take(over=None)
    with pytest.raises(LeaseBusyError, match="'a long service'"):
        table.bootstrap_index(timeout=0)
    assert holder.release()
    assert table.bootstrap_index(timeout=0) == 2


def test_migration_outlasts_writers_of_former_scope(tmp_path: Path) -> None:
    table = KINDS["simple"].create(tmp_path)
    table.upsert(records(("a", "x", 1, 1.0)))

    def write_beside(_: object) -> None:
        # A writer with partition scope keeps no record index of the whole table.
        if table.index.kind == "simple" and stored_rows(table) == {("a", "x", 1, 1.0)}:
            table.upsert(records(("b", "y", 1, 1.0)))

    assert table.index.migrate("record-index:", on_step=write_beside).index == "record-index:"
    assert table.upsert(records(("a", "y", 2, 2.0), ("b", "y", 2, 2.0))).moved == 1
    assert table.verify_index().agrees


def test_bootstrap_changes_the_scope(tmp_path: Path) -> None:
    table = IN_METADATA_TABLE["metadata-partition"].create(tmp_path)
    table.upsert(records(("a", "x", 1, 1.0)))
    with pytest.raises(IndexMismatchError, match="rli index bootstrap TABLE --index 'record-index:'"):
        table.index.migrate("record-index:")
    assert table.upsert(records(("a", "y", 1, 1.0))).inserted == 1
    table.upsert(records(("b", "y", 1, 1.0)))
    assert table.delete(["a"]).deleted == 2
    assert table.bootstrap_index("record-index:") == 1
    assert table.upsert(records(("b", "x", 2, 2.0))).moved == 1


@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("record-index:?ttl=30d", SettingsError),
        ("record-index:?scope=partition&partitions=x", SettingsError),
        ("record-index:here", SettingsError),
        ("record-index:?scope=partition", UnsupportedTableError),
    ],
)
def test_creation_refuses_other_urls(tmp_path: Path, url: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        create_table(tmp_path / "t", record_key="id", partition_by="city", index=url)
    assert not (tmp_path / "t" / ".hoodie" / "hoodie.properties").exists()


def test_creation_lists_the_partition(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", record_key="id", index="record-index:", metadata=["column_stats"])
    listed = {found.partition for found in table.metadata.status().partitions}
    assert listed == {"files", "column_stats", "record_index"}
