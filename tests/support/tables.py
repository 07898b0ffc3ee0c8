"""Tables in the tests' own terms: rows as plain dicts, a model that keeps the promises, and checks of what is stored."""

from __future__ import annotations

import hashlib
import io
import json
import os
import posixpath
import shutil
import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from rli import Table
from rli.coordination.file_records import FileRecords
from rli.coordination.liveness import Holding
from rli.hudi.bloom_filter import BloomFilter
from rli.hudi.meta_columns import COMMIT_SEQNO, META_COLUMNS, RECORD_KEY
from rli.hudi.properties import Key, save_properties
from rli.index.roles import KeptInStore
from rli.store.contract import Store
from rli.table.table import opened_table
from rli.view import paths
from rli.view.table_change import NATIVE_ENTRY
from tests.support.indexes import record_index

Row: TypeAlias = dict[str, Any]

SCHEMA = pa.schema([("id", pa.string()), ("city", pa.string()), ("ts", pa.int64()), ("v", pa.float64())])


def records(*rows: Sequence[Any], schema: pa.Schema = SCHEMA) -> pa.Table:
    """Records of ``schema`` from rows in the order of its columns."""
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema)


def rewrite_in_row_groups(table: Table, rows: int) -> None:
    """Write the base files of a table again with row groups of so many records, and bloom filters of their keys."""
    for path in table.scan().files():
        content = pq.read_table(path, partitioning=None)
        footer = pq.read_metadata(path).metadata
        filters = {RECORD_KEY: {"ndv": rows, "fpp": 0.05}}
        with pq.ParquetWriter(path, content.schema, bloom_filter_options=filters, store_schema=False) as writer:
            writer.write_table(content, row_group_size=rows)
            writer.add_key_value_metadata(footer)


def commit_version(table: Table, version: int) -> str:
    """Commit a version: updates ``a``, moves ``m`` to and fro, and adds a record of its own."""
    rows = [("a", "x", version, float(version)), ("m", "xy"[version % 2], version, 0.0), (f"n{version}", "y", 1, 0.0)]
    return table.upsert(records(*rows)).instant or ""


def change_properties(table: Table, changes: Mapping[str, str | None]) -> None:
    """Give properties of a table other values; None where a property goes."""
    definition = opened_table(table).definition.reloaded()
    save_properties(definition.storage, definition.properties.changed(changes))


def turn_into_version_8(table: Table) -> None:
    """Make an empty table without a metadata table one of version 8, as Hudi 1.0 does."""
    assert [*table.timeline(), *table.metadata.status().partitions] == []
    changes = {
        Key.VERSION: "8",
        Key.INITIAL_VERSION: "8",
        Key.LAYOUT_VERSION: "2",
        Key.MERGE_MODE: "EVENT_TIME_ORDERING",
    }
    change_properties(table, changes)


def turn_into_version_9(table: Table) -> None:
    """Make an empty table without a metadata table one of version 9, as Hudi 1.1 and later do."""
    assert [*table.timeline(), *table.metadata.status().partitions] == []
    definition = opened_table(table).definition.reloaded()
    changes = {
        Key.VERSION: "9",
        Key.INITIAL_VERSION: "9",
        Key.LAYOUT_VERSION: "2",
        Key.PRECOMBINE_FIELD: None,
        Key.PAYLOAD_CLASS: None,
        Key.ORDERING_FIELDS: definition.properties.ordering_field,
        Key.MERGE_MODE: "EVENT_TIME_ORDERING",
    }
    save_properties(definition.storage, definition.properties.changed(changes))


def forget_the_journal(table: Table, instant: str) -> None:
    """Make a commit of ours look like one of another engine, which leaves no journal."""
    shutil.rmtree(Path(table.location, ".hoodie/.rli/journal", instant))


def turn_into_foreign_commit(table: Table, instant: str) -> None:
    """Make a commit of ours one of another engine, for an index that has not followed it."""
    forget_the_journal(table, instant)
    [path] = Path(table.location, ".hoodie").glob(f"{instant}.*commit")
    content = json.loads(path.read_bytes())
    del content["extraMetadata"][NATIVE_ENTRY]
    written = path.stat()
    path.write_text(json.dumps(content))
    # In this layout, the time of the file is that of the commit's completion.
    os.utime(path, ns=(written.st_atime_ns, written.st_mtime_ns))


