"""Hudi's readers take the files that its metadata table lists for all there are: no change of files may leave it behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rli import CorruptTableError, Table, create_table
from rli.hudi.properties import Key, load_properties, save_properties
from rli.table.table import opened_table
from tests.support.tables import commit_version

OPERATIONS: dict[str, Callable[[Table, list[str]], object]] = {
    "rollback": lambda table, instants: table.rollback(instants[-1]),
    "restore": lambda table, instants: table.restore(instants[1]),
    "clean": lambda table, _: table.clean(keep_commits=1),
}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return create_table(
        tmp_path / "t", record_key="id", partition_by="city", ordering="ts", index=f"lmdb://{tmp_path}/index"
    )


def written(table: Table) -> list[str]:
    """Four commits, and a metadata table that Hudi has made after them."""
    instants = [commit_version(table, version) for version in range(4)]
    storage = opened_table(table).definition.storage
    save_properties(storage, load_properties(storage).changed({Key.METADATA_PARTITIONS: "files"}))
    storage.write_bytes(".hoodie/metadata/files/listing", b"")
    return instants


def has_metadata_table(table: Table) -> bool:
    storage = opened_table(table).definition.storage
    return storage.exists(".hoodie/metadata") or bool(load_properties(storage).raw.get(Key.METADATA_PARTITIONS))


def test_damaged_metadata_table_stops_writes(table: Table) -> None:
    instants = written(table)
    with pytest.raises(CorruptTableError, match="left a commit out of the metadata table"):
        commit_version(table, 4)
    assert has_metadata_table(table)
    assert [instant.time for instant in table.timeline()] == instants


@pytest.mark.parametrize("operation", OPERATIONS)
def test_file_change_leaves_no_stale_listing(table: Table, operation: str) -> None:
    instants = written(table)
    OPERATIONS[operation](table, instants)
    assert not has_metadata_table(table)


def test_archive_leaves_what_nobody_compacted(table: Table) -> None:
    instants = written(table)
    assert table.archive(keep_commits=1).instants_archived == 0
    assert [instant.time for instant in table.timeline()] == instants
    assert has_metadata_table(table)


def test_a_savepoint_keeps_the_metadata_table(table: Table) -> None:
    instants = written(table)
    table.savepoint(instants[1])
    table.delete_savepoint(instants[1])
    assert has_metadata_table(table)
