"""A build puts the entries of its shards into the store: as they come, or together in the store's order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from rli import SettingsError
from rli.codec.encoded_keys import EncodedKeys
from rli.codec.entries import Entries
from rli.index.record.entries.builds import BuildNotes
from rli.index.record.entries.shard_puts import ShardPuts
from rli.index.record.entries.stored_entries import StoredEntries
from rli.model import FileGroupId
from rli.settings import IndexSettings
from rli.store.contract import Store
from rli.store.registry import open_store
from rli.testing.batches import entries_of, key_batch, random_keys, scanned
from rli.view.file_slices import DataFile, FileSlice
from rli_lmdb.store import LmdbStore

STORE_SHARDS: Final = 64
SHARDS: Final = 5


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(f"lmdb://{tmp_path}/i", create=True) as store:
        yield store


def index_of(store: Store) -> StoredEntries:
    return StoredEntries(store, IndexSettings(shard_count=STORE_SHARDS, table_id="t"))


def shard_of(number: int) -> list[FileSlice]:
    return [FileSlice(FileGroupId("p", f"f{number}"), "001", DataFile(f"p/f{number}", 1))]


def batches_of(number: int) -> list[tuple[EncodedKeys, Entries]]:
    """Keys of two widths; those of every second shard are those of the first one, too."""
    keys = (random_keys(200, width, seed=width + number % 2 * number) for width in (8, 20))
    return [(key_batch(some, [key[0] % 3 for key in some]), entries_of(number + 1, range(200))) for some in keys]


@pytest.mark.parametrize("build_batch", [0, 1, 700, 1 << 25])
def test_all_shards_reach_the_store(store: Store, monkeypatch: pytest.MonkeyPatch, build_batch: int) -> None:
    monkeypatch.setattr(LmdbStore, "build_batch", build_batch)
    expected: dict[tuple[int, bytes], int] = {}
    with ShardPuts(index_of(store)) as puts:
        for number in range(SHARDS):
            batches = batches_of(number)
            puts.add(shard_of(number), number, batches)
            for keys, entries in batches:
                expected |= zip(zip(keys.shards.tolist(), keys.to_bytes(), strict=True), entries.tolist(), strict=True)
        puts.finish()
    assert scanned(store, range(STORE_SHARDS)) == expected
    assert [BuildNotes(store).rows_of(shard_of(number)) for number in range(SHARDS)] == [*range(SHARDS)]


@pytest.mark.parametrize("build_batch", [0, 1 << 25])
def test_repeated_keys_get_the_greatest_entry(store: Store, monkeypatch: pytest.MonkeyPatch, build_batch: int) -> None:
    monkeypatch.setattr(LmdbStore, "build_batch", build_batch)
    keys = key_batch([b"b", b"a", b"b", b"a", b"c"])
    with ShardPuts(index_of(store)) as puts:
        puts.add(shard_of(0), 5, [(keys, entries_of(3, [1, 9, 7, 2, 4]))])
        puts.finish()
    assert store.get(key_batch([b"a", b"b", b"c"])).tolist() == entries_of(3, [9, 7, 4]).tolist()


def test_unfinished_shards_are_not_noted(store: Store) -> None:
    with ShardPuts(index_of(store)) as puts:
        puts.add(shard_of(0), 400, batches_of(0))
    assert BuildNotes(store).rows_of(shard_of(0)) is None


def test_missing_temporary_folders_are_named(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/nowhere")
    with pytest.raises(SettingsError, match="folder=/nowhere") as told:
        ShardPuts(index_of(store))
    assert "TMPDIR" in str(told.value)
