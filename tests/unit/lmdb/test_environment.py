"""What the embedded store owes beyond the contract: growth, other processes, damage, forks."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import lmdb
import numpy as np
import pytest

from rli.codec.encoded_keys import EncodedKeys
from rli.errors import CorruptIndexError, IndexMismatchError, IndexNotFoundError, SettingsError, StoreUnavailableError
from rli.testing.batches import entries_of, entry, get_all, key_batch, random_keys, scanned
from rli.testing.processes import put_numbered, run_in_process
from rli_lmdb import LmdbStore, open_lmdb_store

_MEGABYTE = 1 << 20


def open_at(path: Path, *, create: bool = True) -> LmdbStore:
    return open_lmdb_store(f"lmdb://{path}", create=create)


def put_large_records(store: object, count: int) -> None:
    """Control records of 8 MB each, which soon fill the first map."""
    assert isinstance(store, LmdbStore)
    for number in range(count):
        assert store.compare_and_set(f"large/{number}", None, bytes([number]) * (8 * _MEGABYTE))


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_unclosed_stores_leak_no_descriptors(tmp_path: Path) -> None:
    with open_at(tmp_path / "last"):
        before = descriptors()
        for number in range(20):
            open_at(tmp_path / str(number)).put(key_batch([b"key"]), entries_of(1, [number]))
        open_at(tmp_path / "last").close()
        assert descriptors() == before


def test_scan_keeps_unreferenced_store_alive(tmp_path: Path) -> None:
    store = open_at(tmp_path / "index")
    store.put(key_batch([b"a", b"b", b"c"]), entries_of(1, range(3)))
    scan = store.scan(0, 1)
    counts = [len(next(scan)[0])]
    del store
    open_at(tmp_path / "other").close()
    assert sum([*counts, *(len(keys) for keys, _ in scan)]) == 3


def test_the_map_grows(tmp_path: Path) -> None:
    with open_at(tmp_path) as store:
        put_large_records(store, 20)
        found = store.scan_control("large/")
    assert sum(len(value) for _, value in found) == 160 * _MEGABYTE


def test_the_map_grows_while_threads_read(tmp_path: Path) -> None:
    with open_at(tmp_path) as store:
        store.put(key_batch([b"k"]), entries_of(1, [1]))
        done = threading.Event()
        failures: list[BaseException] = []

        def read() -> None:
            try:
                while not done.is_set():
                    assert get_all(store, [b"k"]) == [entry(1, 1)]
            except BaseException as error:  # noqa: BLE001  (shown below, in the test's own thread)
                failures.append(error)

        readers = [threading.Thread(target=read) for _ in range(3)]
        for reader in readers:
            reader.start()
        put_large_records(store, 12)
        done.set()
        for reader in readers:
            reader.join()
        assert failures == []


def test_map_grown_elsewhere_is_adopted(tmp_path: Path) -> None:
    with open_at(tmp_path) as store:
        store.put(key_batch([b"k"]), entries_of(1, [1]))
        run_in_process(partial(put_large_records, count=12), store)
        assert get_all(store, [b"k"]) == [entry(1, 1)]
        store.put(key_batch([b"new key"]), entries_of(1, [2]))
        assert len(store.scan_control("large/")) == 12


def test_database_made_elsewhere_is_found(tmp_path: Path) -> None:
    with open_at(tmp_path) as store:
        assert get_all(store, [b"abc"]) == [0]
        run_in_process(partial(put_numbered, keys=[b"abc"], sequence=1), store)
        assert get_all(store, [b"abc"]) == [entry(1, 0)]


def test_dead_readers_keep_no_pages(tmp_path: Path) -> None:
    with open_at(tmp_path):
        code = (
            "import lmdb, os, sys\n"
            "environment = lmdb.open(sys.argv[1], max_dbs=600)\n"
            "reader = environment.begin()\n"
            "print(reader.id(), flush=True)\n"
            "os.kill(os.getpid(), 9)\n"
        )
        subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False, capture_output=True)
    with open_at(tmp_path, create=False) as store:
        keys = random_keys(5000, 16, seed=1)
        for sequence in range(1, 9):
            put_numbered(store, keys, sequence)
        assert (tmp_path / "data.mdb").stat().st_size < 3 * _MEGABYTE


def test_a_bulk_load_fills_its_pages(tmp_path: Path) -> None:
    count = 100_000
    keys = np.frombuffer(np.random.default_rng(1).bytes(16 * count), dtype="V16")
    with open_at(tmp_path) as store:
        store.put(EncodedKeys(keys, np.zeros(count, dtype=np.uint16)), entries_of(1, range(count)))
        assert (tmp_path / "data.mdb").stat().st_size < 27 * count


_FORKING_PROGRAM = """
import os, sys
from rli.errors import StoreUnavailableError
from rli.testing.batches import entries_of, entry, get_all, key_batch
from rli_lmdb import open_lmdb_store

