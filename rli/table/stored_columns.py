"""Indexes on columns in the key-value store of a table's record index: how they are made and listed."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from rli.errors import ConflictError, InvalidInputError, RliError, SchemaError, UnsupportedTableError
from rli.hudi.metadata.secondary_keys import has_index_form
from rli.index.roles import ColumnFacts, IndexesColumns, WantedColumn
from rli.model import Scope
from rli.services.column_indexes import FIRST_VERSION_OF_SECONDARY
from rli.table.births import OnProgress
from rli.table.opened import OpenTable
from rli.tasks import InThreads
from rli.telemetry import events
from rli.view.column_indexes import ColumnIndex, ColumnIndexState, IndexHome, IndexUse, NamedIndexes, WantedIndex
from rli.view.definition import TableDefinition
from rli.view.snapshot import Snapshot, told_of_now


def home_of(wanted: WantedIndex, table: OpenTable) -> IndexHome:
    """Where a new index is kept: in the metadata table if the table can have it there, else in the store of its index."""
    if wanted.home is not None:
        return wanted.home
    if wanted.is_unique:
        return IndexHome.STORE
    is_new_enough = table.definition.properties.version >= FIRST_VERSION_OF_SECONDARY
    is_in_metadata = wanted.using is not IndexUse.SECONDARY or is_new_enough or not _keeps_columns(table)
    return IndexHome.METADATA if is_in_metadata else IndexHome.STORE


def require_possible(wanted: WantedIndex, table: OpenTable) -> None:
    """Pass a secondary index that can be kept in the store of a table's index.

    Raises:
        InvalidInputError: the type of the column is not indexed.
        SchemaError: the table has no such column.
        UnsupportedTableError: the table can have no such index.
    """
    _require_store(table)
    if table.scope is not Scope.GLOBAL or not table.definition.has_unique_keys:
        raise UnsupportedTableError(
            f"the table can have no secondary index: table={table.definition.location} (a record key may be in several places)",
            remedy="choose using='column_stats' (--using column_stats)",
        )
    schema = told_of_now(table.reloaded(), lambda now: now.schema)
    if schema is None or schema.names.count(wanted.column) != 1:
        raise SchemaError(
            f"the table has no such column: column={wanted.column} found={[] if schema is None else schema.names}",
            remedy="check the name; a table that was never written has no columns yet",
        )
    kind = schema.field(wanted.column).type
    if not has_index_form(kind):
        raise InvalidInputError(
            f"a column cannot have a secondary index: column={wanted.column} (rli keeps no secondary index of type {kind})",
            remedy="choose a column of strings, integers, dates or microseconds, or using='column_stats'",
        )


def build(name: str, column: str, table: OpenTable, on_progress: OnProgress) -> str:
    """Build an index in the store beside writers, and bring it up to date; returns the name of the build (``ColumnFacts.build``)."""
    definition, index = table.refreshed()
    schema = told_of_now(table.reloaded(), lambda now: now.schema)
    if schema is None or not isinstance(index, IndexesColumns):
        raise ConflictError(
            f"the table was given another index, or lost its records, during the build: table={definition.location} name={name}",
            remedy=f"create the index again, or drop it: rli index drop TABLE {name}",
        )
    kind = schema.field(column).type
    return index.build_column(name, WantedColumn(column, kind), definition, InThreads(), on_progress)


def require_build(name: str, build: str, definition: TableDefinition, table: OpenTable) -> None:
    """Pass an index that a build has made and nobody has changed since. The caller holds the lease.

    Raises:
        ConflictError: another process has dropped it since, or builds it again.
    """
    schema = told_of_now(definition, lambda now: now.schema)
    facts = _facts_of(name, table, definition, schema)
    if facts is None or not facts.is_built or facts.build != build:
        raise ConflictError(
            f"another process has dropped the index meanwhile, or builds it: table={definition.location} name={name}",
            remedy="see its state: rli index list TABLE",
        )


def require_no_repeats(name: str, column: str, definition: TableDefinition, table: OpenTable) -> str:
    """Pass a table of which no two records have one value of a column; returns its last commit. The caller holds the lease.

    Raises:
        RepeatedValueError: two have.
    """
    index, snapshot = table.index, Snapshot.now(definition)
    if isinstance(index, IndexesColumns):
        index.require_no_repeats(name, column, snapshot)
    return max((write.time for write in snapshot.timeline.completed_writes), default="")


def in_stores(table: OpenTable) -> Iterator[ColumnIndex]:
    """The indexes in the store; invalid where the store has none of the column or does not answer, or where it cannot follow."""
    named = NamedIndexes.load(table.definition.storage)
    if not named.in_stores:
        return
    definition = table.reloaded()
    schema = told_of_now(definition, lambda now: now.schema)
    for name, index in named.in_stores.items():
        facts = _facts_of(name, table, definition, schema)
        state = ColumnIndexState.INVALID
        if name in named.dropped:
            state = ColumnIndexState.DROPPING
        elif index.is_scheduled:
            state = ColumnIndexState.BUILDING
        elif facts is not None and facts.is_of_table and facts.follows and facts.is_built:
            state = ColumnIndexState.VALID
        is_valid = state is ColumnIndexState.VALID
        yield ColumnIndex(
            name,
            index.using,
            (index.column,),
            state,
            "",
            0 if facts is None else facts.size,
            None,
            IndexHome.STORE,
            index.is_unique,
            facts.lag if facts is not None and is_valid else None,
            float(is_valid),
        )


def _facts_of(name: str, table: OpenTable, definition: TableDefinition, schema: pa.Schema | None) -> ColumnFacts | None:
    try:
        index = table.index
        return index.facts_of(name, definition, schema) if isinstance(index, IndexesColumns) else None
    except RliError as error:
        events.COLUMN_INDEX_UNUSED.log(table=definition.location, index=name, cause=error)
        return None


def _keeps_columns(table: OpenTable) -> bool:
    return table.definition.settings is not None and isinstance(table.index, IndexesColumns)


def _require_store(table: OpenTable) -> None:
    if not _keeps_columns(table):
        raise UnsupportedTableError(
            f"the index of the table is in no key-value store, which could keep an index of a column: "
            f"table={table.definition.location} index={table.definition.index_url}",
            remedy="give the table a record index: rli index migrate TABLE --to lmdb:///path",
        )
