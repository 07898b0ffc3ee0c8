"""An index without a log of its own: what it says is in the table's folder with each commit, so it never has to follow the table."""

from __future__ import annotations

from abc import abstractmethod

from rli.hudi.timeline.timeline import Timeline
from rli.index.contract import IN_THIS_PROCESS, IndexState, SyncOptions, TableIndex
from rli.index.reports import IndexStats, Unseen
from rli.model import Scope
from rli.view.definition import TableDefinition
from rli.view.snapshot import Snapshot
from rli.view.time_travel import told_of_whole


class StateOfTable:
    """What ``IndexState`` says of an index that is never behind its table. A kind says how keys are located."""

    __slots__ = ()
    snapshot: Snapshot

    @property
    def timeline(self) -> Timeline:
        return self.snapshot.timeline

    @property
    def sequence(self) -> int | None:
        return None

    @property
    def applied(self) -> tuple[str, ...]:
        return ()

    @property
    def withdrawn(self) -> tuple[str, ...]:
        return ()


class UnloggedIndex(TableIndex):
    """Reads the state of the table in place of a log. A kind says what a state knows: ``state_of``.

    Pickled by its arguments, which all kinds take.

    Args:
        table: the table; its settings hold the URL of the index.
        scope: where a key is unique.
    """

    def __init__(self, table: TableDefinition, scope: Scope) -> None:
        self._table = table
        self.scope = scope
        self.kind = table.index_url.partition(":")[0]
        self._flushed = frozenset[str]()

    @property
    def url(self) -> str:
        return self._table.index_url

    @abstractmethod
    def state_of(self, snapshot: Snapshot) -> IndexState:
        """The index as of a state of the table."""

    @abstractmethod
    def stats_of(self, snapshot: Snapshot) -> IndexStats:
        """Size and state as of a state of the table, whose files are listed."""

    def sync(self, table: TableDefinition, options: SyncOptions = IN_THIS_PROCESS) -> IndexState:
        timeline = table.load_timeline()
        self._flush(table, timeline)
        options.on_registered()
        return self.state_of(Snapshot(table, timeline))

    def unseen(self, table: TableDefinition) -> tuple[IndexState, Unseen]:
        return self.state_of(Snapshot.now(table)), Unseen()

    def stats(self) -> IndexStats:
        return told_of_whole(self._table.reloaded(), self.stats_of)

    def close(self) -> None:
        """There is nothing to give back."""

    def _flush(self, table: TableDefinition, timeline: Timeline) -> None:
        """Flush completed instants before a write builds on them or acknowledges them (P17)."""
        completed = frozenset(instant.file_name for instant in timeline.completed)
        unflushed = completed - self._flushed
        if unflushed:
            layout = timeline.layout
            table.storage.flush([layout.folder, *map(layout.path, sorted(unflushed))])
        self._flushed = completed

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self._table, self.scope)
