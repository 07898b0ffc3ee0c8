"""The record index with ``?ttl=9d``: a key counts as absent once its record was written last longer ago."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Unpack
from uuid import uuid4

import pytest

from rli import (
    CorruptTableError,
    IndexMismatchError,
    MigrationStep,
    SettingsError,
    Step,
    Table,
    create_index,
    create_table,
    open_index,
    open_table,
)
from rli.index.record.entries import expiring
from rli.index_urls import IndexUrl
from rli.table.options import TableOptions
from rli.view.definition import TableDefinition
from tests.support.hbase import hbase_url, new_table
from tests.support.index_kinds import stored_rows
from tests.support.redis import redis_url
from tests.support.steps import Once
from tests.support.tables import check_stored, records

Days = Callable[[float], None]


@pytest.fixture
def wait_days(monkeypatch: pytest.MonkeyPatch) -> Days:
    """Puts the clock of all tables forward."""
    now, ahead = TableDefinition.now, [timedelta()]
    monkeypatch.setattr(TableDefinition, "now", lambda table: now(table) + ahead[0])

    def wait(days: float) -> None:
        ahead[0] += timedelta(days=days)

    return wait


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A table with a record, each commit in a file group of its own."""
    created = make(tmp_path, "lmdb://{}/index?ttl=9d", small_file_size=0)
    created.upsert(records(("k", "x", 5, 1.0), ("l", "x", 5, 1.0)))
    return created


def make(folder: Path, url: str, **options: Unpack[TableOptions]) -> Table:
    index = url.format(folder)
    return create_table(folder / "t", record_key="id", partition_by="city", ordering="ts", index=index, **options)


@pytest.mark.invariant("P40")
def test_write_renews_key_or_reinserts_expired(table: Table, wait_days: Days) -> None:
    wait_days(6)
    assert table.upsert(records(("k", "x", 6, 2.0), ("l", "x", 1, 2.0))).unchanged == 1
    wait_days(6)
    # The late event has not written the record of l.
    result = table.insert(records(("k", "y", 7, 3.0), ("l", "y", 1, 3.0)))
    assert (result.inserted, result.unchanged) == (1, 1)
    assert stored_rows(table) == {("k", "x", 6, 2.0), ("l", "x", 5, 1.0), ("l", "y", 1, 3.0)}
    assert table.lookup(["k", "l"])["partition_path"].to_pylist() == ["x", "y"]
    assert table.get(["l"])["v"].to_pylist() == [3.0]
    assert table.delete(["l"]).deleted == 1
    assert stored_rows(table) == {("k", "x", 6, 2.0), ("l", "x", 5, 1.0)}
    assert table.delete(["l"]).deleted == 0
    check_stored(table)


@pytest.mark.parametrize("later", ["insert", "move"])
def test_duplicates_in_file_group_are_merged(tmp_path: Path, wait_days: Days, later: str) -> None:
    table = make(tmp_path, "memory:?ttl=9d")
    table.upsert(records(("k", "x", 5, 1.0), ("l", "x", 5, 1.0)))
    wait_days(10)
    if later == "move":
        table.upsert(records(("k", "y", 1, 2.0)))
        assert len(stored_rows(table)) == 3
    assert table.upsert(records(("k", "x", 1, 3.0))).moved == (later == "move")
    assert stored_rows(table) == {("k", "x", 1, 3.0), ("l", "x", 5, 1.0)}
    check_stored(table)
    table.rollback("last")
    check_stored(table)


@pytest.mark.parametrize("ordering", ["ts", None])
def test_expired_keys_return_beside_logs(tmp_path: Path, wait_days: Days, ordering: str | None) -> None:
    """The new record goes to the file group that still holds the expired one."""
    of_logs: TableOptions = {"table_type": "merge_on_read", "log_inserts": True}
    index = f"lmdb://{tmp_path}/index?ttl=9d"
    table = create_table(
        tmp_path / "t", record_key="id", partition_by="city", ordering=ordering, index=index, **of_logs
    )
    table.upsert(records(("k", "x", 5, 1.0), ("l", "x", 5, 1.0)))
    wait_days(10)
    assert table.upsert(records(("k", "x", 5, 3.0))).inserted == 1
    assert stored_rows(table) == {("k", "x", 5, 3.0), ("l", "x", 5, 1.0)}
    assert table.upsert(records(("m", "x", 1, 1.0))).files_appended == 1
    check_stored(table)


