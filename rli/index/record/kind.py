"""How the record index of a table is made, opened and removed. The URL of its store names it."""

from __future__ import annotations

from contextlib import suppress

from rli.errors import CorruptIndexError, IndexMismatchError, IndexNotFoundError, IndexNotReadyError, RliError
from rli.index.kinds import IndexOptions, KeptKind
from rli.index.record.opening import create_index, drop_store, open_as_it_is, require_options, require_settings
from rli.index.record.stored_index import StoredIndex, stored_index
from rli.index.record.sync.bootstrap import Bootstrap, bootstrap
from rli.index.record.table.index import RecordTableIndex
from rli.index.record.table.location import require_known_location, serves_another_copy
from rli.index_urls import IndexUrl
from rli.model import KeyMode, Scope
from rli.storage import Storage
from rli.store.registry import open_store
from rli.tasks import TaskRunner
from rli.urls import without_password
from rli.view.column_indexes import NamedIndexes
from rli.view.definition import TableDefinition


class RecordKind(KeptKind):
    """The record index in a key-value store."""

    @property
    def has_store(self) -> bool:
        return True

    def scope_of(self, url: str) -> Scope:
        return IndexUrl.parse(url).scope

    def require_url(self, url: str) -> None:
        """Pass every URL with options that there are: its store judges the rest when it is opened."""
        IndexUrl.parse(url)

    def create(self, table: TableDefinition, options: IndexOptions) -> RecordTableIndex:
        created = self._create(table, options)
        created.store.mark_applied(created.store.applied(), 0)
        require_known_location(table, created)
        return created

    def open(self, table: TableDefinition) -> RecordTableIndex:
        try:
            index = self._opened(table)
        except IndexNotFoundError as error:
            raise IndexNotReadyError(
                f"the index of the table is missing: table={table.location} index={table.require_settings().index_url}",
                remedy="run: rli index bootstrap TABLE",
            ) from error
        try:
            require_options(index, table.index_url)
            require_settings(index, table.expected_index_settings(index.settings))
            require_known_location(table, index)
        except RliError:
            index.close()
            raise
        return index

    def require_own(self, table: TableDefinition, url: str) -> None:
        try:
            with open_as_it_is(url) as index:
                is_own = table.settings is not None and index.settings.table_id == table.require_settings().table_id
                if is_own:
                    require_known_location(table, index)
        except IndexNotFoundError:
            # A URL that cannot be used is refused before the table keeps it.
            open_store(IndexUrl.parse(url).store, create=True).close()
            return
        if not is_own:
            raise IndexMismatchError(
                f"there is an index of something else: index={without_password(url)}",
                remedy="choose another URL, or drop that index",
            )

    def rebuild(self, table: TableDefinition, options: IndexOptions, tasks: TaskRunner) -> tuple[RecordTableIndex, int]:
        index, build = self._unfinished(table, options)
        if index is None:
            index = self._new(table, options)
        try:
            require_known_location(table, index)
            return index, bootstrap(table, index, tasks, build)
        except BaseException:
            index.close()
            raise

    def _unfinished(
        self, table: TableDefinition, options: IndexOptions
    ) -> tuple[RecordTableIndex, Bootstrap] | tuple[None, None]:
        """The index of a bootstrap with the same options that has not ended, and its build, if that can go on."""
        try:
            index = self._opened(table)
        except IndexNotFoundError:
            return None, None
        try:
            settings = index.settings
            found = (settings.table_id, settings.key_mode, settings.shard_count, settings.key_fields)
            wanted_shards = options.shards or index.store.preferred_shards
            key_fields, table_id = tuple(table.properties.record_key_fields), table.require_settings().table_id
            if found == (table_id, KeyMode(options.key_mode), wanted_shards, key_fields):
                require_options(index, table.index_url)
                build = Bootstrap.resumed(table, index)
                if build is not None:
                    return index, build
        except IndexMismatchError:
            # It has another scope or time to live.
            pass
        except BaseException:
            index.close()
            raise
        index.close()
        return None, None

    def _new(self, table: TableDefinition, options: IndexOptions) -> RecordTableIndex:
        """An empty index in place of that of the table."""
        # Indexes of columns follow the timeline by themselves: they stay. The table names them where the index was lost, or an
        # earlier attempt died without its notes.
        beside = {*NamedIndexes.load(table.storage).in_stores}
        with suppress(IndexNotFoundError), self._opened(table) as old:
            beside.update(old.noted_beside())
            old.store.drop()
        index = self._create(table, options)
        index.note_beside(beside)
        return index

    def open_to_relocate(self, table: TableDefinition) -> RecordTableIndex:
        index = self._opened(table)
        try:
            require_settings(index, table.expected_index_settings(index.settings))
        except RliError:
            index.close()
            raise
        return index

    def drop_unfinished(self, url: str, table_id: str) -> None:
        with suppress(IndexNotFoundError), open_as_it_is(self._store_of(url, table_id)) as index:
            if index.settings.table_id == table_id and not index.applied_sequence():
                index.drop()

    def drop_own(self, url: str, table_id: str, storage: Storage) -> bool:
        try:
            with open_as_it_is(self._store_of(url, table_id)) as index:
                if index.settings.table_id != table_id or serves_another_copy(storage, table_id, index):
                    return False
                self._of_table(index).drop()
        except IndexNotFoundError:
            return False
        except CorruptIndexError:
            # The table names it as its own, as for ``Table.drop_index``.
            with suppress(IndexNotFoundError):
                drop_store(self._store_of(url, table_id))
        return True

    def drop_damaged(self, url: str) -> None:
        drop_store(url)

    def _create(self, table: TableDefinition, options: IndexOptions) -> RecordTableIndex:
        table_id = table.require_settings().table_id
        created = create_index(
            self._store_of(table.index_url, table_id),
            shards=options.shards,
            key_mode=options.key_mode,
            key_fields=table.properties.record_key_fields,
            table_id=table_id,
        )
        return self._of_table(stored_index(created))

    def _opened(self, table: TableDefinition) -> RecordTableIndex:
        return self._of_table(open_as_it_is(self._store_of(table.index_url, table.require_settings().table_id)))

    def _store_of(self, url: str, table_id: str) -> str:  # noqa: ARG002  (for kinds with one for each table)
        """URL of the store, with the options of the index."""
        return url

    def _of_table(self, index: StoredIndex) -> RecordTableIndex:
        """The index as that of a table."""
        return RecordTableIndex(index.store, index.settings)
