"""An index in Hudi's own HBase schema: which of Hudi's rows count, and what Hudi finds of ours.

Hudi's writers are played by puts and deletes with server time, which is what they send (tests/interop has the real ones).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import happybase
import pyarrow as pa
import pytest

from rli.codec.entries import sequences
from rli.errors import IndexMismatchError, IndexNotFoundError, InvalidKeyError, SettingsError
from rli.findings import Verdict
from rli.index.record.stored_index import StoredIndex
from rli.locations import LocationUpdate
from rli.model import FileGroupId
from rli.store.health import SupportsHealth
from rli.store.registry import open_store
from rli.table.table import opened_table
from tests.support.docker import Service
from tests.support.hbase import flush, happybase_connection, hbase_url, new_table
from tests.support.hbase_hudi import hudi_row, rows_in
from tests.support.histories import History, Layout, write_history
from tests.support.locations import places_of
from tests.support.log_drafts import commit_draft
from tests.support.rows import sorted_rows
from tests.support.stored_indexes import create_index

pytestmark = pytest.mark.docker

OSLO, ROME = FileGroupId("Oslo", "f1"), FileGroupId("Rome", "f2")


@pytest.fixture
def raw(hbase: Service) -> Iterator[happybase.Connection]:
    """HBase without rli. Tables in Hudi's schema outlive their index, and go with the container."""
    with happybase_connection(hbase) as connection:
        yield connection


@pytest.fixture(scope="module")
def index(hbase: Service) -> Iterator[StoredIndex]:
    """An index of its own, in which each test uses other keys."""
    with create_index(hbase_url(hbase, new_table(), schema="hudi")) as index:
        add_commit(index)
        yield index


@pytest.fixture
def rows(index: StoredIndex, raw: happybase.Connection) -> happybase.Table:
    """Its rows, as Hudi's writers see them."""
    return raw.table(index.url.partition("table=")[2].partition("&")[0])


def add_commit(index: StoredIndex, instant: str | None = None) -> int:
    """Add a commit to the index's log, with an instant of its own if none is given; its sequence."""
    log = index.log.refresh()
    if instant is None:
        instant = f"{int(log.instants.last or 0) + 1:017d}"
    appended = index.log.append(log, commit_draft(instant, OSLO, ROME))
    assert appended is not None
    return appended.head


def apply(index: StoredIndex, sequence: int, key: str, group: FileGroupId | None) -> None:
    """Apply what a commit does with a key: place it, or delete it."""
    keys = pa.array([key])
    changes = LocationUpdate.removing(keys) if group is None else LocationUpdate.placing(keys, group)
    index.apply(changes, index.log.refresh(), sequence)


def where(index: StoredIndex, key: str) -> FileGroupId | None:
    return places_of(index, [key]).get(key)


def commit_of(index: StoredIndex, key: str) -> int:
    """The commit sequence of a key's entry."""
    return int(sequences(index.get(pa.array([key])))[0])


def scanned_places(index: StoredIndex) -> dict[str, FileGroupId]:
    return {
        key: FileGroupId(row["partition_path"], row["file_id"])
        for keys, entries in index.scan(0)
        for key, row in zip(keys.to_pylist(), index.locations(keys, entries).to_pylist(), strict=True)
    }


def pending_instant(index: StoredIndex) -> str:
    """The instant of a commit that the log does not know yet."""
    return f"{int(index.log.refresh().instants.last or 0) + 1:017d}"


def test_rows_are_those_of_hudi(index: StoredIndex, rows: happybase.Table) -> None:
    instant = pending_instant(index)
    sequence = add_commit(index)
    keys = [
        "plain",
        "\u00dcn\u00efcode \U0001f600",
        "17",
        "27308689-7990-468f-a8ab-b750f66ca9a7",
        "a:1,b:2",
        "k" * 32_767,
    ]
    index.apply(LocationUpdate.placing(pa.array(keys), ROME), index.log.refresh(), sequence)
    stored = rows_in(rows)
    assert {key: stored[key] for key in keys} == dict.fromkeys(keys, (instant, "f2", "Rome"))
    assert set(places_of(index, keys)) == set(keys)
    index.apply(LocationUpdate.removing(pa.array(keys)), index.log.refresh(), add_commit(index))
    assert not set(keys) & set(rows_in(rows))
    assert places_of(index, keys) == {}