@pytest.mark.invariant("P40")
@pytest.mark.parametrize(
    "own", [("k", "x", 9, 9.0), ("k", "y", 9, 9.0), ("k", "x", 3, 9.0)], ids=["update", "move", "late"]
)
def test_key_expiring_during_write_inserts_once(
    table: Table, wait_days: Days, own: tuple[str, str, int, float]
) -> None:
    """For the write the key is known; a rival with a later clock inserts it again, and commits first."""

    def insert_again() -> None:
        wait_days(10)
        assert open_table(table.location).upsert(records(("k", "z", 2, 2.0))).inserted == 1

    rival = Once(Step.WRITTEN, insert_again)
    result = table.upsert(records(own, ("n", "w", 1, 1.0)), on_step=rival)
    assert (rival.reached, result.moved, result.inserted) == (2, 1, 1)
    assert own in stored_rows(table)
    check_stored(table)


@pytest.mark.invariant("P40")
def test_clustering_resurrects_no_expired_record(table: Table, wait_days: Days) -> None:
    table.upsert(records(("m", "x", 5, 1.0)))

    def insert_again() -> None:
        wait_days(10)
        assert open_table(table.location).upsert(records(("k", "z", 2, 2.0))).inserted == 1

    rival = Once(Step.WRITTEN, insert_again)
    assert table.cluster(smaller_than=1 << 30, on_step=rival).files_replaced == 2
    assert rival.reached == 2
    assert table.lookup(["k", "m"])["partition_path"].to_pylist() == ["z", None]
    check_stored(table)


@pytest.mark.invariant("P40")
def test_clustering_without_partition_renews_no_key(tmp_path: Path, wait_days: Days) -> None:
    table = make(tmp_path, "lmdb://{}/index?scope=partition&ttl=9d", small_file_size=0, lease="table")
    table.upsert(records(("k", "x", 5, 1.0), ("l", "x", 5, 1.0)))
    wait_days(6)
    table.upsert(records(("l", "x", 6, 2.0), ("m", "x", 6, 2.0)))
    with open_table(table.location, index="memory:?scope=partition&partitions=y&ttl=9d") as job:
        assert job.cluster(smaller_than=1 << 30).files_replaced == 2
    wait_days(6)
    assert table.insert(records(("k", "x", 7, 3.0), ("l", "x", 7, 3.0))).inserted == 1
    check_stored(table)


@pytest.mark.invariant("P40")
@pytest.mark.parametrize(
    "store",
    ["lmdb", pytest.param("redis", marks=pytest.mark.docker), pytest.param("hbase", marks=pytest.mark.docker)],
)
def test_clean_removes_expired_entries_beside_write(
    request: pytest.FixtureRequest, table: Table, wait_days: Days, store: str
) -> None:
    if store == "redis":
        table.migrate_index(f"{redis_url(request.getfixturevalue('redis_server'), name=uuid4().hex)}&ttl=9d")
    if store == "hbase":
        table.migrate_index(hbase_url(request.getfixturevalue("hbase"), new_table(), ttl="9d"))

    def expire() -> None:
        wait_days(10)
        with open_table(table.location) as other:
            other.upsert(records(("n", "y", 1, 1.0)))
            assert other.index.stats().expired == 2
            other.clean()
            assert (other.index.stats().entries, other.index.stats().expired) == (1, 0)

    rival = Once(Step.WRITTEN, expire)
    assert table.upsert(records(("k", "x", 9, 9.0)), on_step=rival).inserted == 1
    assert rival.reached == 2
    assert table.insert(records(("k", "x", 10, 9.0))).inserted == 0
    check_stored(table)


