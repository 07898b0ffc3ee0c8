"""Values kept in memory for later, up to a number of bytes; the values that were unused for the longest time make room."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, Final, Generic, TypeVar
from weakref import WeakSet

Value = TypeVar("Value")


class ByteCache(Generic[Value]):
    """Values by key. Threads may share it; empty in a forked process, and where it is unpickled.

    Args:
        most_bytes: of all values, at most. A value that is larger alone is not kept.
        bytes_of: the bytes that a value takes. Picklable if the cache is pickled.
    """

    def __init__(self, most_bytes: int, bytes_of: Callable[[Value], int]) -> None:
        self._most_bytes = most_bytes
        self._bytes_of = bytes_of
        self._forget_all()
        _CACHES.add(self)

    def get(self, key: Hashable) -> Value | None:
        """A value; None if it is not kept."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            value, _ = self._kept.get(key, (None, 0))
        return value

    def keep(self, key: Hashable, value: Value) -> None:
        """Keep a value in the place of the one that the key has had."""
        size = self._bytes_of(value)
        with self._lock:
            self._forget(key)
            if size > self._most_bytes:
                return
            self._kept[key] = value, size
            self._bytes += size
            while self._bytes > self._most_bytes:
                self._forget(next(iter(self._kept)))

    def __reduce__(self) -> tuple[object, ...]:
        return ByteCache, (self._most_bytes, self._bytes_of)

    def _forget(self, key: Hashable) -> None:
        """Called with the lock held."""
        _, size = self._kept.pop(key, (None, 0))
        self._bytes -= size

    def _forget_all(self) -> None:
        """With a new lock."""
        self._lock = Lock()
        self._kept: OrderedDict[Hashable, tuple[Value, int]] = OrderedDict()
        self._bytes = 0


_CACHES: Final[WeakSet[ByteCache[Any]]] = WeakSet()


def _forget_after_fork() -> None:
    # A thread of the parent may have had a lock, and never gives it back here. It may have been in the middle of a change.
    for cache in list(_CACHES):
        cache._forget_all()  # noqa: SLF001  (of this module)


os.register_at_fork(after_in_child=_forget_after_fork)
