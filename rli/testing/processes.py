"""Work that tests do on a store in processes of their own.

A process inherits nothing that is open, as an executor does not; the store comes to it pickled. The processes come from
a fork server that has imported the stores that are installed, so that each of them starts at once.
"""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import entry_points
from itertools import count
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Final, TypeVar

from rli.store.contract import Store
from rli.store.registry import ENTRY_POINT_GROUP
from rli.testing.batches import entries_of, key_batch, random_keys

T = TypeVar("T")

PRELOADED: Final = (
    "rli.testing",
    "pyarrow.dataset",
    "pyarrow.parquet",
    *{point.module for point in entry_points(group=ENTRY_POINT_GROUP)},
)
"""Modules that the fork server imports, once for all processes."""

FORK_SERVER: Final = get_context("forkserver")
FORK_SERVER.set_forkserver_preload([*PRELOADED])


def run_in_process(work: Callable[[Store], T], store: Store) -> T:
    """The result of ``work`` on a copy of the store in another process; an error of it is raised here."""
    return run_in_processes([work], store)[0]


def run_in_processes(works: list[Callable[[Store], T]], store: Store) -> list[T]:
    """The results of works that run at once, each on its copy of the store in a process of its own."""
    pickled = pickle.dumps(store)
    with ProcessPoolExecutor(len(works), mp_context=FORK_SERVER) as processes:
        futures = [processes.submit(_run_on_copy, work, pickled) for work in works]
        return [future.result() for future in futures]


def put_and_die(store: Store, keys: list[bytes]) -> int | None:
    """Put keys, with sequence 1, in a process that kills itself as soon as the call has returned; its exit code."""
    process = FORK_SERVER.Process(target=_put_and_die, args=(pickle.dumps(store), keys))
    process.start()
    process.join()
    return process.exitcode


def kill_while_putting(store: Store, batch_keys: int, seconds: float) -> int:
    """Let a process put one batch after the other and kill it; how many it had seen acknowledged by then.

    Batch ``n`` holds the keys of ``random_keys(batch_keys, 16, seed=n)`` with sequence ``n + 1``.
    """
    receiver, sender = FORK_SERVER.Pipe(duplex=False)
    process = FORK_SERVER.Process(target=_put_for_ever, args=(pickle.dumps(store), batch_keys, sender))
    process.start()
    sender.close()
    acknowledged = receiver.recv() + 1
    process.join(seconds)
    process.kill()
    process.join()
    while receiver.poll():
        try:
            acknowledged = receiver.recv() + 1
        except EOFError:
            break
    return acknowledged


def set_control(store: Store, name: str, value: bytes) -> bool:
    """Whether this process was the one to set an absent control record."""
    return store.compare_and_set(name, None, value)


def mark(store: Store, sequence: int) -> bool:
    """Whether commits up to ``sequence`` could be marked as applied."""
    return store.mark_applied(store.applied(), sequence)


def count_up(store: Store, name: str, times: int) -> None:
    """Add one to the number in a control record, so many times, against any others that do the same."""
    for _ in range(times):
        while True:
            stored = store.read_control(name)
            if store.compare_and_set(name, stored, b"%d" % (int(stored or b"0") + 1)):
                break


def put_numbered(store: Store, keys: list[bytes], sequence: int) -> None:
    """Put keys with their positions as file groups."""
    store.put(key_batch(keys), entries_of(sequence, range(len(keys))))


def get_entries(store: Store, keys: list[bytes]) -> list[int]:
    """Entries of keys in shard 0."""
    return [int(number) for number in store.get(key_batch(keys))]


def _run_on_copy(work: Callable[[Store], T], pickled: bytes) -> T:
    store: Store = pickle.loads(pickled)  # noqa: S301  (made by the test itself)
    with store:
        return work(store)


def _put_and_die(pickled: bytes, keys: list[bytes]) -> None:
    store: Store = pickle.loads(pickled)  # noqa: S301  (made by the test itself)
    put_numbered(store, keys, 1)
    os.kill(os.getpid(), signal.SIGKILL)


def _put_for_ever(pickled: bytes, batch_keys: int, acknowledge: Connection) -> None:
    store: Store = pickle.loads(pickled)  # noqa: S301  (made by the test itself)
    for number in count():
        put_numbered(store, random_keys(batch_keys, 16, seed=number), number + 1)
        acknowledge.send(number)
