"""Records that are written to a block have the columns of its schema."""

from __future__ import annotations

import pyarrow as pa

from rli.errors import InvalidInputError


def require_columns(batch: pa.RecordBatch, columns: pa.Schema) -> pa.RecordBatch:
    """The batch with exactly these columns.

    Args:
        batch: records, meta columns included.
        columns: of the block's schema.

    Raises:
        InvalidInputError: the batch has other columns, or a null where the schema has none.
    """
    if batch.schema.names != columns.names or batch.schema.types != columns.types:
        raise InvalidInputError(
            "records have other columns than the schema of their block: "
            f"columns={dict(zip(batch.schema.names, map(str, batch.schema.types), strict=True))}",
            remedy="cast them to the schema",
        )
    for field, column in zip(columns, batch.columns, strict=True):
        if column.null_count and not field.nullable:
            raise InvalidInputError(
                f"a column has a null, which the schema of the records does not allow: column={field.name}",
                remedy="fill the column, or let its schema allow null",
            )
    return pa.RecordBatch.from_arrays(batch.columns, schema=columns)
