"""New records in log files, where the table asks for it: which tables may, and that every operation knows such records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import rli
from rli import Table, TableType, create_table
from rli.hudi.log_file.avro_block import avro_records
from rli.hudi.log_file.parquet_block import parquet_records
from tests.support.log_blocks import blocks_of
from tests.support.tables import by_key, check_stored, records, turn_into_foreign_commit, turn_into_version_9

ROWS = [(f"k{number}", "x", 10, float(number)) for number in range(6)]


def create(folder: Path, **options: Any) -> Table:
    options = {"log_inserts": True, **options}
    options = {"ordering": "ts", "maintenance": False, "table_type": TableType.MERGE_ON_READ, **options}
    return create_table(folder / "t", record_key="id", partition_by="city", **options)


@pytest.fixture(params=["lmdb 9", "record-index: 6"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    index, _, version = request.param.partition(" ")
    made = create(tmp_path, **({"index": index} if index.endswith(":") else {}))
    if version == "9":
        turn_into_version_9(made)
        made.bootstrap_index()
    made.insert(records(*ROWS))
    return made


def value_of(table: Table, key: str) -> object:
    return by_key(table.read().to_pylist()).get(key, {}).get("v")


def test_new_records_become_one_log_file(table: Table) -> None:
    told = table.upsert(records(("k0", "x", 11, 100.0), ("new", "x", 1, 1.0)))
    assert (told.inserted, told.updated, told.files_appended, told.files_rewritten) == (1, 1, 1, 0)
    assert table.insert(records(("other", "x", 1, 2.0))).files_appended == 1
    assert (value_of(table, "new"), value_of(table, "other"), value_of(table, "k0")) == (1, 2, 100)
    again = table.upsert(records(("new", "x", 2, 3.0), ("other", "x", 0, -1.0)))
    assert (again.inserted, again.updated, again.unchanged) == (0, 1, 1)
    assert table.get(["new", "other", "none"]).num_rows == 2
    assert table.read(filters="id = 'other'").num_rows == 1
    check_stored(table)


def test_few_keys_among_log_records(table: Table) -> None:
    """Log files hold most records: the arriving keys alone are read."""
    table.upsert(records(*((f"n{number}", "x", 1, float(number)) for number in range(100))))
    told = table.upsert(records(("n7", "x", 2, -7.0), ("n8", "x", 0, -8.0), ("k1", "x", 11, -1.0)))
    assert (told.updated, told.unchanged, told.files_appended) == (2, 1, 1)
    assert table.delete(["n9", "k2"]).files_appended == 1
    expected = {"n7": -7, "n8": 8, "n9": None, "k1": -1, "k2": None}
    assert {key: value_of(table, key) for key in expected} == expected
    check_stored(table)


def test_deleted_keys_come_again(table: Table) -> None:
    """A record could lose against its delete in the log files; other deletes do not matter."""
    table.delete(["k1"])
    assert table.upsert(records(("new", "x", 1, 1.0))).files_appended == 1
    again = table.upsert(records(("k1", "x", 10, -1.0)))
    assert (again.inserted, again.files_rewritten, value_of(table, "k1")) == (1, 1, -1)
    check_stored(table)


def test_services_know_new_records(table: Table, tmp_path: Path) -> None:
    before = table.upsert(records(("a", "x", 1, 1.0), ("b", "y", 1, 1.0))).instant or ""
    last = table.upsert(records(("c", "x", 1, 1.0), ("k0", "x", 12, 0.5))).instant or ""
    assert table.read(as_of=before).num_rows == 8
    table.rollback(last)
    assert (table.read().num_rows, table.lookup(["c"])["file_id"].null_count) == (8, 1)
    table.delete(["a"])
    table.upsert(records(("b", "x", 2, 2.0)))
    check_stored(table)
    assert table.verify_index(deep=True).agrees
    url = f"lmdb://{tmp_path}/another"
    table.migrate_index(url)
    assert table.upsert(records(("d", "x", 1, 4.0))).files_appended == 1
    table.schedule_compaction()
    beside = table.upsert(records(("e", "x", 1, 5.0), ("d", "x", 2, 4.5)))
    table.compact()
    table.upsert(records(("f", "x", 1, 6.0)))
    table.cluster()
    table.clean(keep_commits=1)
    expected = {"b": 2, "d": 4.5, "e": 5, "f": 6}
    assert {key: value_of(table, key) for key in expected} == expected
    assert beside.inserted == 1
    table.bootstrap_index()
    check_stored(table)
    assert rli.open_table(table.location).get([*expected]).num_rows == 4


@pytest.mark.parametrize("log_format", ["parquet", "avro"])
def test_bulk_inserts_share_out_blocks(log_format: str, tmp_path: Path) -> None:
    """Behind a tiny first insert, a large one fills the small file group: no reader holds all of it at once."""
    table = create(tmp_path, log_format=log_format)
    table.insert(records(ROWS[0]).append_column("text", pa.array(["first"])))
    many = [(f"many{number}", "x", 1, float(number)) for number in range(130)]
    text = pa.repeat("x" * (1 << 20), len(many))
    assert table.insert(records(*many).append_column("text", text)).files_appended == 1
    (log,) = Path(table.location).glob("x/.*.log.*")
    decode = avro_records if log_format == "avro" else parquet_records
    sizes = [sum(batch.nbytes for batch in decode(block)) for block in blocks_of(log.read_bytes())]
    assert len(sizes) == 4
    assert max(sizes) < 68 << 20
    before = pa.total_allocated_bytes()
    held = [pa.total_allocated_bytes() - before for _ in table.scan(["text"]).to_batches()]
    assert max(held) < 140 << 20
    assert table.read(["id"]).num_rows == 131


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"index": "simple:"}, "an index that keeps an entry"),
        ({"index": "bucket:?buckets=2"}, "appends new records anyway"),
        ({"table_type": "copy_on_write"}, "no log files: log_inserts=True"),
        ({"lock": "filesystem"}, "a second time.*lock=filesystem.*RECORD_INDEX"),
    ],
)
def test_refused_tables(options: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(rli.SettingsError, match=words):
        create(tmp_path, **{"table_type": TableType.MERGE_ON_READ, **options})
    table = create(tmp_path, **{"log_inserts": False, **options})
    with pytest.raises(rli.SettingsError, match=words):
        table.set_log_inserts(True)


def test_shared_locks_need_record_index(tmp_path: Path) -> None:
    table = create(tmp_path, lock="filesystem", index="record-index:")
    table.insert(records(*ROWS))
    assert table.upsert(records(("new", "x", 1, 1.0))).files_appended == 1
    other = create(tmp_path / "other")
    with pytest.raises(rli.SettingsError, match=r"a second time.*lock=filesystem"):
        other.set_lock("filesystem")
    other.metadata.enable(["record_index"])
    other.set_lock("filesystem")
    other.insert(records(*ROWS))
    assert other.insert(records(("a", "x", 1, 1.0))).files_appended == 1
    for partitions in (["record_index"], None):
        with pytest.raises(rli.UnsupportedTableError, match=r"in log files alone.*run: rli table-type.*rli compact"):
            other.metadata.disable(partitions)
    other.compact()
    other.metadata.disable(["record_index"])
    assert other.insert(records(("b", "x", 1, 1.0))).files_appended == 0


def test_drops_wait_for_the_setting(tmp_path: Path) -> None:
    table = create(tmp_path, index="record-index:")
    table.insert(records(*ROWS))
    for refused in (table.drop_index, rli.open_table(table.location).index.drop):
        with pytest.raises(rli.UnsupportedTableError, match=r"log_inserts=True index=record-index:.*--no-log-inserts"):
            refused()
    assert table.upsert(records(("new", "x", 1, 1.0))).files_appended == 1
    table.set_log_inserts(False)
    table.drop_index()
    rli.open_table(table.location).bootstrap_index()
    assert rli.open_table(table.location).upsert(records(("new", "x", 2, 2.0))).updated == 1


def test_writes_notice_removed_record_index(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.metadata.enable(["record_index"])
    table.set_lock("filesystem")
    table.insert(records(*ROWS))
    removed = list[str]()

    def remove(step: rli.Step) -> None:
        if step is rli.Step.WRITTEN and not removed:
            removed.extend(rli.open_table(table.location).metadata.disable(["record_index"]).removed)

    told = table.insert(records(("new", "x", 1, 1.0)), on_step=remove)
    assert (removed, told.attempts, told.inserted, told.files_appended) == (["record_index"], 2, 1, 0)


def test_locks_wait_for_compaction(tmp_path: Path) -> None:
    """Hudi's SIMPLE and BLOOM indexes do not find records in log files alone; those of other log files are in base files, too."""
    table = create(tmp_path)
    table.insert(records(*ROWS))
    table.upsert(records(("new", "x", 1, 1.0)))
    table.set_log_inserts(False)
    with pytest.raises(rli.UnsupportedTableError, match=r"in log files alone.*lock=filesystem file=x/.*rli compact"):
        table.set_lock("filesystem")
    table.compact()
    assert table.upsert(records(("k0", "x", 11, 1.0))).files_appended == 1
    table.set_lock("filesystem")


