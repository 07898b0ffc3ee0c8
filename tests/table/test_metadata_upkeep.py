"""Writes of rli on tables whose metadata table Hudi has made: afterwards, it says of each file and key what is true."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rli import Step, Table, UnsupportedTableError, open_table
from rli.hudi.log_file.delete_block import NO_DELETES, delete_block
from rli.hudi.metadata.index_definitions import (
    IndexDefinition,
    definitions_path,
    format_index_definitions,
    load_index_definitions,
)
from rli.hudi.metadata.partitions import METADATA_FOLDER
from rli.hudi.properties import Key, load_properties, save_properties
from rli.publication.deltacommits import files_of_deltacommit
from rli.table.table import opened_table
from rli.view.paths import JOURNAL
from tests.support.metadata_tables import METADATA_TABLES, differences, metadata_reader, unpack_metadata_table
from tests.support.tables import rows_of

LATER = 10**13


def with_values(rows: pa.Table, **values: Any) -> pa.Table:
    for name, value in values.items():
        position = rows.schema.get_field_index(name)
        column = value if isinstance(value, list) else [value] * rows.num_rows
        rows = rows.set_column(position, name, pa.array(column, rows.schema.field(name).type))
    return rows


def updated(table: Table, rows: pa.Table) -> None:
    table.upsert(with_values(rows, ts=LATER))


def inserted(table: Table, rows: pa.Table) -> None:
    table.insert(with_values(rows.slice(0, 2), id=["new 1", "new 2"], ts=LATER))


def moved_to_new_partition(table: Table, rows: pa.Table) -> None:
    table.upsert(with_values(rows.slice(0, 2), ts=LATER + 1, region="é_1-2"))


def deleted(table: Table, rows: pa.Table) -> None:
    table.delete(rows["id"].to_pylist()[1:3])


def merged(table: Table, rows: pa.Table) -> None:
    changes = with_values(rows.slice(3, 2), ts=LATER + 2)
    table.merge(changes.append_column("op", pa.array(["u", "d"])), "op")


def overwritten(table: Table, rows: pa.Table) -> None:
    table.overwrite_partitions(with_values(rows.slice(0, 1), ts=LATER + 3))


def emptied(table: Table, _: pa.Table) -> None:
    table.drop_partitions([table.read(columns=["_hoodie_partition_path"]).column(0)[0].as_py()])


WRITES: list[Callable[[Table, pa.Table], None]] = [
    updated,
    inserted,
    moved_to_new_partition,
    deleted,
    merged,
    overwritten,
    emptied,
]


def opened(name: str, folder: Path, index: str = "") -> tuple[Table, Path]:
    path = unpack_metadata_table(name, folder)
    open_table(path).index.bootstrap(index or f"lmdb://{folder}/index")
    return open_table(path), path


@pytest.mark.invariant("P52")
@pytest.mark.parametrize("name", [*METADATA_TABLES, "v9_partitioned_index"])
def test_each_write_keeps_each_partition(name: str, tmp_path: Path) -> None:
    table, path = opened(name, tmp_path)
    listed, rows = load_properties(opened_table(table).definition.storage).metadata_partitions, table.read()
    for write in WRITES:
        write(table, rows)
        assert (write, differences(path)) == (write, [])
    assert load_properties(opened_table(table).definition.storage).metadata_partitions == listed


@pytest.mark.parametrize("name", ["v9", "v6"])
def test_partitions_being_built_are_kept(name: str, tmp_path: Path) -> None:
    """The list of partitions is that of the commit's moment, and not of the begin of the write."""
    table, path = opened(name, tmp_path)
    storage = opened_table(table).definition.storage
    listed = load_properties(storage)
    others = [partition for partition in listed.metadata_partitions if partition != "column_stats"]

    def announce(step: Step) -> None:
        if step is Step.WRITTEN:
            inflight = {Key.METADATA_PARTITIONS: ",".join(others), Key.METADATA_PARTITIONS_INFLIGHT: "column_stats"}
            save_properties(storage, listed.changed(inflight))

    table.upsert(with_values(table.read(), ts=LATER), on_step=announce)
    assert load_properties(storage).metadata_partitions_inflight == ("column_stats",)
    save_properties(storage, listed)
    assert differences(path) == []


