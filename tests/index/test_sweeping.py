"""Staged changes of dead processes go, and a process that was taken for dead by mistake commits nothing (P30)."""

from __future__ import annotations

import os
import shutil
from itertools import count
from pathlib import Path

import pytest

from rli import IndexTransaction
from rli.errors import LeaseLostError
from rli.index.record.entries.limits import IndexLimits
from rli.index.record.entries.owner import PROCESSES, StagingProcess
from rli.index.record.index_alone import IndexAlone
from rli.index.record.stored_index import StoredIndex
from rli.model import FileGroupId
from rli.processes import ProcessId
from rli.store.registry import open_store
from tests.support.children import start_child, was_killed
from tests.support.faults import KillAt, PointedStore
from tests.support.locations import commit_places, leftover_chunks, locations, places_of
from tests.support.stored_indexes import create_index, open_index

pytestmark = pytest.mark.invariant("P30")

A, B = FileGroupId("p", "a-0"), FileGroupId("q", "b-0")
SMALL_CHUNKS = IndexLimits(rows_per_chunk=2)
ELSEWHERE = ProcessId("another host", 1, "1")


def stage_and_die(url: str) -> None:
    """Commit a transaction, stage two more in several chunks, and end without a word."""
    opened = open_index(url)
    index = IndexAlone(opened.store, opened.settings, SMALL_CHUNKS)
    commit_places(index, {"stays": A})
    for name in ("first", "second"):
        index.begin().stage(locations({f"{name}-{number}": A for number in range(5)}))
    os._exit(0)


def leave_staged(url: str) -> None:
    child = start_child(stage_and_die, url)
    child.join()
    assert child.exitcode == 0


def seem_elsewhere(index: StoredIndex, *, silent_days: float) -> None:
    """Make the record of this process one of another host, which has shown no sign of life for so long."""
    for name, content in index.store.scan_control(PROCESSES):
        found = StagingProcess.from_json(name, content)
        assert found is not None
        elsewhere = StagingProcess(found.token, ELSEWHERE, found.seen_at - silent_days * 24 * 3600)
        assert index.store.compare_and_set(name, content, elsewhere.to_json())


def test_staging_of_dead_process_is_swept(tmp_path: Path) -> None:
    url = f"lmdb://{tmp_path}/index"
    with create_index(url) as index:
        leave_staged(url)
        assert len(leftover_chunks(index)) == 6
        commit_places(index, {"next": B})
        assert leftover_chunks(index) == []
        assert len(index.store.scan_control(PROCESSES)) == 1
        assert places_of(index, ["stays", "first-0", "next"]) == {"stays": A, "next": B}


def test_living_process_keeps_its_staging(index_url: str) -> None:
    with create_index(index_url) as index:
        opened = index.begin()
        opened.stage(locations({"k": A}))
        for silent_days in (0, 6):
            seem_elsewhere(index, silent_days=silent_days)
            assert index.sweep() == 0
        opened.commit()
        assert places_of(index, ["k"]) == {"k": A}


def taken_for_dead(index: StoredIndex, opened: IndexTransaction) -> None:
    opened.stage(locations({"k": A}))
    seem_elsewhere(index, silent_days=8)
    assert index.sweep() == 1
    assert leftover_chunks(index) == []


def test_presumed_dead_process_commits_nothing(index_url: str) -> None:
    with create_index(index_url) as index:
        opened = index.begin()
        taken_for_dead(index, opened)
        opened.stage(locations({"late": A}))
        with pytest.raises(LeaseLostError, match="taken for dead"):
            opened.commit()
        assert leftover_chunks(index) == []
        assert places_of(index, ["k", "late"]) == {}
        commit_places(index, {"k": B})
        assert places_of(index, ["k"]) == {"k": B}


def test_process_paused_before_commit_commits_nothing(index_url: str) -> None:
    with create_index(index_url) as index, open_index(index_url) as other:
        paused: list[str] = []

        def swept(point: str) -> None:
            if point.startswith("before compare_and_set commit/") and not paused:
                paused.append(point)
                seem_elsewhere(other, silent_days=8)
                assert other.sweep() == 1

        writer = IndexAlone(PointedStore(index.store, swept), index.settings)
        with writer.begin() as opened:
            opened.stage(locations({"k": A}))
            with pytest.raises(LeaseLostError):
                opened.commit()
        assert places_of(index, ["k"]) == {}
        assert leftover_chunks(index) == []


def test_commit_of_dead_process_is_applied(tmp_path: Path) -> None:
    """Killed between its append and the end of the apply."""
    url = f"lmdb://{tmp_path}/index"
    create_index(url).close()
    assert was_killed(commit_and_die_at_the_put, url)
    with open_index(url) as index:
        assert index.sweep() == 0
        assert places_of(index, ["k0", "k4"]) == {"k0": A, "k4": A}
        assert leftover_chunks(index) == []


def commit_and_die_at_the_put(url: str) -> None:
    opened = open_index(url)

    def die(point: str) -> None:
        if point == "before put":
            KillAt(1)(point)

    with IndexAlone(PointedStore(opened.store, die), opened.settings, SMALL_CHUNKS).begin() as transaction:
        transaction.stage(locations({f"k{number}": A for number in range(5)}))
        transaction.commit()


def test_unreadable_process_record_is_kept(index_url: str) -> None:
    with create_index(index_url) as index:
        for name, content in (("damaged", b"{"), ("newer", b'{"version":2}')):
            assert index.store.compare_and_set(PROCESSES + name, None, content)
        commit_places(index, {"k": A})
        assert index.sweep(silent_seconds=-1.0) == 0
        assert {name for name, _ in index.store.scan_control(PROCESSES)} >= {"process/damaged", "process/newer"}


def sweep_and_die(url: str, point: int) -> None:
    opened = open_index(url)
    IndexAlone(PointedStore(opened.store, KillAt(point)), opened.settings).sweep()


@pytest.mark.crash
def test_interrupted_sweep_is_finished_next(tmp_path: Path) -> None:
    template = f"lmdb://{tmp_path}/template"
    create_index(template, shards=3).close()
    leave_staged(template)
    for point in count(1):
        url = f"lmdb://{shutil.copytree(tmp_path / 'template', tmp_path / str(point))}"
        killed = was_killed(sweep_and_die, url, point)
        with open_index(url) as index:
            commit_places(index, {"next": B})
            assert leftover_chunks(index) == []
            assert places_of(index, ["stays", "first-0", "next"]) == {"stays": A, "next": B}
        if not killed:
            break
    with open_store(template) as store:
        assert len(store.scan_control(PROCESSES)) == 1
