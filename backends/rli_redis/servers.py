"""Sending commands to the servers of an index, many at a time, and getting their answers in order.

The common case is fast and simple: commands are sent ahead of the answers that are read, on one connection for each
server. Whatever else happens to a command (a lost connection, a server that is loading, a slot that moved, a script
that the server has not seen) sends this one command down a slow path that repeats it, on its own, until it is
answered or the deadline has passed. So **every command must be one that may be applied twice**.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, repeat
from typing import Any, Final, TypeAlias

from hiredis import pack_command
from redis.connection import Connection, ConnectionPool
from redis.exceptions import NoScriptError, RedisClusterException, RedisError, ResponseError

from rli.store import Retries
from rli_redis.errors import explained, is_demoted, translated_errors
from rli_redis.keyspace import Names
from rli_redis.scripts import Script

Argument: TypeAlias = bytes | str | int
Reply: TypeAlias = Any

# A server works on one command while the answer to another is on its way or being decoded. Small commands all go at once: a
# cluster needs one for each slot.
_BYTES_SENT_AHEAD: Final = 3 << 19
_LEAST_BYTES: Final = 1 << 10
_BYTES_PER_INFO: Final = 1 << 11
_BYTES_PER_SEND: Final = 1 << 16
_FAILURES: Final = (RedisError, RedisClusterException, OSError)


@dataclass(frozen=True, slots=True)
class PackedArguments:
    """Arguments in the form in which they are sent.

    Attributes:
        count: how many.
        content: one after the other, in parts that need not end where an argument does.
    """

    count: int
    content: tuple[bytes | memoryview, ...]

    def followed_by(self, arguments: Sequence[Argument]) -> PackedArguments:
        """These arguments and others."""
        return PackedArguments(self.count + len(arguments), (*self.content, _without_count(arguments)))


@dataclass(frozen=True, slots=True)
class Command:
    """A command, and where it belongs.

    Attributes:
        place: what ``Servers.place`` said of its keys.
        arguments: name and arguments.
        more: further arguments.
        script: of a command that runs one; sent by name, and in full to a server that does not know it.
        size: about how many bytes it has together with its answer.
    """

    place: int
    arguments: tuple[Argument, ...]
    more: PackedArguments | None = None
    script: Script | None = None
    size: int = _BYTES_SENT_AHEAD // 3

    @classmethod
    def run(
        cls,
        place: int,
        script: Script,
        keys: Sequence[bytes],
        arguments: Sequence[Argument],
        *,
        more_keys: PackedArguments | None = None,
        size: int = _BYTES_SENT_AHEAD // 3,
    ) -> Command:
        """A call of a script."""
        if more_keys is None:
            called = ("EVALSHA", script.sha, len(keys), *keys, *arguments)
            return cls(place, called, script=script, size=size)
        called = ("EVALSHA", script.sha, len(keys) + more_keys.count, *keys)
        return cls(place, called, more_keys.followed_by(arguments), script, size)

    def packed(self) -> bytes:
        """What is sent."""
        return _packed(self.arguments, self.more)

    def packed_in_full(self) -> bytes:
        """The same with the script's text in the place of its name."""
        if self.script is None:
            return self.packed()
        return _packed(("EVAL", self.script.source, *self.arguments[2:]), self.more)


