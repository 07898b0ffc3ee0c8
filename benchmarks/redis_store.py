"""An index in Redis against plain strings in the same server: a key and eight bytes for each record."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import redis
from numpy.typing import NDArray

import rli
from benchmarks.keys import half_known, uuid_keys
from benchmarks.measuring import Outcome, Unit, race
from rli.codec import entries as codec
from rli.index.record.record_index import RecordIndex
from tests.support.redis import running_redis

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
_SPARSE_ROUNDS = 3
"""Times as many: they take a tenth of a second each, so that a single pause counts."""
_SIZINGS = 3


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
        self._race = partial(race, rounds=rounds)
        self._keys = uuid_keys(entries, seed=1)
        self._texts: list[str] = self._keys.to_pylist()
        self._commits = count(1)

    def run(self) -> list[Outcome]:
        plain_size = self._bytes_an_entry(self._load_plain, self._entries)
        size = self._bytes_an_entry(lambda: self._load_ours(self._keys), self._entries)
        small_size = self._bytes_an_entry(lambda: self._load_ours(self._keys.slice(0, _FEW)), _FEW)
        load = self._race(lambda: self._load_ours(self._keys), self._load_plain, reset=self._server.flushall)
        self._server.flushall()
        self._load_plain()
        with rli.create_index(self._url) as index:
            self._put(index, self._keys)
            wanted = _Batches(half_known(self._keys, 4 * _BATCH, seed=2))
            look_up = self._race(lambda: self._get(index, wanted), lambda: self._get_plain(wanted.texts))
            ours = self._server_seconds(lambda: self._get(index, wanted))
            cpu = ours / self._server_seconds(lambda: self._get_plain(wanted.texts))
            changed = _Batches(self._keys.take(pa.array(self._some(4 * _BATCH))))
            write = self._race(lambda: self._change(index, changed), lambda: self._set_plain(changed.texts))
            few = _Batches(half_known(self._keys, _SPARSE, seed=4))
            sparse_look_up = race(
                lambda: self._get(index, few), lambda: self._get_plain(few.texts), rounds=_SPARSE_ROUNDS * self._rounds
            )
            few_known = _Batches(self._keys.take(pa.array(self._some(_SPARSE))))
            sparse_write = race(
                lambda: self._change(index, few_known),
                lambda: self._set_plain(few_known.texts),
                rounds=_SPARSE_ROUNDS * self._rounds,
            )
            small = _Batches(self._keys.take(pa.array(self._some(_SMALL_BATCHES * _SMALL))), _SMALL)
            small_look_up = self._race(lambda: self._get(index, small), lambda: self._get_plain(small.texts))
            small_write = self._race(lambda: self._change(index, small), lambda: self._set_plain(small.texts))
        about = f"{self._entries:,} UUID keys; ours includes encoding and sharding"
        batches = f"batches of {_BATCH:,}; {about}"
        sparse = f"{_SPARSE:,} keys; {about}"
        thousand = f"{_SMALL:,} keys at a time; {about}"
        return [
            Outcome("Redis bytes an entry", "1 entry", size, 30, "lower", f"used_memory; {about}", Unit.BYTES),
            Outcome(
                "Redis bytes an entry of few",
                "1 entry",
                small_size,
                30,
                "lower",
                f"used_memory; {_FEW:,} UUID keys",
                Unit.BYTES,
            ),
            Outcome(
                "Redis memory", "plain strings", size / plain_size, 0.3, "lower", f"used_memory; {about}", Unit.SHARE
            ),
            Outcome(
                "Redis look-ups", "raw MGET of plain strings", look_up.speed_ratio, 0.6, "higher", batches, Unit.SHARE
            ),
            Outcome("Redis server CPU of a look-up", "raw MGET of plain strings", cpu, 1.6, "lower", batches),
            Outcome("Redis bulk load", "raw MSET of plain strings", load.speed_ratio, 2, "higher", about),
            Outcome(
                "Redis sparse look-ups",
                "raw MGET of plain strings",
                sparse_look_up.speed_ratio,
                0.6,
                "higher",
                sparse,
                Unit.SHARE,
            ),
            Outcome(
                "Redis incremental writes",
                "raw MSET of plain strings",
                write.speed_ratio,
                0.45,
                "higher",
                batches,
                Unit.SHARE,
            ),
            Outcome(
                "Redis sparse writes",
                "raw MSET of plain strings",
                sparse_write.speed_ratio,
                0.45,
                "higher",
                sparse,
                Unit.SHARE,
            ),
            Outcome(
                "Redis small look-ups",
                "raw MGET of plain strings",
                small_look_up.speed_ratio,
                0.5,
                "higher",
                thousand,
                Unit.SHARE,
            ),
            Outcome(
                "Redis small writes",
                "raw MSET of plain strings",
                small_write.speed_ratio,
                0.5,
                "higher",
                thousand,
                Unit.SHARE,
            ),
        ]

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

    def _get(self, index: RecordIndex, batches: _Batches) -> None:
        for batch in batches.arrays:
            index.get(batch)

    def _change(self, index: RecordIndex, batches: _Batches) -> None:
        for batch in batches.arrays:
            self._put(index, batch)

    def _load_ours(self, keys: pa.Array) -> None:
        with rli.create_index(self._url) as index:
            self._put(index, keys)

    def _load_plain(self) -> None:
        self._set_plain(self._texts)

    def _put(self, index: RecordIndex, keys: pa.Array) -> None:
        groups = np.arange(len(keys), dtype=np.uint64) % _FILE_GROUPS
        index.put(keys, codec.pack(next(self._commits), groups))

    def _some(self, count: int) -> NDArray[np.int64]:
        return np.random.default_rng(3).choice(self._entries, min(count, self._entries), replace=False)

    def _set_plain(self, texts: list[str]) -> None:
        for start in range(0, len(texts), _PLAIN_BATCH):
            self._server.mset(dict.fromkeys(texts[start : start + _PLAIN_BATCH], _VALUE))

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
