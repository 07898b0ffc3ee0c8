"""Epochs: which life of the server with the commit log a process goes by.

A server that was started again, or a replica that took over, may have lost records of the commit log. It then gives their
numbers out again, and a process that still writes entries of a lost record would be believed. So each watermark has an epoch,
the digest of that server's incarnation. Who asks for what is applied brings all watermarks to the present epoch, and looks at
them after that: entries that came before are noticed, and those that come later are refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Final

from rli.errors import StoreRestartedError
from rli.index.record.log.record import RECORD_PREFIX
from rli_redis.keyspace import Names
from rli_redis.servers import Servers

_WIDTH: Final = 8


class Epochs:
    """The epoch that the users of one store object go by.

    It is *bound* to an epoch once somebody asked what is applied, or if another process did that for it: what is written
    then may be of records that were read of the log. Who writes without that is in whatever epoch it is.

    Attributes:
        known: the epoch in which control records are changed: 8 hexadecimal digits; empty before the first use, and always
            in formats 2 and 3.
        bound_to: the epoch in which entries are written; empty while the store object is not bound.
    """

    def __init__(self, servers: Servers, names: Names, bound_to: bytes = b"") -> None:
        self._servers = servers
        self._names = names
        self._look: Callable[[], int] = lambda: 0
        self._written = self._found = self._setbacks = 0
        self.known = self.bound_to = bound_to

    def when_renewed(self, look: Callable[[], int]) -> None:
        """Name what brings all watermarks to the present epoch, and tells the greatest sequence that was written."""
        self._look = look

    def present(self, incarnations: dict[str, str]) -> bytes:
        """The epoch of the server with the commit log, given the incarnations of all."""
        if not self._names.has_epochs:
            return b""
        incarnation = incarnations.get(self._servers.node_name(self._servers.place(self._names)), "")
        return hashlib.sha1(incarnation.encode(), usedforsecurity=False).hexdigest()[:_WIDTH].encode()

    def bind(self, written: int, setbacks: int) -> None:
        """Do not go by another epoch unasked.

        Args:
            written: the greatest sequence that was written to any shard when somebody asked what is applied.
            setbacks: how often lost changes of control records had been noticed by then.
        """
        self.bound_to, self._written, self._found, self._setbacks = self.known, written, 0, setbacks

    def for_writing(self, sequence: int) -> bytes:
        """The epoch in which entries of commits up to a sequence are written."""
        if not self.known:
            self.known = self.present(self._servers.incarnations())
        self._written = max(self._written, sequence)
        return self.bound_to or self.known

    def renew_for_writing(self) -> None:
        """Go by the present epoch, after watermarks were found to have another one; raises where that was not asked for."""
        # The caller's numbers come from a log of that epoch. To renew it here would believe entries of a commit that
        # may be lost; the sync begins again instead (P32).
        if self.bound_to:
            raise self._error()
        self._look()

    def renew_for_change(self) -> None:
        """Go by the present epoch, before a control record is changed."""
        self._found = self._look()

    def require_log(self, name: str, setbacks: int) -> None:
        """Raise before a record is added to a log that may have lost others since somebody asked what is applied.

        Entries that were written since then may be of such a record, and the new record might leave a gap behind it.

        Args:
            name: of the control record to be changed.
            setbacks: how often lost changes of control records have been noticed.
        """
        if not (self.bound_to and name.startswith(RECORD_PREFIX)):
            return
        # Both are needed: a restart alone loses nothing on a durable server, and 256 changes by others count as a
        # setback, too.
        has_lost_changes = self.known != self.bound_to and setbacks != self._setbacks
        if has_lost_changes or self._found > self._written:
            raise self._error()

    def _error(self) -> StoreRestartedError:
        return StoreRestartedError(
            "the server with the commit log was restarted or replaced since this write began: "
            f"store={self._servers.name}",
            remedy="it may have lost records: try again",
        )
