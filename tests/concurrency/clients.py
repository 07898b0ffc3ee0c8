"""Processes that do what a test tells them to, and tell what they were told.

A client can be held at a step of a write, so that a test chooses how writes interleave; and one of its protections can
be switched off, so that a test sees that the checker misses it.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import RLock
from typing import Any, Final

from rli import RliError, Scope, Step, Table, open_table, processes
from rli.codec.key_arrays import as_key_array
from rli.commit.conflicts import PlannedCommit
from rli.hudi.timeline.timeline import Timeline
from rli.index.contract import TableIndex
from rli.index.record.table.index import RecordTableIndex
from rli.storage.publications import Publications
from rli.store.contract import Store, Watermarks
from rli.table.table import opened_table
from rli.view.definition import TableDefinition
from tests.concurrency.history import (
    Cluster,
    Committed,
    Delete,
    Drop,
    Event,
    Found,
    History,
    Insert,
    Located,
    Lookup,
    Operation,
    Overwrite,
    Places,
    Read,
    Refused,
    Upsert,
    places_by_partition,
)
from tests.support.children import duplex_pipe, start_child
from tests.support.faults import PointedStorage, PointedStore
from tests.support.indexes import record_index
from tests.support.tables import records

_CARRY_OUT: Final = Publications._carry_out  # noqa: SLF001
_READY: Final = "ready"
_HELD: Final = "held"
_STOPPED: Final = "T"
_DEADLINE_SECONDS: Final = 120.0


class Point(StrEnum):
    """Where a client can be held, beside the steps of a write."""

    FIRST_PUT = "after put"
    """Some of a commit's entries are in the index."""

    BEFORE_PUBLISHING = "before publish"
    """The lease was asked for the last time."""

    DECIDED = "before copy"
    """In an object store: it is decided that the commit is published, and it is not there yet."""

    WAITS_FOR_WRITER = "reads writer"
    """A look-up has found a commit that its writer is still bringing into the index."""


@dataclass(frozen=True)
class Host:
    """What a client takes itself to run on.

    Attributes:
        name: by which it knows the processes of this host; of others it cannot see whether they live.
        clock_ahead: seconds.
    """

    name: str
    clock_ahead: float

    def pretend(self) -> None:
        """Let this process run on the host."""
        clock, now = time.time, TableDefinition.now

        def shifted(self: TableDefinition) -> datetime:
            return now(self) + timedelta(seconds=ahead)

        ahead = self.clock_ahead
        processes._host = lambda: self.name  # noqa: SLF001
        time.time = lambda: clock() + ahead
        TableDefinition.now = shifted  # type: ignore[method-assign]


class Protection(StrEnum):
    """What can be switched off in a client."""

    CONFLICT_CHECK = "conflict check"
    WHOLE_COMMITS = "look-ups show whole commits"
    COMPLETED_INSTANTS = "only completed instants are visible"


@dataclass(frozen=True)
class Order:
    """What a client is to do.

    Attributes:
        operation: of the table.
        hold_at: where to stop, the first time, until it is told to go on.
        attempts: of a write.
        and_stop: whether to stop the whole process there, its renewals too, until it is sent SIGCONT.
    """

    operation: Operation
    hold_at: Step | Point | None = None
    attempts: int | None = None
    and_stop: bool = False


@dataclass(frozen=True)
class _Circumstances:
    """What a client works in: the URL of its index, its host, what is switched off, and options of its storage."""

    index: str | None
    host: Host | None
    off: Protection | None
    options: Mapping[str, str]


