"""An index that was pickled is opened elsewhere only where it is the same one, and not behind (P20)."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from rli import IndexNotReadyError
from rli.index.record.entries.identity import give_identity
from rli.index.record.entries.locator import RecordChanges, RecordLocator
from rli.index.record.index_alone import IndexAlone
from rli.index.record.stored_index import StoredIndex
from rli.model import FileGroupId
from rli.storage import Storage
from tests.support.faults import PointedStore
from tests.support.locations import commit_places, places_of
from tests.support.stored_indexes import create_index, open_index

A = FileGroupId("p", "a")
B = FileGroupId("p", "b")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "index"


@pytest.fixture
def index(folder: Path) -> StoredIndex:
    index = create_index(f"lmdb://{folder}")
    commit_places(index, {"k1": A})
    return index


def as_on_a_server(index: StoredIndex) -> StoredIndex:
    """The same index, in a store that does not say where its data lie: any host may reach it."""
    return IndexAlone(PointedStore(index.store, _pass_over), index.settings)


def _pass_over(_point: str) -> None: ...


def swap(one: Path, other: Path) -> None:
    """Put another folder under the name of one, as a host has it that has its own disk."""
    one.rename(one.with_name("elsewhere"))
    other.rename(one)


def opened_elsewhere(sent: bytes) -> StoredIndex:
    index: StoredIndex = pickle.loads(sent)  # noqa: S301  (made here)
    return index


def test_copy_on_other_disk_is_refused(index: StoredIndex, folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "copy")
    commit_places(index, {"k2": B})
    sent = pickle.dumps(index)
    index.close()
    swap(folder, tmp_path / "copy")
    with pytest.raises(IndexNotReadyError, match=f"another index .*{folder}.*a store that all hosts reach"):
        opened_elsewhere(sent)


@pytest.mark.invariant("P20")
def test_up_to_date_copy_is_refused(index: StoredIndex, folder: Path, tmp_path: Path) -> None:
    sent = pickle.dumps(index)
    shutil.copytree(folder, tmp_path / "copy")
    index.close()
    swap(folder, tmp_path / "copy")
    with pytest.raises(IndexNotReadyError, match="another index"):
        opened_elsewhere(sent)


@pytest.mark.invariant("P20")
def test_lagging_server_answers_no_lookup(index: StoredIndex, folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "replica")
    commit_places(index, {"k2": B})
    sent = pickle.dumps(as_on_a_server(index))
    index.close()
    swap(folder, tmp_path / "replica")
    with pytest.raises(IndexNotReadyError, match=r"behind the snapshot .*host=.* applied sequence=1 expected=2"):
        opened_elsewhere(sent)


def test_an_index_that_is_ahead_answers(index: StoredIndex) -> None:
    sent = pickle.dumps(index)
    commit_places(index, {"k2": B})
    with opened_elsewhere(sent) as copy:
        assert places_of(copy, ["k1", "k2"]) == {"k1": A, "k2": B}


@pytest.mark.parametrize("identities", ["given", "of an old version"])
def test_replaced_server_answers_no_lookup(index: StoredIndex, folder: Path, tmp_path: Path, identities: str) -> None:
    with create_index(f"lmdb://{tmp_path / 'other'}") as other:
        commit_places(other, {"k1": B})
        if identities != "given":
            forget_identity(other)
    if identities != "given":
        forget_identity(index)
    sent = pickle.dumps(as_on_a_server(index))
    index.close()
    swap(folder, tmp_path / "other")
    with pytest.raises(IndexNotReadyError, match="another index"):
        opened_elsewhere(sent)


def test_old_index_works_without_identity(index: StoredIndex) -> None:
    forget_identity(index)
    sent = pickle.dumps(index)
    for _ in range(2):
        with opened_elsewhere(sent) as copy:
            assert places_of(copy, ["k1"]) == {"k1": A}
        give_identity(index.store)


def test_replaced_index_is_another_index(index: StoredIndex, folder: Path) -> None:
    sent = pickle.dumps(index)
    index.drop()
    with create_index(f"lmdb://{folder}") as again:
        commit_places(again, {"k1": A})
    with pytest.raises(IndexNotReadyError, match="begin again"):
        opened_elsewhere(sent)


def test_lookups_of_write_need_its_snapshot(index: StoredIndex) -> None:
    keys, anywhere = pa.array(["k1", "k2"]), pa.array(["p", "p"])
    with open_index(index.store.url) as reader:
        assert RecordLocator(reader, 1).locate(keys, anywhere).column("file_id").to_pylist() == ["a", None]
        for look in (RecordLocator(reader, 2).locate_all, RecordChanges(reader, 2, Storage("."), ()).among):
            with pytest.raises(IndexNotReadyError, match="behind"):
                look(keys)


def forget_identity(index: StoredIndex) -> None:
    """Make it an index of a version that gave none."""
    identity = index.store.read_control("identity")
    assert index.store.compare_and_set("identity", identity, None)
