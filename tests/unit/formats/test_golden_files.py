"""Every stored format of version 1 can be read, and is still written the same way.

The files in ``tests/data/golden`` are never changed: a later version of a format adds files of its own beside them.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import ipc
from pydantic import SecretStr

from rli.errors import CorruptIndexError, CorruptTableError, SettingsError
from rli.file_group import work_rows
from rli.file_group.deleted_keys import DeletedKeys, DeletedKeysFile, saved
from rli.file_group.journal import Journal, write_journal
from rli.file_group.journal_list import load_journals, save_journals
from rli.index.record.alone.prepared_record import Prepared, State
from rli.index.record.entries.owner import StagingProcess
from rli.index.record.log.checkpoint import Checkpoint
from rli.index.record.log.commit_log import CommitLog
from rli.index.record.log.record import LogRecord, record_name
from rli.index.record.log.staged import Staged
from rli.locations import LocationUpdate
from rli.model import FileGroupId, KeyMode, OnPartitionChange, Scope
from rli.processes import ProcessId
from rli.settings import IndexSettings, Maintenance, TableSettings
from rli.storage import Storage
from rli.store.registry import open_store
from rli.view.paths import DELETED_KEYS, unpublished_files
from rli.view.slice_sums import SliceSum, SliceSums, WrittenAt

GOLDEN = Path(__file__).parents[2] / "data" / "golden"
INSTANT = "20240531120000123"

RECORD = LogRecord(
    instant=INSTANT,
    action="commit",
    first_sequence=7,
    located_at=(INSTANT,),
    first_file_group=4,
    file_groups=(FileGroupId("são paulo", "f1-0"), FileGroupId("", "f2-0")),
    writer=INSTANT,
    covers=("20240531110000000",),
    staged=Staged(("000000", "000001")),
)
RESTORE_RECORD = LogRecord(
    instant="20240531120005000",
    action="restore",
    first_sequence=9,
    located_at=("20240531120005000", "20240531110000000", "20240531120005000"),
    first_file_group=6,
    file_groups=(),
    writer="20240531120005000",
    undoes=("20240531120001000", INSTANT),
)
CHECKPOINT_RECORD = replace(RECORD, first_sequence=1, first_file_group=0, staged=Staged())
CHECKPOINT_UNDOING = LogRecord(
    instant="20240531120007000",
    action="rollback",
    first_sequence=2,
    located_at=("20240531120007000", "20240531110000000", "20240531120007000"),
    first_file_group=2,
    file_groups=(),
    writer="20240531120007000",
    undoes=(INSTANT,),
)
SLICE_SUMS = SliceSums(
    instant=INSTANT,
    number=7,
    whole=SliceSum(3, 7_411_254_327),
    partitions={
        "são paulo": (SliceSum(2, 5_000_000_000), WrittenAt(7, INSTANT)),
        "": (SliceSum(1, 2_411_254_327), WrittenAt(5, "20240530120000000")),
    },
    others=WrittenAt(4, "20240529120000000"),
    pending=("20240531115959999",),
    later=("20240531120000456",),
)
INDEX_SETTINGS = IndexSettings(
    hash_seed=0x726C69,
    shard_count=64,
    key_mode=KeyMode.DIGEST,
    key_fields=("a", "b"),
    table_id="0123456789abcdef0123456789abcdef",
)
TABLE_SETTINGS = TableSettings(
    table_id="0123456789abcdef0123456789abcdef",
    index_url="lmdb:///data/idx",
    on_partition_change=OnPartitionChange.KEEP,
    target_file_size=1_048_576,
    small_file_size=524_288,
    compression="snappy",
    maintenance=Maintenance(),
)
JOURNAL = Journal(INSTANT, "f1-0_0-0-0.parquet", FileGroupId("here", "f1-0"))
JOURNAL_ROWS = {
    work_rows.RECORD_KEY: pa.array(["new", "came", "gone", "same"]),
    work_rows.CHANGE: pa.array([1, 3, 5, 2], pa.int8()),
    work_rows.PRIOR_PARTITION_PATH: pa.array([None, "old", "here", "here"]),
    work_rows.PRIOR_FILE_ID: pa.array([None, "f0-0", "f1-0", "f1-0"]),
    work_rows.PRIOR_INSTANT: pa.array([None, "20240530000000000", "20240529000000000", "20240529000000000"]),
}


def golden(name: str) -> bytes:
    return (GOLDEN / name).read_bytes().rstrip(b"\n")


def in_words(changes: LocationUpdate) -> list[tuple[str, str | None, str | None]]:
    columns = (changes.record_keys, changes.partition_paths, changes.file_ids)
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    """A table's folder with the golden journal in its place."""
    storage = Storage(str(tmp_path))
    for name, source in ((JOURNAL.name, "journal-1.parquet"), ("journals.json", "journals-1.json")):
        target = tmp_path / ".hoodie" / ".rli" / "journal" / INSTANT / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(GOLDEN / source, target)
    return storage