def rows_of(table: Table | pa.Table, key: str = "id") -> list[Row]:
    """All records, ordered by a column."""
    found = table.read() if isinstance(table, Table) else table
    return sorted(found.to_pylist(), key=lambda row: str(row[key]))


def by_key(rows: Iterable[Mapping[str, Any]], key: str = "id") -> dict[str, Row]:
    """Rows by their record key, which must be distinct."""
    listed = [dict(row) for row in rows]
    found = {str(row[key]): row for row in listed}
    assert len(found) == len(listed), "a record key occurs twice"
    return found


def live_files(table: Table) -> dict[str, pq.ParquetFile]:
    """The live base files by their path in the table."""
    snapshot, storage = opened_table(table).snapshot(), opened_table(table).definition.storage
    return {
        file.path: pq.ParquetFile(storage.filesystem.open_input_file(storage.full_path(file.path)))
        for file_slice in snapshot.slices.values()
        for file in file_slice.without_logs().files
    }


def check_stored(table: Table) -> None:
    """Index, table and metadata table agree, and every live base file is what Hudi's layout asks for."""
    report = table.verify_index()
    assert report.agrees, report
    assert table.metadata.verify() == ()
    seqnos = [seqno for path, file in live_files(table).items() for seqno in check_base_file(table, path, file)]
    assert len(set(seqnos)) == len(seqnos)
    assert_nothing_left_over(table)


def stray_files(table: Table, instant: str) -> set[str]:
    """Base files with the name of a commit, the table's last one, that are not of the table."""
    folder = Path(table.location)
    live = {file.path for file_slice in opened_table(table).snapshot().slices.values() for file in file_slice.files}
    return {str(file.relative_to(folder)) for file in folder.rglob(f"*_{instant}.parquet")} - live


def check_base_file(table: Table, path: str, file: pq.ParquetFile) -> list[str]:
    """Meta columns and footer of one base file; returns the sequence numbers of its records."""
    partition_path, _, name = path.rpartition("/")
    content = file.read()
    assert tuple(content.column_names[:5]) == META_COLUMNS
    assert set(content.column("_hoodie_file_name").to_pylist()) <= {name}
    assert set(content.column("_hoodie_partition_path").to_pylist()) <= {partition_path}
    seqnos: list[str] = content.column(COMMIT_SEQNO).to_pylist()
    times = content.column("_hoodie_commit_time").to_pylist()
    assert all(seqno.startswith(f"{time}_") for seqno, time in zip(seqnos, times, strict=True))
    keys = content.column("_hoodie_record_key").to_pylist()
    footer = file.metadata.metadata
    bloom_filter = BloomFilter.from_footer(footer, path)
    assert bloom_filter is not None
    assert bloom_filter.might_contain(pa.array(keys, pa.string())).all()
    if keys:
        ordered = sorted(keys, key=lambda key: key.encode("utf-16-be"))
        assert footer[b"hoodie_min_record_key"].decode() == ordered[0]
        assert footer[b"hoodie_max_record_key"].decode() == ordered[-1]
    assert b"ARROW:schema" not in footer
    metadata = opened_table(table).definition.storage.read_bytes(
        posixpath.join(partition_path, ".hoodie_partition_metadata")
    )
    assert b"partitionDepth=" in (metadata or b"")
    return seqnos


