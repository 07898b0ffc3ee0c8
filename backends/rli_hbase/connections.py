"""Connections to the Thrift servers of one cluster: one for each thread that is in a call, kept for the next."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Final

import happybase
from thriftpy2.thrift import TException

from rli.errors import StoreUnavailableError
from rli_hbase.errors import SOUND
from rli_hbase.url import HbaseSettings

# Thrift servers hang up after 60 seconds of silence by default.
_LONGEST_IDLE_SECONDS: Final = 30.0


@dataclass(slots=True)
class _Idle:
    """Connections that nobody uses at the moment, of one process, with the time of their last use."""

    process: int = field(default_factory=os.getpid)
    lock: Lock = field(default_factory=Lock)
    connections: list[tuple[float, happybase.Connection]] = field(default_factory=list)


class Connections:
    """Lends connections; a server that fails is passed over for the next one.

    Threads may borrow at the same time. A process that was forked makes connections of its own.
    """

    def __init__(self, settings: HbaseSettings) -> None:
        self._settings = settings
        # Many processes spread over the servers.
        self._server = random.randrange(len(settings.servers))  # noqa: S311  (no secret)
        self._idle = _Idle()
        self._is_closed = False

    @contextmanager
    def borrowed(self) -> Iterator[Any]:
        """A client whose methods are the calls of HBase's Thrift interface, on a connection of this thread's own.

        A connection on which an answer was lost is not used again, nor is any other one that lay idle meanwhile:
        what broke one has broken them all.
        """
        connection = self._take()
        try:
            yield connection.client
        except SOUND:
            self._give_back(connection)
            raise
        except BaseException:
            _close(connection)
            self._close_idle()
            self._server += 1
            raise
        self._give_back(connection)

    def close(self) -> None:
        """Close what is idle; nothing is lent from now on."""
        self._is_closed = True
        self._close_idle()

    def _take(self) -> happybase.Connection:
        if self._is_closed:
            raise StoreUnavailableError(
                f"the store was closed: store={self._settings.location}", remedy="open it again"
            )
        if self._idle.process != os.getpid():
            self._idle = _Idle()
        with self._idle.lock:
            oldest = time.monotonic() - _LONGEST_IDLE_SECONDS
            while self._idle.connections:
                last_used, connection = self._idle.connections.pop()
                if last_used >= oldest:
                    return connection
                _close(connection)
        return self._connect()

    def _give_back(self, connection: happybase.Connection) -> None:
        with self._idle.lock:
            if not self._is_closed:
                self._idle.connections.append((time.monotonic(), connection))
                return
        _close(connection)

    def _connect(self) -> happybase.Connection:
        servers = self._settings.servers
        for attempt in range(len(servers)):
            host, port = servers[(self._server + attempt) % len(servers)]
            try:
                connection = happybase.Connection(
                    host,
                    port,
                    timeout=round(self._settings.attempt_seconds * 1000),
                    transport=self._settings.transport,
                    protocol=self._settings.protocol,
                )
            except (TException, OSError):
                if attempt == len(servers) - 1:
                    raise
            else:
                self._server += attempt
                return connection
        raise AssertionError(servers)

    def _close_idle(self) -> None:
        with self._idle.lock:
            connections, self._idle.connections = self._idle.connections, []
        for _, connection in connections:
            _close(connection)


def _close(connection: happybase.Connection) -> None:
    with suppress(TException, OSError):
        connection.close()
