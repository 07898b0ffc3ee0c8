"""The values that a filter names: each record that passes has one of them."""

from __future__ import annotations

from collections.abc import Callable, Collection

import pyarrow as pa

from rli.filters.likes import successor
from rli.filters.predicates import And, Comparison, IsIn, Or, Predicate


def named_strings(predicate: Predicate, columns: Collection[str]) -> pa.Array | None:
    """The strings of which each record that passes has one, in one of some columns.

    Args:
        predicate: the filter.
        columns: names of columns that have the same string in every record.

    Returns:
        String array of distinct values; None if the predicate does not say.
    """
    return _named(predicate, columns, pa.types.is_string)


def named_values(predicate: Predicate, column: str) -> pa.Array | None:
    """The values of which each record that passes has one in a column.

    Returns:
        Array of distinct values of one type, without nulls; None if the predicate does not say.
    """
    return _named(predicate, (column,), lambda _: True)


def _named(predicate: Predicate, columns: Collection[str], fits: Callable[[pa.DataType], bool]) -> pa.Array | None:
    match predicate:
        case And(parts):
            return next((found for part in parts if (found := _named(part, columns, fits)) is not None), None)
        case Or(parts):
            each = [_named(part, columns, fits) for part in parts]
            known = [found for found in each if found is not None]
            is_said = len(known) == len(each) and len({found.type for found in known}) == 1
            return pa.concat_arrays(known).unique() if is_said else None
        case Comparison((name,), "==", value) if name in columns and value.is_valid and fits(value.type):
            return pa.repeat(value, 1)
        case IsIn((name,), values) if name in columns and fits(values.type) and not values.null_count:
            return values.unique()
        case _:
            return None


def named_prefix(predicate: Predicate, column: str) -> str | None:
    """A common prefix of all strings of a column that pass a filter; None if the predicate does not tell any.

    Example:
        >>> least, behind = (Comparison(("c",), *given) for given in ((">=", pa.scalar("ab")), ("<", pa.scalar("ac"))))
        >>> named_prefix(And((least, behind)), "c")
        'ab'
    """
    if not isinstance(predicate, And):
        return None
    bounds = {
        part.symbol[0]: (part.value.as_py(), part.symbol)
        for part in predicate.parts
        if isinstance(part, Comparison) and part.column == (column,) and part.symbol in ("<", "<=", ">", ">=")
    }
    least, _ = bounds.get(">", (None, ""))
    greatest, symbol = bounds.get("<", (None, ""))
    if not isinstance(least, str) or not isinstance(greatest, str):
        inner = (named_prefix(part, column) for part in predicate.parts)
        return next((found for found in inner if found is not None), None)
    # The successor itself does not begin so.
    if symbol == "<" and greatest == successor(least):
        return least
    pairs = enumerate(zip(least, greatest, strict=False))
    place = next((place for place, (one, other) in pairs if one != other), min(len(least), len(greatest)))
    return least[:place] or None