class Servers(ABC):
    """The servers of one index.

    Args:
        name: the URL without secrets, for messages.
        is_transient: whether an error may go away by itself.
        deadline_seconds: how long one command may take, all attempts together.
    """

    def __init__(self, name: str, is_transient: Callable[[BaseException], bool], deadline_seconds: float) -> None:
        self.name = name
        self._retries = Retries(name, is_transient, deadline_seconds, partial(explained, name))

    @abstractmethod
    def place(self, names: Names, shard: int | None = None) -> int:
        """Where an index keeps a shard, or without one what belongs to no shard: a command's keys are of one place."""

    @property
    def is_single(self) -> bool:
        """Whether a single server keeps the whole index: if it goes back, the whole index goes back."""
        return False

    @abstractmethod
    def header_places(self) -> list[int]:
        """Where the header of an index is kept on each server, the first one first; a cluster is one server."""

    @abstractmethod
    def places_of_nodes(self) -> list[int]:
        """A place on each process that takes writes."""

    @abstractmethod
    def _pool(self, place: int) -> ConnectionPool:
        """Connections to the server that has a place at present."""

    @abstractmethod
    def _look_again(self, place: int, error: BaseException) -> None:
        """Find out again which server has which place, and how to reach it, after an error that makes this doubtful."""

    @abstractmethod
    def close(self) -> None:
        """Close all connections but those that another thread is using: they end when it has its answer.

        The client library fails in ways of its own where a connection is closed under a thread.
        """

    def incarnations(self) -> dict[str, str]:
        """What each process that takes writes is called, and what tells that it kept all that it has acknowledged.

        The latter is another one where a process was started again, or was made to follow another one for a time.
        """
        found: dict[str, str] = {}
        for place in self.places_of_nodes():
            found[self.node_name(place)] = self.incarnation(place)
        return found

    def incarnation(self, place: int) -> str:
        """That of the process that has a place at present."""
        return incarnation_in(self.exchange(incarnation_commands(place)))

    def node_name(self, place: int) -> str:
        """What the server that has a place at present is called, for messages."""
        with translated_errors(self.name):
            return self._retries.run(lambda: self._name_of(self._pool(place)))

    def _name_of(self, pool: ConnectionPool) -> str:
        options = pool.connection_kwargs
        return str(options.get("path") or f"{options['host']}:{options['port']}")

    def execute(self, command: Command, *, repeated: Command | None = None) -> Reply:
        """The answer to a command.

        Args:
            command: is sent again where its answer is lost.
            repeated: is sent instead of it from the second time on.

        Raises:
            StoreUnavailableError: no answer before the deadline, or an error that waiting does not mend.
            SettingsError: the server refuses this user.
        """
        attempts = chain([command], repeat(repeated or command))
        with translated_errors(self.name):
            return self._retries.run(lambda: self._attempt(next(attempts)))

    def exchange(self, commands: Iterable[Command]) -> Generator[Reply, None, None]:
        """The answers to commands, in order; raises like ``execute``. Who wants no more of them closes it."""
        waiting = iter(commands)
        sent: deque[tuple[Command, _Conversation | None]] = deque()
        ahead = 0
        conversations: dict[ConnectionPool, _Conversation] = {}
        try:
            while True:
                while ahead < _BYTES_SENT_AHEAD and (command := next(waiting, None)) is not None:
                    sent.append((command, self._send(command, conversations)))
                    ahead += max(command.size, _LEAST_BYTES)
                    if sent[-1][1] is None:
                        # The server does not answer at present: nothing is gained by asking it again at once.
                        break
                if not sent:
                    return
                for conversation in conversations.values():
                    conversation.flush()
                command, asked = sent.popleft()
                ahead -= max(command.size, _LEAST_BYTES)
                answered, reply = (False, None) if asked is None else asked.receive()
                yield reply if answered else self.execute(command)
        finally:
            for conversation in conversations.values():
                conversation.end()

    def _send(self, command: Command, conversations: dict[ConnectionPool, _Conversation]) -> _Conversation | None:
        """Send a command; None where the slow path has to."""
        try:
            pool = self._pool(command.place)
            conversation = conversations.get(pool)
            if conversation is None or conversation.is_over:
                conversation = conversations[pool] = _Conversation(pool)
            conversation.send(command)
        except _FAILURES:
            return None
        return conversation

    def _attempt(self, command: Command) -> Reply:
        try:
            return self._ask(self._pool(command.place), command)
        except _FAILURES as error:
            self._look_again(command.place, error)
            raise

    def _ask(self, pool: ConnectionPool, command: Command) -> Reply:
        try:
            return ask(pool, command.packed())
        except NoScriptError:
            return ask(pool, command.packed_in_full())


