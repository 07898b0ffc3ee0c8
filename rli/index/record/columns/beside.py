"""The indexes of columns beside the record index of a table, in the same store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from threading import Lock
from types import MappingProxyType
from typing import Final

import pyarrow as pa

from rli.errors import IndexExistsError, IndexNotFoundError, IndexNotReadyError, RliError
from rli.file_group.changed_values import ChangedValues
from rli.index.record.columns.stored_column import StoredColumn
from rli.index.record.columns.unique import UniqueValues, require_no_repeats
from rli.index.record.entries.limits import DEFAULT_LIMITS, IndexLimits
from rli.index.record.stored_index import SETTINGS
from rli.index.record.table_record_index import TableRecordIndex
from rli.index.roles import ColumnFacts, IndexesColumns, OnFiles, UnpublishedWrite, WantedColumn
from rli.settings import IndexSettings
from rli.store.contract import Store
from rli.store.registry import open_store
from rli.tasks import InProcess, TaskRunner
from rli.urls import without_password
from rli.view.column_indexes import NamedIndexes
from rli.view.definition import TableDefinition
from rli.view.second_look import OVERTAKEN, SecondLook
from rli.view.snapshot import Snapshot

_BESIDE: Final = "column/"
"""Begins the names of the control records that name the stores beside the index."""


class ColumnsBeside(TableRecordIndex, IndexesColumns):
    """The record index of a table with the indexes of columns beside it: each is in a store of its own, opened once."""

    def __init__(self, store: Store, settings: IndexSettings, limits: IndexLimits = DEFAULT_LIMITS) -> None:
        super().__init__(store, settings, limits)
        self._opened: dict[str, _Opened] = {}
        self._opening = Lock()

    def follow_columns(
        self, table: TableDefinition, tasks: TaskRunner, held: Mapping[str, ChangedValues] = MappingProxyType({})
    ) -> None:
        failures = list[RliError]()
        for name in NamedIndexes.load(table.storage).kept_in_stores:
            try:
                with suppress(IndexNotFoundError), self._column(name) as column:
                    if column.is_built and column.is_of(table, Snapshot.now(table).schema):
                        column.sync(table, tasks, held)
            except RliError as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def keys_with(self, name: str, column: str, snapshot: Snapshot, values: pa.Array, most: int) -> pa.Array | None:
        try:
            return self._keys_with(name, column, snapshot, values, most)
        except IndexNotFoundError:
            # Another one may have taken its place since it was opened; the error has closed it.
            return self._keys_with(name, column, snapshot, values, most)

    def _keys_with(self, name: str, column: str, snapshot: Snapshot, values: pa.Array, most: int) -> pa.Array | None:
        # The first request of the look-up tells whether the index is still there.
        with self._column(name, is_checked_by_use=True) as stored:
            if stored.settings.column == column and stored.is_of(snapshot.table, snapshot.schema):
                return stored.keys_with(snapshot, values, InProcess(), most)
            # The index that has this name now may be another one.
            stored.require_present()
            return None

    def facts_of(self, name: str, table: TableDefinition, schema: pa.Schema | None) -> ColumnFacts | None:
        try:
            with self._column(name) as column:
                is_built = column.is_built
                follows = not is_built or column.can_follow(table)
                lag = column.lag(table) if is_built and follows else None
                is_of_table = column.is_of(table, schema)
                return ColumnFacts(is_built, follows, is_of_table, column.size(), lag, column.settings.build)
        except IndexNotFoundError:
            return None

    def build_column(
        self, name: str, wanted: WantedColumn, table: TableDefinition, tasks: TaskRunner, on_files: OnFiles
    ) -> str:
        resumed = self._resumed(name, wanted, table, tasks, on_files)
        if resumed is not None:
            return resumed
        second = SecondLook(table)
        while True:
            self.drop_column(name)
            self.note_beside([name])
            with open_store(self.store.url_beside(name), create=True) as store:
                made = StoredColumn.create(store, table.require_settings().table_id, wanted.column, wanted.kind)
                try:
                    made.fill(made.begun(table), table, on_files)
                    made.sync(table, tasks)
                except OVERTAKEN as problem:
                    # Others may have cleaned a file away.
                    table = second.require_change(problem)
                else:
                    return made.settings.build

    def _resumed(
        self, name: str, wanted: WantedColumn, table: TableDefinition, tasks: TaskRunner, on_files: OnFiles
    ) -> str | None:
        """Go on with a build that died; returns its name, or None if the index has to be built anew."""
        table_id = table.require_settings().table_id
        # Files of the state that the build began with may have been cleaned since.
        with suppress(IndexNotFoundError, *OVERTAKEN), closing(StoredColumn.at(self.store.url_beside(name))) as made:
            build = made.resumed(table) if made.is_like(table_id, wanted.column, wanted.kind) else None
            if build is not None:
                made.fill(build, table, on_files)
                made.sync(table, tasks)
                return made.settings.build
        return None

    def forget_deletes_of_columns(self, kept: Sequence[str]) -> int:
        """As ``ForgetsDeletes.forget_deletes``, of the indexes of columns: how many entries went."""
        removed = 0
        for name in self.noted_beside():
            with suppress(IndexNotFoundError), self._column(name) as column:
                removed += column.forget_deletes(kept)
        return removed

    def require_unique(self, write: UnpublishedWrite, locate: Callable[[pa.Array], pa.Table]) -> None:
        named = NamedIndexes.load(write.snapshot.table.storage).kept_in_stores
        for name in [name for name, index in named.items() if index.is_unique]:
            try:
                with self._column(name) as column:
                    UniqueValues(write, locate, self.limits.unique_values).require(name, column)
            except IndexNotFoundError as error:
                raise IndexNotReadyError(
                    f"the index that keeps values unique is lost: index={name} beside={self.url}",
                    remedy=f"drop it, and make it again: rli index drop TABLE {name}",
                ) from error

    def require_no_repeats(self, name: str, column: str, snapshot: Snapshot) -> None:
        require_no_repeats(name, snapshot, column)

    def drop_column(self, name: str) -> None:
        self._forget(name)
        with suppress(IndexNotFoundError), open_store(self.store.url_beside(name)) as store:
            if store.read_control(SETTINGS) is not None:
                raise IndexExistsError(
                    f"the place of an index of a column holds a record index: index={name} url={without_password(store.url)}",
                    remedy="choose another name for the index of the column",
                )
            store.drop()
        noted = f"{_BESIDE}{name}"
        self.store.compare_and_set(noted, self.store.read_control(noted), None)

    def drop(self) -> None:
        for name in self.noted_beside():
            self.drop_column(name)
        super().drop()

    def noted_beside(self) -> list[str]:
        """Names of the indexes of columns beside this one, as it knows itself: where it is dropped, the table may be gone."""
        return [name.removeprefix(_BESIDE) for name, _ in self.store.scan_control(_BESIDE)]

    def note_beside(self, names: Iterable[str]) -> None:
        """Note that there are indexes of columns beside this one."""
        for name in names:
            self.store.compare_and_set(f"{_BESIDE}{name}", None, b"1")

    def close(self) -> None:
        for name in list(self._opened):
            self._forget(name)
        super().close()

    @contextmanager
    def _column(self, name: str, *, is_checked_by_use: bool = False) -> Iterator[StoredColumn]:
        """The index of a column. Behind an error it is opened anew, because another index may have taken its place.

        Args:
            name: of the index.
            is_checked_by_use: whether the caller begins again where the index turns out to be gone; else that is asked first.
        """
        opened = self._enter(name, is_checked_by_use=is_checked_by_use)
        try:
            yield opened.column
        except RliError:
            opened.is_stale = True
            raise
        finally:
            self._leave(name, opened)

    def _enter(self, name: str, *, is_checked_by_use: bool) -> _Opened:
        with self._opening:
            opened = self._opened.get(name)
            if opened is None or opened.is_stale or (not is_checked_by_use and opened.column.is_gone()):
                self._retire(name)
                opened = self._opened[name] = _Opened(StoredColumn.at(self.store.url_beside(name)))
            opened.users += 1
            return opened

    def _leave(self, name: str, opened: _Opened) -> None:
        with self._opening:
            opened.users -= 1
            if opened.is_stale and self._opened.get(name) is opened:
                del self._opened[name]
            opened.close_behind_users()

    def _forget(self, name: str) -> None:
        with self._opening:
            self._retire(name)

    def _retire(self, name: str) -> None:
        opened = self._opened.pop(name, None)
        if opened is not None:
            opened.is_stale = True
            opened.close_behind_users()


@dataclass(slots=True)
class _Opened:
    """An index of a column that threads share.

    Attributes:
        column: the index.
        users: how many use it now.
        is_stale: whether nobody else gets it: the last user closes it.
    """

    column: StoredColumn
    users: int = 0
    is_stale: bool = False

    def close_behind_users(self) -> None:
        """Close the index if it is stale and nobody uses it."""
        if self.is_stale and not self.users:
            self.column.close()