def is_refused(work):
    try:
        work()
    except StoreUnavailableError as error:
        return "spawn" in str(error)
    return False

url = sys.argv[1]
store = open_lmdb_store(url, create=False)
assert get_all(store, [b"k"]) == [entry(1, 1)]
child = os.fork()
if child == 0:
    assert is_refused(lambda: get_all(store, [b"k"]))
    assert is_refused(lambda: open_lmdb_store(url, create=False))
    store.close()
    with open_lmdb_store(url + "-of-child", create=True) as other:
        other.put(key_batch([b"k"]), entries_of(1, [7]))
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
store.put(key_batch([b"k"]), entries_of(2, [2]))
assert get_all(store, [b"k"]) == [entry(2, 2)]
store.close()
child = os.fork()
if child == 0:
    with open_lmdb_store(url, create=False) as own:
        own.put(key_batch([b"k"]), entries_of(3, [3]))
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""


def test_fork_with_open_index_is_refused(tmp_path: Path) -> None:
    with open_at(tmp_path / "index") as store:
        store.put(key_batch([b"k"]), entries_of(1, [1]))
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        subprocess.run([sys.executable, "-c", _FORKING_PROGRAM, store.url], check=True, env=environment)
        assert get_all(store, [b"k"]) == [entry(3, 3)]
    with open_at(tmp_path / "index-of-child", create=False) as other:
        assert get_all(other, [b"k"]) == [entry(1, 7)]


def test_threads_write_while_the_map_grows(tmp_path: Path) -> None:
    with open_at(tmp_path) as store:
        for index in range(2):
            assert store.compare_and_set(f"large/{index}", None, bytes(20 * _MEGABYTE))

        def write(number: int) -> None:
            for index in range(4):
                assert store.compare_and_set(f"large/{number}/{index}", None, bytes([number]) * (4 * _MEGABYTE))
                put_numbered(store, random_keys(500, 16, seed=number), index + 1)

        with ThreadPoolExecutor(4) as threads:
            for future in [threads.submit(write, number) for number in range(4)]:
                future.result()
        assert len(store.scan_control("large/")) == 18
        assert store.stats().live_entries == 2000


def test_dropped_index_ignores_older_handles(tmp_path: Path) -> None:
    old, other = open_at(tmp_path), open_at(tmp_path)
    old.put(key_batch([b"k"]), entries_of(9, [1]))
    other.drop()
    with open_at(tmp_path) as fresh:
        with pytest.raises(IndexNotFoundError, match="was dropped"):
            old.put(key_batch([b"k"]), entries_of(10, [1]))
        with pytest.raises(IndexNotFoundError, match="was dropped"):
            old.read_control("settings")
        assert scanned(fresh, [0]) == {}
    old.close()
    other.close()
    assert open_at(tmp_path, create=False).scan_control("") == []


