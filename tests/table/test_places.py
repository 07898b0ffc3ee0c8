"""Tables that are copied, moved, or reached by several paths: an index serves one place (docs/protocol.md, P27)."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from rli import IndexMismatchError, Table, create_table, open_table
from rli.view import paths
from tests.support.indexes import record_index
from tests.support.tables import check_stored, records, rows_of


def new_table(path: Path, **values: Any) -> Table:
    """A table of two commits."""
    table = create_table(path, record_key="id", partition_by="city", ordering="ts", **values)
    table.upsert(records(("a", "x", 1, 1.0), ("b", "x", 1, 1.0)))
    table.upsert(records(("c", "y", 1, 1.0)))
    return table


def add(table: Table, key: str) -> None:
    assert table.upsert(records((key, "x", 1, 1.0))).inserted == 1
    check_stored(table)


def keys_of(table: Table) -> list[str]:
    return sorted(row["id"] for row in rows_of(table))


def test_copy_has_its_own_index(tmp_path: Path) -> None:
    new_table(tmp_path / "a").close()
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    for key in ("d", "e"):
        for name in ("b", "a"):
            with open_table(tmp_path / name) as table:
                add(table, f"{key}{name}")
    assert keys_of(open_table(tmp_path / "a")) == ["a", "b", "c", "da", "ea"]
    assert keys_of(open_table(tmp_path / "b")) == ["a", "b", "c", "db", "eb"]


def test_moved_table_continues(tmp_path: Path) -> None:
    new_table(tmp_path / "a").close()
    (tmp_path / "a").rename(tmp_path / "b")
    with open_table(tmp_path / "b") as table:
        add(table, "d")
    assert not (tmp_path / "a").exists()
    new_table(tmp_path / "a").close()
    with open_table(tmp_path / "b") as table:
        add(table, "e")


def test_old_version_table_may_be_moved(tmp_path: Path) -> None:
    new_table(tmp_path / "a").close()
    settings = tmp_path / "a" / paths.SETTINGS
    stored = json.loads(settings.read_text())
    assert stored["index_url"] == "lmdb:.hoodie/.rli/index"
    stored["index_url"] = f"lmdb://{tmp_path}/a/.hoodie/.rli/index"
    settings.write_text(json.dumps(stored))
    with open_table(tmp_path / "a") as table:
        add(table, "d")
    shutil.copytree(tmp_path / "a", tmp_path / "c")
    (tmp_path / "a").rename(tmp_path / "b")
    for name in ("b", "c"):
        with open_table(tmp_path / name) as table:
            add(table, "e")


@pytest.mark.invariant("P27")
def test_copy_cannot_use_renamed_index(tmp_path: Path) -> None:
    new_table(tmp_path / "a", index=f"lmdb://{tmp_path}/index").close()
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    (tmp_path / "index").rename(tmp_path / "renamed")
    with (
        open_table(tmp_path / "b", index=f"lmdb://{tmp_path}/renamed") as copy,
        pytest.raises(IndexMismatchError, match="another copy of this table"),
    ):
        copy.upsert(records(("d", "x", 1, 1.0)))
    with open_table(tmp_path / "a", index=f"lmdb://{tmp_path}/renamed") as original:
        add(original, "d")


def test_table_moved_with_index_continues(tmp_path: Path) -> None:
    new_table(tmp_path / "here" / "t", index=f"lmdb://{tmp_path}/here/index").close()
    shutil.copytree(tmp_path / "here", tmp_path / "copied")
    (tmp_path / "here").rename(tmp_path / "moved")
    for folder in ("moved", "copied"):
        with open_table(tmp_path / folder / "t", index=f"lmdb://{tmp_path}/{folder}/index") as table:
            add(table, "d")


@pytest.mark.invariant("P27")
@pytest.mark.parametrize("kind", ["lmdb", "memory"])
def test_index_of_original_refuses_copy(tmp_path: Path, memory_url: str, kind: str) -> None:
    original = new_table(tmp_path / "a", index=f"lmdb://{tmp_path}/index" if kind == "lmdb" else memory_url)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    copy = open_table(tmp_path / "b")
    for use in (
        lambda: copy.upsert(records(("d", "x", 1, 1.0))),
        lambda: copy.lookup(["a"]),
        copy.bootstrap_index,
        copy.relocate,
        copy.drop_index,
    ):
        with pytest.raises(IndexMismatchError, match=rf"rli index bootstrap {tmp_path}/b --index URL"):
            use()
    add(original, "d")
    assert copy.bootstrap_index(f"lmdb://{tmp_path}/other") == 3
    add(copy, "e")
    add(original, "e")
    assert keys_of(open_table(tmp_path / "b")) == ["a", "b", "c", "e"]


def test_table_moved_without_index_is_relocated(tmp_path: Path) -> None:
    new_table(tmp_path / "a", index=f"lmdb://{tmp_path}/index").close()
    (tmp_path / "a").rename(tmp_path / "b")
    moved = open_table(tmp_path / "b")
    with pytest.raises(IndexMismatchError, match=rf"if the table was moved: rli relocate {tmp_path}/b"):
        moved.upsert(records(("d", "x", 1, 1.0)))
    with pytest.raises(IndexMismatchError, match="rli relocate"):
        moved.bootstrap_index()
    assert moved.relocate() == (f"{tmp_path}/b",)
    add(moved, "d")
    shutil.copytree(tmp_path / "b", tmp_path / "a")
    with pytest.raises(IndexMismatchError, match="another copy"):
        open_table(tmp_path / "a").lookup(["a"])


def test_hosts_may_use_different_paths(tmp_path: Path, memory_url: str) -> None:
    """The other path is not reachable where the table is opened, as if another host had mounted it."""
    new_table(tmp_path / "a", index=memory_url)
    (tmp_path / "a").rename(tmp_path / "b")
    assert open_table(tmp_path / "b").relocate(also=True) == (f"{tmp_path}/a", f"{tmp_path}/b")
    for name, other in (("b", "a"), ("a", "b")):
        if (tmp_path / other).exists():
            (tmp_path / other).rename(tmp_path / name)
        add(open_table(tmp_path / name), f"new {name}")


def test_links_and_relative_paths_are_equivalent(
    tmp_path: Path, memory_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    new_table(tmp_path / "a", index=memory_url)
    os.symlink(tmp_path / "a", tmp_path / "link")
    monkeypatch.chdir(tmp_path)
    for number, path in enumerate(("link", "a/../a/", f"file://{tmp_path}/a", "./link/")):
        assert open_table(path).upsert(records((f"new {number}", "x", 1, 1.0))).inserted == 1
    check_stored(open_table(tmp_path / "a"))


@pytest.mark.parametrize("name", ["a#b", "a?b", "x%41", "ein haus", "ü", "[x]{1}*", "a&b=c;d"])
def test_paths_with_special_characters(tmp_path: Path, name: str) -> None:
    with new_table(tmp_path / name) as table:
        add(table, "d")
    assert os.listdir(tmp_path) == [name]
    (tmp_path / name).rename(tmp_path / f"{name} moved")
    with open_table(tmp_path / f"{name} moved") as table:
        add(table, "e")


def test_relative_path_is_resolved_on_opening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    table = new_table(Path("table"))
    monkeypatch.chdir(tmp_path / "other")
    add(table, "d")
    add(pickle.loads(pickle.dumps(table)), "e")  # noqa: S301  (its own)
    assert os.listdir(tmp_path / "other") == []


def test_first_place_is_claimed_once(tmp_path: Path, memory_url: str) -> None:
    """An index of an older version knows no place. Of an original and its copy that begin at once, one is refused."""
    table = new_table(tmp_path / "a", index=memory_url)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    record_index(table).store.compare_and_set("place", record_index(table).store.read_control("place"), None)
    start, outcomes = threading.Barrier(2), []

    def look(name: str) -> None:
        start.wait()
        try:
            outcomes.append(open_table(tmp_path / name).lookup(["a"]).num_rows)
        except IndexMismatchError:
            outcomes.append(0)

    threads = [threading.Thread(target=look, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == [0, 1]
