"""The values that a filter names: each record that passes has one of them."""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa

from rli.filters.predicates import And, Comparison, IsIn, Or, Predicate


def named_strings(predicate: Predicate, columns: Collection[str]) -> pa.Array | None:
    """The strings of which each record that passes has one, in one of some columns.

    Args:
        predicate: the filter.
        columns: names of columns that have the same string in every record.

    Returns:
        String array of distinct values; None if the predicate does not say.
    """
    match predicate:
        case And(parts):
            return next((found for part in parts if (found := named_strings(part, columns)) is not None), None)
        case Or(parts):
            each = [named_strings(part, columns) for part in parts]
            known = [found for found in each if found is not None]
            return pa.concat_arrays(known).unique() if len(known) == len(each) else None
        case Comparison((name,), "==", value) if name in columns and value.is_valid and pa.types.is_string(value.type):
            return pa.array([value.as_py()], pa.string())
        case IsIn((name,), values) if name in columns and pa.types.is_string(values.type) and not values.null_count:
            return values.unique()
        case _:
            return None