def assert_nothing_left_over(table: Table) -> None:
    """No work folders, writers' records, lease, pending instants, stray base files or temporary files."""
    storage = opened_table(table).definition.storage
    timeline = opened_table(table).snapshot().timeline
    assert timeline.pending == ()
    for folder in (paths.WORK, paths.REQUESTS, paths.UNDOING, paths.ARCHIVING):
        assert [*storage.list_folders(folder), *storage.list_files(folder, recursive=True)] == []
    index = opened_table(table).index
    shared = index.shared_store if isinstance(index, KeptInStore) else None
    places: list[Store | FileRecords] = [FileRecords(storage), *([] if shared is None else [shared])]
    for records in places:
        # Of a writer that was taken for dead, its instant stays taken.
        assert [
            name for name, record in records.scan_control("writer/") if not Holding.from_json(record).is_placeholder
        ] == []
        assert records.scan_control("request/") == []
        assert records.read_control("lease") is None
    completed = {instant.time for instant in timeline.completed_writes} | {time for time, _ in check_archived(table)}
    files = [Path(file.path) for file in storage.list_files(recursive=True)]
    written = {
        path.stem.rpartition("_")[2] for path in files if path.suffix == ".parquet" and path.parts[0] != ".hoodie"
    }
    assert written <= completed, "a base file of no commit"
    # An index that has seen a commit needs its journal to follow its rollback.
    journals = {posixpath.basename(folder) for folder in storage.list_folders(paths.JOURNAL)}
    assert journals <= completed | timeline.rolled_back, "a journal of no commit"


def fingerprint(table: Table) -> dict[str, str]:
    """Everything that the table and its index hold, reduced to digests: equal before and after means untouched."""
    root = Path(table.location)
    files = {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file() and ".hoodie/.rli/index" not in str(path)
    }
    return {**files, **fingerprint_of_store(record_index(table).store, record_index(table).settings.shard_count)}


def fingerprint_of_store(store: Store, shards: int) -> dict[str, str]:
    """Control records and entries of a store."""
    control = {f"control {name}": value.hex() for name, value in store.scan_control("")}
    entries = {
        (shard, key.hex()): entry
        for shard in range(shards)
        for keys, numbers in store.scan(shard, 1000)
        for key, entry in zip(keys.to_bytes(), numbers.tolist(), strict=True)
    }
    return {**control, "entries": json.dumps(sorted((str(place), entry) for place, entry in entries.items()))}


def check_archived(table: Table) -> list[tuple[str, str]]:
    """Times and actions of the archived instants, in the order of the archive, by readers of Hudi's formats alone."""
    definition = opened_table(table).definition
    storage, folder = definition.storage, definition.timeline_layout.archive_folder
    content = {file.name: storage.read_bytes(file.path) or b"" for file in storage.list_files(folder)}
    if definition.properties.layout_version == 1:
        names = [name for name in content if name.startswith(".commits_.archive.")]
        names.sort(key=lambda name: int(name.split(".")[3].split("_")[0]))
        return [found for name in names for found in _entries_of_log_file(content[name])]
    # As Hudi does where the file that names the version is missing.
    versions = [int(name.removeprefix("manifest_")) for name in content if name.startswith("manifest_")]
    version = int(content.get("_version_", max(versions, default=0)))
    if version == 0:
        return []
    found = []
    for file in json.loads(content[f"manifest_{version}"])["files"]:
        archived = content[file["fileName"]]
        assert len(archived) == file["fileLen"]
        rows = pq.read_table(pa.BufferReader(archived)).to_pylist()
        assert (rows[0]["instantTime"], rows[-1]["instantTime"]) == tuple(file["fileName"].split("_")[:2])
        assert all(row["completionTime"] >= row["instantTime"] for row in rows)
        found += [(row["instantTime"], row["action"]) for row in rows]
    return found


def _entries_of_log_file(content: bytes) -> list[tuple[str, str]]:
    """The completed instants of a log file with one block, whose lengths must all be right."""
    stream = io.BytesIO(content)
    assert stream.read(6) == b"#HUDI#"
    length, version, kind, texts, key, size = struct.unpack(">qiiiii", stream.read(28))
    assert (length, version, kind, texts, key) == (len(content) - 14, 1, 3, 1, 2)
    schema = json.loads(stream.read(size))
    content_length, content_version, count = struct.unpack(">qii", stream.read(16))
    assert content_version == 3
    end = stream.tell() - 8 + content_length
    found = []
    for _ in range(count):
        (size,) = struct.unpack(">i", stream.read(4))
        record = fastavro.schemaless_reader(io.BytesIO(stream.read(size)), schema, None)
        assert isinstance(record, dict)
        if record["actionState"] == "COMPLETED":
            found.append((record["commitTime"], record["actionType"]))
    assert stream.tell() == end
    assert struct.unpack(">iq", stream.read()) == (0, len(content) - 8)
    return found
