"""Instants that survive a power cut, for an index that keeps no log of them."""

from __future__ import annotations

from rli.hudi.timeline.timeline import Timeline
from rli.view.definition import TableDefinition


class FlushedInstants:
    """The completed instants that this process has flushed to the disk."""

    def __init__(self) -> None:
        self._names = frozenset[str]()

    def flush(self, table: TableDefinition, timeline: Timeline) -> None:
        """Flush completed instants before a write builds on them or acknowledges them (P17)."""
        completed = frozenset(instant.file_name for instant in timeline.completed)
        unflushed = completed - self._names
        if unflushed:
            layout = timeline.layout
            table.storage.flush([layout.folder, *map(layout.path, sorted(unflushed))])
        self._names = completed
