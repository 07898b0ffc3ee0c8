"""A build of a partition of the metadata table that did not end goes on: files that it has read are not read again."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from rli import ColumnIndexState, Table, create_table, open_table
from rli.metadata_table.base_file_records import base_file_records
from rli.table.table import opened_table
from rli.view.file_slices import FileSlice
from rli.view.slice_readers import SliceReaders
from tests.support.tables import records, turn_into_version_9

pytestmark = pytest.mark.invariant("P53")

FILES: Final = 6
"""Base files of the table, each in a partition of its own."""

WEEK: Final = 7 * 24 * 3600

OnProgress = Callable[[int, int], None]
Build = Callable[[Table, OnProgress], object]

BUILDS: Final[dict[str, Build]] = {
    "secondary": lambda table, told: table.create_index("by_v", on="id", on_progress=told),
    "expression": lambda table, told: table.create_index("by_v", on="v", expression="v * 2", on_progress=told),
    "column_stats": lambda table, told: table.create_index("by_v", on="v", using="column_stats", on_progress=told),
    "bloom_filters": lambda table, told: table.create_index("by_v", on="id", using="bloom_filters", on_progress=told),
    "record_index": lambda table, told: table.metadata.enable(["record_index"], on_progress=told),
}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = create_table(tmp_path / "t", record_key="id", partition_by="city", ordering="ts", maintenance=False)
    turn_into_version_9(made)
    made.upsert(_records(*range(FILES)))
    return made


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The base files that builds read, a shard for each."""
    found: list[str] = []

    def noting(path_of: Callable[..., str], read_file: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*given: Any) -> Any:
            found.append(path_of(*given))
            return read_file(*given)

        return noted

    def alone(slices: Iterable[FileSlice], _: object) -> Iterator[list[FileSlice]]:
        return ([one] for one in slices)

    monkeypatch.setattr("rli.metadata_table.kept_shards.shards", alone)
    footers = noting(lambda _, path, __: path, base_file_records)
    monkeypatch.setattr("rli.metadata_table.cell_sources.base_file_records", footers)
    monkeypatch.setattr(SliceReaders, "open", noting(lambda _, one: one.base.path, SliceReaders.open))
    return found


@pytest.mark.parametrize("kind", BUILDS)
@pytest.mark.parametrize("beside", [False, True])
def test_builds_go_on_where_they_stopped(table: Table, read: list[str], kind: str, *, beside: bool) -> None:
    if kind == "secondary":
        table.metadata.enable(["record_index"])
    before = _base_files(table)
    with pytest.raises(KeyboardInterrupt):
        _build(table, kind, read, stop_at=4)
    first = {*read}
    assert len(read) == len(first) >= 4
    _require_ignored(table)
    if beside:
        other = open_table(table.location)
        other.upsert(_records(0, FILES))
        other.clean(keep_commits=1)
        other.metadata.compact()
    changed = _base_files(table) - before
    _build(table, kind, read)
    assert {*read} == (before - first) | changed
    assert len(read) == len({*read}) < FILES
    _require_built(table, kind)


@pytest.mark.parametrize("kind", BUILDS)
def test_commits_beside_builds_are_read_alone(table: Table, read: list[str], kind: str) -> None:
    if kind == "secondary":
        table.metadata.enable(["record_index"])
    before, other = _base_files(table), open_table(table.location)
    _build(table, kind, read, at_end=lambda: other.upsert(_records(0)))
    # A write reads what it changes, too.
    read_by_build = [path for path in read if path in before]
    assert len(read_by_build) <= FILES + 1
    _require_built(table, kind)


def _lose(cells: Path) -> None:
    cells.unlink()


def _flip_a_bit(cells: Path) -> None:
    content = bytearray(cells.read_bytes())
    content[len(content) // 2] ^= 1
    cells.write_bytes(content)


@pytest.mark.parametrize("damage", [_lose, _flip_a_bit])
def test_damaged_cells_are_read_again(table: Table, read: list[str], damage: Callable[[Path], None]) -> None:
    with pytest.raises(KeyboardInterrupt):
        _build(table, "record_index", read, stop_at=4)
    first, cells = {*read}, [path for path in _kept(table) if path.suffix == ".arrow"]
    assert len(cells) == len(first)
    damage(cells[0])
    _build(table, "record_index", read)
    assert len(first & {*read}) == 1
    _require_built(table, "record_index")


def test_removed_shards_are_read_again(table: Table, read: list[str]) -> None:
    _build(table, "record_index", read, at_end=lambda: shutil.rmtree(Path(table.location, ".hoodie", ".rli", "builds")))
    assert len(read) == 2 * len({*read})
    _require_built(table, "record_index")


def test_dropped_builds_leave_nothing(table: Table, read: list[str]) -> None:
    for kind in ("expression", "column_stats"):
        with pytest.raises(KeyboardInterrupt):
            _build(table, kind, read, stop_at=2)
        assert _kept(table)
        assert table.drop_index("by_v")
        assert not _kept(table)


def test_cleans_remove_abandoned_builds(table: Table, read: list[str]) -> None:
    with pytest.raises(KeyboardInterrupt):
        _build(table, "record_index", read, stop_at=2)
    table.clean()
    kept = _kept(table)
    assert kept
    for path in kept:
        os.utime(path, (path.stat().st_atime, path.stat().st_mtime - 2 * WEEK))
    table.clean()
    assert not _kept(table)


def _build(
    table: Table,
    kind: str,
    read: list[str],
    *,
    stop_at: int | None = None,
    at_end: Callable[[], object] | None = None,
) -> None:
    """Build, and note what was read from here on; stop it, or do something once all is read."""
    left = [at_end]

    def told(done: int, total: int) -> None:
        if stop_at is not None and done >= stop_at:
            raise KeyboardInterrupt
        if done == total and (last := left.pop() if left else None) is not None:
            last()

    read.clear()
    BUILDS[kind](table, told)


def _require_ignored(table: Table) -> None:
    """No reader uses an index that is not built, and all find what is there."""
    assert [index.state for index in table.indexes() if index.name == "by_v"] in ([], [ColumnIndexState.BUILDING])
    assert table.read(filters="v = 3.0")["id"].to_pylist() == ["k3"]


def _require_built(table: Table, kind: str) -> None:
    states = [index.state for index in table.indexes() if index.name == "by_v"]
    assert states == ([] if kind == "record_index" else [ColumnIndexState.VALID])
    everything = table.read()
    for number in range(FILES + 1):
        expected = everything.filter(pc.equal(everything["v"], float(number)))["id"].to_pylist()
        assert table.read(filters=f"v = {number}.0")["id"].to_pylist() == expected
        assert table.read(filters=f"id = 'k{number}'")["id"].to_pylist() == expected
    assert table.metadata.verify() == ()
    assert not _kept(table)


def _records(*numbers: int) -> pa.Table:
    return records(*((f"k{number}", f"p{number}", 1, float(number)) for number in numbers))


def _base_files(table: Table) -> set[str]:
    """The live ones."""
    return {one.base.path for one in opened_table(table).snapshot().slices.values() if one.base is not None}


def _kept(table: Table) -> list[Path]:
    return [path for path in Path(table.location, ".hoodie", ".rli", "builds").rglob("*") if path.is_file()]
