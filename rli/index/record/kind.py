"""How the record index of a table is made, opened and removed. The URL of its store names it."""

from __future__ import annotations

from contextlib import suppress

from rli.errors import CorruptIndexError, IndexMismatchError, IndexNotFoundError, IndexNotReadyError, RliError
from rli.index.contract import IndexKind, IndexOptions
from rli.index.record.record_index import create_index, drop_store, open_index, require_settings
from rli.index.record.sync.bootstrap import bootstrap
from rli.index.record.table_index import RecordTableIndex
from rli.index.record.table_location import require_known_location
from rli.store.registry import open_store
from rli.tasks import TaskRunner
from rli.urls import without_password
from rli.view.definition import TableDefinition


class RecordKind(IndexKind):
    """The record index in a key-value store."""

    @property
    def has_store(self) -> bool:
        return True

    def require_valid(self, url: str, options: IndexOptions) -> None:
        """Pass every URL: its store judges it when it is opened."""

    def create(self, table: TableDefinition, options: IndexOptions) -> RecordTableIndex:
        created = self._create(table, options)
        created.store.mark_applied(created.store.applied(), 0)
        require_known_location(table, created)
        return created

    def open(self, table: TableDefinition) -> RecordTableIndex:
        try:
            index = _opened(table.index_url)
        except IndexNotFoundError as error:
            raise IndexNotReadyError(
                f"the index of the table is missing: table={table.location} "
                f"index={table.require_settings().index_url}; "
                "run: rli index bootstrap TABLE"
            ) from error
        try:
            require_settings(index, table.expected_index_settings(index.settings))
            require_known_location(table, index)
        except RliError:
            index.close()
            raise
        return index

    def require_own(self, table: TableDefinition, url: str) -> None:
        try:
            with open_index(url) as index:
                is_own = table.settings is not None and index.settings.table_id == table.require_settings().table_id
                if is_own:
                    require_known_location(table, index)
        except IndexNotFoundError:
            # A URL that cannot be used is refused before the table keeps it.
            open_store(url, create=True).close()
            return
        if not is_own:
            raise IndexMismatchError(
                f"there is an index of something else: index={without_password(url)}; choose another URL, or drop that "
                "index"
            )

    def rebuild(self, table: TableDefinition, options: IndexOptions, tasks: TaskRunner) -> tuple[RecordTableIndex, int]:
        with suppress(IndexNotFoundError), open_index(table.index_url) as old:
            old.drop()
        index = self._create(table, options)
        try:
            require_known_location(table, index)
            return index, bootstrap(table, index, tasks)
        except BaseException:
            index.close()
            raise

    def open_to_relocate(self, table: TableDefinition) -> RecordTableIndex:
        index = _opened(table.index_url)
        try:
            require_settings(index, table.expected_index_settings(index.settings))
        except RliError:
            index.close()
            raise
        return index

    def drop_unfinished(self, url: str, table_id: str) -> None:
        with suppress(IndexNotFoundError), open_index(url) as index:
            if index.settings.table_id == table_id and not index.applied_sequence():
                index.drop()

    def drop_own(self, url: str, table_id: str) -> bool:
        try:
            with open_index(url) as index:
                if index.settings.table_id != table_id:
                    return False
                index.drop()
        except IndexNotFoundError:
            return False
        except CorruptIndexError:
            # The table names it as its own, as for ``Table.drop_index``.
            with suppress(IndexNotFoundError):
                drop_store(url)
        return True

    def drop_damaged(self, url: str) -> None:
        drop_store(url)

    def _create(self, table: TableDefinition, options: IndexOptions) -> RecordTableIndex:
        with_log = create_index(
            table.index_url,
            shards=options.shards,
            key_mode=options.key_mode,
            key_fields=table.properties.record_key_fields,
            table_id=table.require_settings().table_id,
        )
        return RecordTableIndex(with_log.store, with_log.settings)


def _opened(url: str) -> RecordTableIndex:
    index = open_index(url)
    return RecordTableIndex(index.store, index.settings)
