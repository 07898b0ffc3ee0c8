"""A commit of more keys than the index takes at once is applied section by section, and tells the same as any other."""

from __future__ import annotations

import time
from pathlib import Path
from threading import get_ident
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rli
from rli.errors import CorruptTableError
from rli.file_group import work_rows
from rli.file_group.journal import SECTIONS, HeldJournal, Journal, write_journal
from rli.file_group.journal_list import load_journals, save_journals, shares_of
from rli.index.record.entries.limits import IndexLimits
from rli.index.record.entries.stored_entries import StoredEntries
from rli.locations import LocationUpdate
from rli.model import FileGroupId
from rli.storage import Storage
from rli.store import Entries
from rli_lmdb.store import LmdbStore
from tests.support.indexes import limit_index

INSTANT = "20240531120000123"
ROWS = 5_000
FEW_AT_ONCE = IndexLimits(keys_of_thread=ROWS, commit_keys=ROWS, share_of_journals=1)
"""As if the index took fewer keys at a time: a million take long to write."""


def section_of_last_digits(partition_path: str, keys: pa.Array) -> np.ndarray:
    """Three sections hold keys, and one of them most."""
    assert partition_path == "here"
    return np.array([(7, 7, 2, 15)[int(key.as_py()) % 4] for key in keys], np.uint8)


def written_to(storage: Storage, rows: int = ROWS) -> HeldJournal:
    changes = np.where(np.arange(rows) % 3, 1, 5)
    content = {
        work_rows.RECORD_KEY: pa.array([str(number) for number in range(rows)]),
        work_rows.CHANGE: pa.array(changes, pa.int8()),
        work_rows.PRIOR_PARTITION_PATH: pa.nulls(rows, pa.string()),
        work_rows.PRIOR_FILE_ID: pa.nulls(rows, pa.string()),
        work_rows.PRIOR_INSTANT: pa.nulls(rows, pa.string()),
    }
    journal = Journal(INSTANT, f"f{rows}-0_0-0-0.parquet", FileGroupId("here", f"f{rows}-0"))
    held = write_journal(storage, journal, pa.table(content), sections_of=section_of_last_digits)
    assert held
    return held


def told(changes: LocationUpdate) -> list[tuple[str, str | None]]:
    return list(zip(changes.record_keys.to_pylist(), changes.file_ids.to_pylist(), strict=True))


def test_journal_sections_are_read_alone(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path))
    held = written_to(storage)
    for journal in (held, held.without_content):
        assert journal.is_in_sections
        found = [
            [told_of for changes in journal.changes(storage, range(one, one + 1)) for told_of in told(changes)]
            for one in range(SECTIONS)
        ]
        assert {one for one in range(SECTIONS) if found[one]} == {2, 7, 15}
        assert all(int(key) % 4 in {0, 1} for key, _ in found[7])
        expected = {(str(number), None if number % 3 == 0 else "f5000-0") for number in range(ROWS)}
        assert sorted(told_of for part in found for told_of in part) == sorted(expected, key=str)
        assert {told_of for changes in journal.changes(storage) for told_of in told(changes)} == expected


def test_journal_with_wrong_sections_is_refused(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path))
    journal = written_to(storage).without_content
    path = storage.full_path(journal.path)
    content, metadata = pq.read_table(path), pq.read_metadata(path).metadata
    # All rows in one row group.
    pq.write_table(content.replace_schema_metadata(metadata), path)
    with pytest.raises(CorruptTableError, match="sections"):
        list(journal.changes(storage, range(1)))


def test_shares_tell_every_change_once(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path))
    journals = [written_to(storage), written_to(storage, 4_500), written_to(storage, 100)]
    save_journals(storage, INSTANT, [journal.without_content for journal in journals])
    listed = load_journals(storage, INSTANT)
    assert listed is not None
    assert [journal.is_in_sections for journal in listed] == [True, True, False]
    for size in (1, 10_000, 40_000, 1 << 30):
        shares = shares_of(storage, listed, size, side_by_side=True)
        keys = [key for share in shares for changes in share.changes(storage) for key, _ in told(changes)]
        assert len(keys) == ROWS + 4_500 + 100
        assert len(shares) == {1: SECTIONS + 1, 1 << 30: 1}.get(size, len(shares))


@pytest.mark.parametrize(("at_once", "count"), [(1, 1), (2, 2), (3, 3), (16, 16), (40, 32), (1_000, 48)])
def test_each_task_has_a_share(tmp_path: Path, at_once: int, count: int) -> None:
    storage = Storage(str(tmp_path))
    journals = [written_to(storage, rows).without_content for rows in (4_500, 4_600, 4_700)]
    shares = shares_of(storage, journals, 1 << 30, side_by_side=True, at_once=at_once, least_bytes=1)
    assert len(shares) == count
    keys = [key for share in shares for changes in share.changes(storage) for key, _ in told(changes)]
    assert len(keys) == 4_500 + 4_600 + 4_700
    assert len(shares_of(storage, journals, 1 << 30, side_by_side=True, at_once=at_once)) == 1