@pytest.mark.invariant("P40")
def test_an_interrupted_expiry_is_done_again(table: Table, wait_days: Days, monkeypatch: pytest.MonkeyPatch) -> None:
    wait_days(10)
    table.upsert(records(("n", "y", 1, 1.0)))
    with monkeypatch.context() as patched:
        patched.setattr(expiring, "remove_entries", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            table.clean()
    assert table.lookup(["k", "n"])["partition_path"].to_pylist() == [None, "y"]
    check_stored(table)
    table.clean()
    assert (table.index.stats().entries, table.index.stats().expired) == (1, 0)
    head = table.index.stats().last_sequence
    table.clean()
    assert table.index.stats().last_sequence == head, (
        "an index is read for expired keys ten times in their life at most"
    )
    check_stored(table)


@pytest.mark.invariant("P40")
def test_migration_follows_writers_without_journals(tmp_path: Path, wait_days: Days) -> None:
    table = make(tmp_path, "lmdb://{}/index", small_file_size=0)
    table.upsert(records(("k", "x", 5, 1.0), ("l", "x", 5, 1.0)))
    wait_days(6)

    def write(step: MigrationStep) -> None:
        if step is MigrationStep.BUILT:
            with open_table(table.location) as other:
                undone = other.upsert(records(("k", "x", 6, 2.0), ("m", "x", 6, 2.0))).instant
                other.rollback(undone or "")
                other.upsert(records(("n", "x", 6, 2.0)))
                other.cluster(smaller_than=1 << 30)
                other.upsert(records(("k", "x", 7, 3.0), ("m", "x", 7, 3.0)))

    table.migrate_index(f"lmdb://{tmp_path}/new?ttl=9d", on_step=write)
    wait_days(6)
    assert table.insert(records(("k", "x", 8, 4.0), ("l", "x", 8, 4.0), ("m", "x", 8, 4.0))).inserted == 1
    check_stored(table)
    # Those commits are undone from the files.
    for _ in range(3):
        table.rollback("last")
        check_stored(table)


def test_time_to_live_belongs_to_index(table: Table, wait_days: Days, tmp_path: Path) -> None:
    url = f"lmdb://{tmp_path}/index"
    with pytest.raises(IndexMismatchError, match=r"another ttl: .*ttl=777600; name it .*\?ttl=9d"):
        open_index(url)
    with open_index(f"{url}?ttl=216h") as index:
        assert index.url == f"{url}?ttl=9d"
    wait_days(10)
    table.upsert(records(("k", "z", 6, 2.0)))
    assert table.bootstrap_index(f"{url}?ttl=5d") == 1
    check_stored(table)
    for longer in (url, f"{url}?ttl=30d"):
        with pytest.raises(CorruptTableError, match=r"stored more than once.*'k' in x/.*, z/"):
            table.bootstrap_index(longer)
    assert table.bootstrap_index(f"{url}?ttl=9d") == 1
    check_stored(table)


def test_hosts_share_time_to_live(tmp_path: Path) -> None:
    table = make(tmp_path, "lmdb://{}/index?ttl=9d", lease="table")
    with open_table(table.location, index="memory:") as other, pytest.raises(IndexMismatchError, match="time to live"):
        other.upsert(records(("k", "x", 1, 1.0)))


@pytest.mark.parametrize("ttl", ["", "30", "0d", "-1d", "1.5d", "1w", "d", "30d&ttl=30d", "9999999999d"])
def test_another_time_to_live_is_refused(tmp_path: Path, ttl: str) -> None:
    with pytest.raises(SettingsError, match=r"not a time to live|more than once"):
        make(tmp_path, f"memory:?ttl={ttl}")
    assert not list(tmp_path.glob("**/hoodie.properties"))


def test_standalone_index_keeps_its_keys(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="delete old keys"):
        create_index(f"lmdb://{tmp_path}/index?ttl=30d")
    assert not list(tmp_path.iterdir())


def test_time_to_live_uses_longest_unit() -> None:
    shown = {given: IndexUrl.parse(f"memory:?ttl={given}").full for given in ("48h", "90m", "120s", "61s")}
    assert list(shown.values()) == ["memory:?ttl=2d", "memory:?ttl=90m", "memory:?ttl=2m", "memory:?ttl=61s"]


@pytest.mark.invariant("P47", "P40")
def test_conditions_and_expired_records(table: Table, wait_days: Days) -> None:
    wait_days(10)
    table.upsert(records(("k", "y", 9, 2.0), ("m", "y", 9, 2.0)))
    # The old record of k is as absent for an update; a delete takes what a read shows, and leaves the live record alone.
    assert table.update_where("v < 5", {"v": "v + 0.5"}).updated == 2
    assert stored_rows(table) == {("k", "x", 5, 1.0), ("l", "x", 5, 1.0), ("k", "y", 9, 2.5), ("m", "y", 9, 2.5)}
    assert table.delete_where("v < 2").deleted == 2
    assert stored_rows(table) == {("k", "y", 9, 2.5), ("m", "y", 9, 2.5)}
    assert table.lookup(["k", "l", "m"]).column("partition_path").to_pylist() == ["y", None, "y"]
    check_stored(table)
    table.rollback(table.timeline()[-1].time)
    assert table.delete_where("id = 'k'").deleted == 2
    assert table.lookup(["k"]).column("partition_path").to_pylist() == [None]
    check_stored(table)
