"""Stores and storages that tell before and after each change that they make, so that a test can cut in anywhere.

They do the work of the store or storage inside and change nothing of it. What is done at a point is the test's own:
kill the process, raise, or take notes.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from threading import Lock, RLock
from typing import TypeAlias

import numpy as np

from rli.codec.encoded_keys import EncodedKeys
from rli.codec.entries import Entries
from rli.storage import Draft, Storage
from rli.store.contract import Store, StoreStats, Watermarks
from rli.store.purging import SupportsPurge

AtPoint: TypeAlias = Callable[[str], None]
"""Called with a name such as ``before put`` or ``after compare_and_set lease``."""

_COUNTING = Lock()

_CHANGING = RLock()
"""Held while a ``PointedStore`` changes something: a thread may renew a lease at any moment."""


def stop_this_process() -> None:
    """Stop, but not within a transaction of LMDB: that would block all other writers."""
    with _CHANGING:
        os.kill(os.getpid(), signal.SIGSTOP)


@dataclass
class KillAt:
    """Kills the process at the n-th point, counted from 1."""

    number: int
    passed: int = 0

    def __call__(self, _point: str) -> None:
        # File groups are written in several threads.
        with _COUNTING:
            self.passed += 1
            if self.passed == self.number:
                os.kill(os.getpid(), signal.SIGKILL)


class PointedStore(Store):
    """A store that reports each of its changes."""

    def __init__(self, store: Store, at_point: AtPoint) -> None:
        self._store = store
        self._at_point = at_point
        self.preferred_shards = store.preferred_shards  # type: ignore[misc]  # what is inside decides

    @property
    def url(self) -> str:
        return self._store.url

    def url_beside(self, name: str) -> str:
        return self._store.url_beside(name)

    def get(self, keys: EncodedKeys) -> Entries:
        return self._store.get(keys)

    def put(self, keys: EncodedKeys, entries: Entries) -> None:
        """In two halves: a process that dies within a put may leave any part of it."""
        for half in np.array_split(np.arange(len(keys)), min(len(keys), 2) or 1):
            self._at_point("before put")
            with _CHANGING:
                self._store.put(keys.take(half), entries[half])
            self._at_point("after put")

    def scan(self, shard: int, batch_size: int) -> Iterator[tuple[EncodedKeys, Entries]]:
        return self._store.scan(shard, batch_size)

    def read_control(self, name: str) -> bytes | None:
        return self._store.read_control(name)

    def scan_control(self, prefix: str, start: str = "") -> list[tuple[str, bytes]]:
        return self._store.scan_control(prefix, start)

    def compare_and_set(self, name: str, expected: bytes | None, value: bytes | None) -> bool:
        self._at_point(f"before compare_and_set {name}")
        with _CHANGING:
            done = self._store.compare_and_set(name, expected, value)
        self._at_point(f"after compare_and_set {name}")
        return done

    def applied_sequence(self) -> int | None:
        return self._store.applied_sequence()

    def applied(self) -> Watermarks:
        return self._store.applied()

    def mark_applied(self, since: Watermarks, sequence: int) -> bool:
        self._at_point("before mark_applied")
        with _CHANGING:
            done = self._store.mark_applied(since, sequence)
        self._at_point("after mark_applied")
        return done

    def floor(self) -> int:
        return self._store.floor() if isinstance(self._store, SupportsPurge) else 0

    def seen_floor(self) -> int:
        return self._store.seen_floor() if isinstance(self._store, SupportsPurge) else 0

    def raise_floor(self, sequence: int) -> None:
        assert isinstance(self._store, SupportsPurge)
        self._at_point("before raise_floor")
        self._store.raise_floor(sequence)
        self._at_point("after raise_floor")

    def remove_tombstones(self, keys: EncodedKeys) -> int:
        assert isinstance(self._store, SupportsPurge)
        self._at_point("before remove_tombstones")
        removed = self._store.remove_tombstones(keys)
        self._at_point("after remove_tombstones")
        return removed

    def drop(self) -> None:
        self._at_point("before drop")
        self._store.drop()
        self._at_point("after drop")

    def stats(self) -> StoreStats:
        return self._store.stats()

    def close(self) -> None:
        self._store.close()


class WatchedStore(PointedStore):
    """A store that reports each of its reads, too."""

    def get(self, keys: EncodedKeys) -> Entries:
        self._at_point("before get")
        return super().get(keys)

    def read_control(self, name: str) -> bytes | None:
        self._at_point(f"before read_control {name}")
        return super().read_control(name)

    def scan_control(self, prefix: str, start: str = "") -> list[tuple[str, bytes]]:
        self._at_point(f"before scan_control {prefix}")
        return super().scan_control(prefix, start)

    def applied(self) -> Watermarks:
        self._at_point("before applied")
        return super().applied()


@dataclass(frozen=True)
class PointedStorage(Storage):
    """A storage that reports each of its changes."""

    at_point: AtPoint = field(default=lambda _: None, repr=False, compare=False)

    def __getstate__(self) -> dict[str, object]:
        return {**super().__getstate__(), "at_point": self.at_point}

    def write_bytes(self, path: str, content: bytes) -> None:
        self.at_point(f"before write {path}")
        super().write_bytes(path, content)
        self.at_point(f"after write {path}")

    def create(self, path: str, content: bytes) -> bool:
        self.at_point(f"before create {path}")
        created = super().create(path, content)
        self.at_point(f"after create {path}")
        return created

    def draft(self, path: str, content: bytes) -> Draft:
        self.at_point(f"before draft {path}")
        draft = super().draft(path, content)
        self.at_point(f"after draft {path}")
        return draft

    def publish(self, draft: Draft, target: str) -> bool:
        self.at_point(f"before publish {target}")
        published = super().publish(draft, target)
        self.at_point(f"after publish {target}")
        return published

    def replace(self, draft: Draft, target: str) -> None:
        self.at_point(f"before replace {target}")
        super().replace(draft, target)
        self.at_point(f"after replace {target}")

    def retract(self, path: str) -> bool:
        self.at_point(f"before retract {path}")
        retracted = super().retract(path)
        self.at_point(f"after retract {path}")
        return retracted

    def settle(self, path: str) -> None:
        self.at_point(f"before settle {path}")
        super().settle(path)
        self.at_point(f"after settle {path}")

    def move(self, source: str, target: str) -> None:
        self.at_point(f"before move {target}")
        super().move(source, target)
        self.at_point(f"after move {target}")

    def promote(self, source: str, target: str) -> None:
        self.at_point(f"before move {target}")
        super().promote(source, target)
        self.at_point(f"after move {target}")

    def make_folder(self, path: str) -> None:
        self.at_point(f"before folder {path}")
        super().make_folder(path)

    def delete_files(self, paths: Iterable[str]) -> None:
        for path in paths:
            self.at_point(f"before delete {path}")
            super().delete_files([path])
            self.at_point(f"after delete {path}")

    def empty(self, path: str, content: bytes) -> None:
        self.at_point(f"before empty {path}")
        super().empty(path, content)
        self.at_point(f"after empty {path}")

    def discard_files(self, paths: Iterable[str]) -> None:
        # One after the other: points are counted.
        self.delete_files(paths)

    def delete_folder(self, path: str) -> None:
        for file in self.list_files(path, recursive=True):
            self.delete_files([file.path])
        super().delete_folder(path)
        self.at_point(f"after delete folder {path}")
