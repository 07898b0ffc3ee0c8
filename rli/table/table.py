"""A table that upserts through a global record-level index: the whole of it for users in plain Python."""

from __future__ import annotations

from typing import Self

from rli.arrow_memory import use_fast_memory
from rli.settings import TableSettings
from rli.table.groups import TableGroups
from rli.table.opened import OpenTable
from rli.table.reading import TableReading
from rli.table.writing import TableWriting
from rli.urls import without_password
from rli.view.definition import TableDefinition


class Table(TableWriting, TableReading, TableGroups):
    """A table and its index. Use ``create_table`` or ``open_table`` to get one. Picklable.

    Threads may share it: their writes, look-ups, reads and services are as those of processes. ``close`` it,
    bootstrap its index and drop that while no other thread uses it.
    """

    def __init__(self, definition: TableDefinition) -> None:
        use_fast_memory()
        self._opened = OpenTable(definition)

    @property
    def location(self) -> str:
        """Where the table is: a path, or a URI."""
        return self._opened.definition.location

    @property
    def settings(self) -> TableSettings:
        """The settings that rli keeps with the table; raises ``IndexNotReadyError`` for a table without an index."""
        return self._opened.definition.require_settings()

    def close(self) -> None:
        """Give the index's connections back."""
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        definition = self._opened.definition
        settings = definition.settings
        index = None if settings is None else without_password(settings.index_url)
        keys = ",".join(definition.properties.record_key_fields)
        return f"<rli.Table {self.location!r} record_key={keys!r} index={index!r}>"

    def __reduce__(self) -> tuple[object, ...]:
        return Table, (self._opened.definition,)


def opened_table(table: Table) -> OpenTable:
    """For engines and operators' tools: definition, snapshots and index of a table, as they are now."""
    return table._opened  # noqa: SLF001  (users of a table need none of it)
