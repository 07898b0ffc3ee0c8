"""A process dies while it bootstraps the index of a table: the next one goes on behind the last finished shard."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

import pytest

from rli import CorruptTableError, KeyMode, Table, create_table, open_table
from rli.index.record.entries.builds import BuildNotes
from rli.store.registry import open_store
from rli.view.file_slices import FileSlice
from rli_lmdb.store import LmdbStore
from tests.support.children import was_killed
from tests.support.tables import records

pytestmark = [pytest.mark.crash, pytest.mark.invariant("P14")]

_SHARDS = "rli.index.record.sync.bootstrap.shards"


def _each_alone(slices: Sequence[FileSlice]) -> list[list[FileSlice]]:
    return [[one] for one in slices]


def _bootstrap_and_die(folder: Path, count: int, build_batch: int = 1) -> None:
    """The process dies behind the note of a shard, or before the first one."""
    finish, finished = BuildNotes.finish, list[int]()

    def finish_some(notes: BuildNotes, shard: Sequence[FileSlice], rows: int) -> None:
        if len(finished) < count:
            finish(notes, shard, rows)
            finished.append(rows)
        if len(finished) == count:
            os.kill(os.getpid(), signal.SIGKILL)

    with (
        patch(_SHARDS, _each_alone),
        patch.object(BuildNotes, "finish", finish_some),
        patch.object(LmdbStore, "build_batch", build_batch),
    ):
        open_table(folder / "t").bootstrap_index()


@pytest.fixture
def table(tmp_path: Path) -> Table:
    table = create_table(
        tmp_path / "t", record_key="id", partition_by="city", ordering="ts", index=f"lmdb://{tmp_path}/i"
    )
    table.upsert(records(*((f"{city}{number}", city, 1, 1.0) for city in "abcd" for number in range(5))))
    return table


def _garble(table: Table, cities: str) -> dict[Path, bytes]:
    """Make the records of some partitions unreadable."""
    files = {file: file.read_bytes() for city in cities for file in Path(table.location, city).glob("*.parquet")}
    for file, content in files.items():
        file.write_bytes(bytes(len(content)))
    return files


@pytest.mark.parametrize("build_batch", [0, 1])
@pytest.mark.parametrize("finished", [0, 3, 4])
def test_finished_shards_are_read_once(table: Table, finished: int, build_batch: int) -> None:
    assert was_killed(_bootstrap_and_die, Path(table.location).parent, finished, build_batch)
    garbled = _garble(table, "abcd"[:finished])
    with patch(_SHARDS, _each_alone), open_table(table.location) as again:
        assert again.bootstrap_index() == 20
        for file, content in garbled.items():
            file.write_bytes(content)
        assert again.verify_index(deep=True).agrees
        assert again.upsert(records(("a1", "a", 2, 2.0), ("new", "b", 2, 2.0))).updated == 1
        assert again.verify_index(deep=True).agrees


def test_other_options_begin_again(table: Table) -> None:
    assert was_killed(_bootstrap_and_die, Path(table.location).parent, 2)
    with open_table(table.location) as again:
        assert again.bootstrap_index(key_mode=KeyMode.DIGEST) == 20
        assert again.verify_index(deep=True).agrees


def test_a_damaged_note_begins_again(table: Table) -> None:
    assert was_killed(_bootstrap_and_die, Path(table.location).parent, 2)
    with open_store(f"lmdb://{Path(table.location).parent}/i") as store:
        assert store.compare_and_set("build", store.read_control("build"), b"{damaged")
    with open_table(table.location) as again:
        assert again.bootstrap_index() == 20
        assert again.verify_index(deep=True).agrees


def test_a_cleaned_file_begins_again(table: Table) -> None:
    table.upsert(records(("a0", "a", 2, 2.0)))
    assert was_killed(_bootstrap_and_die, Path(table.location).parent, 4)
    table.close()
    with open_table(table.location) as again:
        # Done by another index, so that the table goes on.
        again.migrate_index("global-simple:")
        again.delete(["b1"])
        again.delete(["b2"])
        again.maintenance.clean(keep_commits=1)
    # The first index is that of an earlier state by now.
    with open_table(table.location) as last:
        assert last.bootstrap_index(f"lmdb://{Path(table.location).parent}/i") == 18
        assert last.verify_index(deep=True).agrees


def test_repeated_keys_in_two_shards(table: Table) -> None:
    (file,) = Path(table.location, "a").glob("*.parquet")
    assert was_killed(_bootstrap_and_die, Path(table.location).parent, 2)
    (other,) = Path(table.location, "d").glob("*.parquet")
    own = other.read_bytes()
    other.write_bytes(file.read_bytes())
    with patch(_SHARDS, _each_alone), open_table(table.location) as again, pytest.raises(CorruptTableError) as told:
        again.bootstrap_index()
    assert "'a0' in a/" in str(told.value)
    other.write_bytes(own)
    with patch(_SHARDS, _each_alone), open_table(table.location) as mended:
        assert mended.bootstrap_index() == 20
        assert mended.verify_index(deep=True).agrees


def test_repeated_keys_in_a_shard(table: Table) -> None:
    (file,) = Path(table.location, "a").glob("*.parquet")
    (other,) = Path(table.location, "d").glob("*.parquet")
    other.write_bytes(file.read_bytes())
    with pytest.raises(CorruptTableError) as told:
        table.bootstrap_index()
    assert "'a0' in a/" in str(told.value)