def test_upgrades_beside_a_write_stop_it(tmp_path: Path) -> None:
    table, path = opened("v9", tmp_path)
    properties, before = path / ".hoodie/hoodie.properties", rows_of(table)
    text = properties.read_text()

    def upgrade(step: Step) -> None:
        if step is Step.WRITTEN:
            properties.write_text(text.replace("hoodie.table.version=9", "hoodie.table.version=10"))

    with pytest.raises(UnsupportedTableError, match="version=10"):
        table.upsert(with_values(table.read(), ts=LATER), on_step=upgrade)
    properties.write_text(text)
    assert rows_of(open_table(path)) == before


@pytest.mark.parametrize("name", ["v9", "v6", "v9_partitioned_index"])
def test_each_undo_keeps_each_partition(name: str, tmp_path: Path) -> None:
    table, path = opened(name, tmp_path)
    storage = opened_table(table).definition.storage
    listed, rows = load_properties(storage).metadata_partitions, table.read()
    updated(table, rows)
    first = table.timeline()[-1].time
    for write in WRITES[1:]:
        write(table, rows)
        table.rollback("last")
        assert (write, differences(path)) == (write, [])
        write(table, rows)
    table.restore(first)
    assert differences(path) == []
    assert load_properties(storage).metadata_partitions == listed


@pytest.mark.parametrize("name", ["v9", "v6"])
def test_housekeeping_keeps_each_partition(name: str, tmp_path: Path) -> None:
    table, path = opened(name, tmp_path)
    storage = opened_table(table).definition.storage
    listed, rows = load_properties(storage).metadata_partitions, table.read()
    for write in WRITES[:4]:
        write(table, rows)
    table.savepoint()
    for service in (lambda: table.clean(keep_commits=1), lambda: table.archive(keep_commits=1), table.cluster):
        service()
        assert differences(path) == []
    assert load_properties(storage).metadata_partitions == listed


def test_archive_keeps_what_readers_need(tmp_path: Path) -> None:
    table, path = opened("v9", tmp_path)
    compactions = [instant.time for instant in metadata_reader(path).timeline.completed if instant.action == "commit"]
    for number in range(3):
        table.upsert(with_values(table.read(), ts=LATER + number))
    written = [instant.time for instant in table.timeline() if instant.time > max(compactions)]
    table.archive(keep_commits=1)
    assert [instant.time for instant in table.timeline() if instant.time > max(compactions)] == written


@pytest.mark.parametrize("name", ["v9", "v6"])
def test_undo_without_journals_keeps_locations(name: str, tmp_path: Path) -> None:
    """The metadata table itself tells what a commit of another engine has changed there."""
    table, path = opened(name, tmp_path)
    storage = opened_table(table).definition.storage
    listed, rows = load_properties(storage).metadata_partitions, table.read()
    for write in WRITES:
        write(table, rows)
        shutil.rmtree(path / JOURNAL, ignore_errors=True)
        table.index.bootstrap()
        table.rollback("last")
        assert (write, differences(path)) == (write, [])
        assert load_properties(storage).metadata_partitions == listed
    inserted(table, rows)
    first = table.timeline()[-1].time
    for write in (moved_to_new_partition, deleted, merged):
        write(table, rows)
    shutil.rmtree(path / JOURNAL)
    table.index.bootstrap()
    table.restore(first)
    assert differences(path) == []
    assert load_properties(storage).metadata_partitions == listed


def test_undo_over_another_drops_locations(tmp_path: Path) -> None:
    """What a rollback between them has put back belongs to no commit that is undone."""
    table, path = opened("v9", tmp_path)
    storage, rows = opened_table(table).definition.storage, table.read()
    updated(table, rows)
    first = table.timeline()[-1].time
    moved_to_new_partition(table, rows)
    deleted(table, rows)
    table.rollback("last")
    shutil.rmtree(path / JOURNAL)
    table.index.bootstrap()
    table.restore(first)
    assert "record_index" not in load_properties(storage).metadata_partitions
    assert differences(path) == []