@pytest.mark.parametrize("at_once", [2, 3, 4])
def test_tasks_end_together(tmp_path: Path, at_once: int) -> None:
    storage = Storage(str(tmp_path))
    journals = [written_to(storage, rows).without_content for rows in (4_500, 4_600, 4_700)]
    size = sum(Path(storage.full_path(journal.path)).stat().st_size for journal in journals)
    for parts in range(1, SECTIONS):
        shares = shares_of(storage, journals, size // parts, side_by_side=True, at_once=at_once, least_bytes=1)
        assert len(shares) % at_once == 0 or len(shares) == SECTIONS


@pytest.mark.parametrize("at_once", [3, 16, 40, 100])
def test_shares_keep_to_their_least_size(tmp_path: Path, at_once: int) -> None:
    storage = Storage(str(tmp_path))
    journals = [written_to(storage, rows).without_content for rows in (4_500, 4_600, 4_700)]
    size = sum(Path(storage.full_path(journal.path)).stat().st_size for journal in journals)
    for parts in range(1, SECTIONS):
        least = size // parts
        shares = shares_of(storage, journals, 1 << 30, side_by_side=True, at_once=at_once, least_bytes=least)
        assert len(shares) * least <= size
        # No two tasks write one part of the store.
        sections = [section for share in shares for section in share.sections or range(SECTIONS)]
        assert sorted(sections) == list(range(SECTIONS))


def test_single_process_reads_journals_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = Storage(str(tmp_path))
    whole = [written_to(storage, rows) for rows in (100, 200)]
    [share] = shares_of(storage, whole, 1, side_by_side=False)
    assert share.journals == whole
    mixed = shares_of(storage, [*whole, written_to(storage)], 1, side_by_side=False)
    assert [share.journals for share in mixed if share.sections is None] == [whole]
    monkeypatch.delattr(Storage, "list_files")
    assert len(shares_of(storage, whole, 1, side_by_side=False)) == 1


@pytest.mark.parametrize("scope", ["", "?scope=partition"])
def test_large_load_is_applied_in_sections(tmp_path: Path, scope: str) -> None:
    rows = 4 * ROWS
    records = pa.table({"id": pa.array(np.arange(rows)).cast(pa.string()), "part": pa.array(np.arange(rows) % 2)})
    index = f"lmdb://{tmp_path}/index{scope}"
    with rli.create_table(tmp_path / "table", record_key="id", partition_by="part", index=index) as table:
        limit_index(table, FEW_AT_ONCE)
        assert table.upsert(records).inserted == rows
        journals = load_journals(Storage(str(tmp_path / "table")), table.timeline()[-1].time)
        assert journals
        assert all(journal.is_in_sections for journal in journals)
        assert table.verify_index().agrees
        assert table.lookup(["7", str(rows)])["partition_path"].to_pylist()[:1] == ["1"]
        table.rollback("last")
        assert table.verify_index().agrees
        assert table.lookup(["7"]).column("file_id").null_count == len(table.lookup(["7"]))


@pytest.mark.parametrize("gains", [True, False])
def test_thread_counts_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, gains: bool) -> None:
    """However many cores there are, two shares of a commit are in memory; some stores are asked by one thread alone."""
    monkeypatch.setattr("rli_lmdb.store.LmdbStore.gains_by_threads", gains)
    cores = pa.cpu_count()
    ours, applying, most, looking = get_ident(), set[int](), [0], set[int]()
    apply, look_up = StoredEntries.apply, LmdbStore.look_up

    def counted_apply(self: StoredEntries, *arguments: Any) -> None:
        applying.add(get_ident())
        most[0] = max(most[0], len(applying))
        time.sleep(0.02)
        apply(self, *arguments)
        applying.discard(get_ident())

    def noted_look_up(self: LmdbStore, *arguments: Any) -> list[Entries]:
        looking.add(get_ident())
        return look_up(self, *arguments)

    monkeypatch.setattr(StoredEntries, "apply", counted_apply)
    monkeypatch.setattr(LmdbStore, "look_up", noted_look_up)
    rows = 4 * ROWS
    keys = pa.array(np.arange(rows)).cast(pa.string())
    try:
        pa.set_cpu_count(8)
        with rli.create_table(tmp_path / "table", record_key="id", index=f"lmdb://{tmp_path}/index") as table:
            limit_index(table, FEW_AT_ONCE)
            assert table.upsert(pa.table({"id": keys})).inserted == rows
            looking.clear()
            assert not table.lookup(keys).column("file_id").null_count
    finally:
        pa.set_cpu_count(cores)
    assert most[0] == (2 if gains else 1)
    assert (ours in looking) is not gains


@pytest.mark.parametrize("scope", ["", "?scope=partition"])
def test_threaded_lookup_finds_same_keys(tmp_path: Path, scope: str) -> None:
    keys = np.random.default_rng(1).permutation(2 * ROWS)
    records = pa.table({"id": pa.array(keys[:ROWS]).cast(pa.string()), "part": pa.array(keys[:ROWS] % 3)})
    sought = pa.array(keys).cast(pa.string())
    index = f"lmdb://{tmp_path}/index{scope}"
    with rli.create_table(tmp_path / "table", record_key="id", partition_by="part", index=index) as table:
        table.upsert(records)
        together = table.lookup(sought)
        limit_index(table, IndexLimits(keys_of_thread=ROWS // 7))
        assert table.lookup(sought).equals(together)
        assert together.filter(together["file_id"].is_valid()).num_rows == ROWS
        assert table.upsert(records).unchanged == ROWS
