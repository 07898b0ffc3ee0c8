"""Records as a write keeps them: behind their record key and the partition path of their own values."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from rli.codec import scoped_keys as scoped_keys_codec
from rli.errors import SchemaError
from rli.file_group import work_rows
from rli.file_group.merge import newest_records
from rli.hudi.meta_columns import require_no_reserved_columns
from rli.hudi.schema import conform, written_schema
from rli.hudi.table_keys import TableKeys
from rli.model import Scope

KEY_COLUMNS: Final = (work_rows.RECORD_KEY, work_rows.WANTED_PARTITION_PATH)


def with_keys(records: pa.Table, keys: TableKeys, ordering_field: str | None, scope: Scope) -> pa.Table:
    """Records as they will be written, behind their record key and wanted partition path.

    Args:
        records: any types that a table can hold.
        keys: of the table.
        ordering_field: must hold a value in every record; None if the table has none.
        scope: where a key is unique.

    Raises:
        SchemaError: a column is missing, has a reserved name or a type that cannot be written, or an ordering value is
            missing.
        InvalidKeyError: a key is null or empty, a partition value cannot name a folder, or one of them would change
            in its column, or would not be told apart from another one.
    """
    require_no_reserved_columns(records.schema)
    data = keys.fitted(records)
    schema = written_schema(data.schema)
    record_keys = keys.record_keys(data)
    partition_paths = keys.partition_paths(data, scope).cast(pa.string())
    if ordering_field is not None:
        require_ordering(data, ordering_field)
    fields = [pa.field(name, pa.string()) for name in KEY_COLUMNS]
    return pa.table(
        [record_keys, partition_paths, *conform(data, schema).columns], schema=pa.schema([*fields, *schema])
    )


def fitted(keyed: pa.Table, schema: pa.Schema) -> pa.Table:
    """Keyed records with exactly the columns and types of a schema; columns that they lack are null."""
    fields = [pa.field(name, pa.string()) for name in KEY_COLUMNS]
    return conform(keyed, pa.schema([*fields, *schema]))


def scoped_keys(keyed: pa.Table, scope: Scope) -> pa.Array:
    """What no two records of a batch may share: their key, with partition scope together with their partition."""
    keys = keyed.column(work_rows.RECORD_KEY).combine_chunks()
    if scope is Scope.GLOBAL:
        return keys
    return scoped_keys_codec.joined(keyed.column(work_rows.WANTED_PARTITION_PATH).combine_chunks(), keys)


def newest_of(keyed: pa.Table, ordering_field: str | None, scope: Scope = Scope.GLOBAL) -> pa.Table:
    """One record for each key of the scope: the one with the greatest ordering value, of equals the last."""
    keys = scoped_keys(keyed, scope)
    ordering = keyed.column(ordering_field).combine_chunks() if ordering_field else None
    positions = newest_records(keys, ordering)
    return keyed if positions is None else keyed.take(pa.array(positions))


def require_ordering(records: pa.Table, ordering_field: str) -> None:
    """Raise ``SchemaError`` if the column of ordering values is missing, has no order, or lacks a value."""
    if ordering_field not in records.column_names:
        raise SchemaError(
            f"the ordering column is missing: column={ordering_field} found={records.column_names}",
            remedy="add it to the records",
        )
    column = records.column(ordering_field)
    if pa.types.is_nested(column.type):
        raise SchemaError(
            f"the ordering column has a type without an order: column={ordering_field} type={column.type}",
            remedy="use a number, a time or a string",
        )
    missing = pc.is_null(column, nan_is_null=True)
    if pc.any(missing).as_py():
        row = pc.index(missing, True).as_py()
        raise SchemaError(
            f"an ordering value is missing: column={ordering_field} row={row}",
            row=row,
            remedy="give each record an ordering value",
        )
