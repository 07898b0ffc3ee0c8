"""The index ``memory:``: in the memory of each process, which builds it from the table's files when it opens the table.

Apache Hudi's INMEMORY index begins empty in each process and takes every key that it does not hold for a new one, so
records are inserted again. Here each process has all keys, follows the commits of the others, and commits under the
lease in the table's folder: no key is inserted twice.
"""

from __future__ import annotations

from hashlib import sha256
from threading import RLock
from typing import Final

from rli.errors import IndexNotReadyError
from rli.index.kinds import IndexOptions
from rli.index.record.kind import RecordKind
from rli.index.record.stored_index import StoredIndex
from rli.index.record.table.index import RecordTableIndex
from rli.index_urls import IndexUrl
from rli.tasks import InProcess, TaskRunner
from rli.view.definition import TableDefinition

URL: Final = "memory:"

_BUILDING: Final = RLock()
"""Of all tables: a thread that finds no index waits for the one that is being built."""


class InProcessIndex(RecordTableIndex):
    """The index of one table in the memory of this process."""

    @property
    def url(self) -> str:
        """As tables name it, not its own store."""
        return IndexUrl(URL, self.scope, self.settings.partitions, self.ttl).full

    @property
    def shared_store(self) -> None:
        """No other process reaches the store, so it keeps no lease."""
        return


class InProcessKind(RecordKind):
    """The record index in the memory of each process."""

    @property
    def has_store(self) -> bool:
        return False

    def open(self, table: TableDefinition) -> RecordTableIndex:
        with _BUILDING:
            try:
                index = super().open(table)
            except IndexNotReadyError:
                return self.rebuild(table, IndexOptions(), InProcess())[0]
            if index.is_built:
                return index
            # Whoever built it was interrupted.
            index.close()
            return self.rebuild(table, IndexOptions(), InProcess())[0]

    def require_own(self, table: TableDefinition, url: str) -> None:
        """Pass every table: each has an index of its own."""

    def rebuild(self, table: TableDefinition, options: IndexOptions, tasks: TaskRunner) -> tuple[RecordTableIndex, int]:
        with _BUILDING:
            return super().rebuild(table, options, tasks)

    def drop_damaged(self, url: str) -> None:
        """There is nothing that could be damaged."""

    def _store_of(self, url: str, table_id: str) -> str:
        wanted = IndexUrl.parse(url)
        # Jobs of one process that know different partitions have an index each, and so have the former and the new options
        # of a table.
        options = sha256(wanted.at(URL).full.encode()).hexdigest()[:16]
        return wanted.at(f"{URL}{table_id}-{options}").full

    def _of_table(self, index: StoredIndex) -> RecordTableIndex:
        return InProcessIndex(index.store, index.settings)
