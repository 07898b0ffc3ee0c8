"""A metadata table that lacks a commit of another engine, as Hudi 1.2.0 leaves it beside pending writes, is not relied on."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

from rli import CorruptIndexError, CorruptTableError, Table, create_table, open_table
from rli.hudi.metadata.reader import MetadataTableReader
from rli.table.table import opened_table
from tests.support.rows import sorted_rows
from tests.support.tables import turn_into_version_9
from tests.support.unshared_commits import write_at_once

pytestmark = pytest.mark.invariant("P52")


def records(*rows: tuple[str, str, int]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(("id", "city", "ts"), row, strict=True)) for row in rows])


def with_a_commit_left_out(folder: Path, index: str | None = None) -> Table:
    table = create_table(
        folder / "t",
        record_key="id",
        partition_by="city",
        ordering="ts",
        index=index,
        metadata=["files", "record_index"],
    )
    table.upsert(records(("a", "Rome", 1)))
    write_at_once(table, records(("b", "Rome", 1)), records(("k", "Oslo", 1)))
    return table


def test_reads_find_its_records(tmp_path: Path) -> None:
    table = with_a_commit_left_out(tmp_path)
    expected = records(("a", "Rome", 1), ("b", "Rome", 1), ("k", "Oslo", 1))
    assert sorted_rows(table.read()) == sorted_rows(expected)
    assert table.metadata.verify() != ()


def test_writes_wait_for_its_rebuild(tmp_path: Path) -> None:
    """A commit on top, and its archive, would let the metadata table look whole."""
    table = with_a_commit_left_out(tmp_path)
    instants = [instant.time for instant in table.timeline()]
    refused = f"left a commit out.*{instants[-1]}.*rli metadata disable"
    with pytest.raises(CorruptTableError, match=refused):
        table.upsert(records(("c", "Rome", 1)))
    with pytest.raises(CorruptTableError, match=refused):
        table.delete(["a"])
    table.archive(keep_commits=1)
    assert [instant.time for instant in table.timeline()][-1] == instants[-1]
    table.metadata.disable()
    table.metadata.enable(["files", "record_index"])
    table.upsert(records(("c", "Rome", 1)))
    assert sorted(table.read()["id"].to_pylist()) == ["a", "b", "c", "k"]
    assert table.metadata.verify() == ()


def test_its_commit_is_not_archived(tmp_path: Path) -> None:
    """Only the timeline tells that the metadata table lacks it."""
    table = create_table(tmp_path / "t", record_key="id", partition_by="city", ordering="ts")
    turn_into_version_9(table)
    table.upsert(records(("a", "Rome", 1)))
    table.metadata.enable(["files"])
    table.upsert(records(("b", "Rome", 1)))
    with leaving_out(table):
        missing = [table.upsert(records((key, "Oslo", 1))).instant for key in "cd"]
    assert table.metadata.compact().instant is not None
    table.archive(keep_commits=1)
    assert [instant.time for instant in table.timeline() if instant.action == "commit"] == missing
    assert sorted(open_table(table.location).read()["id"].to_pylist()) == ["a", "b", "c", "d"]


@contextmanager
def leaving_out(table: Table) -> Iterator[None]:
    """The metadata table lacks what is committed meanwhile."""
    metadata = Path(table.location, ".hoodie/metadata")
    kept = Path(shutil.copytree(metadata, metadata.with_name("kept")))
    yield
    shutil.rmtree(metadata)
    kept.rename(metadata)


def test_its_keys_are_not_inserted_again(tmp_path: Path) -> None:
    table = with_a_commit_left_out(tmp_path, "record-index:")
    with pytest.raises(CorruptIndexError, match="left a commit out"):
        table.upsert(records(("k", "Rome", 2)))
    table.bootstrap_index()
    healed = open_table(table.location)
    assert healed.metadata.verify() == ()
    assert healed.upsert(records(("k", "Rome", 2))).moved == 1
    rows = (("a", "Rome", 1), ("b", "Rome", 1), ("k", "Rome", 2))
    assert sorted_rows(healed.read()) == sorted_rows(records(*rows))
    assert healed.verify_index().agrees


def test_rebuild_names_lost_column_indexes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = create_table(tmp_path / "t", record_key="id", partition_by="city", ordering="ts")
    turn_into_version_9(table)
    table.migrate_index("record-index:")
    table.upsert(records(("a", "Rome", 1)))
    table.create_index("by_ts", on="ts")
    with leaving_out(table):
        table.upsert(records(("k", "Oslo", 1)))
    with caplog.at_level(logging.WARNING):
        table.bootstrap_index()
    (lost,) = [one.getMessage() for one in caplog.records if "was dropped" in one.getMessage()]
    assert "partition=secondary_index_by_ts" in lost
    assert "rli index create" in lost
    assert [index.state for index in table.indexes() if index.name == "by_ts"] == ["invalid"]
    assert table.create_index("by_ts", on="ts").state == "valid"
    assert table.read(filters="ts = 1").num_rows == 2


_ADVICE: Final = {
    None: "rli metadata disable TABLE, then rli metadata enable TABLE --partitions column_stats,files,record_index",
    "record-index:": "rli index bootstrap TABLE",
}


@pytest.mark.parametrize("index", [None, "record-index:"])
def test_advice_builds_all_of_them(index: str | None, tmp_path: Path) -> None:
    table = with_a_commit_left_out(tmp_path, index)
    table.metadata.enable(["column_stats"])
    with pytest.raises((CorruptTableError, CorruptIndexError), match=_ADVICE[index]):
        table.upsert(records(("c", "Rome", 1)))


def test_its_values_are_found(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", record_key="id", partition_by="city", ordering="ts")
    turn_into_version_9(table)
    table.upsert(records(("a", "Rome", 1)))
    table.metadata.enable(["files", "record_index"])
    with leaving_out(table):
        table.upsert(records(("k", "Oslo", 1)))
    # The index has the commit, and the record index lacks it.
    table.create_index("by_ts", on="ts")
    assert sorted(table.read(filters="ts = 1")["id"].to_pylist()) == ["a", "k"]


def test_empty_commits_are_not_missed(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", record_key="id", metadata=["files"], index="record-index:")
    row = pa.table({"id": ["a"]})
    table.upsert(row)
    assert table.upsert(row, transaction=("job", 1)).instant is not None
    assert table.upsert(pa.table({"id": ["b"]})).inserted == 1
    assert table.read().num_rows == 2


def test_commits_before_birth_are_passed(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", record_key="id")
    for key in "abc":
        table.upsert(pa.table({"id": [key]}))
    table.metadata.enable(["files"])
    table.upsert(pa.table({"id": ["d"]}))
    table.metadata.enable(["record_index"])
    table.upsert(pa.table({"id": ["e"]}))
    definition = opened_table(table).definition.reloaded()
    reader = MetadataTableReader(definition.storage, definition.load_timeline(), definition.properties)
    assert {partition: reader.lacks(partition) for partition in reader.partitions} == {"files": (), "record_index": ()}