class Client:
    """A process with a table of its own."""

    def __init__(self, number: int, process: BaseProcess, connection: Connection) -> None:
        self._number = number
        self._connection = connection
        self.process = process

    def start(self, operation: Operation, hold_at: Step | Point | None = None, attempts: int | None = None) -> None:
        """Begin an operation."""
        self._connection.send(Order(operation, hold_at, attempts))

    def reach(self) -> Event | None:
        """None once the process is held; what became of the operation, if it has not come by where it was to be held."""
        answer = self._receive()
        return None if answer == _HELD else answer

    def hold(self, operation: Operation, at: Step | Point, attempts: int | None = None) -> None:
        """Begin an operation and hold it."""
        self.start(operation, at, attempts)
        ended = self.reach()
        assert ended is None, ended

    @contextmanager
    def stopped(self, operation: Operation, at: Step | Point, attempts: int) -> Iterator[None]:
        """Begin an operation and stop the process in it; it may go on when the context is left."""
        self._connection.send(Order(operation, at, attempts, and_stop=True))
        assert self.reach() is None
        pid = self.process.pid
        assert pid is not None
        deadline = time.monotonic() + _DEADLINE_SECONDS
        while _state_of(pid) != _STOPPED:
            assert time.monotonic() < deadline, f"the process does not stop: pid={pid}"
            time.sleep(0.01)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def go_on(self) -> None:
        """Let a client that is held go on."""
        self._connection.send(None)

    def finish(self) -> Event:
        """Let a client that is held go on, to its end."""
        self.go_on()
        return self.result()

    def result(self) -> Event:
        """What became of the operation that was begun."""
        event = self._receive()
        assert isinstance(event, Event), event
        return event

    def do(self, operation: Operation, attempts: int | None = None) -> Event:
        """An operation from its beginning to its end."""
        self.start(operation, attempts=attempts)
        return self.result()

    def kill(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.join()

    def _receive(self) -> Any:
        assert self._connection.poll(_DEADLINE_SECONDS), f"no answer: client={self._number}"
        return self._connection.recv()


@contextmanager
def clients(
    location: str,
    count: int,
    off: Protection | None = None,
    indexes: Sequence[str | None] = (None,),
    hosts: Sequence[Host | None] = (None,),
    *,
    storage_options: Mapping[str, str] | None = None,
) -> Iterator[list[Client]]:
    """Processes that have opened a table; they end with the context.

    Args:
        location: of the table.
        count: how many.
        off: the protection that is switched off in all of them.
        indexes: URLs of the table's indexes, which the clients take in turn; None for the one that the table names.
        hosts: what they take themselves to run on, likewise; None for this one.
        storage_options: of the table, if it is in an object store.
    """
    started: list[Client] = []
    try:
        for number in range(count):
            ours, theirs = duplex_pipe()
            circumstances = _Circumstances(
                indexes[number % len(indexes)], hosts[number % len(hosts)], off, storage_options or {}
            )
            started.append(Client(number, start_child(_serve, location, number, circumstances, theirs), ours))
            theirs.close()
        for client in started:
            assert client._receive() == _READY  # noqa: SLF001  (one thing with the class)
        yield started
    finally:
        for client in started:
            client.kill()


def history_of(table: Table, events: Iterable[Event]) -> History:
    """The history of a table, with a last read at its end."""
    called = time.monotonic()
    rows = tuple(tuple(row.values()) for row in table.read(columns=["id", "city", "ts", "v"]).to_pylist())
    last = Event(Read(), Found(rows), called, time.monotonic(), process=-1)
    commits: tuple[str, ...]
    writes = opened_table(table).snapshot().timeline.completed_writes
    if all(write.completion_time for write in writes):
        # Of version 9, whose instants have the time when they completed, under the lease.
        commits = tuple(write.time for write in sorted(writes, key=lambda write: write.completion_time or ""))
    else:
        records = record_index(table).log.refresh().records_after(0)
        commits = tuple(record.instant for record in records if record.instant is not None)
    return History(commits, (*events, last))


def _serve(location: str, number: int, circumstances: _Circumstances, connection: Connection) -> None:
    """A client's work: does what it is told until its parent is gone."""
    index, host, off, options = circumstances.index, circumstances.host, circumstances.off, circumstances.options
    if host is not None:
        host.pretend()
    if off is not None:
        _SWITCH_OFF[off]()
    table = open_table(location, index=index, storage_options=options)
    opened = told = opened_table(table).index
    connection.send(_READY)
    try:
        while True:
            order = connection.recv()
            hold = _Hold(connection, order)
            table._opened.definition = replace(  # noqa: SLF001
                opened_table(table).definition, storage=PointedStorage(location, options, at_point=hold.at_point)
            )
            _report_decisions(hold)
            # The table may have got another index since.
            opened = opened if opened_table(table).refreshed()[1] is told else opened_table(table).index
            told = _told_of(opened, hold)
            table._opened._index = told  # noqa: SLF001
            called = time.monotonic()
            outcome = do(table, order.operation, order.attempts, hold.on_step)
            connection.send(Event(order.operation, outcome, called, time.monotonic(), number))
    except EOFError:
        return


def _told_of(index: TableIndex, hold: _Hold) -> TableIndex:
    if not isinstance(index, RecordTableIndex):
        return index
    return RecordTableIndex(_Telling(index.store, hold), index.settings)


class _Telling(PointedStore):
    """Reports also whether a writer is asked for; changes nothing while the process is to be stopped.

    A process that is stopped within a transaction of LMDB keeps all others from writing until it goes on.
    """

    def __init__(self, store: Store, hold: _Hold) -> None:
        super().__init__(store, hold.at_point)
        self._lock = hold.lock

    def compare_and_set(self, name: str, expected: bytes | None, value: bytes | None) -> bool:
        with self._lock:
            return super().compare_and_set(name, expected, value)

    def mark_applied(self, since: Watermarks, sequence: int) -> bool:
        with self._lock:
            return super().mark_applied(since, sequence)

    def read_control(self, name: str) -> bytes | None:
        if name.startswith("writer/"):
            self._at_point(Point.WAITS_FOR_WRITER)
        return super().read_control(name)


class _Hold:
    def __init__(self, connection: Connection, order: Order) -> None:
        self._connection = connection
        self._at = order.hold_at
        self._and_stop = order.and_stop
        self.lock = RLock()

    def on_step(self, step: Step) -> None:
        if step is self._at:
            self._stop()

    def at_point(self, point: str) -> None:
        if isinstance(self._at, Point) and point.startswith(self._at):
            self._stop()

    def _stop(self) -> None:
        self._at = None
        with self.lock if self._and_stop else nullcontext():
            self._connection.send(_HELD)
            if self._and_stop:
                os.kill(os.getpid(), signal.SIGSTOP)
            self._connection.recv()


def _report_decisions(hold: _Hold) -> None:
    def carry_out(self: Publications, path: str, decision: Any) -> None:
        hold.at_point(Point.DECIDED)
        _CARRY_OUT(self, path, decision)

    Publications._carry_out = carry_out  # type: ignore[method-assign]  # noqa: SLF001


def _state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def _nothing(_: Step) -> None: ...


def _places(table: Table, keys: Sequence[str]) -> Places:
    located = table.lookup(keys)
    found, places = (located.column(name).to_pylist() for name in ("record_key", "partition_path"))
    if table.index.scope is Scope.PARTITION:
        return places_by_partition(keys, zip(found, places, strict=True))
    return dict(zip(keys, places, strict=True))


def do(
    table: Table, operation: Operation, attempts: int | None, on_step: Callable[[Step], None] = _nothing
) -> Committed | Refused | Found | Located:
    """What becomes of an operation of a table."""
    match operation:
        case Read():
            rows = table.read(columns=["id", "city", "ts", "v"]).to_pylist()
            return Found(tuple(tuple(row.values()) for row in rows))
        case Lookup(keys):
            return Located(_places(table, keys))
        case _:
            return _written(partial(_write_of(table, operation), attempts=attempts, on_step=on_step))


def _write_of(table: Table, operation: Operation) -> Callable[..., Any]:
    """The write, which takes its attempts and ``on_step``."""
    write: Callable[..., Any]
    match operation:
        case Upsert(batch):
            write = partial(table.upsert, records(*batch))
        case Insert(batch):
            write = partial(table.insert, records(*batch))
        case Delete(keys):
            write = partial(table.delete, keys)
        case Overwrite(batch, named):
            write = partial(table.overwrite_partitions, records(*batch), partitions=named)
        case Drop(named):
            write = partial(table.drop_partitions, named, missing_ok=True)
        case Cluster():
            write = table.cluster
        case _:
            raise TypeError(f"no write: {operation}")
    return write


def _written(write: Callable[[], Any]) -> Committed | Refused:
    try:
        result = write()
    except RliError as error:
        return Refused(type(error).__name__)
    counts = (result.inserted, result.updated, result.moved, result.deleted, result.unchanged)
    return Committed(result.instant, counts)


def _without_conflict_check() -> None:
    PlannedCommit.require_no_conflict = lambda *_: None  # type: ignore[method-assign]


def _without_whole_commits() -> None:
    def lookup(self: Table, keys: Any, *, timeout: float = 0) -> Any:  # noqa: ARG001
        record_keys = as_key_array(keys)
        return record_index(self).locations(record_keys, record_index(self).get(record_keys))

    Table.lookup = lookup  # type: ignore[method-assign, assignment]


def _without_completed_instants() -> None:
    Timeline.is_visible = lambda *_: True  # type: ignore[method-assign]


_SWITCH_OFF: Final = {
    Protection.CONFLICT_CHECK: _without_conflict_check,
    Protection.WHOLE_COMMITS: _without_whole_commits,
    Protection.COMPLETED_INSTANTS: _without_completed_instants,
}
