"""A process that dies in a transaction leaves all of it or nothing."""

from __future__ import annotations

import shutil
from itertools import count
from pathlib import Path

import pytest

from rli.index.record.entries.limits import IndexLimits
from rli.index.record.index_alone import IndexAlone
from rli.model import FileGroupId
from tests.support.children import was_killed
from tests.support.faults import KillAt, PointedStore
from tests.support.locations import commit_places, leftover_chunks, locations, places_of
from tests.support.stored_indexes import create_index, open_index

A, B = FileGroupId("p", "a-0"), FileGroupId("q", "b-0")
BEFORE = {"stays": A, "moves": A, "goes": A}
AFTER = {"stays": A, "moves": B, **{f"new{number}": B for number in range(4)}}
KEYS = sorted(BEFORE | AFTER)

pytestmark = pytest.mark.crash


def commit_and_die(url: str, point: int) -> None:
    """Commit a transaction of several chunks; the process dies at the given change of the store."""
    opened = open_index(url)
    index = IndexAlone(PointedStore(opened.store, KillAt(point)), opened.settings, IndexLimits(rows_per_chunk=3))
    with index.begin() as transaction:
        transaction.stage(locations({key: B for key in AFTER if key != "stays"}))
        transaction.stage_deletes(["goes"])
        transaction.commit()


def test_kill_at_every_store_change(tmp_path: Path) -> None:
    outcomes = []
    with create_index(f"lmdb://{tmp_path}/template", shards=3) as index:
        commit_places(index, BEFORE)
    for point in count(1):
        url = f"lmdb://{shutil.copytree(tmp_path / 'template', tmp_path / str(point))}"
        killed = was_killed(commit_and_die, url, point)
        with open_index(url) as index:
            index.begin().abort()
            committed = index.stats().last_sequence == 2
            assert places_of(index, KEYS) == (AFTER if committed else BEFORE)
            if committed:
                assert leftover_chunks(index) == []
            commit_places(index, {"moves": A, "next": B})
            expected = {**(AFTER if committed else BEFORE), "moves": A, "next": B}
            assert places_of(index, [*KEYS, "next"]) == expected
            index.drop()
        outcomes.append(committed)
        if not killed:
            break
    assert outcomes[-1]
    # It is one point at which the transaction takes effect.
    assert outcomes == sorted(outcomes)
    assert len(outcomes) > 15
