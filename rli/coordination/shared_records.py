"""Shared records: few, small, named byte strings that all writers of a table see, changed by compare-and-set.

The lease is one, and each writer has one that says that it lives. They are control records of the index's store, if
all writers share one index, or files of the table, if each host has an index of its own.
"""

from __future__ import annotations

from typing import Protocol

from rli.coordination.file_records import FileRecords
from rli.coordination.lease_stores import LeaseRecords
from rli.errors import SettingsError
from rli.index.contract import TableIndex
from rli.index.roles import SharesStore
from rli.model import LeasePlace
from rli.store import SupportsLives
from rli.view.definition import TableDefinition


class SharedRecords(Protocol):
    """Where the records are; see ``rli.store.contract.Store`` for what each method promises."""

    def read_control(self, name: str) -> bytes | None:
        """The value of a record, None where there is none."""

    def scan_control(self, prefix: str) -> list[tuple[str, bytes]]:
        """The records whose name begins with ``prefix``, ordered by name."""

    def compare_and_set(self, name: str, expected: bytes | None, value: bytes | None) -> bool:
        """Set a record to ``value`` (None removes it) if it is ``expected`` (None: absent); whether it was set."""


def shared_records(table: TableDefinition, index: TableIndex) -> SharedRecords:
    """The records of a table, where its settings say.

    Raises:
        SettingsError: they are in the store of the table's index, and this index has none.
    """
    settings = table.require_settings()
    if settings.lease is LeasePlace.TABLE:
        # Torn ones would keep everybody from writing.
        return FileRecords(table.durable().storage)
    if settings.lease is not LeasePlace.INDEX:
        return LeaseRecords(settings.lease, settings.table_id)
    store = index.shared_store if isinstance(index, SharesStore) else None
    if store is None:
        raise SettingsError(
            f"the table's lease is in the store of its index, and this index has no store: table={table.location} "
            f"index={index.url}",
            remedy="open the table without another index",
        )
    return store


def life_of(records: SharedRecords) -> str | None:
    """The present life of the place of the records (see ``SupportsLives``); None if it loses nothing acknowledged."""
    place: object = records
    if isinstance(records, LeaseRecords):
        place = records.place
    return place.life() if isinstance(place, SupportsLives) else None
