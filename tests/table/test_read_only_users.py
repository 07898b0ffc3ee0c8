"""A user who may read the files of a table and its index, but not write them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pytest

from rli import RliError, create_table, open_table
from rli.codec.encoded_keys import EncodedKeys
from rli.testing.batches import entries_of, key_batch, random_keys, scanned
from rli_lmdb import LmdbStore, open_lmdb_store
from tests.support.children import duplex_pipe, start_child
from tests.support.tables import records

_NOBODY = 65534
_SHARDS = range(4)
_KINDS = [None, "lmdb://{}/elsewhere", "global-simple:", "global-bloom:"]


def as_nobody(work: Callable[[str, Connection], object], path: str, line: Connection) -> None:
    """A child's work, done without the rights of the superuser; sends its result, or its error."""
    _load_modules()
    os.setgroups([])
    os.setgid(_NOBODY)
    os.setuid(_NOBODY)
    try:
        line.send(work(path, line))
    except (RliError, OSError) as error:
        line.send(error)


def _load_modules() -> None:
    """Load what is loaded at the first use: the interpreter may be in a folder of the superuser alone."""
    with tempfile.TemporaryDirectory() as folder:
        for number, index in enumerate(_KINDS):
            url = index and index.format(folder)
            path = f"{folder}/{number}"
            with create_table(path, record_key="id", partition_by="city", ordering="ts", index=url) as table:
                upsert(path, None)
                table.lookup(["a"])
                ask_table(path, None)


def ask_table(path: str, line: Connection | None) -> object:
    del line
    with open_table(path) as table:
        return (
            table.lookup(["a", "z"])["partition_path"].to_pylist(),
            [row["ts"] for row in table.get(["b"]).to_pylist()],
            table.verify_index().agrees,
            table.index.stats().entries,
            table.info().problems,
        )


def upsert(path: str, line: Connection | None) -> object:
    del line
    with open_table(path) as table:
        return table.upsert(records(("a", "x", 2, 1.0)))


def scan_all(path: str, line: Connection | None) -> object:
    del line
    with open_lmdb_store(f"lmdb://{path}", create=False) as store:
        return scanned(store, _SHARDS, 7), store.scan_control(""), store.scan_control("c", "c2"), store.stats()


def watch(path: str, line: Connection) -> object:
    """Look the same keys up until told to stop; whether every entry was there, and none went back."""
    keys = watched_keys()
    seen, reads = np.zeros(len(keys), dtype=np.uint64), 0
    with open_lmdb_store(f"lmdb://{path}", create=False) as store:
        assert store.is_read_only
        line.send("reading")
        while not line.poll():
            found = store.get(keys)
            assert (found >= seen).all()
            assert (found > 0).all()
            seen, reads = found, reads + 1
    return reads


def watched_keys() -> EncodedKeys:
    return key_batch(random_keys(300, 16, seed=3), [number % 4 for number in range(300)])


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that everybody may read."""
    if os.geteuid():
        pytest.skip("only root can become another user")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def asked(work: Callable[[str, Connection], object], path: Path) -> object:
    here, there = duplex_pipe()
    child = start_child(as_nobody, work, str(path), there)
    there.close()
    found = here.recv()
    child.join()
    return found


@pytest.mark.parametrize("index", _KINDS)
def test_a_reader_looks_up_and_verifies(shared: Path, index: str | None) -> None:
    url = index and index.format(shared)
    with create_table(shared / "t", record_key="id", partition_by="city", ordering="ts", index=url) as table:
        table.upsert(records(("a", "x", 1, 1.0), ("b", "y", 1, 2.0)))
    assert asked(ask_table, shared / "t") == (["x", None], [1], True, 2, ())
    refused = asked(upsert, shared / "t")
    assert isinstance(refused, RliError | OSError)


def test_a_refused_write_names_the_user(shared: Path) -> None:
    create_table(shared / "t", record_key="id", partition_by="city", ordering="ts").close()
    refused = asked(upsert, shared / "t")
    assert f"this user may only read the index: path={shared}/t/.hoodie/.rli/index uid={_NOBODY}" in str(refused)


def _fill(store: LmdbStore) -> None:
    for width in (1, 7, 8, 16, 36, 503, 504, 900):
        count = min(200, 4**width)
        keys = key_batch(random_keys(count, width, seed=width), [number % 4 for number in range(count)])
        store.put(keys, entries_of(1, range(1, count + 1)))
        store.put(keys.take(np.arange(0, count, 3)), entries_of(2, range(1, len(range(0, count, 3)) + 1)))
    for shard, count in ((0, 1), (1, 2), (2, 30), (3, 20_000)):
        store.put(key_batch(random_keys(count, 24, seed=shard), shard), entries_of(1, range(1, count + 1)))
    for name, size in (("a", 0), ("b", 3), ("c1", 5000), ("c2", 3 << 20), ("d/1", 100)):
        assert store.compare_and_set(name, None, b"v" * size)
    for number in range(500):
        assert store.compare_and_set(f"many/{number}", None, bytes(number % 90))


def test_reader_finds_all_entries_and_records(shared: Path) -> None:
    with open_lmdb_store(f"lmdb://{shared}/index", create=True) as store:
        _fill(store)
        expected = scanned(store, _SHARDS, 7), store.scan_control(""), store.scan_control("c", "c2"), store.stats()
    assert asked(scan_all, shared / "index") == expected


def test_reader_beside_writer_never_goes_back(shared: Path) -> None:
    keys = watched_keys()
    here, there = duplex_pipe()
    with open_lmdb_store(f"lmdb://{shared}/index", create=True) as store:
        store.put(keys, entries_of(1, range(1, len(keys) + 1)))
        child = start_child(as_nobody, watch, f"{shared}/index", there)
        there.close()
        assert here.recv() == "reading"
        for version in range(2, 400):
            some = keys.take(np.arange(version % 7, len(keys), 7))
            store.put(some, entries_of(version, range(1, len(some) + 1)))
        here.send("stop")
        outcome = here.recv()
        child.join()
    assert child.exitcode == 0
    assert isinstance(outcome, int)
    assert outcome > 0
