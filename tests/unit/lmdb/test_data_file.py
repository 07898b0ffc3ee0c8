"""Look-ups that read the pages of LMDB's file find what seeks find."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from rli.codec.encoded_keys import EncodedKeys
from rli.codec.entries import pack
from rli.store import ABSENT, TOMBSTONE, Entries, Store
from rli.testing.processes import run_in_process
from rli_lmdb import LmdbStore, data_file, fixed_table, open_lmdb_store
from rli_lmdb.access import DATA_FILE
from rli_lmdb.entries import Transaction
from rli_lmdb.environment import Environment

_WIDTHS = (8, 16, 24)
_COUNT = 40_000

_AT_ONCE = 700
"""Keys of a shard that are looked up together: pages are read for 512 or more of them, and for one of six entries at most."""

_SOUGHT = 60
"""Keys that are looked up together, so few that LMDB seeks them."""


def made(rng: np.random.Generator, count: int, width: int, shards: int) -> EncodedKeys:
    """Random keys, distinct; one in fifty shares its first word with the next one."""
    matrix = rng.integers(0, 256, (count, width), dtype=np.uint8)
    if width > data_file.WORD:
        alike = np.arange(0, count - 1, 50)
        matrix[alike + 1, : data_file.WORD] = matrix[alike, : data_file.WORD]
    keys = np.unique(matrix, axis=0).view(f"V{width}").reshape(-1)
    # The shard is a function of the key, as in an index.
    return EncodedKeys(keys, keys.view(np.uint8).reshape(len(keys), width)[:, -1].astype(np.uint16) % shards)


def sought(stored: EncodedKeys, absent: EncodedKeys, rng: np.random.Generator, count: int) -> EncodedKeys:
    """Keys of which half are there, in random order, some twice."""
    both = EncodedKeys(np.concatenate([stored.keys, absent.keys]), np.concatenate([stored.shards, absent.shards]))
    return both.take(rng.integers(0, len(both), count))


def by_seeking(store: LmdbStore, keys: EncodedKeys) -> NDArray[np.uint64]:
    return in_parts(store, keys, _SOUGHT)


def in_parts(store: LmdbStore, keys: EncodedKeys, size: int) -> NDArray[np.uint64]:
    parts = np.array_split(np.arange(len(keys)), -(-len(keys) // size))
    return np.concatenate([store.get(keys.take(part)) for part in parts])


def put_all(keys: EncodedKeys, store: Store) -> None:
    store.put(keys, pack(9, np.arange(len(keys))))


@pytest.mark.parametrize("width", _WIDTHS)
@pytest.mark.parametrize(("shards", "count"), [(1, 5_000), (1, _COUNT), (7, _COUNT)])
def test_pages_have_what_seeks_find(tmp_path: Path, width: int, shards: int, count: int) -> None:
    rng = np.random.default_rng(count + width + shards)
    stored, absent = made(rng, count, width, shards), made(rng, count, width, shards)
    with open_lmdb_store(f"lmdb://{tmp_path}", create=True) as store:
        # In parts, so that pages split; some are written again, and some die.
        for part in np.array_split(rng.permutation(len(stored)), 5):
            store.put(stored.take(part), pack(1, part))
        again = rng.permutation(len(stored))[: count // 3]
        store.put(stored.take(again), pack(2, again))
        dead = again[::3]
        store.put(stored.take(dead), pack(3, np.full(len(dead), TOMBSTONE)))
        keys = sought(stored, absent, rng, count)
        found = in_parts(store, keys, _AT_ONCE * shards)
        assert np.array_equal(found, by_seeking(store, keys))
        assert 0 < np.count_nonzero(found != ABSENT) < len(keys)
        store.raise_floor(4)
        assert store.remove_tombstones(stored.take(dead)) == len(dead)
        assert np.array_equal(in_parts(store, keys, _AT_ONCE * shards), by_seeking(store, keys))
        assert np.array_equal(
            in_parts(store, stored, _AT_ONCE * shards) != ABSENT, ~np.isin(np.arange(len(stored)), dead)
        )


def test_pages_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = made(np.random.default_rng(1), 10_000, 16, 2)
    with open_lmdb_store(f"lmdb://{tmp_path}", create=True) as store:
        store.put(keys, pack(1, np.arange(len(keys))))
        left: list[int] = []
        seek = fixed_table.FixedTable.get

        def counted(table: fixed_table.FixedTable, transaction: Transaction, some: EncodedKeys) -> Entries:
            left.append(len(some))
            return seek(table, transaction, some)

        monkeypatch.setattr(fixed_table.FixedTable, "get", counted)
        assert np.array_equal(in_parts(store, keys, 2 * _AT_ONCE), pack(1, np.arange(len(keys))))
    assert sum(left) < len(keys) // 10


def test_keys_that_begin_alike_are_sought(tmp_path: Path) -> None:
    numbers = np.arange(20_000, dtype=">u8")
    matrix = np.concatenate([np.full((len(numbers), 8), 7, np.uint8), numbers.view(np.uint8).reshape(-1, 8)], axis=1)
    keys = EncodedKeys(matrix.view("V16").reshape(-1), np.zeros(len(numbers), np.uint16))
    with open_lmdb_store(f"lmdb://{tmp_path}", create=True) as store:
        store.put(keys.take(numbers % 2 == 0), pack(1, np.arange(10_000)))
        assert np.array_equal(in_parts(store, keys, _AT_ONCE) != ABSENT, numbers % 2 == 0)


def test_index_enlarged_by_other_process(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    with open_lmdb_store(f"lmdb://{tmp_path}", create=True) as store:
        for _ in range(3):
            keys = made(rng, 20_000, 16, 4)
            assert not in_parts(store, keys, 4 * _AT_ONCE).any()
            run_in_process(partial(put_all, keys), store)
            assert np.array_equal(in_parts(store, keys, 4 * _AT_ONCE), pack(9, np.arange(len(keys))))


def test_another_layout_is_sought(tmp_path: Path) -> None:
    keys = made(np.random.default_rng(3), 10_000, 16, 2)
    with open_lmdb_store(f"lmdb://{tmp_path}", create=True) as store:
        store.put(keys, pack(1, np.arange(len(keys))))
        with (tmp_path / DATA_FILE).open("r+b") as file:
            # The version of the layout, behind the page's header and the magic number. LMDB has read it before.
            file.seek(20)
            file.write((2).to_bytes(4, sys.byteorder))
        status = (tmp_path / DATA_FILE).stat()
        assert data_file.DataFile.open(str(tmp_path / DATA_FILE), (status.st_dev, status.st_ino), 4096) is None
        assert np.array_equal(in_parts(store, keys, 2 * _AT_ONCE), pack(1, np.arange(len(keys))))


def test_another_file_is_not_mapped(tmp_path: Path) -> None:
    with open_lmdb_store(f"lmdb://{tmp_path}", create=True) as store:
        store.put(made(np.random.default_rng(4), 10, 16, 1), pack(1, np.arange(10)))
        opened = partial(data_file.DataFile.open, str(tmp_path / DATA_FILE), page_size=4096)
        status = (tmp_path / DATA_FILE).stat()
        assert opened(identity=(status.st_dev, status.st_ino)) is not None
        assert opened(identity=(status.st_dev, status.st_ino + 1)) is None
        assert data_file.DataFile.open(str(tmp_path / "none"), None, 4096) is None


@pytest.mark.parametrize(
    ("offset", "content"),
    [(10, b"\0\0"), (12, b"\0\0"), (12, b"\xff\xff"), (16, b"\xff" * 4080)],
    ids=["no flags", "pointers end before they begin", "pointers without end", "all of the content"],
)
def test_damaged_pages_are_left_to_lmdb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, offset: int, content: bytes
) -> None:
    keys = made(np.random.default_rng(5), 20_000, 16, 2)
    with open_lmdb_store(f"lmdb://{tmp_path}", create=True) as store:
        store.put(keys, pack(1, np.arange(len(keys))))
        pages = bytearray((tmp_path / DATA_FILE).read_bytes())
        # The first two pages name the layout.
        for page in range(2 * 4096, len(pages), 4096):
            pages[page + offset : page + offset + len(content)] = content
        damaged = tmp_path / "damaged"
        damaged.write_bytes(pages)
        status = damaged.stat()
        mapped = data_file.DataFile.open(str(damaged), (status.st_dev, status.st_ino), 4096)
        assert mapped is not None
        monkeypatch.setattr(Environment, "data_file", lambda _: mapped)
        assert np.array_equal(store.get(keys), pack(1, np.arange(len(keys))))
