"""What is built and removed for an index on a column, and the names of these indexes, which rli keeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from rli.column_index.expressions import IndexedExpression
from rli.errors import InvalidInputError, SchemaError, UnsupportedTableError
from rli.filters.value_expression import ValueExpression
from rli.hudi.metadata.index_definitions import (
    hudi_form,
    index_of_expression,
    load_index_definitions,
    own_index_of_expression,
    secondary_index,
)
from rli.hudi.metadata.partitions import PartitionKind
from rli.index.contract import TableIndex
from rli.index.roles import IndexesColumns
from rli.metadata_table.indexed_columns import IndexedColumns, chosen_columns
from rli.metadata_table.kept_shards import remove_kept
from rli.metadata_table.secondary_entries import why_not_kept
from rli.model import Scope
from rli.publication.fence import Fence
from rli.services.metadata_table import disable_metadata
from rli.services.new_partitions import NewPartitions
from rli.telemetry import events
from rli.view import paths
from rli.view.column_indexes import (
    IndexHome,
    IndexUse,
    NamedIndex,
    NamedIndexes,
    WantedIndex,
    column_indexes,
    partition_of,
    partition_of_expression,
)
from rli.view.definition import TableDefinition
from rli.view.snapshot import Snapshot, told_of_now

FIRST_VERSION_OF_SECONDARY: Final = 9
"""Of the table: since this version, Hudi has secondary indexes and indexes on expressions."""


def partitions_for(name: str, index: WantedIndex, snapshot: Snapshot, scope: Scope) -> NewPartitions | None:
    """What an index on a column needs of the metadata table; None if all of it is there.

    Args:
        name: of the index.
        index: what it is of and made of.
        snapshot: the table as it is now.
        scope: where a record key is unique.

    Raises:
        InvalidInputError: there is no such index on the column.
        SchemaError: the table has no such column.
        UnsupportedTableError: the table can have no such index.
    """
    using, column = index.using, index.column
    if index.expression is not None:
        return _of_expression(name, index, index.expression, snapshot, scope)
    if using is IndexUse.SECONDARY:
        return _secondary(partition_of(name, using), column, snapshot, scope)
    if using is IndexUse.BLOOM_FILTERS:
        return _for_bloom_filters(snapshot, scope)
    return _for_statistics(column, snapshot, scope)


def statistics_without(columns: Sequence[str], snapshot: Snapshot, scope: Scope) -> NewPartitions | None:
    """The partitions to build again without the statistics of some columns; None if no statistics are left, or the columns have none.

    Args:
        columns: that lose their statistics.
        snapshot: the table as it is now.
        scope: where a record key is unique.
    """
    present = _with_statistics(snapshot)
    left = [column for column in present if column not in columns]
    return _statistics_of(left, snapshot, scope) if 0 < len(left) < len(present) else None


def name_index(name: str, index: NamedIndex, fence: Fence) -> None:
    """Keep the name of an index that has been built. The caller holds the lease."""
    _save(NamedIndexes.load(fence.table.storage).with_index(name, index), fence)


def mark_dropped(name: str, table: TableDefinition) -> None:
    """Drop a named index, without the lease: from now on nobody uses it. Its data stay until ``remove_dropped``."""
    index = NamedIndexes.load(table.storage).indexes.get(name)
    if index is not None:
        path = paths.mark_of_drop(name, index.identity)
        table.storage.make_folder(paths.DROPPED_INDEXES)
        table.storage.create(path, b"")
        table.storage.flush([path], [paths.DROPPED_INDEXES])


def forget_index(name: str, fence: Fence) -> None:
    """Keep the name of an index no more; its data go to its heir, if there is one. The caller holds the lease."""
    left = NamedIndexes.load(fence.table.storage).without(name)
    _save(left, fence)
    # The name goes first: a mark without a named index has no effect.
    _remove_old_marks(left, fence)


def remove_dropped(fence: Fence, index: TableIndex) -> None:
    """Remove the data and the names of dropped indexes. The caller holds the lease.

    Statistics of a column in a partition with those of other columns stay: ``Table.build_indexes`` builds that partition again.

    Args:
        fence: of the lease.
        index: of the table.
    """
    named = NamedIndexes.load(fence.table.storage)
    _remove_old_marks(named, fence)
    if not named.dropped:
        return
    listed = {one.name: one for one in column_indexes(fence.table.reloaded(), {})}
    for name in sorted(named.dropped):
        own = named.indexes[name]
        if own.home is IndexHome.STORE:
            # A table with an index of another kind has no store for it.
            if isinstance(index, IndexesColumns):
                index.drop_column(name)
        elif named.is_last(name):
            present = told_of_now(fence.table, _with_statistics) if own.shares_statistics else [own.column]
            if own.column in present and present != [own.column]:
                continue
            if own.column in present:
                _remove_partition(listed[name].partition, fence)
        if own.is_scheduled and own.home is IndexHome.METADATA:
            remove_kept(fence.table.storage, _of_unfinished(name, own, listed[name].partition))
        forget_index(name, fence)


def _of_unfinished(name: str, index: NamedIndex, partition: str) -> list[str]:
    """The partitions that an unfinished build of an index may have read for."""
    if index.using is IndexUse.SECONDARY:
        return [partition, PartitionKind.RECORD_INDEX]
    # Which of both it is to be, the build finds out.
    shared = [] if index.expression is None else [partition_of_expression(name, is_own=own) for own in (False, True)]
    return [partition, *shared]


def _remove_old_marks(named: NamedIndexes, fence: Fence) -> None:
    """Remove the marks of indexes that have no name any more; a process may have died before it could."""
    storage = fence.table.storage
    known = {paths.mark_of_drop(name, index.identity) for name, index in named.indexes.items()}
    storage.delete_files([file.path for file in storage.list_files(paths.DROPPED_INDEXES) if file.path not in known])


def _remove_partition(partition: str, fence: Fence) -> None:
    if partition in fence.table.reloaded().properties.all_metadata_partitions:
        disable_metadata([partition], fence)


def _save(named: NamedIndexes, fence: Fence) -> None:
    fence.replace(paths.COLUMN_INDEXES, named.model_dump_json(indent=1).encode())


def _secondary(partition: str, column: str, snapshot: Snapshot, scope: Scope) -> NewPartitions | None:
    properties, schema = snapshot.table.properties, snapshot.schema
    if partition in properties.metadata_partitions:
        return None
    problem = _why_no_secondary(snapshot, scope)
    if problem:
        raise UnsupportedTableError(
            f"the table can have no secondary index: table={snapshot.table.location} ({problem})",
            remedy="choose using='column_stats' (--using column_stats)",
        )
    if schema is None or column not in schema.names:
        raise SchemaError(
            f"the table has no such column: column={column} found={[] if schema is None else schema.names}",
            remedy="check the name; a table that was never written has no columns yet",
        )
    definition = secondary_index(partition, column)
    reason = why_not_kept(definition, schema)
    if reason:
        raise InvalidInputError(
            f"a column cannot have a secondary index: column={column} ({reason})",
            remedy="choose a column of strings, integers, dates or microseconds, or using='column_stats'",
        )
    return NewPartitions([PartitionKind.RECORD_INDEX], scope, of_column=definition)


def _why_no_secondary(snapshot: Snapshot, scope: Scope) -> str:
    properties = snapshot.table.properties
    if properties.version < FIRST_VERSION_OF_SECONDARY:
        return f"its version is {properties.version}, and Hudi has these indexes from version {FIRST_VERSION_OF_SECONDARY} on"
    return "" if scope is Scope.GLOBAL else "its record keys are unique in their partition alone"


def _of_expression(name: str, index: WantedIndex, text: str, snapshot: Snapshot, scope: Scope) -> NewPartitions | None:
    properties, schema = snapshot.table.properties, snapshot.schema
    if schema is None:
        raise SchemaError(
            f"the table has no columns yet: table={snapshot.table.location} expression={text!r}",
            remedy="write records first, then create the index",
        )
    value = ValueExpression.of(text, schema)
    if {*value.columns} != {(index.column,)}:
        read = ", ".join(".".join(column) for column in value.columns)
        raise InvalidInputError(
            f"the expression is not one over the indexed column alone: expression={text!r} column={index.column} reads={read}",
            remedy="name the column that the expression reads",
        )
    form = hudi_form(text, index.column) if properties.version >= FIRST_VERSION_OF_SECONDARY else None
    partition = partition_of_expression(name, is_own=form is None)
    definition = (
        own_index_of_expression(partition, index.column, index.using, text, str(value.kind))
        if form is None
        else index_of_expression(partition, index.column, index.using, form)
    )
    if IndexedExpression.of(definition, schema) is None:
        raise InvalidInputError(
            f"an index cannot hold such values: expression={text!r} type={value.kind} using={index.using}",
            remedy="index an expression whose values have an order, or for bloom filters one of strings or integers",
        )
    if partition in properties.metadata_partitions:
        return None
    if form is not None and pa.types.is_string(value.kind) and schema.field(index.column).type == value.kind:
        events.INDEX_MAY_HIDE_RECORDS.log(table=snapshot.table.location, partition=partition, column=index.column)
    return NewPartitions([PartitionKind.FILES], scope, of_column=definition)


def _for_bloom_filters(snapshot: Snapshot, scope: Scope) -> NewPartitions | None:
    """The bloom filters of the record key."""
    if PartitionKind.BLOOM_FILTERS in snapshot.table.properties.metadata_partitions:
        return None
    return NewPartitions([PartitionKind.BLOOM_FILTERS], scope)


def _for_statistics(column: str, snapshot: Snapshot, scope: Scope) -> NewPartitions | None:
    present = _with_statistics(snapshot)
    return None if column in present else _statistics_of([*present, column], snapshot, scope)


def _with_statistics(snapshot: Snapshot) -> list[str]:
    """The columns that have statistics now, without the meta columns."""
    table = snapshot.table
    if PartitionKind.COLUMN_STATS not in table.properties.metadata_partitions:
        return []
    definitions = load_index_definitions(table.storage, table.properties)
    schema = pa.schema([]) if snapshot.schema is None else snapshot.schema
    return chosen_columns(IndexedColumns.of(definitions, schema).names)


def _statistics_of(columns: list[str], snapshot: Snapshot, scope: Scope) -> NewPartitions:
    """Both sorts of statistics of some columns, built again where they are there: they are of other columns."""
    properties = snapshot.table.properties
    both = (PartitionKind.COLUMN_STATS, PartitionKind.PARTITION_STATS)
    replaced = frozenset(kind for kind in both if kind in properties.metadata_partitions)
    names = replaced or [kind for kind in NewPartitions(None, scope).kinds(properties.version) if kind in both]
    return NewPartitions(names, scope, columns, frozenset(replaced))
