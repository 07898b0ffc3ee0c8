"""Records of the log whose entries were written when they were appended: nothing is left to apply."""

from __future__ import annotations

from rli.errors import IndexNotReadyError
from rli.index.record.entries.stored_entries import StoredEntries
from rli.index.record.log.actions import BOOTSTRAP, EXPIRE, REPAIR
from rli.index.record.log.record import LogRecord
from rli.index.record.sync.following import Evidence, LogAction, Unrepeatable
from rli.store.contract import Watermarks


class ReadFromFiles(LogAction, Unrepeatable):
    """A bootstrap or a repair: entries that were read from base files, and that no journal has."""

    names = frozenset({BOOTSTRAP, REPAIR})
    is_followed = False

    def require_repeatable(self, index: StoredEntries, record: LogRecord, since: Watermarks) -> None:
        if record.last_sequence <= (since.greatest or 0):
            raise IndexNotReadyError(
                f"a server of the index has lost entries that no journal has: index={index.url} written "
                f"by={record.action} sequence={record.last_sequence}",
                remedy=f"build the index again: {index.rebuilding}",
            )


class Expiry(LogAction):
    """Expired keys went: they count as absent with or without the tombstones of this record (P40)."""

    names = frozenset({EXPIRE})
    is_followed = False
    evidence = Evidence.NONE


class UnknownAction(LogAction):
    """A record of a newer version: its format tells that older ones may pass it over."""

    names = frozenset()
    is_followed = False
