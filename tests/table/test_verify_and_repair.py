"""Verify finds every kind of disagreement between index and table, and repair ends it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from rli import KeyMode, SettingsError, Table, VerifyReport, create_table, open_table
from rli.codec import entries
from rli.table.table import opened_table
from tests.support.indexes import record_index
from tests.support.tables import check_stored, records, rows_of


@pytest.fixture(params=list(KeyMode))
def table(request: pytest.FixtureRequest, tmp_path: Path, memory_url: str) -> Table:
    """Six records in three partitions, and one deleted key."""
    table = create_table(
        tmp_path / "t", record_key="id", partition_by="city", index=memory_url, key_mode=request.param, shards=4
    )
    table.upsert(records(("a", "x", 1, 1.0), ("b", "x", 1, 1.0), ("c", "y", 1, 1.0), ("gone", "y", 1, 1.0)))
    table.delete(["gone"])
    table.upsert(records(("d", "z", 1, 1.0), ("e", "z", 1, 1.0), ("f", "y", 1, 1.0)))
    check_stored(table)
    return table


def disturb(table: Table, keys: list[str], file_group: int) -> None:
    """Write entries behind the table's back."""
    head = record_index(table).log.refresh().head
    record_index(table).put(pa.array(keys), entries.pack(head, np.full(len(keys), file_group)))


def number_in(table: Table, city: str) -> int:
    """The number of a file group of a partition."""
    number = (
        record_index(table)
        .log.refresh()
        .dictionary.number_of(
            next(group for group in opened_table(table).snapshot().slices if group.partition_path == city)
        )
    )
    assert number is not None
    return number


def kinds(report: VerifyReport) -> tuple[int, int, int]:
    return report.missing, report.misplaced, report.dangling


def exact(table: Table) -> bool:
    return record_index(table).settings.key_mode is KeyMode.EXACT


def test_a_sound_index(table: Table) -> None:
    assert table.verify_index() == VerifyReport(6, 6, 0, 0, 0, ())
    assert table.repair_index().agrees


def test_missing_keys(table: Table) -> None:
    disturb(table, ["a", "c"], entries.TOMBSTONE)
    report = table.verify_index()
    assert kinds(report) == (2, 0, 0)
    assert set(report.sample) == {"a", "c"}
    assert table.repair_index() == report
    check_stored(table)
    assert table.upsert(records(("a", "z", 2, 2.0), ("new", "z", 2, 2.0))).moved == 1
    check_stored(table)


def test_misplaced_keys(table: Table) -> None:
    wrong = number_in(table, "z")
    disturb(table, ["a", "c"], wrong)
    report = table.verify_index()
    assert kinds(report) == (0, 2, 0)
    assert set(report.sample) >= {"a", "c"}
    assert table.repair_index() == report
    check_stored(table)


def test_dangling_keys(table: Table) -> None:
    disturb(table, ["ghost", "gone"], 0)
    report = table.verify_index()
    assert kinds(report) == (0, 0, 2)
    if exact(table):
        assert set(report.sample) == {"ghost", "gone"}
        assert table.repair_index() == report
    else:
        with pytest.raises(SettingsError, match="bootstrap"):
            table.repair_index()
        table.bootstrap_index(key_mode=KeyMode.DIGEST)
    check_stored(table)
    assert table.upsert(records(("ghost", "x", 2, 2.0), ("gone", "y", 2, 2.0))).inserted == 2
    check_stored(table)


def test_all_of_it_at_once(table: Table) -> None:
    wrong = number_in(table, "z")
    disturb(table, ["a"], entries.TOMBSTONE)
    disturb(table, ["c"], wrong)
    disturb(table, ["ghost"], wrong)
    report = table.verify_index()
    assert kinds(report) == (1, 1, 1)
    if exact(table):
        table.repair_index()
    else:
        table.bootstrap_index(key_mode="digest")
    check_stored(table)
    assert len(rows_of(table)) == 6


def test_bootstrapping_elsewhere(table: Table, tmp_path: Path) -> None:
    before = table.lookup(["a", "b", "c", "d", "e", "f", "gone"])
    assert table.bootstrap_index(f"lmdb://{tmp_path}/new", shards=5) == 6
    check_stored(table)
    again = open_table(tmp_path / "t")
    assert again.settings.index_url == f"lmdb://{tmp_path}/new"
    after = again.lookup(["a", "b", "c", "d", "e", "f", "gone"])
    assert after.select(["record_key", "partition_path", "file_id"]) == before.select(
        ["record_key", "partition_path", "file_id"]
    )
    assert again.upsert(records(("a", "z", 2, 2.0), ("gone", "x", 2, 2.0))).moved == 1
    check_stored(again)
    again.drop_index()


def test_commit_before_index_is_rolled_back(table: Table) -> None:
    """The bootstrapped index never saw the commit apart, but its journal is still there."""
    rows = rows_of(table)
    instant = table.upsert(records(("a", "z", 2, 2.0), ("b", "x", 2, 2.0), ("n", "n", 2, 2.0))).instant
    table.bootstrap_index(key_mode=record_index(table).settings.key_mode)
    table.rollback(instant or "")
    assert rows_of(table) == rows
    check_stored(table)


def test_bootstrapping_an_empty_table(tmp_path: Path, memory_url: str) -> None:
    table = create_table(tmp_path / "t", record_key="id", index=memory_url)
    assert table.bootstrap_index() == 0
    table.upsert(records(("a", "x", 1, 1.0)))
    check_stored(table)


@pytest.mark.invariant("P34")
def test_bootstrap_changes_hash_key_everywhere(tmp_path: Path) -> None:
    with create_table(tmp_path / "t", record_key="id", key_mode="digest") as table, open_table(tmp_path / "t") as other:
        table.upsert(records(("a", "x", 1, 1.0), ("b", "y", 1, 1.0)))
        assert other.lookup(["a"])["file_id"].null_count == 0
        before = record_index(table).settings.digest_key
        table.bootstrap_index(key_mode="digest")
        assert record_index(table).settings.digest_key not in (None, before)
        assert other.upsert(records(("a", "x", 2, 2.0), ("new", "y", 1, 1.0))).updated == 1
        check_stored(table)
        check_stored(other)
