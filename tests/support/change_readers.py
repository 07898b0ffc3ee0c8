"""Readers of a table's changes, who keep a copy of the table by them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from rli import ChangeType, InstantNotFoundError, Scope, Table
from rli.reads.changes.images import CHANGE_COLUMNS

Row = dict[str, Any]


class ChangeReader:
    """Keeps a copy of a table with key ``id`` and partitions by ``city``: reads what changed, and replays it.

    Attributes:
        position: the commit up to which the copy shows the table.
        rows: the copy.
        reloads: how often the changes could not be told, so that the copy was made again.
    """

    def __init__(self, scope: Scope = Scope.GLOBAL) -> None:
        self._scope = scope
        self.position: str | None = None
        self.rows: dict[Any, Row] = {}
        self.reloads = 0

    def follow(self, table: Table) -> None:
        """Bring the copy up to date."""
        try:
            reader = table.changes(since=self.position)
            self.replay(reader.read_all())
        except InstantNotFoundError:
            self.reloads += 1
            # What completes while the table is read comes again, and changes nothing.
            self.position = max((write.time for write in opened_writes(table)), default=None)
            self.rows = {self._key(row): row for row in table.read().to_pylist()}
            return
        position = (reader.schema.metadata or {}).get(b"rli.position")
        self.position = self.position if position is None else position.decode()

    def replay(self, changes: pa.Table | Iterable[Row]) -> None:
        """Apply changes in their order."""
        for change in changes.to_pylist() if isinstance(changes, pa.Table) else changes:
            row = {name: value for name, value in change.items() if name not in CHANGE_COLUMNS}
            if change["_change_type"] == ChangeType.DELETE:
                del self.rows[self._key(row)]
            elif change["_change_type"] != ChangeType.UPDATE_BEFORE:
                self.rows[self._key(row)] = row

    def _key(self, row: Row) -> Any:
        return row["id"] if self._scope is Scope.GLOBAL else (row["city"], row["id"])


def opened_writes(table: Table) -> list[Any]:
    """The completed writes of a table's timeline."""
    return [instant for instant in table.timeline() if instant.is_completed and instant.is_write]