def test_log_record() -> None:
    assert LogRecord.from_json(7, golden("log-record-1.json")) == RECORD
    assert RECORD.to_json() == golden("log-record-1.json")


def test_log_record_of_a_restore() -> None:
    assert LogRecord.from_json(9, golden("log-record-1-restore.json")) == RESTORE_RECORD
    assert RESTORE_RECORD.to_json() == golden("log-record-1-restore.json")


def test_log_records_of_transactions() -> None:
    kept = replace(RECORD, staged=Staged(("000000",), keeps_chunks=True))
    swept = replace(RECORD, action="sweep", staged=Staged(), file_groups=(), swept=("a-1", "b-2"))
    for name, record in (("log-record-1-kept.json", kept), ("log-record-1-sweep.json", swept)):
        assert LogRecord.from_json(7, golden(name)) == record
        assert record.to_json() == golden(name)


def test_log_records_with_metadata_and_chunks() -> None:
    told = replace(
        RECORD,
        action="transaction",
        metadata=(("batch", ""), ("delta.version", "17")),
        staged=replace(RECORD.staged, placed=5, deleted=0),
        covers=(),
    )
    tasks = replace(told, staged=replace(told.staged, chunks=("000000", "0123abcd-000000")))
    fence = replace(RECORD, instant=None, action="prepare", staged=Staged(), file_groups=(), covers=())
    for name, record in (
        ("log-record-1-metadata.json", told),
        ("log-record-2-tasks.json", tasks),
        ("log-record-2-prepare.json", fence),
    ):
        assert LogRecord.from_json(7, golden(name)) == record
        assert record.to_json() == golden(name)


def test_record_of_a_prepared_transaction() -> None:
    prepared = Prepared(
        writer="token-1",
        state=State.PREPARED,
        instant=INSTANT,
        snapshot=6,
        fence=7,
        staged=Staged(("000000", "0123abcd-000000"), placed=5, deleted=1),
        metadata=(("delta.version", "17"),),
        prepared_at=1717156800.5,
        process=ProcessId("a host/pid:[1]", 7, "1416602"),
    )
    stored = golden("prepared-1.json")
    assert Prepared.from_json("prepared/token-1", stored) == replace(prepared, content=stored)
    assert prepared.to_json() == stored
    for damaged in (b"{", stored.replace(b'"version":1', b'"version":2'), stored.replace(b'"prepared"', b'"done"')):
        with pytest.raises(CorruptIndexError, match="record=prepared/token-1"):
            Prepared.from_json("prepared/token-1", damaged)


def test_record_of_a_process_that_stages() -> None:
    process = StagingProcess("token", ProcessId("a host/pid:[1]", 7, "1416602"), 1717156800.5)
    assert StagingProcess.from_json("process/token", golden("staging-process-1.json")) == process
    assert process.to_json() == golden("staging-process-1.json")


def test_checkpoint_and_page() -> None:
    """Two records, of which the second takes the first back, in one page; and the log's next record behind them."""
    records = [CHECKPOINT_RECORD, CHECKPOINT_UNDOING]
    with open_store("memory:golden-checkpoint", create=True) as store:
        for record in records:
            assert store.compare_and_set(record_name(record.first_sequence), None, record.to_json())
        content = golden("checkpoint-1.json")
        [(page, *_)] = json.loads(content)["pages"]
        assert store.compare_and_set("checkpoint", None, content)
        assert store.compare_and_set(page, None, (GOLDEN / "checkpoint-page-1.arrow").read_bytes())
        read = CommitLog(store).refresh()
        assert (read.records, read.base.content, read.head, read.group_count) == ((), content, 4, 2)
        # Nothing was made of the records instead.
        assert store.compare_and_set("commit/0000000001", CHECKPOINT_RECORD.to_json(), None)
        paths, ids = read.dictionary.groups_of(np.arange(2))
        assert list(map(FileGroupId, paths.to_pylist(), ids.to_pylist())) == list(CHECKPOINT_RECORD.file_groups)
        assert read.dictionary.instants_of(np.arange(1, 5)).to_pylist() == [
            *CHECKPOINT_RECORD.located_at,
            *CHECKPOINT_UNDOING.located_at,
        ]
        assert read.instants.standing([INSTANT, "20240531110000000"]) == ["20240531110000000"]
        assert read.last_of(frozenset({"rollback"})) == CHECKPOINT_UNDOING.instant
        made = Checkpoint(store).with_records([(record, record.to_json()) for record in records], 4, 2)
        [(name, written)] = made.unwritten.items()
        assert made.content == content.replace(page.encode(), name.encode())
        stored = ipc.open_stream((GOLDEN / "checkpoint-page-1.arrow").read_bytes()).read_all()
        assert ipc.open_stream(written).read_all().equals(stored, check_metadata=True)
        store.drop()