def test_dropping_gives_the_space_back(tmp_path: Path) -> None:
    with open_at(tmp_path) as store:
        (tmp_path / "notes.txt").write_text("not ours")
        store.drop()
    assert os.listdir(tmp_path) == ["notes.txt"]


def test_crashed_drop_leaves_no_content(tmp_path: Path) -> None:
    with open_at(tmp_path) as store:
        store.put(key_batch([b"k"]), entries_of(1, [1]))
    with lmdb.open(str(tmp_path), max_dbs=8) as raw:
        meta = raw.open_db(b"meta")
        with raw.begin(write=True) as transaction:
            transaction.delete(b"generation", db=meta)
    with pytest.raises(IndexNotFoundError):
        open_at(tmp_path, create=False)
    with open_at(tmp_path) as store:
        assert get_all(store, [b"k"]) == [0]


def test_foreign_database_is_left_alone(tmp_path: Path) -> None:
    with lmdb.open(str(tmp_path)) as raw, raw.begin(write=True) as transaction:
        transaction.put(b"theirs", b"1")
    with pytest.raises(IndexNotFoundError):
        open_at(tmp_path, create=False)
    with pytest.raises(SettingsError, match="another database"):
        open_at(tmp_path)


def test_foreign_file_is_damage(tmp_path: Path) -> None:
    (tmp_path / "data.mdb").write_bytes(b"nothing of the kind" * 1000)
    for create in (False, True):
        with pytest.raises(CorruptIndexError, match="damaged"):
            open_at(tmp_path, create=create)


def test_layout_of_other_version_is_refused(tmp_path: Path) -> None:
    open_at(tmp_path).close()
    with lmdb.open(str(tmp_path), max_dbs=8) as raw:
        meta = raw.open_db(b"meta")
        with raw.begin(write=True) as transaction:
            transaction.put(b"generation", b"\xff" + bytes(16), db=meta)
    with pytest.raises(IndexMismatchError, match="version=255"):
        open_at(tmp_path, create=False)


def test_colliding_wide_keys_are_refused(tmp_path: Path) -> None:
    key = b"k" * 600
    with open_at(tmp_path) as store:
        store.put(key_batch([key]), entries_of(1, [1]))
    with lmdb.open(str(tmp_path), max_dbs=8) as raw:
        database = raw.open_db(b"keys/long")
        with raw.begin(write=True) as transaction:
            cursor = transaction.cursor(database)
            cursor.first()
            cursor.put(cursor.key(), cursor.value()[:-1] + b"x")
    with open_at(tmp_path, create=False) as store, pytest.raises(CorruptIndexError, match="digest"):
        store.get(key_batch([key]))


@pytest.mark.parametrize("url", ["lmdb://host/path", "lmdb:", "lmdb:///path?size=1", "lmdb:///path#part"])
def test_urls_without_folder_are_refused(url: str) -> None:
    with pytest.raises(SettingsError, match="use lmdb:///path"):
        open_lmdb_store(url, create=True)


def test_path_of_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(SettingsError, match="not a folder"):
        open_at(tmp_path / "file")


def test_folder_below_file_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreUnavailableError, match="cannot be used"):
        open_at(tmp_path / "file" / "index")


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = open_at(tmp_path)
    store.close()
    with pytest.raises(StoreUnavailableError, match="was closed"):
        store.read_control("settings")


def test_bulk_load_takes_few_transactions(tmp_path: Path) -> None:
    """Each of them waits for the disk."""

    def transactions(count: int) -> int:
        folder = tmp_path / str(count)
        with open_at(folder) as store:
            shards = np.random.default_rng(count).integers(0, 64, count).astype(np.uint16)
            keys = EncodedKeys(np.frombuffer(np.random.default_rng(1).bytes(count * 16), dtype="V16"), shards)
            store.put(keys, entries_of(1, np.arange(count) % 1000))
        with lmdb.open(str(folder), readonly=True, max_dbs=16) as raw:
            return int(raw.info()["last_txnid"])

    assert transactions(500_000) <= transactions(1) + 1