def test_undo_of_compacted_commit_drops_locations(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table, path = opened("v9", tmp_path)
    storage = opened_table(table).definition.storage
    listed = {*load_properties(storage).metadata_partitions}
    inserted(table, table.read())
    assert table.metadata.compact().instant is not None
    shutil.rmtree(path / JOURNAL)
    with caplog.at_level(logging.WARNING):
        table.index.bootstrap()
        table.rollback("last")
    assert {*load_properties(storage).metadata_partitions} == listed - {"record_index"}
    assert "no journals" in caplog.text
    assert differences(path) == []


def test_updates_leave_locations_alone(tmp_path: Path) -> None:
    table, path = opened("v9", tmp_path)
    before = metadata_reader(path).timeline.latest_time
    updated(table, table.read())
    after = metadata_reader(path)
    (deltacommit,) = [instant for instant in after.timeline.completed if instant.time > (before or "")]
    logs = [log for group in after.groups("record_index") for log in group.names if log.instant == deltacommit.time]
    assert logs == []


def test_key_of_two_partitions_drops_locations(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table, path = opened("v9", tmp_path, "simple:")
    listed = {*load_properties(opened_table(table).definition.storage).metadata_partitions}
    with caplog.at_level(logging.WARNING):
        updated(table, table.read())
    assert {*load_properties(opened_table(table).definition.storage).metadata_partitions} == listed - {"record_index"}
    assert "unique in their partition only" in caplog.text
    assert differences(path) == []


def test_unknown_partition_is_dropped_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table, path = opened("v9", tmp_path)
    storage, name = opened_table(table).definition.storage, "expr_index_by_note"
    properties = load_properties(storage)
    definitions = load_index_definitions(storage, properties)
    of_index = IndexDefinition(name, "expr_index", "regexp_replace", ("note",), version="V2")
    storage.write_bytes(
        properties.raw["hoodie.table.index.defs.path"], format_index_definitions([*definitions.values(), of_index])
    )
    listed = ",".join([*properties.metadata_partitions, name])
    save_properties(storage, properties.changed({Key.METADATA_PARTITIONS: listed}))
    storage.write_bytes(f"{METADATA_FOLDER}/{name}/.expr-index-by-note-0000-0_00000000000000002.log.1_0-0-0", b"")
    with caplog.at_level(logging.WARNING):
        updated(table, table.read())
    assert load_properties(storage).metadata_partitions == properties.metadata_partitions
    assert load_index_definitions(storage, properties) == definitions
    assert not storage.exists(f"{METADATA_FOLDER}/{name}")
    assert f"partition={name}" in caplog.text
    assert [*table.history()[-1].metadata_dropped] == [name]
    assert differences(path) == []


def test_statistics_of_later_versions_are_dropped(tmp_path: Path) -> None:
    table, path = opened("v9", tmp_path)
    storage = opened_table(table).definition.storage
    properties = load_properties(storage)
    definitions = load_index_definitions(storage, properties)
    definitions["column_stats"] = replace(definitions["column_stats"], version="V3")
    storage.write_bytes(definitions_path(properties), format_index_definitions(definitions.values()))
    updated(table, table.read())
    assert load_properties(storage).metadata_partitions == ("bloom_filters", "files", "record_index")
    assert differences(path) == []


def test_files_of_others_stay_theirs(tmp_path: Path) -> None:
    """Hudi gives its next log file in a file group of table version 6 the token of the last one."""
    table, _ = opened("v6", tmp_path)
    storage = opened_table(table).definition.storage
    updated(table, table.read())
    instant = table.timeline()[-1].time
    ours = files_of_deltacommit(storage, instant)
    log = next(file for file in ours if ".log." in file)
    theirs = log.replace(".log.", ".log.9")
    storage.write_bytes(theirs, delete_block("20301231235959999", NO_DELETES))
    assert files_of_deltacommit(storage, instant) == ours