def test_index_settings() -> None:
    assert IndexSettings.from_json(golden("index-settings-1.json")) == INDEX_SETTINGS
    assert INDEX_SETTINGS.to_json() == golden("index-settings-1.json")


def test_index_settings_with_keyed_digests() -> None:
    keyed = {"digest": "blake2b_128", "digest_key": SecretStr(bytes(range(32)).hex())}
    settings = INDEX_SETTINGS.model_copy(update=keyed)
    assert IndexSettings.from_json(golden("index-settings-1-keyed.json")) == settings
    assert settings.to_json() == golden("index-settings-1-keyed.json")


def test_index_settings_with_partition_scope() -> None:
    settings = INDEX_SETTINGS.model_copy(update={"scope": Scope.PARTITION})
    assert IndexSettings.from_json(golden("index-settings-1-partition.json")) == settings
    assert settings.to_json() == golden("index-settings-1-partition.json")


@pytest.mark.parametrize("change", [{"novel": 1}, {"format_version": 2}])
def test_settings_of_later_version_are_refused(change: dict[str, object]) -> None:
    """Its fields may say who may write, and how: docs/decisions/0012-versions-of-settings.md."""
    for settings in (INDEX_SETTINGS, TableSettings(table_id="t", index_url="memory:i")):
        later = json.dumps({**json.loads(settings.to_json()), **change}).encode()
        with pytest.raises(SettingsError, match=r"newer version of rli"):
            type(settings).from_json(later)


def test_table_settings() -> None:
    # The first one was written before writers had settings of their own, the second before they chose a place to meet,
    # the third before tables said what their commits survive, the one of maintenance before they counted their indexes, the
    # one of the generation before deleted keys were kept.
    unmaintained = TABLE_SETTINGS.model_copy(update={"maintenance": Maintenance.off()})
    for name in ("table-1.json", "table-1-writers.json", "table-1-lease.json", "table-1-durability.json"):
        assert TableSettings.from_json(golden(name)) == unmaintained
    for name in ("table-1-maintenance.json", "table-1-generation.json"):
        assert TableSettings.from_json(golden(name)) == TABLE_SETTINGS
    keeping = TABLE_SETTINGS.model_copy(update={"tombstones": 604_800})
    assert TableSettings.from_json(golden("table-1-tombstones.json")) == keeping
    assert keeping.to_json() == golden("table-1-tombstones.json")


def test_journal_list(storage: Storage, tmp_path: Path) -> None:
    assert load_journals(storage, INSTANT) == [JOURNAL]
    other = Storage(str(tmp_path / "other"))
    save_journals(other, INSTANT, [JOURNAL])
    assert other.read_bytes(f".hoodie/.rli/journal/{INSTANT}/journals.json") == golden("journals-1.json")
    assert load_journals(other, "20240531120000124") is None


def test_deleted_keys(tmp_path: Path) -> None:
    storage, name = Storage(str(tmp_path)), f"{INSTANT}-0-0-0.parquet"
    keys, nothing = pa.array(["a", "b", "b"]), pa.array([None, "x", "y"], pa.string())
    rows = pa.table({"record_key": keys, "partition_path": nothing, "ordering": pa.array([7, 8, 9])})
    saved(storage, INSTANT, "0-0-0", rows)
    (written,) = (tmp_path / unpublished_files(INSTANT)).iterdir()
    assert pq.read_table(written).equals(pq.read_table(GOLDEN / "deleted-keys-1.parquet"), check_metadata=True)
    (tmp_path / DELETED_KEYS).mkdir()
    file = DeletedKeysFile(INSTANT, f"{DELETED_KEYS}/{name}", 1)
    shutil.copy(GOLDEN / "deleted-keys-1.parquet", tmp_path / file.path)
    known, wanted = DeletedKeys(storage, (file,)), pa.array(["z", "x", "x"])
    assert known.overtake(keys, wanted, pa.array([6, 7, 7])).tolist() == [True, True, True]
    assert known.overtake(keys, pa.array(["z", "z", "y"]), pa.array([7, 7, 8])).tolist() == [False, False, True]