def test_hudi_row_counts_after_its_commit(index: StoredIndex, rows: happybase.Table) -> None:
    apply(index, add_commit(index), "k1", OSLO)
    instant = pending_instant(index)
    rows.put("k1", hudi_row(instant, "f2", "Rome"))
    rows.put("k2", hudi_row(instant, "f2", "Rome"))
    assert places_of(index, ["k1", "k2"]) == {"k1": OSLO}
    sequence = add_commit(index, instant)
    assert places_of(index, ["k1", "k2"]) == {"k1": ROME, "k2": ROME}
    assert commit_of(index, "k1") == commit_of(index, "k2") == sequence


def test_following_hudi_commit_writes_nothing(index: StoredIndex, rows: happybase.Table) -> None:
    instant = pending_instant(index)
    rows.put("followed", hudi_row(instant, "f2", "Rome"))
    before = rows.row("followed", include_timestamp=True)
    apply(index, add_commit(index, instant), "followed", ROME)
    assert rows.row("followed", include_timestamp=True) == before


def test_failed_hudi_commit_is_overwritten(index: StoredIndex, rows: happybase.Table) -> None:
    before = add_commit(index)
    apply(index, before, "failed", OSLO)
    failed = pending_instant(index)
    rows.put("failed", hudi_row(failed, "f2", "Rome"))
    # The log goes on without it.
    sequence = add_commit(index, f"{int(failed) + 1:017d}")
    assert where(index, "failed") == OSLO
    assert (commit_of(index, "failed"), scanned_places(index)["failed"]) == (before, OSLO)
    apply(index, sequence, "failed", ROME)
    assert where(index, "failed") == ROME
    assert rows_in(rows)["failed"] == (f"{int(failed) + 1:017d}", "f2", "Rome")


def test_record_deleted_by_hudi_is_insertable(index: StoredIndex, rows: happybase.Table) -> None:
    apply(index, add_commit(index), "deleted", OSLO)
    rows.delete("deleted")
    assert where(index, "deleted") is None
    apply(index, add_commit(index), "deleted", ROME)
    assert where(index, "deleted") == ROME


def test_hudi_changes_override_ours(index: StoredIndex, rows: happybase.Table) -> None:
    for _ in range(20):
        apply(index, add_commit(index), "turns", OSLO)
        rows.delete("turns")
        assert where(index, "turns") is None
        apply(index, add_commit(index), "turns", OSLO)
        instant = pending_instant(index)
        rows.put("turns", hudi_row(instant, "f2", "Rome"))
        add_commit(index, instant)
        assert where(index, "turns") == ROME


@pytest.mark.parametrize("newer", [ROME, None])
def test_late_older_commit_changes_nothing(
    index: StoredIndex, rows: happybase.Table, hbase: Service, newer: FileGroupId | None
) -> None:
    key = f"late {newer}"
    first, second = add_commit(index), add_commit(index)
    apply(index, first, key, OSLO)
    apply(index, second, key, newer)
    for _ in range(2):
        apply(index, first, key, OSLO)
        assert where(index, key) == newer
        flush(hbase, rows.name.decode())


def test_fast_clock_blocks_no_later_commit(index: StoredIndex, rows: happybase.Table) -> None:
    instant = pending_instant(index)
    ahead = round(time.time() * 1000) + 20_000
    rows.put("ahead", hudi_row(instant), timestamp=ahead)
    sequence = add_commit(index, instant)
    later = [add_commit(index) for _ in range(2)]
    assert commit_of(index, "ahead") == sequence
    apply(index, later[1], "ahead", ROME)
    apply(index, later[0], "ahead", OSLO)
    assert where(index, "ahead") == ROME
    apply(index, add_commit(index), "ahead", None)
    assert where(index, "ahead") is None


@pytest.mark.parametrize(("key", "size"), [("", 0), ("\u00e4" * 16_384, 32_768)])
def test_invalid_key_is_refused_before_writing(index: StoredIndex, key: str, size: int) -> None:
    with pytest.raises(InvalidKeyError, match=f"bytes={size} most=32767"):
        index.lookup(["good", key])
    with pytest.raises(InvalidKeyError):
        apply(index, add_commit(index), key, OSLO)


