"""Partitions of the metadata table come from the table's files, and say what those say."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar
from uuid import UUID

import pyarrow as pa
import pytest

from rli import (
    ConflictError,
    CorruptTableError,
    InvalidInputError,
    PruningStep,
    SchemaError,
    Table,
    UnsupportedTableError,
    create_table,
    open_table,
)
from rli.hudi.properties import load_properties
from rli.table.table import opened_table
from tests.support.metadata_tables import METADATA_TABLES, unpack_metadata_table
from tests.support.tables import records, turn_into_version_9

Item = TypeVar("Item")
Result = TypeVar("Result")

_ALL = ("files", "column_stats", "partition_stats", "bloom_filters", "record_index")


@pytest.fixture
def table(tmp_path: Path) -> Table:
    table = create_table(tmp_path / "t", record_key="id", partition_by="city", ordering="ts")
    turn_into_version_9(table)
    table.upsert(records(("a", "x", 1, 1.0), ("b", "y", 1, 2.0)))
    table.upsert(records(("a", "x", 2, 2.0)))
    return table


def taken_up(name: str, folder: Path) -> Table:
    """A table by Hudi, with an index of rli."""
    scope = "?scope=partition" if name == "v9_partitioned_index" else ""
    table = open_table(unpack_metadata_table(name, folder))
    table.bootstrap_index(f"lmdb://{folder}/index{scope}")
    return table


@pytest.mark.parametrize("name", [*METADATA_TABLES, "v9_partitioned_index"])
def test_metadata_born_again_agrees_with_tables(name: str, tmp_path: Path) -> None:
    table = taken_up(name, tmp_path)
    listed = load_properties(opened_table(table).definition.storage).metadata_partitions
    assert {*table.metadata.disable().removed} == {*listed}
    assert table.metadata.status().partitions == ()
    # All at once, and one that joins others.
    assert "record_index" not in table.metadata.enable([name for name in listed if name != "record_index"]).added
    assert table.metadata.enable(listed).added == ("record_index",)
    assert table.metadata.verify() == ()
    assert {found.partition for found in table.metadata.status().partitions} == {*listed}
    # Writers keep what was built.
    table.delete(table.read(columns=["id"])["id"].to_pylist()[:1])
    assert {found.partition for found in table.metadata.status().partitions} == {*listed}
    assert table.metadata.verify() == ()


class _Watched:
    """Runs tasks here, and notes the bytes of the results that a caller gets at once."""

    def __init__(self) -> None:
        self.sizes: list[list[int]] = []

    def run(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterable[Result]:
        results = [function(item) for item in items]
        self.sizes.append([len(pickle.dumps(result)) for result in results])
        return results


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> _Watched:
    """Runs the tasks that read footers."""
    watched = _Watched()
    monkeypatch.setattr("rli.metadata_table.cell_sources.InThreads", lambda: watched)
    return watched


def test_births_hold_few_footers_at_once(tmp_path: Path, tasks: _Watched) -> None:
    # A bloom filter, which statistics do without, has more than half of each file.
    _born(tmp_path, 600, "column_stats", rows=20_000)
    assert sorted(len(sizes) for sizes in tasks.sizes) == [89, 512]
    assert max(map(max, tasks.sizes)) < 10_000


def test_births_hold_few_filters_at_once(tmp_path: Path, tasks: _Watched) -> None:
    """Also where files with small filters come first."""
    _born(tmp_path, 100, "bloom_filters", rows=200_000, small=20)
    assert max(map(max, tasks.sizes)) > 400_000
    assert max(map(sum, tasks.sizes)) < 33 << 20
    assert len(tasks.sizes) == 4


def _born(folder: Path, files: int, partition: str, rows: int, small: int = 0) -> None:
    """The build of a partition for some base files with as many records; the first ones are small."""
    table, first = _of_one_file(folder / "t", rows)
    _, tiny = _of_one_file(folder / "small", 1)
    for number in range(files):
        (first.parent / f"{UUID(int=number)}{first.name[36:]}").hardlink_to(tiny if number < small else first)
    table.metadata.enable(["files", partition])


def _of_one_file(folder: Path, rows: int) -> tuple[Table, Path]:
    table = create_table(folder, record_key="id", ordering="ts", index="simple:")
    table.upsert(pa.table({"id": [f"key{number}" for number in range(rows)], "ts": [1] * rows}))
    (file,) = folder.glob("*.parquet")
    return table, file


def test_listed_partitions_stay_as_they_are(table: Table) -> None:
    assert table.metadata.enable(["files", "bloom_filters"]).added == ("files", "bloom_filters")
    before = table.metadata.status().partitions
    change = table.metadata.enable(["bloom_filters", "partition_stats"])
    assert change.added == ("column_stats", "partition_stats")
    assert [found for found in table.metadata.status().partitions if found in before] == [*before]
    assert table.metadata.verify() == ()


@pytest.mark.parametrize("commits", [1, 2])
def test_commits_beside_the_build_count(table: Table, commits: int) -> None:
    """After one, the partitions are built again; after two, while writers wait."""
    other, numbers = open_table(table.location), iter(range(commits))

    def commit_first(done: int, total: int) -> None:
        if done == total and (number := next(numbers, None)) is not None:
            other.upsert(records((f"beside {number}", "new", 1, 1.0)))
            other.clean(keep_commits=1)

    added = table.metadata.enable(_ALL, on_progress=commit_first).added
    assert {*added} == {*_ALL}
    assert next(numbers, None) is None
    assert table.metadata.verify() == ()


def test_removal_takes_what_needs_a_partition(table: Table) -> None:
    table.metadata.enable(_ALL)
    foretold = table.metadata.disable(["column_stats"], dry_run=True)
    assert len(table.metadata.status().partitions) == len(_ALL)
    done = table.metadata.disable(["column_stats"])
    assert foretold.removed == done.removed == ("column_stats", "partition_stats")
    assert table.metadata.verify() == ()
    assert {*table.metadata.disable(["files"]).removed} == {"files", "bloom_filters", "record_index"}
    assert not opened_table(table).definition.storage.exists(".hoodie/metadata")


def test_partitions_of_new_tables_are_kept(tmp_path: Path) -> None:
    wanted = ["files", "column_stats", "partition_stats", "bloom_filters", "record_index"]
    table = create_table(tmp_path / "t", record_key="id", metadata=wanted)
    assert table.metadata.verify() == ()
    table.upsert(records(("a", "x", 1, 1.0), ("b", "y", 1, 2.0)))
    assert [found.partition for found in table.metadata.status().partitions] == sorted(wanted)
    assert table.metadata.verify() == ()


def test_new_tables_skip_by_their_columns(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", record_key="id", metadata=["files", "column_stats"])
    table.upsert(records(("a", "x", 1, 1.0)))
    pruned = table.scan(filters="v > 5").explain().files.pruned
    assert pruned[PruningStep.COLUMN_STATS] == 1


def test_unknown_partitions_create_no_table(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="filters"):
        create_table(tmp_path / "t", record_key="id", metadata=["filters"])
    assert not [*tmp_path.iterdir()]


def test_wrong_choices_add_nothing(table: Table, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="blooms"):
        table.metadata.enable(["files", "blooms"])
    with pytest.raises(SchemaError, match="nowhere"):
        table.metadata.enable(["column_stats"], columns=["nowhere"])
    with pytest.raises(InvalidInputError, match="no such partition"):
        table.metadata.disable(["files"])
    older = create_table(tmp_path / "older", record_key="id", index=f"lmdb://{tmp_path}/older-index?scope=partition")
    with pytest.raises(UnsupportedTableError, match="version=6"):
        older.metadata.enable(["record_index"])
    for found in (table, older):
        assert found.metadata.status().partitions == ()


def test_writes_of_other_engines_delay_partitions(table: Table) -> None:
    pending = opened_table(table).definition.storage
    pending.write_bytes(".hoodie/timeline/20260101000000000.commit.requested", b"")
    with pytest.raises(ConflictError, match="20260101000000000"):
        table.metadata.enable(["files"])
    assert table.metadata.status().partitions == ()


@pytest.mark.parametrize("partition", ["files", "record_index"])
def test_lost_files_stop_the_build(table: Table, partition: str) -> None:
    lost = max(Path(table.location, "x").glob("*.parquet"), key=lambda path: path.name.rpartition("_")[2])
    content = lost.read_bytes()
    lost.unlink()
    with pytest.raises(CorruptTableError, match=lost.name):
        table.metadata.enable([partition])
    lost.write_bytes(content)
    assert partition in table.metadata.enable([partition]).added
    assert table.metadata.verify() == ()
