"""A cache is bounded in bytes, and survives threads, forks and pickle."""

from __future__ import annotations

import os
import pickle
import signal
import warnings
from threading import Event, Thread

from rli.byte_cache import ByteCache


def test_last_asked_values_are_kept() -> None:
    cache = ByteCache[bytes](30, len)
    for key in "abc":
        cache.keep(key, b"x" * 10)
    assert cache.get("a") is not None
    cache.keep("d", b"x" * 10)
    # Larger than all others together: it would drive them out.
    cache.keep("e", b"x" * 31)
    assert [key for key in "abcde" if cache.get(key)] == ["a", "c", "d"]


def test_a_new_value_replaces() -> None:
    cache = ByteCache[bytes](30, len)
    cache.keep("b", b"x" * 10)
    for _ in range(9):
        cache.keep("a", b"y" * 20)
    assert (cache.get("a"), cache.get("b")) == (b"y" * 20, b"x" * 10)
    cache.keep("a", b"z" * 31)
    assert (cache.get("a"), cache.get("b")) == (None, b"x" * 10)


def test_used_values_are_spared() -> None:
    now = [0.0]
    cache = ByteCache[bytes](30, len, 60.0, lambda: now[0])
    for _ in range(3):
        for key in "abcd":
            if cache.get(key) is None:
                cache.keep(key, b"x" * 10)
    assert [key for key in "abcd" if cache.get(key)] == ["a", "b", "c"]
    now[0] = 59.0
    assert cache.get("b")
    now[0] = 61.0
    cache.keep("d", b"x" * 10)
    assert [key for key in "abcd" if cache.get(key)] == ["b", "c", "d"]


def test_values_are_kept_together() -> None:
    cache = ByteCache[bytes](30, len)
    cache.keep_all({"a": b"x" * 20, "b": b"x" * 20})
    assert (cache.get("a"), cache.get("b")) == (None, None)
    cache.keep_all({"a": b"x" * 20, "b": b"x" * 10})
    assert cache.get("a")
    assert cache.get("b")


def test_a_pickle_is_empty() -> None:
    cache = ByteCache[bytes](30, len)
    cache.keep("a", b"x")
    other: ByteCache[bytes] = pickle.loads(pickle.dumps(cache))  # noqa: S301  (made here)
    assert other.get("a") is None
    other.keep("a", b"x" * 31)
    assert other.get("a") is None


class SlowKey:
    """Its hash is computed when the test allows; a cache needs the hash while it changes."""

    def __init__(self) -> None:
        self.asked, self.allowed = Event(), Event()

    def __hash__(self) -> int:
        self.asked.set()
        self.allowed.wait()
        return 0


def test_forked_process_is_not_stuck() -> None:
    cache, key = ByteCache[bytes](30, len), SlowKey()
    cache.keep("a", b"x")
    changing = Thread(target=cache.keep, args=(key, b"y"))
    changing.start()
    key.asked.wait()
    with warnings.catch_warnings():
        # Python 3.12 warns of it: locks of other threads stay held in the child.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        signal.alarm(20)
        stale = cache.get("a")
        cache.keep("a", b"z")
        os._exit(0 if (stale, cache.get("a")) == (None, b"z") else 1)
    key.allowed.set()
    changing.join()
    assert os.waitpid(child, 0)[1] == 0
    assert (cache.get("a"), cache.get(key)) == (b"x", b"y")