def test_locks_come_to_buckets(tmp_path: Path) -> None:
    """Writers of Hudi find all keys by their hashes."""
    table = create(tmp_path, log_inserts=False, index="bucket:?buckets=1")
    table.insert(records(*ROWS))
    assert table.insert(records(("new", "x", 1, 1.0))).files_appended == 1
    table.set_lock("filesystem")
    assert table.insert(records(("b", "x", 1, 1.0))).files_appended == 1


def test_base_files_behind_other_engines(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.insert(records(*ROWS))
    table.upsert(records(("a", "x", 1, 1.0)))
    turn_into_foreign_commit(table, table.upsert(records(("k0", "x", 11, 1.0))).instant or "")
    for key in ("b", "c"):
        told = table.upsert(records((key, "x", 1, 2.0)))
        assert (told.inserted, told.files_appended) == (1, 0)
    table.set_log_inserts(False)
    with pytest.raises(rli.UnsupportedTableError, match="another engine writes the table"):
        table.set_log_inserts(True)
    assert table.read().num_rows == 9
    check_stored(table)


def test_base_files_beside_an_archive(tmp_path: Path) -> None:
    """Commits that another process archives meanwhile may be of another engine."""
    table = create(tmp_path)
    for row in ROWS:
        table.insert(records(row))
    beside = rli.open_table(table.location)
    done = list[bool]()

    def archive(step: rli.Step) -> None:
        if step is rli.Step.TAGGED and not done:
            beside.clean(keep_commits=1)
            done.append(beside.archive(keep_commits=2).instants_archived > 0)

    told = table.insert(records(("new", "x", 1, 1.0)), on_step=archive)
    assert (done, told.inserted, told.files_appended) == ([True], 1, 0)
    check_stored(table)


def test_running_writers_follow_the_setting(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.insert(records(*ROWS))
    writer = rli.open_table(table.location)
    assert writer.insert(records(("a", "x", 1, 1.0))).files_appended == 1
    table.set_log_inserts(False)
    assert writer.insert(records(("b", "x", 1, 1.0))).files_appended == 0
    table.set_log_inserts(True)
    assert writer.insert(records(("c", "x", 1, 1.0))).files_appended == 1
    check_stored(table)


@pytest.mark.parametrize("key", ["new", "other"])
def test_writers_insert_at_once(key: str, tmp_path: Path) -> None:
    """The same new key is inserted once; new records of other keys both go to log files of one file group."""
    table = create(tmp_path)
    table.insert(records(*ROWS))
    beside = rli.open_table(table.location)
    done = list[int]()

    def insert(step: rli.Step) -> None:
        if step is rli.Step.WRITTEN and not done:
            done.append(beside.upsert(records((key, "x", 1, 1.0))).inserted)

    told = table.upsert(records(("new", "x", 2, 2.0)), on_step=insert)
    is_same = key == "new"
    assert (done, told.attempts, told.inserted, told.updated) == ([1], 1 + is_same, 1 - is_same, int(is_same))
    assert (table.read().num_rows, value_of(table, "new")) == (7 + (not is_same), 2)
    check_stored(table)
