"""The conformance suite fails for stores that break the contract in one way each."""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar
from uuid import uuid4

import numpy as np
import pytest
from hypothesis import Phase, settings

from rli.codec.encoded_keys import EncodedKeys
from rli.codec.entries import TOMBSTONE, Entries, file_groups
from rli.store.contract import Store, StoreStats, Watermarks
from rli.store.memory import open_memory_store
from rli.testing import StoreConformance
from rli.testing.batches import key_batch


class PassingStore(Store):
    """Hands every call on to a memory store."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner

    @property
    def url(self) -> str:
        return self.inner.url

    def get(self, keys: EncodedKeys) -> Entries:
        return self.inner.get(keys)

    def put(self, keys: EncodedKeys, entries: Entries) -> None:
        self.inner.put(keys, entries)

    def scan(self, shard: int, batch_size: int) -> Iterator[tuple[EncodedKeys, Entries]]:
        return self.inner.scan(shard, batch_size)

    def read_control(self, name: str) -> bytes | None:
        return self.inner.read_control(name)

    def scan_control(self, prefix: str, start: str = "") -> list[tuple[str, bytes]]:
        return self.inner.scan_control(prefix, start)

    def compare_and_set(self, name: str, expected: bytes | None, value: bytes | None) -> bool:
        return self.inner.compare_and_set(name, expected, value)

    def applied_sequence(self) -> int | None:
        return self.inner.applied_sequence()

    def applied(self) -> Watermarks:
        return self.inner.applied()

    def mark_applied(self, since: Watermarks, sequence: int) -> bool:
        return self.inner.mark_applied(since, sequence)

    def drop(self) -> None:
        self.inner.drop()

    def stats(self) -> StoreStats:
        return self.inner.stats()

    def close(self) -> None:
        self.inner.close()


class LastArrivalWins(PassingStore):
    arrivals: ClassVar[int] = 100

    def put(self, keys: EncodedKeys, entries: Entries) -> None:
        LastArrivalWins.arrivals += 1
        self.inner.put(keys, (entries & np.uint64(0xFFFF_FFFF)) | np.uint64(self.arrivals << 32))


class PartOfABatchIsLost(PassingStore):
    def put(self, keys: EncodedKeys, entries: Entries) -> None:
        few = np.arange(min(len(keys), 1000))
        self.inner.put(keys.take(few), entries[few])


class RepeatedKeysAreAnsweredOnce(PassingStore):
    def get(self, keys: EncodedKeys) -> Entries:
        seen: set[tuple[int, bytes]] = set()
        found = self.inner.get(keys)
        for position, place in enumerate(zip(keys.shards.tolist(), keys.to_bytes(), strict=True)):
            if place in seen:
                found[position] = 0
            seen.add(place)
        return found


class AnswersInOrderOfKeys(PassingStore):
    def get(self, keys: EncodedKeys) -> Entries:
        return self.inner.get(keys.take(keys.sort_order()) if len(keys) else keys)


class IgnoresTheShard(PassingStore):
    def get(self, keys: EncodedKeys) -> Entries:
        return self.inner.get(EncodedKeys(keys.keys, np.zeros_like(keys.shards)))

    def put(self, keys: EncodedKeys, entries: Entries) -> None:
        self.inner.put(EncodedKeys(keys.keys, np.zeros_like(keys.shards)), entries)


class StripsNulBytes(PassingStore):
    def get(self, keys: EncodedKeys) -> Entries:
        stripped = [self.inner.get(key_batch([key.rstrip(b"\0") or b"\0"], int(shard))) for key, shard in _each(keys)]
        return np.concatenate([*stripped, np.empty(0, dtype=np.uint64)])

    def put(self, keys: EncodedKeys, entries: Entries) -> None:
        for position, (key, shard) in enumerate(_each(keys)):
            self.inner.put(key_batch([key.rstrip(b"\0") or b"\0"], shard), entries[position : position + 1])


class ForgetsTombstones(PassingStore):
    def get(self, keys: EncodedKeys) -> Entries:
        found = self.inner.get(keys)
        return np.where(file_groups(found) == TOMBSTONE, np.uint64(0), found)


class ScanLosesTheLastOfABatch(PassingStore):
    def scan(self, shard: int, batch_size: int) -> Iterator[tuple[EncodedKeys, Entries]]:
        for keys, entries in self.inner.scan(shard, batch_size):
            kept = np.arange(max(1, len(keys) - (len(keys) == batch_size)))
            yield keys.take(kept), entries[kept]


class ScanGivesABatchTwice(PassingStore):
    def scan(self, shard: int, batch_size: int) -> Iterator[tuple[EncodedKeys, Entries]]:
        for batch in self.inner.scan(shard, batch_size):
            yield batch
            if len(batch[0]) == batch_size:
                yield batch


class ScanIgnoresTheBatchSize(PassingStore):
    def scan(self, shard: int, batch_size: int) -> Iterator[tuple[EncodedKeys, Entries]]:
        return self.inner.scan(shard, batch_size + 1)


class SetsWithoutComparing(PassingStore):
    def compare_and_set(self, name: str, expected: bytes | None, value: bytes | None) -> bool:
        self.inner.compare_and_set(name, self.inner.read_control(name), value)
        return expected != value


class ComparesThenSets(PassingStore):
    def compare_and_set(self, name: str, expected: bytes | None, value: bytes | None) -> bool:
        if self.inner.read_control(name) != expected:
            return False
        time.sleep(0.001)
        return self.inner.compare_and_set(name, self.inner.read_control(name), value)


class EmptyValueIsAbsent(PassingStore):
    def read_control(self, name: str) -> bytes | None:
        return self.inner.read_control(name) or None


class ControlScanSkipsItsStart(PassingStore):
    def scan_control(self, prefix: str, start: str = "") -> list[tuple[str, bytes]]:
        return [(name, value) for name, value in self.inner.scan_control(prefix, start) if name != start]


class ControlScanIsUnordered(PassingStore):
    def scan_control(self, prefix: str, start: str = "") -> list[tuple[str, bytes]]:
        return self.inner.scan_control(prefix, start)[::-1]


class LowersTheMark(PassingStore):
    def mark_applied(self, since: Watermarks, sequence: int) -> bool:
        _ = since
        return self.inner.compare_and_set("applied", self.inner.read_control("applied"), b"%d" % sequence)


class MarksBehindAGap(PassingStore):
    def mark_applied(self, since: Watermarks, sequence: int) -> bool:
        _ = since
        return self.inner.mark_applied(self.inner.applied(), sequence)


class TellsReadersOfNoMark(PassingStore):
    def applied_sequence(self) -> int | None:
        return None


class DropDoesNothing(PassingStore):
    def drop(self) -> None:
        pass


class CountsTombstonesAsLive(PassingStore):
    def stats(self) -> StoreStats:
        stats = self.inner.stats()
        return StoreStats(stats.live_entries + stats.tombstones, 0, stats.stored_bytes)


class ClosesOnlyOnce(PassingStore):
    closed = False

    def close(self) -> None:
        if self.closed:
            raise ValueError("closed already")
        self.closed = True
        self.inner.close()


FAULTS = PassingStore.__subclasses__()


def failing_tests(kind: type[PassingStore], tmp_path: Path) -> Iterator[str]:
    """Names of the suite's tests, apart from parametrized ones and those with processes, that the store fails."""

    class Suite(StoreConformance):
        shares_processes: ClassVar[bool] = False
        model_settings: ClassVar[settings] = settings(StoreConformance.model_settings, phases=[Phase.generate])

        def make_url(self, tmp_path: Path) -> str:
            return f"memory:{tmp_path.name}-{uuid4().hex}"

        def open_store(self, url: str, *, create: bool) -> Store:
            return kind(open_memory_store(url, create=create))

    suite = Suite()
    for name, test in inspect.getmembers(suite, inspect.ismethod):
        wanted = inspect.signature(test).parameters.keys()
        if not name.startswith("test_") or "process" in name or wanted - {"store", "url", "tmp_path"}:
            continue
        url = suite.make_url(tmp_path)
        given = {"store": suite.open_store(url, create=True), "url": url, "tmp_path": tmp_path}
        try:
            test(**{parameter: given[parameter] for parameter in wanted})
        except (Exception, pytest.fail.Exception):  # noqa: BLE001  (any failure at all is what is looked for)
            yield name


def test_a_store_without_fault_passes(tmp_path: Path) -> None:
    assert list(failing_tests(PassingStore, tmp_path)) == []


@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_is_found(kind: type[PassingStore], tmp_path: Path) -> None:
    assert any(failing_tests(kind, tmp_path))


def _each(keys: EncodedKeys) -> Iterator[tuple[bytes, int]]:
    return zip(keys.to_bytes(), keys.shards.tolist(), strict=True)
