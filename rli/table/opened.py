"""An open table of one process: its definition and its index, replaced when the table is given another index."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import date
from functools import partial
from threading import Lock
from typing import TypeVar

from rli.commit.exclusive_service import table_service
from rli.errors import InvalidInputError, RliError, UndecidedCommitError
from rli.hudi.timeline.instant import parse_instant_time
from rli.index.contract import TableIndex
from rli.index.kinds import IndexKind
from rli.index.registry import index_kind
from rli.index.roles import KeptInStore
from rli.index.values_in_stores import ValuesInStores
from rli.model import Scope
from rli.publication.fence import Fence
from rli.telemetry import events
from rli.view.definition import TableDefinition
from rli.view.registration import as_stored_now, has_index_of, has_other_index
from rli.view.snapshot import Snapshot
from rli.view.time_travel import told_of_whole

Found = TypeVar("Found")


class OpenTable:
    """Definition and open index of a table. Threads may share it, as far as they may share a ``Table``.

    Attributes:
        definition: what the table is, as it was read last.
    """

    def __init__(self, definition: TableDefinition) -> None:
        self.definition = definition
        self._index: TableIndex | None = None
        self._former: list[TableIndex] = []
        self._opening = Lock()

    @property
    def kind(self) -> IndexKind:
        return index_kind(self.definition.index_url)

    @property
    def scope(self) -> Scope:
        """Where a record key of the table is unique; a table without an index is taken for one with keys that are global."""
        return Scope.GLOBAL if self.definition.settings is None else self.kind.scope_of(self.definition.index_url)

    @property
    def index(self) -> TableIndex:
        """The table's index, opened at the first use: the one that the table has now, if the former one is gone.

        Raises:
            IndexNotReadyError: it is missing.
            IndexMismatchError: the index at the URL belongs to another table.
            StoreUnavailableError: its store does not answer.
        """
        while True:
            definition = self.definition
            try:
                return self._open()
            except RliError:
                # An index that was given up may have been dropped since its URL was read.
                if not has_other_index(definition):
                    raise
            self.follow()

    @property
    def values(self) -> ValuesInStores:
        """Finds records by the values of columns that have an index in the store of the table's index."""
        return ValuesInStores(lambda: self.index)

    def _open(self) -> TableIndex:
        index = self._index
        if index is not None and not (isinstance(index, KeptInStore) and index.is_gone()):
            return index
        with self._opening:
            # Another thread may have opened it meanwhile.
            if self._index is None or self._index is index:
                self._close_index()
                self._index = self.kind.open(self.definition)
            return self._index

    def reloaded(self) -> TableDefinition:
        """The definition as it is stored now: other engines may have changed the table's properties."""
        self.definition = definition = self.definition.reloaded()
        return definition

    def follow(self) -> TableDefinition:
        """The definition as it is stored now; if it names another index, the next use opens that index."""
        definition = as_stored_now(self.definition)
        with self._opening:
            if not has_index_of(self.definition, definition):
                # Another thread may have replaced the definition since this one was read. Others may use the former index.
                definition = as_stored_now(self.definition)
                if not has_index_of(self.definition, definition):
                    self._former += [] if self._index is None else [self._index]
                    self._index = None
            self.definition = definition
        return definition

    def refreshed(self) -> tuple[TableDefinition, TableIndex]:
        """Definition and index as they are now: another process may have given the table another index."""
        while True:
            definition = self.follow()
            index = self.index
            # The table may have been given another index meanwhile.
            if has_index_of(self.definition, definition):
                return definition, index

    def write_with(self, write: Callable[[TableDefinition, TableIndex], Found]) -> Found:
        """Run a write; again if it failed because the table was given another index meanwhile (P37)."""
        while True:
            definition, index = self.refreshed()
            try:
                return write(definition, index)
            except UndecidedCommitError:
                # It may be published.
                raise
            except RliError as error:
                # A write that is published does not fail because of its former index.
                if not has_other_index(definition):
                    raise
                events.WRITE_MOVED.log(table=definition.location, index=index.url, cause=error)

    def look_up_with(self, look_up: Callable[[TableDefinition, TableIndex], Found]) -> Found:
        """Ask the index; again if the table was given another index meanwhile: the former one may be behind."""
        while True:
            definition, index = self.refreshed()
            try:
                found = look_up(definition, index)
            except RliError:
                if not has_other_index(definition):
                    raise
            else:
                if not has_other_index(definition):
                    return found

    def told(self, as_of: str | date | None, tell: Callable[[Snapshot], Found]) -> Found:
        """What a function tells of the table's state as of a time; it is called again if others have overtaken it.

        Raises:
            InvalidInputError: ``as_of`` is neither an instant nor a time.
            InstantNotFoundError: the table had no commit at that time, its files were cleaned, or its commits archived.
        """
        if not isinstance(as_of, str | date | None):
            raise InvalidInputError(
                f"neither an instant nor a time: as_of={as_of!r}", remedy="give a string, a date or a datetime"
            )
        given = as_of.isoformat() if isinstance(as_of, date) else as_of

        def tell_and_follow(snapshot: Snapshot) -> Found:
            # It was read with the properties as they are now.
            if snapshot.table.properties != self.definition.properties:
                self.reloaded()
            return tell(snapshot)

        return told_of_whole(self.definition, tell_and_follow, None if given is None else parse_instant_time(given))

    def snapshot(self, as_of: str | date | None = None) -> Snapshot:
        """The state of the table, now or as of an instant or a time, with a list of all its files; raises as ``told``."""
        return self.told(as_of, lambda snapshot: snapshot)

    @contextmanager
    def service(
        self, name: str, patience: float, *, is_unlocked: bool = False
    ) -> Iterator[tuple[TableDefinition, Fence]]:
        """Hold the lease for a table service, and the lock of Hudi's writers unless ``is_unlocked``; the index has followed the timeline.

        The service begins again where the table was given another index before it had the lease (P37).
        """
        service = partial(table_service, name=name, patience=patience, is_unlocked=is_unlocked)
        with ExitStack() as held:
            yield self.write_with(lambda table, index: held.enter_context(service(table, index)))

    def use(self, definition: TableDefinition, index: TableIndex) -> None:
        """Go over to an index that this process has made; other threads may still be using the former one."""
        with self._opening:
            self._former += [] if self._index is None else [self._index]
            self.definition = definition
            self._index = index

    def close(self) -> None:
        """Give the connections of all indexes back; the next use opens the index again."""
        self._close_index()
        while self._former:
            self._former.pop().close()

    def _close_index(self) -> None:
        index, self._index = self._index, None
        if index is not None:
            index.close()
