"""The contract's sentences about opening, sharing, dropping and closing a store, as tests."""

from __future__ import annotations

import pickle
import signal
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import ClassVar

import pytest

from rli.errors import IndexNotFoundError, RliError
from rli.store.contract import Store
from rli.testing.batches import differences, entries_of, entry, get_all, key_batch, random_keys, scanned
from rli.testing.processes import get_entries, kill_while_putting, put_and_die, put_numbered, run_in_process


class LifecycleCases:
    """Opening, sharing between handles, threads and processes, dropping, closing."""

    shares_processes: ClassVar[bool]

    def make_url(self, tmp_path: Path) -> str:
        raise NotImplementedError

    def open_store(self, url: str, *, create: bool) -> Store:
        raise NotImplementedError

    def test_missing_store_is_not_found(self, tmp_path: Path) -> None:
        with pytest.raises(IndexNotFoundError):
            self.open_store(self.make_url(tmp_path), create=False)

    def test_opening_again_gives_the_same_content(self, url: str, store: Store) -> None:
        store.put(key_batch([b"k"]), entries_of(1, [1]))
        store.compare_and_set("settings", None, b"one")
        for create in (False, True):
            with self.open_store(url, create=create) as again:
                assert get_all(again, [b"k"]) == [entry(1, 1)]
                assert again.read_control("settings") == b"one"

    def test_store_url_opens_store(self, store: Store) -> None:
        store.compare_and_set("settings", None, b"one")
        with self.open_store(store.url, create=False) as again:
            assert again.url == store.url
            assert again.read_control("settings") == b"one"

    def test_handles_see_each_other_at_once(self, url: str, store: Store) -> None:
        with self.open_store(url, create=True) as other:
            for width, sequence in ((4, 1), (4, 2), (600, 3)):
                store.put(key_batch([b"k" * width]), entries_of(sequence, [sequence]))
                assert get_all(other, [b"k" * width]) == [entry(sequence, sequence)]
            other.compare_and_set("lease", None, b"mine")
            assert not store.compare_and_set("lease", None, b"yours")

    def test_dropping_removes_everything(self, url: str, store: Store) -> None:
        keys = random_keys(100, 16, seed=1)
        store.put(key_batch(keys), entries_of(9, range(100)))
        store.put(key_batch([b"w" * 600]), entries_of(9, [1]))
        store.compare_and_set("settings", None, b"one")
        store.drop()
        store.close()
        with pytest.raises(IndexNotFoundError):
            self.open_store(url, create=False)
        with self.open_store(url, create=True) as fresh:
            assert get_all(fresh, keys) == [0] * 100
            assert scanned(fresh, [0]) == {}
            assert fresh.scan_control("") == []
            assert (fresh.stats().live_entries, fresh.stats().tombstones) == (0, 0)
            fresh.put(key_batch(keys), entries_of(1, range(100)))
            assert get_all(fresh, keys[:1]) == [entry(1, 0)]
            fresh.drop()

    def test_dropping_leaves_other_indexes_alone(self, tmp_path: Path, store: Store) -> None:
        with self.open_store(self.make_url(tmp_path), create=True) as other:
            for each, sequence in ((store, 1), (other, 2)):
                each.put(key_batch([b"k"]), entries_of(sequence, [1]))
                each.compare_and_set("settings", None, b"%d" % sequence)
            other.drop()
        assert get_all(store, [b"k"]) == [entry(1, 1)]
        assert store.scan_control("") == [("settings", b"1")]

    def test_repeated_close_spares_other_handles(self, url: str, store: Store) -> None:
        store.compare_and_set("settings", None, b"one")
        other = self.open_store(url, create=False)
        other.close()
        other.close()
        assert store.read_control("settings") == b"one"

    def test_pickled_copy_is_same_store(self, store: Store) -> None:
        store.put(key_batch([b"k"]), entries_of(1, [1]))
        with pickle.loads(pickle.dumps(store)) as copy:  # noqa: S301  (made here)
            assert copy.url == store.url
            assert get_all(copy, [b"k"]) == [entry(1, 1)]
            copy.put(key_batch([b"k"]), entries_of(2, [2]))
        assert get_all(store, [b"k"]) == [entry(2, 2)]

    def test_another_process_reads_and_writes(self, store: Store) -> None:
        put_numbered(store, [b"a", b"b"], 1)
        read = partial(get_entries, keys=[b"b", b"a"])
        if not self.shares_processes:
            with pytest.raises(RliError, match="process"):
                run_in_process(read, store)
            return
        assert run_in_process(read, store) == [entry(1, 1), entry(1, 0)]
        run_in_process(partial(put_numbered, keys=[b"b", b"c"], sequence=2), store)
        assert get_all(store, [b"a", b"b", b"c"]) == [entry(1, 0), entry(2, 0), entry(2, 1)]

    def test_entries_survive_death_of_process(self, store: Store) -> None:
        if not self.shares_processes:
            return
        keys = random_keys(5000, 16, seed=2)
        assert put_and_die(store, keys) == -signal.SIGKILL
        assert differences(get_all(store, keys), [entry(1, number) for number in range(5000)]) == []

    def test_killed_put_can_be_repeated(self, store: Store) -> None:
        if not self.shares_processes:
            return
        count = 3000
        acknowledged = kill_while_putting(store, count, seconds=0.3)
        expected = [entry(1, number) for number in range(count)]
        for batch in range(acknowledged):
            found = get_all(store, random_keys(count, 16, seed=batch))
            assert differences(found, [number + (batch << 32) for number in expected]) == []
        unfinished = random_keys(count, 16, seed=acknowledged)
        whole = [number + (acknowledged << 32) for number in expected]
        assert all(found in (0, number) for found, number in zip(get_all(store, unfinished), whole, strict=True))
        put_numbered(store, unfinished, acknowledged + 1)
        assert differences(get_all(store, unfinished), whole) == []
        stats = store.stats()
        assert (stats.live_entries, stats.tombstones) == (len(scanned(store, [0])), 0)

    def test_threads_share_a_store(self, store: Store) -> None:
        common = random_keys(300, 16, seed=3)

        def work(number: int) -> None:
            own = random_keys(300, 16 + number, seed=number)
            for sequence in range(1, 6):
                put_numbered(store, own, sequence)
                store.put(key_batch(common), entries_of(sequence * 10 + number, [number] * len(common)))
                assert differences(get_all(store, own), [entry(sequence, number) for number in range(len(own))]) == []
                assert len(scanned(store, [0], batch_size=50)) >= len(own) + len(common)

        with ThreadPoolExecutor(4) as threads:
            for future in [threads.submit(work, number) for number in range(4)]:
                future.result()
        assert differences(get_all(store, common), [entry(53, 3)] * len(common)) == []
        assert store.stats().live_entries == 5 * 300
