"""An index that follows another engine's commits too late: the files are gone that tell which keys went."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from rli import IndexNotReadyError, KeyMode, Table, create_table, open_table
from tests.support.tables import check_stored, records, turn_into_foreign_commit

Write = Callable[[Table], list[str | None]]

FIRST: Final = [("a", "x", 1, 1.0), ("b", "x", 1, 1.0), ("c", "y", 1, 1.0)]
KEYS: Final = [*"abcmn"]


@contextmanager
def followed_late(folder: Path, url: str, write: Write, **settings: Any) -> Iterator[Table]:
    """A table that another engine has written, and has cleaned, before its index could follow.

    Args:
        folder: of the table, and of its index.
        url: what follows the folder of the index in its URL.
        write: makes the commits of the other engine; gives their instants.
        settings: of the index.
    """
    index, behind = folder / "index", folder / "behind"
    table = create_table(
        folder / "t", record_key="id", partition_by="city", ordering="ts", index=f"lmdb://{index}{url}"
    )
    table.bootstrap_index(**settings)
    table.upsert(records(*FIRST))
    before = set(table.scan().files())
    table.close()
    shutil.copytree(index, behind)
    with open_table(table.location) as opened:
        for instant in write(opened):
            turn_into_foreign_commit(opened, instant or "")
        live = set(opened.scan().files())
    gone = {str(path) for path in Path(table.location).glob("*/*.parquet")} - live
    assert before & gone
    for file in gone:
        Path(file).unlink()
    shutil.rmtree(index)
    shutil.copytree(behind, index)
    with open_table(table.location) as follower:
        yield follower


def delete(table: Table) -> list[str | None]:
    return [table.delete(["b"]).instant]


def move_and_insert(table: Table) -> list[str | None]:
    return [
        table.upsert(records(("a", "y", 2, 2.0), ("n", "x", 2, 2.0))).instant,
        table.upsert(records(("m", "x", 3, 3.0), ("c", "y", 3, 3.0))).instant,
        table.delete(["m"]).instant,
    ]


def insert_and_delete_before_own(table: Table) -> list[str | None]:
    written = [table.upsert(records(("n", "x", 2, 2.0))).instant, table.delete(["b"]).instant]
    # Commits of rli are followed by their journals, which tell of their own keys alone.
    table.upsert(records(("a", "x", 3, 3.0), ("m", "x", 3, 3.0)))
    table.upsert(records(("m", "y", 4, 4.0)))
    return written


def delete_before_own_clustering(table: Table) -> list[str | None]:
    written = [table.delete(["b"]).instant]
    table.upsert(records(("n", "x", 2, 2.0)))
    table.cluster(smaller_than=1 << 30)
    return written


def replace(table: Table) -> list[str | None]:
    return [table.overwrite_partitions(records(("n", "x", 2, 2.0))).instant]


WRITES: Final = [delete, move_and_insert, insert_and_delete_before_own, delete_before_own_clustering, replace]


@pytest.mark.invariant("P62")
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize(("url", "shards"), [("", 1), ("", 5), ("?scope=partition", 2)])
def test_entries_stand_in_for_files(tmp_path: Path, url: str, shards: int, write: Write) -> None:
    with followed_late(tmp_path, url, write, shards=shards) as table:
        table.sync_index()
        check_stored(table)
        held = {row["id"]: row["city"] for row in table.read().to_pylist()}
        found = table.lookup(KEYS).to_pylist()
        assert {row["record_key"]: row["partition_path"] for row in found if row["file_id"]} == held
        assert table.upsert(records(("b", "x", 9, 9.0), ("c", "y", 9, 9.0))).inserted == len({"b", "c"} - held.keys())
        check_stored(table)


def test_older_versions_stand_in_for_none(tmp_path: Path) -> None:
    """A savepoint of another engine has kept a version before those that its clean has removed."""
    kept: list[Path] = []

    def update_and_delete(table: Table) -> list[str | None]:
        [path] = Path(table.location, "x").glob("*.parquet")
        kept.append(Path(shutil.copy(path, tmp_path)).rename(tmp_path / path.name))
        return move_and_insert(table)

    with followed_late(tmp_path, "", update_and_delete) as table:
        shutil.copy(kept[0], Path(table.location, "x"))
        table.sync_index()
        check_stored(table)
        assert table.lookup(["m", "n"])["file_id"].null_count == 1


def test_lost_files_are_told(tmp_path: Path) -> None:
    with followed_late(tmp_path, "", delete) as table:
        [live] = Path(table.location, "x").glob("*.parquet")
        live.unlink()
        with pytest.raises(IndexNotReadyError, match=r"removed before the index could follow.*bootstrap"):
            table.sync_index()


@pytest.mark.parametrize("write", [delete, insert_and_delete_before_own])
@pytest.mark.parametrize(("url", "key_mode"), [("", KeyMode.DIGEST), ("?ttl=1d", KeyMode.EXACT)])
def test_keys_that_entries_cannot_tell(tmp_path: Path, url: str, key_mode: KeyMode, write: Write) -> None:
    with (
        followed_late(tmp_path, url, write, key_mode=key_mode) as table,
        pytest.raises(IndexNotReadyError, match=r"removed before the index could follow.*bootstrap"),
    ):
        table.upsert(records(("c", "x", 1, 1.0)))
