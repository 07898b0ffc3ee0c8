"""A TCP proxy that a test puts between a client and a server, to cut and to delay what passes."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum, auto
from threading import Lock, Thread
from typing import Final

_CHUNK: Final = 1 << 16


class Fate(Enum):
    """What becomes of a request and of its answer."""

    LOST_BEFORE = auto()
    """The connection is cut before the request reaches the server."""

    ANSWER_LOST = auto()
    """The server does the work and answers; the connection is cut in the place of the answer."""

    ANSWER_HALVED = auto()
    """The same, but half of what arrives first of the answer is passed on."""


@dataclass(frozen=True, slots=True)
class _Trap:
    request: bytes
    fate: Fate
    before_fate: Callable[[], None]


class TcpProxy:
    """Passes bytes between clients and one server; use ``tcp_proxy`` to run one.

    Attributes:
        host, port: where clients connect.
        target: host and port of the server; may be changed, for connections to come.
        delay_seconds: how long each part of an answer is held back.
        connections: how many clients have connected so far.
        round_trips: how often a client sent something that may depend on an answer: it had received one since it last sent.
        lost: the requests that never reached the server.
    """

    def __init__(self, target: tuple[str, int]) -> None:
        self.target = target
        self.delay_seconds = 0.0
        self.connections = 0
        self.round_trips = 0
        self._was_answered = True
        self.lost: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.host, self.port = self._listener.getsockname()
        self._lock = Lock()
        self._open: set[socket.socket] = set()
        self._traps: list[_Trap] = []
        self._is_closed = False
        Thread(target=self._accept, name="tcp proxy", daemon=True).start()

    def once(self, request: bytes, fate: Fate, before_fate: Callable[[], None] = lambda: None) -> None:
        """Let the next request that has these bytes at its beginning meet its fate; may be said several times.

        Args:
            request: bytes that tell the request, such as the name of a command.
            fate: what becomes of it.
            before_fate: is called before the connection is cut; for an answer, once the answer has arrived.
        """
        with self._lock:
            self._traps.append(_Trap(request, fate, before_fate))

    @property
    def is_done(self) -> bool:
        """Whether every request that was waited for has come."""
        with self._lock:
            return not self._traps

    def deliver_lost(self) -> None:
        """Bring the lost requests to the server after all, and wait for its answers."""
        for request in self.lost:
            with socket.create_connection(self.target) as connection:
                connection.sendall(request)
                connection.recv(_CHUNK)

    def cut_all(self) -> None:
        """Cut every connection that is open."""
        with self._lock:
            ends, self._open = self._open, set()
        for end in ends:
            _close(end)

    def close(self) -> None:
        """Take no more connections and cut those that are open."""
        self._is_closed = True
        _close(self._listener)
        self.cut_all()

    def _accept(self) -> None:
        while not self._is_closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            try:
                server = socket.create_connection(self.target)
            except OSError:
                _close(client)
                continue
            with self._lock:
                self._open |= {client, server}
            link = _Link(self, client, server)
            for work in (link.pass_requests, link.pass_answers):
                Thread(target=work, name="tcp proxy", daemon=True).start()

    def note_request(self) -> None:
        """Count the round trip that begins with a request, unless it goes along with others."""
        with self._lock:
            self.round_trips += self._was_answered
            self._was_answered = False

    def note_answer(self) -> None:
        """Note that what clients send from now on may depend on an answer."""
        with self._lock:
            self._was_answered = True

    def spring(self, request: bytes) -> _Trap | None:
        """The trap that was set for a request, which is taken away."""
        with self._lock:
            found = next((trap for trap in self._traps if trap.request in request), None)
            if found is not None:
                self._traps.remove(found)
            return found


class _Link:
    """One client's connection and the one to the server that was made for it."""

    def __init__(self, proxy: TcpProxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._trap: _Trap | None = None

    def pass_requests(self) -> None:
        for part in _parts(self._client):
            self._proxy.note_request()
            trap = self._proxy.spring(part)
            if trap is not None and trap.fate is Fate.LOST_BEFORE:
                self._proxy.lost.append(part)
                trap.before_fate()
                break
            if trap is not None:
                self._trap = trap
            with suppress(OSError):
                self._server.sendall(part)
        self._cut()

    def pass_answers(self) -> None:
        for part in _parts(self._server):
            trap = self._trap
            if self._proxy.delay_seconds:
                time.sleep(self._proxy.delay_seconds)
            self._proxy.note_answer()
            if trap is not None:
                trap.before_fate()
                if trap.fate is Fate.ANSWER_HALVED:
                    self._client.sendall(part[: len(part) // 2])
                break
            with suppress(OSError):
                self._client.sendall(part)
        self._cut()

    def _cut(self) -> None:
        _close(self._client)
        _close(self._server)


@contextmanager
def tcp_proxy(target: tuple[str, int]) -> Iterator[TcpProxy]:
    """A proxy in front of ``target`` that runs as long as the context."""
    proxy = TcpProxy(target)
    try:
        yield proxy
    finally:
        proxy.close()


def _parts(source: socket.socket) -> Iterator[bytes]:
    with suppress(OSError):
        while part := source.recv(_CHUNK):
            yield part


def _close(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