def test_journal_tells_old_and_new_locations(storage: Storage) -> None:
    assert [row for changes in JOURNAL.changes(storage) for row in in_words(changes)] == [
        ("new", "here", "f1-0"),
        ("came", "here", "f1-0"),
        ("gone", "here", None),
    ]
    priors = (None, "20240529000000000", "20240530000000000")
    assert JOURNAL.prior_instants(storage) == {"20240529000000000", "20240530000000000"}
    assert JOURNAL.prior_groups(storage) == {FileGroupId("old", "f0-0"), FileGroupId("here", "f1-0")}
    [(positions, changes)] = JOURNAL.undone(storage, priors)
    assert sorted(zip(positions.tolist(), in_words(changes), strict=True)) == [
        (0, ("new", "here", None)),
        (1, ("gone", "here", "f1-0")),
        (2, ("came", "old", "f0-0")),
    ]
    assert [keys.to_pylist() for keys in JOURNAL.placed_keys(storage)] == [["new", "came"]]


def test_journal_is_written_as_ever(storage: Storage, tmp_path: Path) -> None:
    other = Storage(str(tmp_path / "other"))
    assert write_journal(other, JOURNAL, pa.table(JOURNAL_ROWS))
    written, kept = (pq.ParquetFile(at.full_path(JOURNAL.path)) for at in (other, storage))
    assert written.read().equals(kept.read())
    assert written.metadata.metadata == kept.metadata.metadata


def test_updates_alone_need_no_journal(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path))
    assert not write_journal(storage, JOURNAL, pa.table(JOURNAL_ROWS).slice(3))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["log-record-1.json", "index-settings-1.json", "table-1.json"])
def test_a_newer_version_is_refused(name: str) -> None:
    content = json.loads(golden(name))
    content["version" if "version" in content else "format_version"] = 3
    newer = json.dumps(content).encode()
    readers: dict[str, Callable[[bytes], object]] = {
        "log": partial(LogRecord.from_json, 7),
        "index": IndexSettings.from_json,
        "table": TableSettings.from_json,
    }
    with pytest.raises((SettingsError, CorruptIndexError), match="version"):
        readers[name.partition("-")[0]](newer)


def test_other_journal_version_is_refused(storage: Storage) -> None:
    path = storage.full_path(JOURNAL.path)
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata({"rli.journal.version": "2"}), path)
    with pytest.raises(CorruptTableError, match="version=2"):
        list(JOURNAL.changes(storage))


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b"null", b'{"version":1}', b'{"version":1,"locatedAt":3}', b"\xff"]
)
def test_a_damaged_log_record_is_refused(content: bytes) -> None:
    with pytest.raises(CorruptIndexError, match="sequence=7"):
        LogRecord.from_json(7, content)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"{}",
        b"[]",
        b"null",
        b'{"version":1}',
        b'{"version":1,"journals":[["a"]]}',
        b'{"version":1,"journals":3}',
    ],
)
def test_a_damaged_journal_list_is_refused(storage: Storage, content: bytes) -> None:
    storage.write_bytes(f".hoodie/.rli/journal/{INSTANT}/journals.json", content)
    with pytest.raises(CorruptTableError, match=r"journals\.json"):
        load_journals(storage, INSTANT)


def test_other_journal_list_version_is_refused(storage: Storage) -> None:
    storage.write_bytes(f".hoodie/.rli/journal/{INSTANT}/journals.json", b'{"version":2,"journals":[]}')
    with pytest.raises(CorruptTableError, match="version=2"):
        load_journals(storage, INSTANT)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + b"\0" * 100 + b"PAR1"])
def test_a_damaged_journal_is_refused(storage: Storage, content: bytes) -> None:
    storage.write_bytes(JOURNAL.path, content)
    with pytest.raises(CorruptTableError, match=r"f1-0_0-0-0\.parquet"):
        list(JOURNAL.changes(storage))


def test_a_missing_journal_is_refused(storage: Storage) -> None:
    storage.delete_files([JOURNAL.path])
    with pytest.raises(CorruptTableError, match=r"f1-0_0-0-0\.parquet"):
        list(JOURNAL.placed_keys(storage))


def test_sums_of_file_slices() -> None:
    assert SliceSums.from_string(golden("slice-sums-1.json").decode()) == SLICE_SUMS
    assert SLICE_SUMS.to_string().encode() == golden("slice-sums-1.json")
    assert SliceSum.of([(FileGroupId("são paulo", "f1-0"), INSTANT)]) == SliceSum(1, 2_219_273_454)


def test_sums_of_later_version_are_ignored() -> None:
    text = golden("slice-sums-1.json").decode()
    assert SliceSums.from_string(text.replace('"version":1', '"version":2')) is None
    assert SliceSums.from_string(text[:-9]) is None