@pytest.mark.parametrize("unsuitable", [{"key_mode": "digest"}, {"shards": 4}])
def test_settings_outside_schema_are_refused(hbase: Service, unsuitable: dict[str, object]) -> None:
    url = hbase_url(hbase, new_table(), schema="hudi")
    with pytest.raises(SettingsError, match="key_mode=exact and one shard"):
        create_index(url, **unsuitable)


def test_index_ignores_and_keeps_earlier_rows(hbase: Service, raw: happybase.Connection) -> None:
    name = new_table()
    url = hbase_url(hbase, name, schema="hudi")
    raw.create_table(name, {"_s": {"max_versions": 2}})
    rows = raw.table(name)
    rows.put("old", hudi_row("00000000000000001"))
    for _ in range(2):
        with pytest.raises(IndexNotFoundError):
            open_store(url)
        with create_index(url) as index:
            add_commit(index, "00000000000000001")
            assert where(index, "old") is None
            assert index.stats().entries == 0
            apply(index, 1, "new", OSLO)
            assert index.stats().entries == 1
            index.drop()
        assert f"{name}_rli".encode() not in raw.tables()
        assert set(rows_in(rows)) == {"old", "new"}


def test_unshareable_table_is_refused(hbase: Service, raw: happybase.Connection) -> None:
    for families, complaint in (
        ({"e": {}}, "not a Hudi HBase-index table"),
        ({"_s": {"max_versions": 1}}, "VERSIONS => 2"),
    ):
        name = new_table()
        raw.create_table(name, families)
        with pytest.raises(SettingsError, match=complaint):
            open_store(hbase_url(hbase, name, schema="hudi"), create=True)
        assert f"{name}_rli".encode() not in raw.tables()


def test_table_turned_forgetful_is_refused(hbase: Service, raw: happybase.Connection) -> None:
    name = new_table()
    url = hbase_url(hbase, name, schema="hudi")
    open_store(url, create=True).close()
    forgetful = (({"max_versions": 1}, "VERSIONS => 2"), ({"max_versions": 2, "time_to_live": 60}, "TTL => 'FOREVER'"))
    for family, complaint in forgetful:
        raw.delete_table(name, disable=True)
        raw.create_table(name, {"_s": family})
        with pytest.raises(SettingsError, match=complaint):
            open_store(url, create=False)


def test_rli_index_is_no_hudi_table(hbase: Service) -> None:
    name = new_table()
    with open_store(hbase_url(hbase, f"{name}_rli"), create=True), pytest.raises(IndexMismatchError, match="version=1"):
        open_store(hbase_url(hbase, name, schema="hudi"), create=True)


def test_the_doctor_looks_at_versions(index: StoredIndex) -> None:
    assert isinstance(index.store, SupportsHealth)
    assert {finding.check: finding.verdict for finding in index.store.health()} == {
        "regions": Verdict.OK,
        "family": Verdict.OK,
        "versions": Verdict.OK,
    }


@pytest.mark.slow
def test_a_table_keeps_such_an_index(hbase: Service, tmp_path: Path) -> None:
    name = new_table()
    history = write_history(
        Layout(partition_by=("city",)),
        tmp_path,
        after_each=require_agreement,
        index=hbase_url(hbase, name, schema="hudi"),
    )
    with happybase_connection(hbase) as connection:
        rows = connection.table(name)
        assert set(rows_in(rows)) == {row["id"] for row in history.rows}
        # What a failed commit of Hudi wrote is passed over, and is put right when the index is rebuilt; a row that
        # Hudi has left behind does not count from then on.
        rows.put("plain", hudi_row("29990101000000000", "gone", "Lima"))
        require_agreement(history)
        rows.put("left behind", hudi_row(history.states[-1][0], *known_group(history)))
        assert history.table.verify_index().dangling == 1
    assert history.table.bootstrap_index() == len(history.rows)
    require_agreement(history)
    with happybase_connection(hbase) as connection:
        assert rows_in(connection.table(name))["plain"][2] == "Rome"
    history.table.close()


def known_group(history: History) -> tuple[str, str]:
    """File id and partition path of a file group of the table."""
    group = next(iter(opened_table(history.table).snapshot().slices))
    return group.file_id, group.partition_path


def require_agreement(history: History) -> None:
    assert sorted_rows(history.table.read()) == history.rows
    report = history.table.verify_index()
    assert report.agrees, report
    assert report.records == report.entries == len(history.rows)
