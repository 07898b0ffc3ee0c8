"""Values kept in memory for later, up to a number of bytes; the values that were unused for the longest time make room."""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from threading import Lock
from typing import Any, Final, Generic, TypeVar
from weakref import WeakSet

Value = TypeVar("Value")


class ByteCache(Generic[Value]):
    """Values by key. Threads may share it; empty in a forked process, and where it is unpickled.

    Args:
        most_bytes: of all values, at most. A value that is larger alone is not kept.
        bytes_of: the bytes that a value takes. Picklable if the cache is pickled.
        spared_seconds: a value that was used in the last so many seconds makes no room for another one, which is not kept then. Where
            values are read in turn, again and again, each one would make room for the next otherwise, and none be found.
        clock: seconds, rising. Picklable if the cache is pickled.
    """

    def __init__(
        self,
        most_bytes: int,
        bytes_of: Callable[[Value], int],
        spared_seconds: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most_bytes = most_bytes
        self._bytes_of = bytes_of
        self._spared_seconds = spared_seconds
        self._clock = clock
        self._forget_all()
        _CACHES.add(self)

    def get(self, key: Hashable) -> Value | None:
        """A value; None if it is not kept."""
        with self._lock:
            if key not in self._kept:
                return None
            value, size, _ = self._kept[key]
            self._kept[key] = value, size, self._clock()
            self._kept.move_to_end(key)
        return value

    def keep(self, key: Hashable, value: Value) -> None:
        """Keep a value in the place of the one that the key has had."""
        self.keep_all({key: value})

    def keep_all(self, values: Mapping[Hashable, Value]) -> None:
        """Keep several values, each in the place of the one that its key has had; none of them if there is no room for all."""
        sizes = {key: self._bytes_of(value) for key, value in values.items()}
        with self._lock:
            for key in values:
                self._forget(key)
            if not self._make_room(sum(sizes.values())):
                return
            for key, value in values.items():
                self._kept[key] = value, sizes[key], self._clock()
                self._bytes += sizes[key]

    def __reduce__(self) -> tuple[object, ...]:
        return ByteCache, (self._most_bytes, self._bytes_of, self._spared_seconds, self._clock)

    def _make_room(self, wanted: int) -> bool:
        """Forget values until there is room for so many bytes, unless there cannot be; called with the lock held."""
        if wanted > self._most_bytes:
            return False
        now, room, unused = self._clock(), self._most_bytes - self._bytes, list[Hashable]()
        for key, (_, size, used) in self._kept.items():
            if room >= wanted:
                break
            if now - used < self._spared_seconds:
                return False
            unused.append(key)
            room += size
        for key in unused:
            self._forget(key)
        return True

    def _forget(self, key: Hashable) -> None:
        """Called with the lock held."""
        if key in self._kept:
            _, size, _ = self._kept.pop(key)
            self._bytes -= size

    def _forget_all(self) -> None:
        """With a new lock."""
        self._lock = Lock()
        self._kept: OrderedDict[Hashable, tuple[Value, int, float]] = OrderedDict()
        self._bytes = 0


_CACHES: Final[WeakSet[ByteCache[Any]]] = WeakSet()


def _forget_after_fork() -> None:
    # A thread of the parent may have had a lock, and never gives it back here. It may have been in the middle of a change.
    for cache in list(_CACHES):
        cache._forget_all()  # noqa: SLF001  (of this module)


os.register_at_fork(after_in_child=_forget_after_fork)
