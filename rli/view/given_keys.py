"""Record keys as callers give them: strings, values of the key column, or rows with the key columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from rli.arrow_tables import as_arrow_table
from rli.codec.key_arrays import as_key_array, is_string
from rli.errors import InvalidInputError, InvalidKeyError
from rli.hudi.meta_columns import RECORD_KEY
from rli.hudi.table_keys import KEY_VALUE, TableKeys
from rli.view.definition import TableDefinition
from rli.view.snapshot import told_of_now


def table_keys(table: TableDefinition) -> TableKeys:
    """Forms keys in the types that the table's columns have now; raises as ``Snapshot.schema``."""
    return told_of_now(table, lambda snapshot: snapshot.table_keys)


def given_keys(table: TableDefinition, keys: Any) -> pa.Array:
    """The record keys that a caller gives: string array, shape (n,), one for each text, value or row, in their order.

    Args:
        table: whose keys they are.
        keys: as for ``key_rows``.

    Raises:
        InvalidInputError, InvalidKeyError: as ``key_rows``; or a value would change in its column, or its key would be
            another value's, too.
        SchemaError: a key column is missing, or its type does not fit the table.
    """
    rows = key_rows(table, keys)
    # Whole keys need no types, so the timeline is not read for them.
    forming = (
        TableKeys.of(table.key_generator, None) if RECORD_KEY in rows.column_names else table_keys(table.reloaded())
    )
    return forming.given_keys(rows)


def key_rows(table: TableDefinition, keys: Any) -> pa.Table:
    """Rows for ``TableKeys.given_keys``, one for each key that a caller gives, in their order; other columns stay.

    Args:
        table: whose keys they are.
        keys: whole record keys as strings (a sequence, an Arrow array or column, a series); or, in a table with one
            record-key column, its values; or all that ``as_arrow_table`` makes a table of, with the record-key columns
            or with whole keys in ``_hoodie_record_key``.

    Raises:
        InvalidInputError: these are no keys.
        InvalidKeyError: a key is null, or neither a text nor a value of a key column.
    """
    if isinstance(keys, Mapping):
        raise InvalidInputError(
            f"a {type(keys).__name__} is neither keys nor rows",
            remedy="pass pyarrow.table(…) for columns, or list(…) for its keys",
        )
    if _are_rows(keys):
        return as_arrow_table(keys)
    values = _values(keys)
    if pa.types.is_struct(values.type):
        chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
        batches = [pa.RecordBatch.from_struct_array(chunk) for chunk in chunks]
        return pa.Table.from_batches(batches, pa.schema(list(values.type)))
    kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    if pa.types.is_null(kind) or is_string(kind):
        strings = values.cast(pa.string()) if pa.types.is_null(kind) else values
        return pa.table({RECORD_KEY: as_key_array(strings)})
    fields = table.properties.record_key_fields
    if len(fields) != 1:
        raise InvalidKeyError(
            f"record keys are no strings: type={kind} key columns={list(fields)}",
            remedy=(
                f"pass strings such as {','.join(f'{name}:1' for name in fields) or 'a:1,b:2'}, or a table with the key "
                "columns"
            ),
        )
    return pa.table({KEY_VALUE: values})


def _are_rows(keys: Any) -> bool:
    if isinstance(keys, pa.Table | pa.RecordBatch | pa.RecordBatchReader):
        return True
    if isinstance(keys, Sequence):
        return bool(keys) and all(isinstance(part, pa.RecordBatch) for part in keys)
    # Data frames have columns; a column of one (a series) has not. A lazy frame would compute them.
    return not isinstance(keys, pa.Array | pa.ChunkedArray) and hasattr(type(keys), "columns")


def _values(keys: Any) -> pa.Array | pa.ChunkedArray:
    """A sequence, an array or a series as Arrow has it."""
    if isinstance(keys, pa.Array | pa.ChunkedArray):
        return keys
    if hasattr(keys, "__arrow_c_stream__"):
        return pa.chunked_array(keys)
    if isinstance(keys, Iterator):
        # It is read more than once.
        keys = list(keys)
    try:
        return as_key_array(keys)
    except InvalidKeyError:
        try:
            values = pa.array(keys)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            values = None
        if values is None or pa.types.is_string(values.type):
            raise
        return values
