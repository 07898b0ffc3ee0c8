"""An index in Redis against plain strings in the same server: a key and eight bytes for each record."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import redis

from benchmarks.keys import half_known, uuid_keys
from benchmarks.measuring import Outcome, Unit, race
from rli.codec import entries as codec
from rli.index.record.stored_index import StoredIndex
from tests.support.redis import running_redis
from tests.support.stored_indexes import create_index

_BATCH = 65_536
_PLAIN_BATCH = 1000
_VALUE = b"12345678"
_FILE_GROUPS = 2000
_FEW = 10_000
_SPARSE = 20_000
"""Of a million entries: about one key for every third bucket."""
_SMALL = 1_000
"""A look-up or a write of a service: its keys are in all shards, and each in a bucket of its own."""
_SMALL_BATCHES = 40
_BUCKET = 365
"""Bytes of most buckets."""
_ENTRIES_OF_BUCKET = 18
"""If their keys are UUIDs."""
_SPARSE_ROUNDS = 3
"""Times as many: they take a tenth of a second each, so that a single pause counts."""
_SIZINGS = 3
_MGET = "raw MGET of plain strings"
_MSET = "raw MSET of plain strings"


def run(folder: Path, *, quick: bool) -> list[Outcome]:
    """Measure size, look-ups, their cost on the server, bulk loads and incremental writes."""
    _ = folder
    with running_redis() as address:
        url = f"redis://{address}/0"
        server = redis.Redis.from_url(url)
        # Writing the log to disk would be the same for both, and is the disk's speed.
        server.config_set("appendonly", "no")
        entries, rounds = (200_000, 3) if quick else (1_000_000, 5)
        return _Contest(server, url, entries, rounds).run()


class _Batches:
    """Keys in batches, and all of them as texts."""

    def __init__(self, keys: pa.Array, size: int = _BATCH) -> None:
        self.arrays = [keys.slice(start, size) for start in range(0, len(keys), size)]
        self.texts: list[str] = keys.to_pylist()


class _Contest:
    def __init__(self, server: redis.Redis, url: str, entries: int, rounds: int) -> None:
        self._server = server
        self._url = url
        self._entries = entries
        self._rounds = rounds
        self._keys = uuid_keys(entries, seed=1)
        self._texts: list[str] = self._keys.to_pylist()
        self._commits = count(1)
        self._about = f"{entries:,} UUID keys; ours includes encoding and sharding"

    def run(self) -> list[Outcome]:
        outcomes = [*self._sizes(), self._bulk_load()]
        self._server.flushall()
        self._load_plain()
        with create_index(self._url) as index:
            self._put(index, self._keys)
            outcomes += [*self._batches(index), *self._sparse(index), *self._small(index)]
        return outcomes

    def _sizes(self) -> list[Outcome]:
        plain = self._bytes_an_entry(self._load_plain, self._entries)
        ours = self._bytes_an_entry(lambda: self._load_ours(self._keys), self._entries)
        of_few = self._bytes_an_entry(lambda: self._load_ours(self._keys.slice(0, _FEW)), _FEW)
        about, about_few = f"used_memory; {self._about}", f"used_memory; {_FEW:,} UUID keys"
        return [
            Outcome("Redis bytes an entry", "1 entry", ours, 30, "lower", about, Unit.BYTES),
            Outcome("Redis bytes an entry of few", "1 entry", of_few, 30, "lower", about_few, Unit.BYTES),
            Outcome("Redis memory", "plain strings", ours / plain, 0.3, "lower", about, Unit.SHARE),
        ]

    def _bulk_load(self) -> Outcome:
        pair = race(
            lambda: self._load_ours(self._keys), self._load_plain, rounds=self._rounds, reset=self._server.flushall
        )
        return Outcome("Redis bulk load", _MSET, pair.speed_ratio, 2, "higher", self._about)

    def _batches(self, index: StoredIndex) -> list[Outcome]:
        about = f"batches of {_BATCH:,}; {self._about}"
        wanted = _Batches(half_known(self._keys, 4 * _BATCH, seed=2))
        look_ups = self._look_ups("look-ups", index, wanted, 0.6, about)
        cpu = self._server_seconds(lambda: self._get(index, wanted))
        plain_cpu = self._server_seconds(lambda: self._get_plain(wanted.texts))
        return [
            look_ups,
            Outcome("Redis server CPU of a look-up", _MGET, cpu / plain_cpu, 1.6, "lower", about),
            self._writes("incremental writes", index, self._some(4 * _BATCH), 0.45, about),
        ]

    def _sparse(self, index: StoredIndex) -> list[Outcome]:
        about = f"{_SPARSE:,} keys; {self._about}"
        wanted = _Batches(half_known(self._keys, _SPARSE, seed=4))
        return [
            self._look_ups("sparse look-ups", index, wanted, 0.6, about, times_rounds=_SPARSE_ROUNDS),
            self._writes("sparse writes", index, self._some(_SPARSE), 0.45, about, times_rounds=_SPARSE_ROUNDS),
        ]

    def _small(self, index: StoredIndex) -> list[Outcome]:
        about = f"{_SMALL:,} keys at a time; {self._about}"
        some = self._some(_SMALL_BATCHES * _SMALL, _SMALL)
        found = self._look_ups("small look-ups", index, some, 0.5, about)
        written = self._writes("small writes", index, some, 0.4, about)
        return [found, written, *self._beside_buckets(index, some, about)]

    def _beside_buckets(self, index: StoredIndex, some: _Batches, about: str) -> list[Outcome]:
        """Small look-ups and writes beside a client that moves strings as large as buckets, and does nothing else."""
        names = [f"bucket{number}" for number in range(self._entries // _ENTRIES_OF_BUCKET)]
        self._set_plain(names, bytes(_BUCKET))
        random = np.random.default_rng(5)
        asked = [[names[at] for at in random.choice(len(names), _SMALL, replace=False)] for _ in some.arrays]

        def read() -> None:
            for keys in asked:
                self._get_plain(keys)

        def rewrite() -> None:
            for keys in asked:
                self._get_plain(keys)
                self._set_plain(keys, bytes(_BUCKET))

        reading = race(lambda: self._get(index, some), read, rounds=self._rounds)
        writing = race(lambda: self._change(index, some), rewrite, rounds=self._rounds)
        pairs = [
            ("Redis small look-ups", "raw MGET of strings as large as buckets", reading),
            ("Redis small writes", "raw MGET and MSET of strings as large as buckets", writing),
        ]
        return [
            Outcome(name, baseline, pair.speed_ratio, None, "higher", about, Unit.SHARE)
            for name, baseline, pair in pairs
        ]

    def _look_ups(
        self, name: str, index: StoredIndex, wanted: _Batches, goal: float, about: str, *, times_rounds: int = 1
    ) -> Outcome:
        pair = race(
            lambda: self._get(index, wanted), lambda: self._get_plain(wanted.texts), rounds=times_rounds * self._rounds
        )
        return Outcome(f"Redis {name}", _MGET, pair.speed_ratio, goal, "higher", about, Unit.SHARE)

    def _writes(
        self, name: str, index: StoredIndex, changed: _Batches, goal: float, about: str, *, times_rounds: int = 1
    ) -> Outcome:
        pair = race(
            lambda: self._change(index, changed),
            lambda: self._set_plain(changed.texts),
            rounds=times_rounds * self._rounds,
        )
        return Outcome(f"Redis {name}", _MSET, pair.speed_ratio, goal, "higher", about, Unit.SHARE)

    def _bytes_an_entry(self, load: Callable[[], None], entries: int) -> float:
        """What a load leaves on the server: the median, because the server counts buffers of connections late."""
        left: list[int] = []
        # The first use of each command makes its statistics.
        for _ in range(1 + _SIZINGS):
            self._server.flushall()
            empty = self._memory()
            load()
            left.append(self._memory() - empty)
        return statistics.median(left[1:]) / entries

    def _get(self, index: StoredIndex, batches: _Batches) -> None:
        for batch in batches.arrays:
            index.get(batch)

    def _change(self, index: StoredIndex, batches: _Batches) -> None:
        for batch in batches.arrays:
            self._put(index, batch)

    def _load_ours(self, keys: pa.Array) -> None:
        with create_index(self._url) as index:
            self._put(index, keys)

    def _load_plain(self) -> None:
        self._set_plain(self._texts)

    def _put(self, index: StoredIndex, keys: pa.Array) -> None:
        groups = np.arange(len(keys), dtype=np.uint64) % _FILE_GROUPS
        index.put(keys, codec.pack(next(self._commits), groups))

    def _some(self, count: int, batch: int = _BATCH) -> _Batches:
        """Known keys from all over the index."""
        chosen = np.random.default_rng(3).choice(self._entries, min(count, self._entries), replace=False)
        return _Batches(self._keys.take(pa.array(chosen)), batch)

    def _set_plain(self, texts: list[str], value: bytes = _VALUE) -> None:
        for start in range(0, len(texts), _PLAIN_BATCH):
            self._server.mset(dict.fromkeys(texts[start : start + _PLAIN_BATCH], value))

    def _get_plain(self, texts: list[str]) -> None:
        for start in range(0, len(texts), _PLAIN_BATCH):
            self._server.mget(texts[start : start + _PLAIN_BATCH])

    def _memory(self) -> int:
        """What the server has allocated, the buffers of connections left out."""
        found = self._info("memory")
        return int(found["used_memory"]) - int(found["mem_clients_normal"])

    def _server_seconds(self, work: Callable[[], None]) -> float:
        def used() -> float:
            info = self._info("cpu")
            return float(info["used_cpu_user"]) + float(info["used_cpu_sys"])

        before = used()
        work()
        return used() - before

    def _info(self, section: str) -> dict[str, Any]:
        found: dict[str, Any] = self._server.info(section)
        return found
