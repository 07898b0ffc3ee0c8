"""Control records: a hash of all of them, and their names in order.

A lost answer is told from a conflict here, and lost changes are counted. What a loss means for the commit log is
decided by its reader (P25), for entries by ``rli_redis.epochs``.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rli.errors import StoreUnavailableError
from rli_redis.epochs import Epochs
from rli_redis.keyspace import Names
from rli_redis.lifecycle import Presence
from rli_redis.scripts import COMPARE_AND_SET, LIST_CONTROL, READ_CONTROL
from rli_redis.servers import Argument, Command, Servers

TOKENS_KEPT: Final = 256
"""Of so many changes it can be told afterwards whether they were made."""

_TOKEN_WIDTH: Final = 8
_UNKNOWN: Final = -1
_SEEN_TOO_LITTLE: Final = -2
_OTHER_EPOCH: Final = -3
_RECORDS_PER_COMMAND: Final = 256
_BYTES_PER_COMMAND: Final = 1 << 19
"""After so many bytes of values a command reads no further record, so that a server is soon there for others."""


@dataclass(frozen=True, slots=True)
class _Change:
    """The last change that was seen, by its number and its token; the token is None before the first change."""

    number: int
    token: bytes | None


class ControlRecords:
    """The control records of one index.

    Attributes:
        setbacks: how often changes that were seen had been lost later, or so many others had been made that nobody can
            tell.

    Every method raises ``IndexNotFoundError`` if the index was dropped, and ``CorruptIndexError`` if the server has
    lost the records.
    """

    def __init__(self, servers: Servers, names: Names, presence: Presence, epochs: Epochs) -> None:
        self._servers = servers
        self._names = names
        self._presence = presence
        self._place = servers.place(names)
        self._seen: _Change | None = None
        self._epochs = epochs
        self.setbacks = 0

    def read(self, name: str) -> bytes | None:
        """The value of a record, None where there is none."""
        return self.read_all([name])[0]

    def read_all(self, names: Sequence[str]) -> list[bytes | None]:
        """The values of records at one moment."""
        seen = self._seen
        keys = [self._names.control, self._names.control_tokens]
        known_of = 0 if seen is None else seen.number
        reply = self._servers.execute(Command.run(self._place, READ_CONTROL, keys, [known_of, *names]))
        if reply is None:
            raise self._lost()
        changes, last, known, *values = reply
        self._have_seen(seen, _Change(changes, last), known)
        return values

    def scan(self, prefix: str, start: str) -> list[tuple[str, bytes]]:
        """The records whose name begins with ``prefix`` and is not below ``start``, in order."""
        found: list[tuple[str, bytes]] = []
        first = "[" + max(prefix, start)
        # Names are ASCII, so that no name that begins with the prefix comes after this.
        last = f"({prefix}\x7f" if prefix else "+"
        while True:
            records, has_more = self._page(first, last)
            found += records
            if not has_more:
                return found
            first = "(" + records[-1][0]

    def _page(self, first: str, last: str) -> tuple[list[tuple[str, bytes]], bool]:
        """Records between two bounds, as many as suit a command, and whether there may be more."""
        seen = self._seen
        keys = [self._names.control, self._names.control_names, self._names.control_tokens]
        known_of = 0 if seen is None else seen.number
        arguments = (first, last, _RECORDS_PER_COMMAND, _BYTES_PER_COMMAND, known_of)
        reply = self._servers.execute(Command.run(self._place, LIST_CONTROL, keys, arguments))
        if reply is None:
            raise self._lost()
        changes, token, known, has_more, *records = reply
        self._have_seen(seen, _Change(changes, token), known)
        names = [name.decode("ascii") for name in records[::2]]
        return list(zip(names, records[1::2], strict=True)), bool(has_more)

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
            seen = self._seen
            if seen is None:
                self.read(name)
                continue
            self._epochs.require_log(name, self.setbacks)
            epoch = self._epochs.known
            # One token for both: by it the server recognises a repeat. A first call that was overtaken by its own
            # repeat is recognised, too.
            first, again = (self._setting(*change, seen.number, sent_again, epoch) for sent_again in ("0", "1"))
            reply = self._servers.execute(first, repeated=again)
            if reply is None:
                raise self._lost()
            outcome, changes, last, known = reply
            self._have_seen(seen, _Change(changes, last), known)
            if outcome == _UNKNOWN:
                raise StoreUnavailableError(
                    f"the answer to a change was lost, and its outcome is unknown: store={self._servers.name} "
                    f"record={name}",
                    remedy="read the record, then try again",
                )
            if outcome == _OTHER_EPOCH:
                self._epochs.renew_for_change()
            elif outcome != _SEEN_TOO_LITTLE:
                # Any other outcome is final. After ``_SEEN_TOO_LITTLE``, the next round goes by what this answer has
                # shown, with the same token.
                return bool(outcome)

    def _have_seen(self, before: _Change | None, now: _Change, known: bytes | None) -> None:
        """Remember the last change, and count a setback if the one before it is not what it was."""
        # The server names another change by this number, or none: it went back, or too many others came since. Both
        # make what was read doubtful, and the reader drops it (P25).
        if before is not None and known != before.token:
            self.setbacks += 1
        self._seen = now

    def _setting(self, *arguments: Argument) -> Command:
        keys = [self._names.control, self._names.control_names, self._names.control_tokens]
        return Command.run(self._place, COMPARE_AND_SET, keys, arguments)

    def _lost(self) -> Exception:
        return self._presence.lost(self._names, "its control records")
