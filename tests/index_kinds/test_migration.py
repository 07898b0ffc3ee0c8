"""Giving a living table another index: from any kind to any kind, with writers at work (docs/protocol.md, P37)."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from rli import (
    IndexMismatchError,
    IndexNotFoundError,
    IndexNotReadyError,
    LeaseBusyError,
    LeasePlace,
    Maintenance,
    MigrationResult,
    MigrationStep,
    SettingsError,
    Step,
    StoreUnavailableError,
    Table,
    create_table,
    drop_table,
    open_index,
    open_table,
)
from rli.commit.exclusive_service import table_service
from rli.coordination.lease import TableLease
from rli.coordination.shared_records import shared_records
from rli.errors import InvalidInputError, LeaseLostError, UndecidedCommitError, UnsupportedTableError
from rli.index.contract import TableIndex
from rli.index.kinds import IndexOptions
from rli.index.record.kind import RecordKind
from rli.index.record.table.index import RecordTableIndex
from rli.publication.fence import Fence
from rli.table.dropping import require_unused
from rli.table.migration import MIGRATION_LEASE, Migration
from rli.table.new_index import target_of
from rli.table.table import opened_table
from rli.tasks import InProcess
from rli.view import paths
from rli.view.definition import TableDefinition
from rli_lmdb.store import LmdbStore
from tests.support.hbase import hbase_url
from tests.support.hbase import new_table as new_hbase_table
from tests.support.index_kinds import KINDS, stored_rows
from tests.support.indexes import record_index
from tests.support.steps import Once
from tests.support.tables import check_stored, records

RECORD, OTHER = "lmdb://{folder}/index", "lmdb://{folder}/other"

LAY_FILES_OUT = ("bucket", "consistent-bucket")
"""Kinds whose file groups other kinds do not make."""

KEPT = [kind.url for kind in KINDS.values()]
WAYS = [
    *((url, OTHER) for url in KEPT),
    *((RECORD, url) for url in KEPT if url != RECORD and not url.startswith(LAY_FILES_OUT)),
    # Into the metadata table, the index is built beside writers: tests/index/test_metadata_record.py.
    ("record-index:", OTHER),
    ("simple:", "global-simple:"),
    ("global-simple:", "simple:"),
    (RECORD, f"{OTHER}?scope=partition"),
    (f"{RECORD}?scope=partition", OTHER),
]


def new_table(folder: Path, index: str = RECORD) -> Table:
    table = create_table(
        folder / "t", record_key="id", partition_by="city", ordering="ts", index=index.format(folder=folder)
    )
    table.upsert(records(("a", "x", 1, 1.0), ("b", "x", 1, 1.0), ("c", "y", 1, 1.0)))
    table.upsert(records(("a", "x", 2, 2.0), ("d", "z", 2, 2.0)))
    return table


def settings_of(table: Table) -> bytes:
    return (Path(table.location) / paths.SETTINGS).read_bytes()


@pytest.mark.invariant("P37")
@pytest.mark.parametrize(("before", "after"), WAYS)
def test_open_tables_switch_to_new_index(tmp_path: Path, before: str, after: str) -> None:
    table, to = new_table(tmp_path, before), after.format(folder=tmp_path)
    reader, writer = open_table(table.location), open_table(table.location)
    assert reader.lookup(["a"])["partition_path"].to_pylist() == ["x"]
    assert writer.upsert(records(("e", "x", 3, 3.0))).inserted == 1
    steps: list[MigrationStep] = []
    done = table.migrate_index(to, on_step=steps.append)
    assert steps == list(MigrationStep)[:-1]
    assert (done.index, done.former, done.records) == (to, before.format(folder=tmp_path), 5)
    assert done.is_former_kept == before.startswith("lmdb:")
    assert writer.upsert(records(("e", "x", 4, 4.0), ("f", "y", 4, 4.0))).updated == 1
    for opened in (table, reader, writer, open_table(table.location)):
        assert opened.lookup(["f", "e", "nobody"])["partition_path"].to_pylist() == ["y", "x", None]
        assert opened.get(["e"]).column("ts").to_pylist() == [4]
        assert opened.index.url == opened.settings.index_url == to
        assert opened.verify_index().agrees
    check_stored(table)


@pytest.mark.invariant("P37")
def test_shards_change_beside_a_writer(tmp_path: Path) -> None:
    url, other = RECORD.format(folder=tmp_path), OTHER.format(folder=tmp_path)
    table = create_table(tmp_path / "t", record_key="id", partition_by="city", ordering="ts", index=url, shards=2)
    table.upsert(records(*((f"k{number}", "x", 1, 1.0) for number in range(100))))
    writer, rounds = open_table(table.location), iter(range(2, 50))

    def write(step: MigrationStep) -> None:
        """A move, an insert and a delete between all steps at which writers go on."""
        if step not in {MigrationStep.BUILT, MigrationStep.CAUGHT_UP, MigrationStep.VERIFIED}:
            return
        ts = next(rounds)
        moved = writer.upsert(records((f"k{ts}", "y", ts, 1.0), (f"new{ts}", "z", ts, 1.0)))
        assert (moved.moved, moved.inserted) == (1, 1)
        assert writer.delete([f"k{ts + 50}"]).deleted == 1

    for to, shards in ((other, 7), (url, 64)):
        table.migrate_index(to, shards=shards, drop_old=True, on_step=write)
        told = writer.info().index
        assert told is not None
        assert (told.url, told.shards) == (to, shards)
        assert writer.verify_index().agrees
    written = range(2, 8)
    found = writer.lookup([*(f"k{ts}" for ts in written), *(f"k{ts + 50}" for ts in written)])["partition_path"]
    assert found.to_pylist() == ["y"] * 6 + [None] * 6
    check_stored(table)


@pytest.mark.parametrize(("before", "after"), [(RECORD, OTHER), ("global-simple:", OTHER), (RECORD, "global-simple:")])
def test_earlier_commit_is_undone_after_migration(tmp_path: Path, before: str, after: str) -> None:
    table = new_table(tmp_path, before)
    table.upsert(records(("a", "moved", 3, 3.0), ("new", "x", 3, 3.0)))
    table.migrate_index(after.format(folder=tmp_path))
    table.rollback("last")
    assert stored_rows(table) == {("a", "x", 2, 2.0), ("b", "x", 1, 1.0), ("c", "y", 1, 1.0), ("d", "z", 2, 2.0)}
    assert table.lookup(["a", "new"])["partition_path"].to_pylist() == ["x", None]
    check_stored(table)


@pytest.mark.parametrize("after", [OTHER, "global-simple:", "global-bloom:"])
def test_undo_keeps_key_in_single_partition(tmp_path: Path, after: str) -> None:
    table = new_table(tmp_path, f"{RECORD}?scope=partition")
    former = table.settings.index_url
    table.upsert(records(("a", "y", 3, 3.0)))
    twice = table.timeline()[-1].time
    table.delete(["a", "b"])
    table.migrate_index(after.format(folder=tmp_path))
    table.upsert(records(("b", "y", 4, 4.0)))
    before = stored_rows(table)
    with pytest.raises(UnsupportedTableError, match=r"several partitions again.*'a'.*migrate"):
        table.restore(twice)
    assert stored_rows(table) == before
    table.rollback("last")
    with pytest.raises(UnsupportedTableError, match=r"several partitions again.*'a'.*migrate"):
        table.rollback("last")
    assert table.lookup(["a", "b"])["file_id"].null_count == 2
    check_stored(table)
    table.migrate_index(former)
    table.rollback("last")
    assert table.lookup(["a"])["partition_path"].to_pylist() == ["x", "y"]
    check_stored(table)


@pytest.mark.parametrize("after", [OTHER, "global-simple:", "global-bloom:"])
def test_partition_move_is_undone_globally(tmp_path: Path, after: str) -> None:
    table = new_table(tmp_path, "bloom:")
    before, instant = stored_rows(table), table.timeline()[-1].time
    table.delete(["c"])
    table.upsert(records(("c", "z", 3, 3.0)))
    table.migrate_index(after.format(folder=tmp_path))
    table.upsert(records(("c", "x", 4, 4.0)))
    table.delete(["c"])
    table.upsert(records(("c", "z", 5, 5.0)))
    table.restore(instant)
    assert stored_rows(table) == before
    assert table.lookup(["c"])["partition_path"].to_pylist() == ["y"]
    check_stored(table)


@pytest.mark.parametrize("store", ["lmdb", pytest.param("hbase", marks=pytest.mark.docker)])
def test_return_migration_reuses_kept_index(request: pytest.FixtureRequest, tmp_path: Path, store: str) -> None:
    table = new_table(tmp_path)
    former = record_index(table).identity
    other = hbase_url(request.getfixturevalue("hbase"), new_hbase_table()) if store == "hbase" else OTHER
    table.migrate_index(other.format(folder=tmp_path))
    table.upsert(records(("a", "moved", 3, 3.0)))
    table.delete(["b"])
    assert table.lookup(["a", "b", "c"])["partition_path"].to_pylist() == ["moved", None, "y"]
    table.migrate_index(RECORD.format(folder=tmp_path), drop_old=True)
    assert record_index(table).identity == former
    assert table.lookup(["a", "b"])["partition_path"].to_pylist() == ["moved", None]
    check_stored(table)


def test_wrong_kept_index_is_rebuilt(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    table.migrate_index("simple:")
    # Another location of the same key: no global index can follow that.
    table.upsert(records(("a", "twice", 3, 3.0)))
    with pytest.raises(SettingsError, match=r"several partitions.*'a'"):
        table.migrate_index(RECORD.format(folder=tmp_path))
    table.delete(["a"])
    table.migrate_index(RECORD.format(folder=tmp_path))
    assert table.verify_index().agrees


@pytest.mark.parametrize("after", [OTHER, "global-simple:"])
def test_repeated_keys_refuse_global_index(tmp_path: Path, after: str) -> None:
    table = new_table(tmp_path, "simple:")
    table.upsert(records(("a", "y", 1, 1.0)))
    before = settings_of(table)
    with pytest.raises(SettingsError, match=r"several partitions.*'a'.*keeps its index"):
        table.migrate_index(after.format(folder=tmp_path))
    assert settings_of(table) == before
    assert table.upsert(records(("a", "z", 1, 1.0))).inserted == 1
    with pytest.raises(IndexNotReadyError, match="missing"):
        _ = open_table(table.location, index=OTHER.format(folder=tmp_path)).index.url


@pytest.mark.invariant("P37")
@pytest.mark.parametrize("after", [OTHER, "global-simple:"])
def test_key_repeated_before_switch_is_seen(tmp_path: Path, after: str) -> None:
    table = new_table(tmp_path, "simple:")

    def insert_twice(step: MigrationStep) -> None:
        if step is MigrationStep.VERIFIED:
            with open_table(table.location) as writer:
                writer.upsert(records(("a", "y", 1, 1.0)))

    with pytest.raises(SettingsError, match=r"several partitions.*'a'"):
        table.migrate_index(after.format(folder=tmp_path), on_step=insert_twice)
    assert opened_table(table).index.kind == "simple"
    assert table.delete(["a"]).deleted == 2


@pytest.mark.invariant("P37")
@pytest.mark.parametrize("drops", [False, True])
@pytest.mark.parametrize(("before", "after"), [(RECORD, OTHER), (RECORD, "simple:"), ("global-simple:", OTHER)])
@pytest.mark.parametrize("step", [Step.REQUESTED, Step.TAGGED, Step.WRITTEN])
def test_running_write_restarts_with_new_index(
    tmp_path: Path, before: str, after: str, step: Step, *, drops: bool
) -> None:
    table = new_table(tmp_path, before)
    migrated: list[MigrationResult] = []

    def migrate(reached: Step) -> None:
        if reached is step and not migrated:
            with open_table(table.location) as other:
                migrated.append(other.migrate_index(after.format(folder=tmp_path), drop_old=drops))
                other.upsert(records(("k", "y", 1, 1.0)))

    done = table.upsert(records(("k", "y", 2, 2.0), ("a", "x", 3, 3.0)), on_step=migrate)
    assert (len(migrated), done.updated) == (1, 2)
    assert table.index.url == after.format(folder=tmp_path)
    check_stored(table)


@pytest.mark.invariant("P3")
@pytest.mark.parametrize("drops", [False, True])
def test_a_displaced_writer_is_not_dead(tmp_path: Path, caplog: pytest.LogCaptureFixture, *, drops: bool) -> None:
    table = new_table(tmp_path)

    def migrate() -> None:
        with open_table(table.location) as other:
            other.migrate_index(OTHER.format(folder=tmp_path), drop_old=drops)
            other.upsert(records(("k", "y", 1, 1.0)))

    with caplog.at_level("INFO", "rli"):
        assert table.upsert(records(("new", "y", 2, 2.0)), on_step=Once(Step.TAGGED, migrate)).inserted == 1
    told = [getattr(record, "rli_event", "") for record in caplog.records]
    assert {"writer.recovered", "commit.failed"}.isdisjoint(told)
    assert (told.count("writer.displaced"), told.count("write.moved")) == (1, 1)
    assert table.read()["id"].to_pylist().count("new") == 1
    check_stored(table)


@pytest.mark.invariant("P37")
def test_an_undecided_write_is_not_repeated(tmp_path: Path) -> None:
    """It may be published, so a repetition with the new index might write twice."""
    table, calls = new_table(tmp_path), list[str]()

    def write(_: TableDefinition, index: TableIndex) -> None:
        calls.append(index.url)
        with open_table(table.location) as other:
            other.migrate_index(OTHER.format(folder=tmp_path))
        raise UndecidedCommitError("the storage failed while a commit was published")

    with pytest.raises(UndecidedCommitError):
        opened_table(table).write_with(write)
    assert calls == [RECORD.format(folder=tmp_path)]


@pytest.mark.parametrize("step", [Step.PUBLISHED, Step.REGISTERED, Step.APPLIED])
def test_commit_stands_without_former_index(tmp_path: Path, step: Step) -> None:
    table = new_table(tmp_path)
    threads, waiting = ThreadPoolExecutor(1), Event()

    def migrate() -> None:
        with open_table(table.location) as other:
            other.migrate_index(OTHER.format(folder=tmp_path), drop_old=True)

    def on_step(reached: Step) -> None:
        if reached is step and not waiting.is_set():
            waiting.set()
            migration = threads.submit(migrate)
            if reached is Step.APPLIED:
                # Before that, the writer has the lease that the migration waits for.
                migration.result()

    with threads:
        result = table.upsert(records(("k", "y", 2, 2.0)), on_step=on_step)
    assert result.inserted == 1
    assert table.lookup(["k"])["partition_path"].to_pylist() == ["y"]
    assert table.index.url == OTHER.format(folder=tmp_path)
    check_stored(table)


@pytest.mark.parametrize("failing", [Step.CHANGES_APPLIED, Step.APPLIED])
def test_commit_is_made_once_despite_outage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: Step) -> None:
    table, former = new_table(tmp_path), RECORD.format(folder=tmp_path)
    read, steps = LmdbStore.read_control, list[Step]()

    def unless_gone(store: LmdbStore, name: str) -> bytes | None:
        if failing in steps and store.url == former:
            raise StoreUnavailableError("the server is gone")
        return read(store, name)

    def on_step(reached: Step) -> None:
        steps.append(reached)
        if reached is failing:
            # As if another process had taken the lease over meanwhile.
            settings = table.settings.model_copy(update={"index_url": OTHER.format(folder=tmp_path)})
            opened_table(table).definition.storage.write_bytes(paths.SETTINGS, settings.to_json())

    monkeypatch.setattr(LmdbStore, "read_control", unless_gone)
    result = table.upsert(records(("k", "y", 2, 2.0)), on_step=on_step)
    assert (result.inserted, steps.count(Step.PUBLISHED)) == (1, 1)


def test_former_index_is_dropped_on_request(tmp_path: Path) -> None:
    table, former, to = new_table(tmp_path), RECORD.format(folder=tmp_path), OTHER.format(folder=tmp_path)
    reader = open_table(table.location)
    assert reader.lookup(["a"])["file_id"].null_count == 0
    with (
        open_index(former) as index,
        pytest.raises(InvalidInputError, match=r"a table uses this index.*rli index migrate"),
    ):
        require_unused(index)
    assert table.migrate_index(to).is_former_kept
    with open_index(former) as index:
        require_unused(index)
    with open_index(to) as index, pytest.raises(InvalidInputError, match="a table uses this index"):
        require_unused(index)
    steps: list[MigrationStep] = []
    again = table.migrate_index(to, drop_old=True, on_step=steps.append)
    assert (again.former, again.is_former_kept, again.records, steps) == (former, False, None, [MigrationStep.DROPPED])
    with pytest.raises(IndexNotFoundError):
        open_index(former)
    assert reader.lookup(["a", "d"])["partition_path"].to_pylist() == ["x", "z"]
    assert reader.upsert(records(("a", "x", 5, 5.0))).updated == 1
    assert table.migrate_index(to, drop_old=True).former is None


@pytest.mark.invariant("P37")
def test_lookup_switches_though_index_was_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, reader = new_table(tmp_path), open_table(tmp_path / "t")
    open_record_index = RecordKind.open

    def open_late(kind: RecordKind, definition: TableDefinition) -> RecordTableIndex:
        monkeypatch.undo()
        table.migrate_index("global-simple:", drop_old=True)
        return open_record_index(kind, definition)

    monkeypatch.setattr(RecordKind, "open", open_late)
    assert reader.lookup(["a"])["partition_path"].to_pylist() == ["x"]


def test_paused_migration_spares_rival_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, to = new_table(tmp_path), OTHER.format(folder=tmp_path)
    opened, made = RecordKind.open, list[str | None]()

    def open_and_pause(kind: RecordKind, target: TableDefinition) -> RecordTableIndex:
        monkeypatch.undo()
        # Others take this process for dead, so its lease is theirs.
        with open_table(table.location) as other:
            shared = shared_records(*opened_table(other).refreshed())
            assert shared.compare_and_set(MIGRATION_LEASE, shared.read_control(MIGRATION_LEASE), None)
            with pytest.raises(IndexNotReadyError) as missing:
                opened(kind, target)
            other.migrate_index(to)
            made.append(record_index(other).identity)
        raise missing.value

    assert table.lookup(["a"])["file_id"].null_count == 0
    monkeypatch.setattr(RecordKind, "open", open_and_pause)
    with pytest.raises((IndexMismatchError, LeaseLostError)):
        table.migrate_index(to)
    opened_table(table).refreshed()
    assert [record_index(table).identity] == made
    assert table.verify_index().records == 4
    assert table.upsert(records(("e", "x", 3, 3.0))).inserted == 1
    check_stored(table)


def test_former_index_in_use_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, former = new_table(tmp_path), RECORD.format(folder=tmp_path)
    switch = Migration.run

    def switch_and_pause(migration: Migration) -> object:
        switched = switch(migration)
        with open_table(table.location) as other:
            other.migrate_index(former)
        return switched

    monkeypatch.setattr(Migration, "run", switch_and_pause)
    assert table.migrate_index(OTHER.format(folder=tmp_path), drop_old=True).is_former_kept
    monkeypatch.undo()
    assert table.lookup(["a"])["partition_path"].to_pylist() == ["x"]
    assert table.index.url == former
    check_stored(table)


@pytest.mark.parametrize("index", [RECORD, f"{RECORD}?scope=partition"])
def test_copy_keeps_index_of_original(tmp_path: Path, index: str) -> None:
    table = new_table(tmp_path, index)
    former = table.settings.index_url
    table.migrate_index("simple:" if "partition" in index else "global-simple:")
    shutil.copytree(table.location, tmp_path / "copy")
    table.migrate_index(former)
    with open_table(tmp_path / "copy") as copy:
        again = copy.migrate_index(copy.settings.index_url, drop_old=True)
    assert (again.former, again.is_former_kept) == (former, True)
    shutil.rmtree(tmp_path / "copy")
    shutil.copytree(table.location, tmp_path / "copy")
    assert drop_table(tmp_path / "copy").index is None
    assert table.lookup(["a"])["partition_path"].to_pylist() == ["x"]
    check_stored(table)


@pytest.mark.parametrize(
    ("to", "options", "error", "message"),
    [
        ("simple:?x=1", {}, SettingsError, "write simple:"),
        ("simple:", {"shards": 3}, SettingsError, "keeps no entries"),
        ("globl-simple:", {}, SettingsError, "no such kind of index.*global-simple:"),
        ("lmdb://{folder}/./index", {}, SettingsError, "present index, under another URL"),
        ("lmdb://{folder}/index?scope=partition", {}, IndexMismatchError, "made with another scope"),
        ("lmdb://{folder}/foreign", {}, IndexMismatchError, "an index of something else"),
    ],
)
def test_what_no_table_can_get(
    tmp_path: Path, to: str, options: dict[str, int], error: type[Exception], message: str
) -> None:
    table = new_table(tmp_path)
    create_table(tmp_path / "foreign-table", record_key="id", index=f"lmdb://{tmp_path}/foreign").close()
    before = settings_of(table)
    with pytest.raises(error, match=message):
        table.migrate_index(to.format(folder=tmp_path), **options)  # type: ignore[arg-type]
    assert settings_of(table) == before
    assert table.lookup(["a"])["partition_path"].to_pylist() == ["x"]


def test_index_of_caller_is_not_migrated(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    with (
        open_table(table.location, index="global-simple:") as other,
        pytest.raises(IndexMismatchError, match="open it without one"),
    ):
        other.migrate_index(OTHER.format(folder=tmp_path))


def test_one_process_migrates_at_a_time(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    held = TableLease(
        shared_records(opened_table(table).definition, opened_table(table).index), name=MIGRATION_LEASE
    ).hold("another migration")
    with held, pytest.raises(LeaseBusyError, match="another process holds the migration-lease"):
        table.migrate_index(OTHER.format(folder=tmp_path), timeout=0.1)
    assert table.migrate_index(OTHER.format(folder=tmp_path), timeout=60).is_former_kept


@pytest.mark.parametrize("lease", ["index", "table"])
def test_migration_overtaken_by_another_is_refused(tmp_path: Path, lease: str) -> None:
    first = create_table(tmp_path / "t", record_key="id", index=RECORD.format(folder=tmp_path), lease=lease)
    definition, index = opened_table(open_table(first.location)).refreshed()
    target = target_of(definition, f"lmdb://{tmp_path}/third", IndexOptions())
    first.migrate_index(OTHER.format(folder=tmp_path))
    with pytest.raises(IndexMismatchError, match="has been given another index"):
        Migration(definition, index, target, IndexOptions(), InProcess(), 9, lambda _: None).run()
    assert first.settings.index_url == OTHER.format(folder=tmp_path)


SERVICES: dict[str, Callable[[Table], object]] = {
    "clean": Table.clean,
    "archive": Table.archive,
    "savepoint": Table.savepoint,
    "maintenance": lambda table: table.set_maintenance(Maintenance.off()),
}


@pytest.mark.invariant("P37")
@pytest.mark.parametrize("service", SERVICES)
def test_service_switches_to_new_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, service: str) -> None:
    table, to = new_table(tmp_path), OTHER.format(folder=tmp_path)

    def enter_late(*given: Any, **options: Any) -> AbstractContextManager[tuple[TableDefinition, Fence]]:
        monkeypatch.undo()
        with open_table(table.location) as other:
            other.migrate_index(to, drop_old=True)
        return table_service(*given, **options)

    monkeypatch.setattr("rli.table.opened.table_service", enter_late)
    SERVICES[service](table)
    assert opened_table(table).refreshed()[1].url == to
    assert opened_table(table).refreshed()[0].require_settings().index_url == to


def test_memory_index_options_are_changed(tmp_path: Path) -> None:
    table = new_table(tmp_path, "memory:")
    for to in ("memory:?ttl=30d", "memory:?scope=partition", "memory:"):
        table.migrate_index(to)
        info = table.info().index
        assert info is not None
        assert (table.index.url, info.url, info.entries) == (to, to, 4)


def test_lease_place_survives_migration(tmp_path: Path) -> None:
    leases = []
    for number, (index, settings) in enumerate([(RECORD, {}), (RECORD, {"lease": "table"}), ("simple:", {})]):
        folder = tmp_path / str(number)
        table = create_table(folder / "t", record_key="id", index=index.format(folder=folder), **settings)  # type: ignore[arg-type]
        for to in (OTHER.format(folder=folder), "global-simple:", RECORD.format(folder=folder)):
            table.migrate_index(to)
            leases.append(table.settings.lease)
        table.upsert(records(("a", "x", 1, 1.0)).select(["id", "ts"]))
    table_lease_ = LeasePlace.TABLE
    assert leases == [LeasePlace.INDEX, table_lease_, table_lease_, *[table_lease_] * 6]


def test_settings_changed_meanwhile_are_kept(tmp_path: Path) -> None:
    table = new_table(tmp_path)

    def change(step: MigrationStep) -> None:
        if step is MigrationStep.VERIFIED:
            with open_table(table.location) as other:
                other.set_maintenance(Maintenance.off())

    table.migrate_index(OTHER.format(folder=tmp_path), on_step=change)
    with open_table(table.location) as again:
        assert again.settings.maintenance.is_off
        assert again.settings.index_url == OTHER.format(folder=tmp_path)


def test_migrated_table_is_dropped(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    table.migrate_index(OTHER.format(folder=tmp_path), drop_old=True)
    table.close()
    drop_table(table.location)
    for index in (RECORD, OTHER):
        with pytest.raises(IndexNotFoundError):
            open_index(index.format(folder=tmp_path))


def test_cleans_beside_the_build(tmp_path: Path) -> None:
    """Two builds read files that a clean removes: the index is built again."""
    table = new_table(tmp_path)
    builds = []

    class Cleaning:
        def run(self, function: Callable[[object], object], items: list[object]) -> list[object]:
            builds.append(len(items))
            if len(builds) <= 2:
                with open_table(table.location) as other:
                    for ts in (10 * len(builds), 10 * len(builds) + 1):
                        other.upsert(records(("a", "x", ts, 1.0), ("c", "y", ts, 1.0), ("d", "z", ts, 1.0)))
                    other.clean(keep_commits=1)
            return [function(item) for item in items]

    table.migrate_index(OTHER.format(folder=tmp_path), tasks=Cleaning())  # type: ignore[arg-type]
    assert len(builds) > 3
    check_stored(table)


def test_damaged_plan_is_ignored(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    plan = Path(table.location) / paths.MIGRATION
    table.migrate_index("simple:")
    assert json.loads(plan.read_text())["to"] == "simple:"
    plan.write_text("{")
    assert table.migrate_index("simple:", drop_old=True).former is None
    open_index(RECORD.format(folder=tmp_path)).close()


@pytest.mark.parametrize("before", [RECORD, "simple:", "global-simple:"])
def test_table_without_buckets_is_refused(tmp_path: Path, before: str) -> None:
    table = new_table(tmp_path, before)
    settings = settings_of(table)
    with pytest.raises(IndexMismatchError, match="bucket"):
        table.migrate_index("bucket:?buckets=2")
    assert settings_of(table) == settings
    assert table.upsert(records(("e", "x", 1, 1.0))).inserted == 1


@pytest.mark.invariant("P37")
def test_foreign_file_group_is_found_early(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", record_key="id", partition_by="city", ordering="ts", index="simple:")

    def insert(step: MigrationStep) -> None:
        if step is MigrationStep.VERIFIED:
            with open_table(table.location) as writer:
                writer.upsert(records(("a", "y", 1, 1.0)))

    with pytest.raises(IndexMismatchError, match="bucket"):
        table.migrate_index("bucket:?buckets=2", on_step=insert)
    assert opened_table(table).index.kind == "simple"
    assert table.delete(["a"]).deleted == 1


def test_empty_table_gets_bucket_index(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", record_key="id", partition_by="city", ordering="ts", index="simple:")
    table.migrate_index("bucket:?buckets=2")
    assert table.upsert(records(("a", "y", 1, 1.0))).inserted == 1
    assert table.index.url == "bucket:?buckets=2"
    check_stored(table)
