"""The index of one column in its store: made, opened, built, brought up to date, and asked."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar, Final, Literal, Self
from uuid import uuid4

import pyarrow as pa

from rli.codec.entries import is_live, sequences
from rli.errors import (
    ConflictError,
    CorruptIndexError,
    IndexExistsError,
    IndexNotFoundError,
    IndexNotReadyError,
    RliError,
)
from rli.file_group.changed_values import ChangedValues
from rli.hudi.metadata.secondary_keys import has_index_form
from rli.index.record.columns.actions import ColumnActions
from rli.index.record.columns.building import Build
from rli.index.record.columns.earlier_states import has_all, was_built_by
from rli.index.record.columns.entry_keys import prefixes_of, record_keys_of
from rli.index.record.entries.purging import floor_of_look_ups, purge_if_it_pays
from rli.index.record.entries.stored_entries import StoredEntries
from rli.index.record.sync.result import FollowedState
from rli.index.record.sync.sync import Sync, unseen_instants
from rli.index.roles import OnFiles
from rli.settings import IndexSettings, StoredSettings
from rli.store.contract import Store
from rli.store.registry import open_store
from rli.tasks import InProcess, TaskRunner
from rli.telemetry import events
from rli.urls import without_password
from rli.view.column_values import ColumnValues
from rli.view.definition import TableDefinition
from rli.view.snapshot import Snapshot

_SETTINGS: Final = "column"
"""Name of the control record with the settings. It is not that of a record index, so nobody opens one here."""

_SHARDS: Final = 4_096
"""Of stores that scan a whole shard for a value."""


class ColumnSettings(StoredSettings):
    """What an index of a column is; fixed when it is made.

    Attributes:
        version: of the format of its entries.
        table_id: identity of the table.
        column: the column.
        kind: the sort of its values: values of another sort are printed in another way.
        shards: into how many parts the entries are cut.
        build: random name of the build that made the index; "" if a former version made it.
    """

    version: Literal[1] = 1
    table_id: str
    column: str
    kind: str
    shards: int
    build: str = ""


class _ColumnEntries(StoredEntries):
    """What the index of a column keeps in its store."""

    rebuilding: ClassVar[str] = "rli index create TABLE NAME --on COLUMN"


class StoredColumn:
    """The index of one column of a table. Threads may share it.

    Attributes:
        settings: of the index.
    """

    def __init__(self, store: Store, settings: ColumnSettings) -> None:
        self.settings = settings
        self._store = store
        self._entries = _ColumnEntries(store, IndexSettings(shard_count=settings.shards, table_id=settings.table_id))

    @classmethod
    def create(cls, store: Store, table_id: str, column: str, kind: pa.DataType) -> Self:
        """Make the index in an empty store, without an entry.

        Raises:
            IndexExistsError: the store holds an index.
        """
        shards = store.preferred_shards if store.finds_in_order else _SHARDS
        settings = ColumnSettings(
            table_id=table_id, column=column, kind=sort_of(kind), shards=shards, build=uuid4().hex
        )
        if not store.compare_and_set(_SETTINGS, None, settings.to_json()):
            raise IndexExistsError(
                f"there is an index already: url={without_password(store.url)}",
                remedy="drop it, or choose another name",
            )
        return cls(store, settings)

    @classmethod
    def at(cls, url: str) -> Self:
        """Open the index at a URL.

        Raises:
            IndexNotFoundError: there is none.
            SettingsError: a newer version of rli has made it.
        """
        store = open_store(url)
        try:
            return cls(store, ColumnSettings.from_json(_settings_in(store)))
        except RliError:
            store.close()
            raise

    def is_gone(self) -> bool:
        """Whether the index has been dropped since it was opened."""
        try:
            self.require_present()
        except IndexNotFoundError:
            return True
        return False

    def require_present(self) -> None:
        """Raise ``IndexNotFoundError`` if the index has been dropped since it was opened."""
        self._store.applied_sequence()

    @property
    def is_built(self) -> bool:
        """Whether the index has been built."""
        return self._store.applied_sequence() is not None

    @property
    def url(self) -> str:
        """Where the index is; a password is not shown."""
        return self._entries.url

    def size(self) -> int:
        """Bytes that the index costs the store; 0 where the store cannot tell, or not without reading it."""
        return (self._store.stats().stored_bytes or 0) if self._store.counts else 0

    def is_of(self, table: TableDefinition, schema: pa.Schema | None) -> bool:
        """Whether the index is of a table whose records have a schema: its column is there, with values of the same sort."""
        if table.settings is None or table.settings.table_id != self.settings.table_id or schema is None:
            return False
        position = schema.get_field_index(self.settings.column)
        return position >= 0 and sort_of(schema.field(position).type) == self.settings.kind

    def is_like(self, table_id: str, column: str, kind: pa.DataType) -> bool:
        """Whether ``create`` would make such an index."""
        own = self.settings
        return (own.table_id, own.column, own.kind) == (table_id, column, sort_of(kind))

    def begun(self, table: TableDefinition) -> Build:
        """Begin to build an index without an entry; raises as ``fill``."""
        build = Build.begun(self._entries, table)
        if build is None:
            raise self._contested()
        return build

    def resumed(self, table: TableDefinition) -> Build | None:
        """The build that died here, or that another process is about; None if it cannot be gone on with."""
        return Build.resumed(self._entries, table)

    def fill(self, build: Build, table: TableDefinition, on_files: OnFiles) -> None:
        """Fill the index with the entries of all records. Writers go on.

        Commits that complete meanwhile are found by the next ``sync``.

        Args:
            build: that has begun.
            table: the table.
            on_files: told how many of how many files were read.

        Raises:
            ConflictError: another process has dropped the index meanwhile, or builds it.
            CorruptTableError: a file is lost or damaged.
            IndexNotReadyError: a server of the store was replaced meanwhile.
        """
        began = time.monotonic()
        rows = build.fill(self._values(build.snapshot), on_files)
        # Another process may have dropped the index, and begun a new one in its place, which lacks what was put before.
        if _settings_in(self._store) != self.settings.to_json():
            raise self._contested()
        if not self._store.mark_applied(build.applied, build.sequence):
            raise IndexNotReadyError(
                f"a server of the index was replaced during the build, and may have lost entries: url={self.url}",
                remedy="make the index again",
            )
        events.INDEX_BUILT.log(table=table.location, index=self.url, records=rows, seconds=time.monotonic() - began)

    def _contested(self) -> ConflictError:
        return ConflictError(
            f"another process builds the index, or has dropped it: url={self.url}",
            remedy="wait for it, or drop the index first",
        )

    def sync(
        self, table: TableDefinition, tasks: TaskRunner, held: Mapping[str, ChangedValues] = MappingProxyType({})
    ) -> FollowedState:
        """Follow the timeline of the table to its end; raises as the sync of a record index.

        Args:
            table: the table.
            tasks: runs the work on each file group.
            held: changed values of commits that the caller has just written, by their instants.
        """
        try:
            return self._sync_of(table, tasks, held).run()
        except CorruptIndexError as error:
            raise CorruptIndexError(
                error.problem, remedy=f"build the index again: {self._entries.rebuilding}"
            ) from error

    def can_follow(self, table: TableDefinition) -> bool:
        """Whether a built index can follow the table, as far as log and timeline tell. If it cannot, it never will again."""
        try:
            self._sync_of(table, InProcess()).require_possible()
        except (IndexNotReadyError, CorruptIndexError) as error:
            events.COLUMN_INDEX_UNUSED.log(table=table.location, index=self.url, cause=error)
            return False
        return True

    def lag(self, table: TableDefinition) -> int:
        """Number of the table's commits that a built index has not followed; raises as ``sync``."""
        return len(unseen_instants(table, self._entries)[1].unapplied)

    def keys_with(
        self, snapshot: Snapshot, values: pa.Array, tasks: TaskRunner, most: int | None = None
    ) -> pa.Array | None:
        """The keys of all records that have one of some values in a state of the table, and perhaps of further records.

        Args:
            snapshot: the state, of the present.
            values: string array without nulls, as ``index_form`` prints them.
            tasks: bring the index up to date, if it is behind.
            most: keys that the caller wants at most; None for all.

        Returns:
            Distinct string array; None if the index cannot tell, or finds more.

        Raises:
            IndexNotFoundError: the index has been dropped since it was opened.
        """
        if snapshot.timeline.as_of is not None or not self.is_of(snapshot.table, snapshot.schema):
            return None
        try:
            setbacks = self._store.setbacks
            followed = self._followed(snapshot.table, tasks)
            try:
                return self._keys_at(followed, setbacks, snapshot, values, most)
            except IndexNotReadyError:
                # A server of the store went back to an earlier state: the sync applies again what it has lost.
                setbacks = self._store.setbacks
                return self._keys_at(self.sync(snapshot.table, tasks), setbacks, snapshot, values, most)
        except IndexNotFoundError:
            raise
        except RliError as error:
            events.COLUMN_INDEX_UNUSED.log(table=snapshot.table.location, index=self.url, cause=error)
            return None

    def _keys_at(
        self, followed: FollowedState, setbacks: int, snapshot: Snapshot, values: pa.Array, most: int | None
    ) -> pa.Array | None:
        """As ``keys_with``, of an index that has followed the table so far, after ``setbacks`` of its store."""
        # Entries that later commits removed are those of records of this state.
        is_same = followed.timeline.write_times == snapshot.timeline.write_times
        if not (is_same or was_built_by(snapshot.timeline, followed.log)):
            return None
        parts, count = [pa.array([], pa.string())], 0
        for keys, entries in self._store.find(prefixes_of(values, self.settings.shards), followed.sequence):
            # A commit may have removed entries since the index was followed, too.
            counts = is_live(entries) | (sequences(entries) > followed.sequence)
            parts.append(record_keys_of(keys.take(counts) if is_same else keys))
            count += len(parts[-1])
            if most is not None and count > most:
                return None
        # Behind the look-up: a server that has lost entries meanwhile tells so, although others may have applied them again, and a
        # purge that has removed some.
        applied, floor = self._store.applied_sequence(), floor_of_look_ups(self._entries)
        is_same_store = self._store.setbacks == setbacks and (applied or 0) >= followed.sequence
        is_whole = is_same_store and has_all(snapshot.timeline, followed, floor)
        return pa.concat_arrays(parts).unique() if is_whole else None

    def _followed(self, table: TableDefinition, tasks: TaskRunner) -> FollowedState:
        """The state of the index behind the last commit of the table; the index is brought up to date if it is behind."""
        state, unseen = unseen_instants(table, self._entries)
        return self.sync(table, tasks) if unseen.unapplied else state

    def forget_deletes(self, kept: Sequence[str]) -> int:
        """Remove entries that went before all of some commits, if that pays; returns how many."""
        return purge_if_it_pays(self._entries, kept)

    def drop(self) -> None:
        """Remove the index with all that it holds."""
        self._store.drop()

    def close(self) -> None:
        """Give connections and handles back."""
        self._store.close()

    def _sync_of(
        self, table: TableDefinition, tasks: TaskRunner, held: Mapping[str, ChangedValues] = MappingProxyType({})
    ) -> Sync:
        return Sync(table, self._entries, tasks, actions=ColumnActions(self.settings.column, held))

    def _values(self, snapshot: Snapshot) -> ColumnValues:
        return ColumnValues(snapshot.table, snapshot.schema or pa.schema([]), self.settings.column)


def sort_of(kind: pa.DataType) -> str:
    """What sort of values a type has: those of one sort are printed alike; "" if such values are not indexed.

    Example:
        >>> sort_of(pa.int32()), sort_of(pa.int64()), sort_of(pa.float64())
        ('integer', 'integer', '')
    """
    if not has_index_form(kind):
        return ""
    if pa.types.is_integer(kind):
        return "integer"
    return "timestamp" if pa.types.is_timestamp(kind) else "date" if pa.types.is_date(kind) else "string"


def _settings_in(store: Store) -> bytes:
    content = store.read_control(_SETTINGS)
    if content is None:
        raise IndexNotFoundError(
            f"there is no index of a column here: url={without_password(store.url)}",
            remedy="make it: rli index create TABLE NAME --on COLUMN --home store",
        )
    return content
