"""Dropping a table: all of it goes, nothing else does, and a kill at any step leaves what the same call finishes."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import rli
from rli import ConflictError, LeaseBusyError, LeasePlace, Table
from rli.coordination.lease import TableLease
from rli.errors import (
    IndexNotFoundError,
    StoreUnavailableError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedTableError,
)
from rli.storage import Storage
from rli.storage.local import LocalChanges
from tests.support.indexes import record_index
from tests.support.stored_indexes import open_index
from tests.support.tables import records


class Killed(BaseException):
    """The process dies here."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "t"


@pytest.fixture
def index_url(tmp_path: Path) -> str:
    return f"lmdb://{tmp_path}/index"


@pytest.fixture
def table(folder: Path, index_url: str) -> Table:
    made = rli.create_table(folder, record_key="id", partition_by="city", ordering="ts", index=index_url)
    made.upsert(records(("a", "x", 1, 1.0), ("b", "y", 1, 1.0)))
    made.upsert(records(("a", "y", 2, 1.0)))
    made.close()
    return made


@pytest.mark.usefixtures("table")
def test_table_and_index_are_gone(folder: Path, index_url: str) -> None:
    dropped = rli.drop_table(folder)
    assert (dropped.location, dropped.index, dropped.left) == (str(folder), index_url, ())
    assert not folder.exists()
    with pytest.raises(IndexNotFoundError):
        open_index(index_url)
    with pytest.raises(TableNotFoundError):
        rli.drop_table(folder)
    rli.create_table(folder, record_key="id", index=index_url)


@pytest.mark.usefixtures("table")
def test_files_of_others_stay(folder: Path) -> None:
    (folder / "x" / "notes.txt").write_text("mine")
    (folder / "day.parquet").write_text("mine")
    (folder / "other" / "empty").mkdir(parents=True)
    dropped = rli.drop_table(folder)
    assert sorted(dropped.left) == ["day.parquet", "x/notes.txt"]
    assert sorted(os.listdir(folder)) == ["day.parquet", "other", "x"]
    assert os.listdir(folder / "x") == ["notes.txt"]


@pytest.mark.usefixtures("table")
def test_foreign_table_is_not_dropped(folder: Path) -> None:
    shutil.rmtree(folder / ".hoodie" / ".rli")
    before = sorted(folder.rglob("*"))
    with pytest.raises(UnsupportedTableError, match="another engine's"):
        rli.drop_table(folder, force=True)
    assert sorted(folder.rglob("*")) == before
    with pytest.raises(TableNotFoundError):
        rli.drop_table(folder.parent)


def test_table_in_use_needs_forced_drop(table: Table, folder: Path, index_url: str) -> None:
    def drop_at_once(step: Any) -> None:
        if step == rli.Step.TAGGED:
            with pytest.raises(ConflictError, match="writers are at work"):
                rli.drop_table(folder)

    table.upsert(records(("c", "x", 1, 1.0)), on_step=drop_at_once)
    with (
        TableLease(record_index(table).store).hold("a service"),
        pytest.raises(LeaseBusyError, match="writer='a service'"),
    ):
        rli.drop_table(folder)
    assert table.read().num_rows == 3
    with TableLease(open_index(index_url).store).hold("a service"):
        rli.drop_table(folder, force=True)
    assert not folder.exists()


@pytest.mark.parametrize("lease", LeasePlace)
@pytest.mark.parametrize("step", rli.Step)
def test_writer_of_dropped_table_leaves_nothing(
    folder: Path, index_url: str, step: rli.Step, lease: LeasePlace
) -> None:
    def make() -> Table:
        return rli.create_table(
            folder, record_key="id", partition_by="city", ordering="ts", index=index_url, lease=lease
        )

    def drop_once(reached: rli.Step) -> None:
        if reached is step and (folder / ".hoodie/hoodie.properties").exists():
            rli.drop_table(folder, force=True)

    written = make()
    written.upsert(records(("a", "x", 1, 1.0)))
    with suppress(rli.RliError):
        written.upsert(records(("a", "x", 2, 1.0), ("b", "y", 1, 1.0)), on_step=drop_once)
    # In its folders, one that is about to be made may already have its files.
    assert not [path for path in folder.rglob("*") if path.is_file() and path.stat().st_size]
    with make() as again:
        assert again.upsert(records(("c", "x", 1, 1.0))).inserted == 1
        assert again.read().num_rows == 1


@pytest.mark.usefixtures("table")
def test_unreachable_index_needs_forced_drop(folder: Path) -> None:
    unreachable = "redis://127.0.0.1:1/0?timeout=0.1"
    with pytest.raises(StoreUnavailableError):
        rli.drop_table(folder, index=unreachable)
    assert rli.open_table(folder).read().num_rows == 2
    assert rli.drop_table(folder, index=unreachable, force=True).index is None
    assert not folder.exists()


@pytest.mark.usefixtures("table")
def test_an_index_of_another_table_stays(folder: Path, tmp_path: Path) -> None:
    other = rli.create_table(tmp_path / "other", record_key="id")
    assert rli.drop_table(folder, index=other.settings.index_url).index is None
    assert other.upsert(pa.table({"id": ["a"]})).inserted == 1


@pytest.mark.usefixtures("table")
def test_interrupted_drop_is_finished_by_repeat(
    folder: Path, index_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every change of a file is a step: the call dies before it, and the next one leaves nothing."""
    shutil.copytree(tmp_path, tmp_path.parent / "copy")
    steps = 0
    for attempt in range(200):
        shutil.rmtree(tmp_path)
        shutil.copytree(tmp_path.parent / "copy", tmp_path)
        left = attempt

        def count(change: Any) -> Any:
            def counted(self: LocalChanges, *arguments: Any, **options: Any) -> Any:
                nonlocal left
                if left == 0:
                    raise Killed
                left -= 1
                return change(self, *arguments, **options)

            return counted

        with monkeypatch.context() as patched:
            for name in ("write", "delete_file", "delete_folder", "delete_empty_folder"):
                patched.setattr(LocalChanges, name, count(getattr(LocalChanges, name)))
            try:
                rli.drop_table(folder)
                break
            except Killed:
                steps += 1
        if Storage(str(folder)).exists(".hoodie/hoodie.properties"):
            assert rli.open_table(folder).read().num_rows == 2
        elif Storage(str(folder)).exists(".hoodie/.rli/dropping.json"):
            with pytest.raises(TableExistsError, match="rli drop TABLE"):
                rli.create_table(folder, record_key="id", index=index_url)
        try:
            rli.drop_table(folder)
        except TableNotFoundError:
            assert not [path for path in folder.rglob("*") if path.is_file()]
        rli.create_table(folder, record_key="id", index=index_url).close()
    assert steps > 5
