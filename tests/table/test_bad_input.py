"""Bad input is refused by name, and leaves table and index as they were."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest

from rli import (
    CorruptTableError,
    IndexExistsError,
    IndexMismatchError,
    IndexNotFoundError,
    IndexNotReadyError,
    InvalidKeyError,
    RliError,
    SchemaError,
    SettingsError,
    Step,
    Table,
    TableExistsError,
    TableNotFoundError,
    create_index,
    create_table,
    open_index,
    open_table,
)
from rli.table.table import opened_table
from tests.support.tables import check_stored, fingerprint, live_files, records, rows_of

GOOD = records(("a", "x", 1, 1.0), ("b", "y", 1, 2.0))


def changed(name: str, values: object) -> pa.Table:
    """A batch with another column in place of one of its own."""
    batch = records(("a", "x", 2, 1.0), ("n", "y", 2, 2.0))
    return batch.set_column(batch.schema.get_field_index(name), name, pa.array(values))


# Records ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("batch", "error", "named"),
    [
        (GOOD.drop_columns(["id"]), SchemaError, "record-key column is missing: column=id"),
        (GOOD.drop_columns(["city"]), SchemaError, "partition column is missing: column=city"),
        (GOOD.drop_columns(["ts"]), SchemaError, "ordering column is missing: column=ts"),
        (pa.table({}), SchemaError, "column=id"),
        (changed("id", ["a", None]), InvalidKeyError, "null: column=id row=1"),
        (changed("id", ["", "n"]), InvalidKeyError, "empty: column=id row=0"),
        (changed("id", [None, None]), InvalidKeyError, "null: column=id row=0"),
        (changed("id", [1.5, 2.5]), SchemaError, "column=id type=double"),
        (changed("id", [b"a", b"b"]), SchemaError, "column=id type=binary"),
        (changed("id", [["a"], ["b"]]), SchemaError, "column=id type=list"),
        (changed("city", [1.5, 2.5]), SchemaError, "column=city type=double"),
        (changed("city", ["x", ".."]), InvalidKeyError, "column=city value='..'"),
        (changed("city", ["x", "a//b"]), InvalidKeyError, "column=city"),
        (changed("city", ["/x", "x"]), InvalidKeyError, "column=city"),
        (changed("city", ["x", "a\0b"]), InvalidKeyError, "column=city"),
        (changed("city", ["x", "é" * 128]), InvalidKeyError, "column=city"),
        (changed("city", ["x", ".hoodie"]), InvalidKeyError, "column=city"),
        (changed("city", ["x", ".hoodie/x"]), InvalidKeyError, "column=city"),
        (changed("ts", [2, None]), SchemaError, "column=ts row=1"),
        (changed("ts", [None, None]), SchemaError, "column=ts row=0"),
        (changed("ts", [1.0, float("nan")]), SchemaError, "column=ts row=1"),
        (changed("ts", [[1], [2]]), SchemaError, "column=ts"),
        (changed("ts", [{"a": 1}, {"a": 2}]), SchemaError, "column=ts"),
    ],
)
@pytest.mark.parametrize("filled", [False, True], ids=["new table", "filled table"])
def test_records(trips: Table, batch: pa.Table, error: type[RliError], named: str, *, filled: bool) -> None:
    if filled:
        trips.upsert(GOOD)
    before = fingerprint(trips)
    with pytest.raises(error) as raised:
        trips.upsert(batch)
    assert named in str(raised.value)
    assert fingerprint(trips) == before
    check_stored(trips)


def test_a_composite_key_needs_one_part(tmp_path: Path, memory_url: str) -> None:
    table = create_table(tmp_path / "t", record_key=["a", "b", "c"], index=memory_url)
    before = fingerprint(table)
    with pytest.raises(InvalidKeyError, match=r"columns=\['a', 'b', 'c'\] row=1"):
        table.upsert(pa.table({"a": ["1", None], "b": ["", ""], "c": pa.array([None, None], pa.string())}))
    assert fingerprint(table) == before


def test_failed_step_leaves_table_unchanged(trips: Table) -> None:
    trips.upsert(GOOD)

    class StopError(Exception):
        """Raised by the test."""

    for last in Step:
        before, rows = fingerprint(trips), rows_of(trips)
        reached: list[Step] = []

        def stop(step: Step, last: Step = last, reached: list[Step] = reached) -> None:
            reached.append(step)
            if step is last:
                raise StopError

        batch = records(("a", "y", len(rows), 1.0), (str(last), "z", 1, 1.0))
        is_published = list(Step).index(last) >= list(Step).index(Step.PUBLISHED)
        if is_published:
            assert trips.upsert(batch, on_step=stop).instant is not None
        else:
            with pytest.raises(StopError):
                trips.upsert(batch, on_step=stop)
        assert last in reached
        if is_published:
            trips.sync_index()
            assert str(last) in [row["id"] for row in rows_of(trips)]
        else:
            # A new partition's folder may stay behind, empty but for its mark.
            assert {**before, **fingerprint(trips)} == {**fingerprint(trips)}
            assert {name.rpartition("/")[2] for name in fingerprint(trips).keys() - before.keys()} <= {
                ".hoodie_partition_metadata"
            }
        trips.delete(["never there"])
        check_stored(trips)


# Creating and opening --------------------------------------------------------------------------------------------


def everything_below(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in sorted(folder.rglob("*"))}


def test_a_table_is_not_created_twice(trips: Table, tmp_path: Path) -> None:
    trips.upsert(GOOD)
    before = fingerprint(trips)
    other = f"memory:{uuid4().hex}"
    with pytest.raises(TableExistsError, match="trips"):
        create_table(tmp_path / "trips", record_key="id", index=other)
    assert fingerprint(trips) == before
    with pytest.raises(IndexNotFoundError):
        open_index(other)


@pytest.mark.parametrize("store", ["memory", "lmdb"])
def test_existing_index_prevents_table_creation(tmp_path: Path, store: str) -> None:
    url = f"memory:{uuid4().hex}" if store == "memory" else f"lmdb://{tmp_path}/index"
    create_index(url, shards=3).close()
    with pytest.raises(IndexExistsError, match=store):
        create_table(tmp_path / "t", record_key="id", index=url)
    assert not (tmp_path / "t").exists()
    with pytest.raises(TableNotFoundError):
        open_table(tmp_path / "t")
    assert open_index(url).settings.shard_count == 3


@pytest.mark.parametrize(
    ("arguments", "error", "named"),
    [
        ({"record_key": []}, SettingsError, "record_key"),
        ({"record_key": ["a", "a"]}, SettingsError, "record_key"),
        ({"record_key": [""]}, SettingsError, "record_key"),
        ({"record_key": "_hoodie_record_key"}, SettingsError, "_hoodie_record_key"),
        ({"partition_by": ["a", "a"]}, SettingsError, "partition_by"),
        ({"partition_by": "_rli_x"}, SettingsError, "_rli_x"),
        ({"ordering": "_rli_x"}, SettingsError, "_rli_x"),
        ({"schema": pa.schema([("other", pa.string())])}, SchemaError, "id"),
        ({"schema": pa.schema([("id", pa.uint64())])}, SchemaError, "id"),
        ({"shards": 0}, SettingsError, "shard_count"),
        ({"key_mode": "hash"}, SettingsError, "key_mode"),
        ({"on_partition_change": "copy"}, SettingsError, "on_partition_change"),
        ({"target_file_size": 0}, SettingsError, "target_file_size"),
        ({"small_file_size": -1}, SettingsError, "small_file_size"),
        ({"compression": "lz77"}, SettingsError, "compression"),
        ({"index": "nonsense"}, SettingsError, "nonsense"),
        ({"index": "cassandra://x"}, SettingsError, "cassandra"),
        ({"index": "lmdb://"}, SettingsError, "lmdb"),
    ],
)
def test_wrong_settings_leave_no_trace(
    tmp_path: Path, arguments: dict[str, object], error: type[RliError], named: str
) -> None:
    good: dict[str, object] = {"record_key": "id", "index": f"lmdb://{tmp_path}/index"}
    with pytest.raises(error, match=named):
        create_table(tmp_path / "t", **{**good, **arguments})  # type: ignore[arg-type]  # on purpose
    assert everything_below(tmp_path) == {}


def test_a_table_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("nowhere", "empty"):
        with pytest.raises(TableNotFoundError, match=name):
            open_table(tmp_path / name)


def test_table_removed_while_open(trips: Table, tmp_path: Path) -> None:
    trips.upsert(GOOD)
    shutil.rmtree(tmp_path / "trips")
    for call in (trips.read, trips.timeline, lambda: trips.upsert(GOOD), lambda: trips.lookup(["a"])):
        with pytest.raises(TableNotFoundError):
            call()


@pytest.mark.usefixtures("trips")
def test_damaged_properties(tmp_path: Path) -> None:
    path = tmp_path / "trips" / ".hoodie" / "hoodie.properties"
    path.write_text(path.read_text().replace("hoodie.table.type=COPY_ON_WRITE", "hoodie.table.type=SIDEWAYS"))
    with pytest.raises(RliError, match="SIDEWAYS"):
        open_table(tmp_path / "trips")
    path.write_text("hoodie.table.name=t\n")
    with pytest.raises(CorruptTableError, match=r"hoodie\.properties"):
        open_table(tmp_path / "trips")


@pytest.mark.parametrize("content", [b"", b"{}", b"not json", b'{"format_version": 2}'])
@pytest.mark.usefixtures("trips")
def test_damaged_settings(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "trips" / ".hoodie/.rli/table.json").write_bytes(content)
    with pytest.raises(CorruptTableError, match=r"table\.json"):
        open_table(tmp_path / "trips")


# Damaged tables --------------------------------------------------------------------------------------------------


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def without_end(content: bytes) -> bytes:
    return content[:-8]


def garbled(content: bytes) -> bytes:
    """The same footer, but the column chunks are noise."""
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    return content[:4] + b"Z" * (footer - 4) + content[footer:]


@pytest.mark.parametrize("damage", [cut, without_end, garbled, lambda _: b"", lambda _: b"PAR1PAR1"])
def test_a_damaged_base_file(trips: Table, tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    trips.upsert(GOOD)
    (path,) = [path for path in live_files(trips) if path.startswith("x/")]
    file = tmp_path / "trips" / path
    file.write_bytes(damage(file.read_bytes()))
    before = fingerprint(trips)
    with pytest.raises(CorruptTableError, match=path):
        trips.read()
    for batch in (records(("a", "x", 2, 2.0)), records(("new", "x", 2, 2.0)), records(("a", "y", 2, 2.0))):
        with pytest.raises(CorruptTableError, match=path):
            trips.upsert(batch)
    with pytest.raises(CorruptTableError, match=path):
        trips.delete(["a"])
    with pytest.raises(CorruptTableError, match=path):
        trips.verify_index()
    assert fingerprint(trips) == before
    # Other file groups are not concerned.
    assert trips.upsert(records(("b", "y", 2, 2.0))).updated == 1


def test_a_missing_base_file(trips: Table, tmp_path: Path) -> None:
    trips.upsert(GOOD)
    (path,) = [path for path in live_files(trips) if path.startswith("x/")]
    (tmp_path / "trips" / path).unlink()
    before = fingerprint(trips)
    with pytest.raises(RliError, match="verify the index"):
        trips.upsert(records(("a", "x", 2, 2.0)))
    assert fingerprint(trips) == before
    with pytest.raises(CorruptTableError, match=path):
        trips.verify_index()


def test_unknown_parquet_file_is_named(trips: Table, tmp_path: Path) -> None:
    trips.upsert(GOOD)
    (tmp_path / "trips" / "x" / "export.parquet").write_bytes(b"")
    with pytest.raises(CorruptTableError, match=r"export\.parquet"):
        trips.read()


@pytest.mark.parametrize("content", [b"{}", b"not json", b"[]", b'{"partitionToWriteStats": 3}', b"Obj\x01"])
def test_a_malformed_commit(trips: Table, tmp_path: Path, content: bytes) -> None:
    instant = trips.upsert(GOOD).instant
    (tmp_path / "trips" / ".hoodie" / f"{instant}.commit").write_bytes(content)
    before = fingerprint(trips)
    for call in (trips.read, lambda: trips.upsert(records(("a", "x", 2, 2.0)))):
        with pytest.raises(CorruptTableError, match=f"{instant}.commit"):
            call()
    assert fingerprint(trips) == before


@pytest.mark.parametrize("name", ["2024.commit", "20240101.inflight", "123456789012345678901.commit", "1.rollback"])
def test_an_instant_that_is_no_time(trips: Table, tmp_path: Path, name: str) -> None:
    trips.upsert(GOOD)
    (tmp_path / "trips" / ".hoodie" / name).write_bytes(b"{}")
    before = fingerprint(trips)
    for call in (trips.read, trips.timeline, lambda: trips.upsert(records(("a", "x", 2, 2.0)))):
        with pytest.raises(CorruptTableError, match=name):
            call()
    assert fingerprint(trips) == before


@pytest.mark.parametrize(
    "name", ["README", "notes.txt", ".hidden", "20240101000000000.commit.crc", ".20240101000000000.commit.crc"]
)
def test_unrelated_timeline_files_are_ignored(trips: Table, tmp_path: Path, name: str) -> None:
    trips.upsert(GOOD)
    (tmp_path / "trips" / ".hoodie" / name).write_bytes(b"x")
    assert trips.upsert(records(("a", "x", 2, 2.0))).updated == 1
    check_stored(trips)


# Indexes that do not fit -----------------------------------------------------------------------------------------


def lmdb_table(folder: Path, name: str) -> Table:
    return create_table(
        folder / name, record_key="id", partition_by="city", ordering="ts", index=f"lmdb://{folder}/{name}-index"
    )


def calls_that_need_the_index(table: Table) -> list[Callable[[], object]]:
    return [
        lambda: table.upsert(GOOD),
        lambda: table.delete(["a"]),
        lambda: table.lookup(["a"]),
        table.verify_index,
        table.sync_index,
        table.repair_index,
        lambda: table.rollback("20240101000000000"),
    ]


def test_the_index_of_another_table(tmp_path: Path) -> None:
    table, other = lmdb_table(tmp_path, "t"), lmdb_table(tmp_path, "other")
    table.upsert(GOOD)
    other.upsert(records(("z", "z", 1, 1.0)))
    before, before_other = fingerprint(table), fingerprint(other)
    wrong = open_table(tmp_path / "t", index=other.settings.index_url)
    for call in (*calls_that_need_the_index(wrong), wrong.bootstrap_index):
        with pytest.raises(IndexMismatchError, match="other-index"):
            call()
    assert fingerprint(other) == before_other
    assert fingerprint(table) == before
    assert rows_of(wrong) == rows_of(table)


def test_standalone_index_is_not_taken(tmp_path: Path) -> None:
    table = lmdb_table(tmp_path, "t")
    create_index(f"lmdb://{tmp_path}/own").close()
    for call in calls_that_need_the_index(open_table(tmp_path / "t", index=f"lmdb://{tmp_path}/own")):
        with pytest.raises(IndexMismatchError, match="own"):
            call()
    with pytest.raises(IndexMismatchError, match="own"):
        table.bootstrap_index(f"lmdb://{tmp_path}/own")
    check_stored(open_table(tmp_path / "t"))


def test_a_missing_index(tmp_path: Path) -> None:
    table = lmdb_table(tmp_path, "t")
    table.upsert(GOOD)
    table.close()
    shutil.rmtree(tmp_path / "t-index")
    before = everything_below(tmp_path)
    for opened in (table, open_table(tmp_path / "t")):
        for call in calls_that_need_the_index(opened):
            with pytest.raises(IndexNotReadyError, match="rli index bootstrap"):
                call()
        assert len(rows_of(opened)) == 2
    assert everything_below(tmp_path) == before
    assert table.bootstrap_index() == 2
    check_stored(table)
    assert table.upsert(records(("a", "y", 2, 2.0))).moved == 1
    check_stored(table)


def test_a_dropped_index(trips: Table) -> None:
    trips.upsert(GOOD)
    other = open_table(trips.location)
    assert other.lookup(["a"]).column("file_id").null_count == 0
    trips.drop_index()
    for table in (trips, other):
        for call in calls_that_need_the_index(table):
            with pytest.raises(IndexNotReadyError, match="rli index bootstrap"):
                call()
    assert trips.bootstrap_index() == 2
    check_stored(trips)


def test_an_index_older_than_the_table(tmp_path: Path) -> None:
    table = lmdb_table(tmp_path, "t")
    table.upsert(GOOD)
    table.close()
    shutil.copytree(tmp_path / "t-index", tmp_path / "kept")
    missed = [table.upsert(records(("a", "y", 2, 2.0), ("c", "x", 2, 2.0))).instant, table.delete(["b"]).instant]
    table.close()
    shutil.rmtree(tmp_path / "t-index")
    shutil.copytree(tmp_path / "kept", tmp_path / "t-index")
    table = open_table(tmp_path / "t")
    with pytest.raises(IndexNotReadyError, match="rli index sync") as raised:
        table.verify_index(timeout=0)
    assert str(missed) in str(raised.value)
    with pytest.raises(IndexNotReadyError, match="rli index sync"):
        table.lookup(["a"], timeout=0)
    assert table.lookup(["a", "b"]).column("partition_path").to_pylist() == ["y", None]
    result = table.upsert(records(("a", "z", 3, 3.0), ("b", "x", 1, 3.0)))
    assert (result.inserted, result.moved) == (1, 1)
    check_stored(table)
    assert [row["city"] for row in rows_of(table)] == ["z", "x", "x"]


def test_an_index_newer_than_the_table(tmp_path: Path) -> None:
    """The table came back from a backup, its index did not: nothing that it says of lost commits may be believed."""
    table = lmdb_table(tmp_path, "t")
    table.upsert(GOOD)
    shutil.copytree(tmp_path / "t", tmp_path / "kept")
    table.upsert(records(("a", "y", 2, 2.0), ("c", "z", 2, 2.0)))
    table.close()
    shutil.rmtree(tmp_path / "t")
    shutil.copytree(tmp_path / "kept", tmp_path / "t")
    restored = open_table(tmp_path / "t")
    for call in (lambda: restored.lookup(["a"]), lambda: restored.upsert(records(("c", "x", 3, 1.0)))):
        with pytest.raises(IndexNotReadyError, match="bootstrap"):
            call()
    assert restored.bootstrap_index() == 2
    check_stored(restored)


def test_an_index_that_was_never_bootstrapped(tmp_path: Path) -> None:
    table = lmdb_table(tmp_path, "t")
    table.upsert(GOOD)
    table.drop_index()
    create_index(table.settings.index_url, key_fields=["id"], table_id=table.settings.table_id).close()
    for call in calls_that_need_the_index(open_table(tmp_path / "t")):
        with pytest.raises(IndexNotReadyError, match="rli index bootstrap"):
            call()
    assert open_table(tmp_path / "t").bootstrap_index() == 2


def test_repeated_records_are_not_indexed(tmp_path: Path) -> None:
    table = lmdb_table(tmp_path, "t")
    table.upsert(GOOD)
    (path,) = [path for path in live_files(table) if path.startswith("x/")]
    twin = path.replace("x/", "y/").replace("-0_", "-1_", 1)
    shutil.copy(tmp_path / "t" / path, tmp_path / "t" / twin)
    with pytest.raises(CorruptTableError, match=r"records=3 keys=2 sample: 'a' in x/.*, y/"):
        table.bootstrap_index()
    with pytest.raises(IndexNotReadyError):
        table.lookup(["a"])


def test_a_journal_that_is_gone(tmp_path: Path) -> None:
    table = lmdb_table(tmp_path, "t")
    table.upsert(GOOD)
    table.close()
    shutil.copytree(tmp_path / "t-index", tmp_path / "kept")
    instant = table.upsert(records(("a", "y", 2, 2.0))).instant
    table.close()
    shutil.rmtree(tmp_path / "t-index")
    shutil.copytree(tmp_path / "kept", tmp_path / "t-index")
    shutil.rmtree(tmp_path / "t" / ".hoodie/.rli/journal" / (instant or ""))
    table = open_table(tmp_path / "t")
    with pytest.raises(IndexNotReadyError, match=f"{instant}.*bootstrap"):
        table.sync_index()
    assert table.bootstrap_index() == 2
    check_stored(table)


# Left by writers that died ---------------------------------------------------------------------------------------


def test_work_of_dead_writer_is_removed(trips: Table, tmp_path: Path) -> None:
    trips.upsert(GOOD)
    rows = rows_of(trips)
    dead = "20240101000000000"
    hoodie = tmp_path / "trips" / ".hoodie"
    (hoodie / f"{dead}.commit.requested").touch()
    (hoodie / f"{dead}.inflight").touch()
    work, journal = hoodie / ".rli/work" / dead, hoodie / ".rli/journal" / dead
    stray = tmp_path / "trips" / "x" / f"{uuid4()}-0_0-0-0_{dead}.parquet"
    for folder in (work / "files" / "x", journal):
        folder.mkdir(parents=True)
    (journal / "j.parquet").write_bytes(b"half")
    (work / "files" / "x" / "f.parquet").write_bytes(b"half")
    (work / "manifest.json").write_text(json.dumps([f"x/{stray.name}", "x/not-yet.parquet"]))
    stray.write_bytes(b"half")
    assert rows_of(trips) == rows
    trips.upsert(records(("c", "x", 1, 1.0)))
    assert len(rows_of(trips)) == 3
    check_stored(trips)
    assert not journal.exists()


@pytest.mark.invariant("P17")
def test_foreign_manifest_deletes_no_files(trips: Table, tmp_path: Path) -> None:
    """After a power cut, a file system without a journal may show it in the work folder of a dead writer."""
    trips.upsert(GOOD)
    rows = rows_of(trips)
    work = tmp_path / "trips/.hoodie/.rli/work/20240101000000000"
    work.mkdir(parents=True)
    committed = [
        file.path for file in opened_table(trips).definition.storage.list_files("x") if file.path.endswith(".parquet")
    ]
    (work / "manifest.json").write_text(json.dumps(committed))
    trips.upsert(records(("c", "x", 1, 1.0)))
    assert rows_of(trips)[: len(rows)] == rows
    check_stored(trips)


def test_foreign_pending_instants_are_kept(trips: Table, tmp_path: Path) -> None:
    trips.upsert(GOOD)
    pending = tmp_path / "trips" / ".hoodie" / "20240101000000000.commit.requested"
    pending.touch()
    trips.upsert(records(("a", "x", 2, 2.0)))
    assert pending.exists()
    assert rows_of(trips)[0]["ts"] == 2
