"""Tombstones that nobody needs go, and no deleted key comes back, however late a writer is (P30)."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from rli import ConflictError
from rli.codec.encoded_keys import EncodedKeys
from rli.codec.entries import Entries
from rli.index.record.entries import purging
from rli.index.record.index_alone import IndexAlone
from rli.index.record.stored_index import StoredIndex
from rli.model import FileGroupId
from tests.support.children import duplex_pipe, start_child, was_killed
from tests.support.faults import KillAt, PointedStore
from tests.support.locations import commit_places, locations, places_of
from tests.support.stored_indexes import create_index, open_index

pytestmark = pytest.mark.invariant("P30")

A, B = FileGroupId("p", "a-0"), FileGroupId("q", "b-0")


def commit_deletes(index: StoredIndex, keys: list[str]) -> None:
    with index.begin() as transaction:
        transaction.stage_deletes(keys)
        transaction.commit()


def test_purge_removes_tombstones_only(index_url: str) -> None:
    with create_index(index_url, shards=3) as index:
        keys = [*(f"k{number}" for number in range(50)), "long" * 200]
        commit_places(index, dict.fromkeys(keys, A))
        commit_deletes(index, keys[10:])
        assert index.stats().tombstones == 41
        assert index.purge() == 41
        assert (index.stats().entries, index.stats().tombstones) == (10, 0)
        assert places_of(index, keys) == dict.fromkeys(keys[:10], A)
        commit_places(index, {"k40": B, "k0": B})
        assert places_of(index, ["k0", "k1", "k40", "k41"]) == {"k0": B, "k1": A, "k40": B}
        assert index.purge() == 0


def apply_paused(url: str, pause: Callable[[], None]) -> None:
    """Commit two keys; the first put of the apply is paused half way."""
    opened = open_index(url)
    puts = []

    def at_point(point: str) -> None:
        puts.append(point)
        if point == "before put" and puts.count(point) == 1:
            pause()

    with IndexAlone(PointedStore(opened.store, at_point), opened.settings).begin() as transaction:
        transaction.stage(locations({f"k{number}": A for number in range(8)}))
        transaction.commit()


def paused_child(url: str, conversation: object) -> None:
    def pause() -> None:
        conversation.send("paused")  # type: ignore[attr-defined]
        conversation.recv()  # type: ignore[attr-defined]

    apply_paused(url, pause)


def test_late_apply_resurrects_no_key(tmp_path: Path) -> None:
    url = f"lmdb://{tmp_path}/index"
    keys = [f"k{number}" for number in range(8)]
    with create_index(url, shards=1) as index:
        own, childs = duplex_pipe()
        child = start_child(paused_child, url, childs)
        assert own.recv() == "paused"
        # The commit is in the log: others apply it, and delete what it placed.
        commit_deletes(index, keys[1:])
        assert index.purge() == 7
        own.send("go on")
        child.join()
        assert child.exitcode == 0
        assert places_of(index, keys) == {"k0": A}
        assert index.stats().tombstones == 0


def test_lookup_across_purge_shows_single_commit(index_url: str) -> None:
    """It has read up to where all is applied. Then a key moves to another name, and its tombstone goes."""
    with create_index(index_url, shards=2) as index, open_index(index_url) as other:
        commit_places(index, {"old": A, "stays": A})
        paused: list[int] = []

        class Paused(PointedStore):
            def look_up(self, batches: Sequence[EncodedKeys], applied: int = 0) -> list[Entries]:
                found = super().look_up(batches, applied)
                if not paused:
                    paused.append(applied)
                    # As if "new" had been looked up before the change, and "old" after it.
                    with other.begin() as moving:
                        moving.stage(locations({"new": A}))
                        moving.stage_deletes(["old"])
                        moving.commit()
                    other.purge()
                    later = super().look_up(batches, applied)
                    found = [np.minimum(before, after) for before, after in zip(found, later, strict=True)]
                return found

        reader = IndexAlone(Paused(index.store, lambda _: None), index.settings)
        assert places_of(reader, ["new", "old", "stays"]) == {"new": A, "stays": A}
        assert paused == [1]


def test_transaction_before_purge_detects_deletion(index_url: str) -> None:
    with create_index(index_url) as index, open_index(index_url) as other:
        commit_places(index, {"k": A})
        with index.begin() as opened:
            assert places_of(opened, ["k"]) == {"k": A}
            commit_deletes(other, ["k"])
            other.purge()
            with pytest.raises(ConflictError, match="tombstones"):
                opened.tag(["k"])
            opened.stage(locations({"k": B}))
            with pytest.raises(ConflictError):
                opened.commit()
        assert places_of(index, ["k"]) == {}


def test_only_what_was_applied_goes(index_url: str) -> None:
    with create_index(index_url) as index:
        commit_places(index, {"k": A})
        commit_deletes(index, ["k"])
        assert purging.purge(index, 1) == 0
        assert purging.purge(index, 1 << 31) == 1
        assert purging.floor_of(index) == 2


def purge_and_die(url: str, point: int) -> None:
    opened = open_index(url)
    IndexAlone(PointedStore(opened.store, KillAt(point)), opened.settings).purge()


@pytest.mark.crash
def test_interrupted_purge_preserves_answers(tmp_path: Path) -> None:
    keys = [*(f"k{number}" for number in range(6)), "long" * 200]
    with create_index(f"lmdb://{tmp_path}/template", shards=2) as index:
        commit_places(index, dict.fromkeys(keys, A))
        commit_deletes(index, keys[1:])
    left = []
    for point in count(1):
        url = f"lmdb://{shutil.copytree(tmp_path / 'template', tmp_path / str(point))}"
        killed = was_killed(purge_and_die, url, point)
        with open_index(url) as index:
            left.append(index.stats().tombstones)
            assert places_of(index, keys) == {"k0": A}
            index.purge()
            assert index.stats().tombstones == 0
            commit_places(index, {"k1": B})
            assert places_of(index, keys) == {"k0": A, "k1": B}
        if not killed:
            break
    assert left == sorted(left, reverse=True)
    assert (left[0], left[-1]) == (6, 0)
