"""Ordering values of deletes as users give them: a column of the rows, or a value for each key."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from rli.errors import InvalidInputError, SchemaError

_VALUES: Final = "ordering"
"""Names the column of values that are given beside the keys of a table without ordering field, which refuses them."""


def requested_deletes(rows: pa.Table, ordering: Any, field: str | None) -> tuple[pa.Table, str | None]:
    """The rows of a delete, and their column of ordering values; None if whatever is stored is to be deleted.

    Args:
        rows: one for each key.
        ordering: the name of a column of the rows, or a value for each key or row; None for the table's own ordering column,
            if the rows have it.
        field: the table's ordering field; None if it has none.

    Raises:
        InvalidInputError: there is not one value for each row.
        SchemaError: the rows lack the column.
    """
    if ordering is None:
        return rows, field if field in rows.column_names else None
    if isinstance(ordering, str):
        if ordering not in rows.column_names:
            raise SchemaError(
                f"the ordering column is missing: column={ordering} found={rows.column_names}",
                remedy="name a column of the rows, or give a value for each key",
            )
        return rows, ordering
    values = _as_array(ordering)
    if len(values) != rows.num_rows:
        raise InvalidInputError(
            f"there is not one ordering value for each key: keys={rows.num_rows} values={len(values)}",
            remedy="give as many",
        )
    name = field or _VALUES
    others = rows.drop_columns(name) if name in rows.column_names else rows
    return others.append_column(name, values), name


def _as_array(values: Any) -> pa.Array | pa.ChunkedArray:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    try:
        return pa.array(values)
    except (pa.ArrowException, TypeError) as error:
        raise InvalidInputError(
            f"these are no ordering values ({error})",
            remedy="give the name of a column, a list of values or an Arrow array",
        ) from error
