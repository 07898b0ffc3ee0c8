"""Control records: a hash of all of them, and their names in order."""

from __future__ import annotations

import secrets
from typing import Final

from rli.errors import StoreUnavailableError
from rli_redis.names import CONTROL_COUNTER, Names
from rli_redis.presence import Presence
from rli_redis.scripts import COMPARE_AND_SET, LIST_CONTROL
from rli_redis.servers import Argument, Command, Servers

TOKENS_KEPT: Final = 256
"""Of so many changes it can be told afterwards whether they were made."""

_TOKEN_WIDTH: Final = 8
_UNKNOWN: Final = -1
_SEEN_TOO_LITTLE: Final = -2
_RECORDS_PER_COMMAND: Final = 256


class ControlRecords:
    """The control records of one index.

    Every method raises ``IndexNotFoundError`` if the index was dropped, and ``CorruptIndexError`` if the server has
    lost the records.
    """

    def __init__(self, servers: Servers, names: Names, presence: Presence) -> None:
        self._servers = servers
        self._names = names
        self._presence = presence
        self._place = servers.place(names)
        self._changes_seen: int | None = None

    def read(self, name: str) -> bytes | None:
        """The value of a record, None where there is none."""
        reply = self._servers.execute(Command(self._place, ("HMGET", self._names.control, CONTROL_COUNTER, name)))
        if reply[0] is None:
            raise self._lost()
        self._changes_seen = int(reply[0])
        value: bytes | None = reply[1]
        return value

    def scan(self, prefix: str, start: str) -> list[tuple[str, bytes]]:
        """The records whose name begins with ``prefix`` and is not below ``start``, in order."""
        found: list[tuple[str, bytes]] = []
        keys = [self._names.control, self._names.control_names]
        first = "[" + max(prefix, start)
        # Names are ASCII, so that no name that begins with the prefix comes after this.
        last = f"({prefix}\x7f" if prefix else "+"
        while True:
            bounds = (first, last, _RECORDS_PER_COMMAND)
            reply = self._servers.execute(Command.run(self._place, LIST_CONTROL, keys, bounds))
            if reply is None:
                raise self._lost()
            names = [name.decode("ascii") for name in reply[::2]]
            found += zip(names, reply[1::2], strict=True)
            if len(names) < _RECORDS_PER_COMMAND:
                return found
            first = "(" + names[-1]

    def compare_and_set(self, name: str, expected: bytes | None, value: bytes | None) -> bool:
        """Set a record to ``value`` if it is ``expected``; returns whether it was set.

        Raises:
            StoreUnavailableError: the answer was lost, and so many changes were made since that nobody can tell
                whether this one was.
        """
        change: tuple[Argument, ...] = (
            name,
            *(("0", b"") if expected is None else ("1", expected)),
            *(("0", b"") if value is None else ("1", value)),
            secrets.token_bytes(_TOKEN_WIDTH),
            TOKENS_KEPT,
        )
        while True:
            seen = self._changes_seen
            if seen is None:
                self.read(name)
                continue
            reply = self._servers.execute(self._setting(*change, seen, "0"), repeated=self._setting(*change, seen, "1"))
            if reply is None:
                raise self._lost()
            outcome, self._changes_seen = reply
            if outcome == _UNKNOWN:
                raise StoreUnavailableError(
                    f"the answer to a change was lost, and whether it was made cannot be told any more: "
                    f"store={self._servers.name} record={name}; look at what is there, then try again"
                )
            if outcome != _SEEN_TOO_LITTLE:
                return bool(outcome)

    def _setting(self, *arguments: Argument) -> Command:
        keys = [self._names.control, self._names.control_names, self._names.control_tokens]
        return Command.run(self._place, COMPARE_AND_SET, keys, arguments)

    def _lost(self) -> Exception:
        return self._presence.lost(self._names, "its control records")