class _Conversation:
    """Commands on one connection, whose answers come in the order of the commands."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self._connection: Connection | None = pool.get_connection()
        self._unanswered = 0
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0

    @property
    def is_over(self) -> bool:
        return self._connection is None

    def send(self, command: Command) -> None:
        """Send a command, or keep it until there are more bytes to send, or ``flush``."""
        packed = command.packed()
        self._unsent.append(packed)
        self._unsent_bytes += len(packed)
        self._unanswered += 1
        if self._unsent_bytes >= _BYTES_PER_SEND:
            self.flush()

    def flush(self) -> None:
        """Send what was kept; where that fails, the conversation is over, and its commands are not answered."""
        if self._connection is None or not self._unsent:
            return
        # Another thread may have closed it. The client library would connect again without a word, and the next answer
        # would be taken for that to an older command. Releases before 8 have no public name for this.
        if self._unanswered > len(self._unsent) and self._connection._sock is None:  # noqa: SLF001
            self._break_off()
            return
        unsent, self._unsent, self._unsent_bytes = self._unsent, [], 0
        try:
            self._connection.send_packed_command([unsent[0] if len(unsent) == 1 else b"".join(unsent)])
        except _FAILURES:
            self._break_off()

    def receive(self) -> tuple[bool, Reply]:
        """Whether the next command was answered, and its answer."""
        if self._connection is None:
            return False, None
        try:
            reply = self._connection.read_response(disable_decoding=True)
        except ResponseError as error:
            self._unanswered -= 1
            if is_demoted(error):
                self._break_off()
            return False, None
        except _FAILURES:
            self._break_off()
            return False, None
        self._unanswered -= 1
        return True, reply

    def end(self) -> None:
        """Give the connection back."""
        if self._connection is not None and self._unanswered:
            self._break_off()
        elif self._connection is not None:
            self._pool.release(self._connection)
            self._connection = None

    def _break_off(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.disconnect()
            self._pool.release(connection)


def incarnation_commands(place: int) -> list[Command]:
    """The commands whose answers tell the incarnation of the process that has a place at present."""
    return [Command(place, ("INFO", section), size=_BYTES_PER_INFO) for section in ("server", "replication")]


def incarnation_in(replies: Iterable[Reply]) -> str:
    """The incarnation that these answers tell (``Servers.incarnations``)."""
    server, replication = map(info_fields, replies)
    return server["run_id"] + replication["master_replid"]


def info_fields(info: bytes) -> dict[str, str]:
    """The answer to INFO, field by field."""
    lines = (line.partition(":") for line in info.decode().splitlines() if not line.startswith("#"))
    return {name: value for name, _, value in lines}


def _packed(arguments: tuple[Argument, ...], more: PackedArguments | None) -> bytes:
    if more is None:
        return _pack(arguments)
    # Half a megabyte of buckets is copied once.
    return b"".join((b"*%d\r\n" % (len(arguments) + more.count), _without_count(arguments), *more.content))


def _without_count(arguments: Sequence[Argument]) -> memoryview:
    packed = _pack(arguments)
    return memoryview(packed)[packed.index(b"\n") + 1 :]


def _pack(arguments: Sequence[Argument]) -> bytes:
    # The client library would look at each argument in Python before it packs them all in C.
    packed: bytes = pack_command(tuple(arguments))  # type: ignore[arg-type]  # its stub has room for one argument
    return packed


def ask(pool: ConnectionPool, packed_command: bytes, *, asking: bool = False) -> Reply:
    """The answer to one command on a connection of its own."""
    connection = pool.get_connection()
    try:
        if asking:
            connection.send_command("ASKING")
            connection.read_response()
        connection.send_packed_command([packed_command])
        return connection.read_response(disable_decoding=True)
    except ResponseError:
        raise
    except BaseException:
        connection.disconnect()
        raise
    finally:
        pool.release(connection)
