"""Filters as tuples, in the form of ``pyarrow.parquet.read_table``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rli.errors import SchemaError
from rli.filters.predicates import OPERATORS, Column, Comparison, IsIn, Not, Predicate, all_of, any_of


def parse_tuples(filters: object) -> Predicate:
    """The filter that tuples describe.

    Args:
        filters: tuples (column, operator, value), all of which hold, or a list of such lists, of which one holds. The
            operators are ``=``, ``==``, ``!=``, ``<``, ``<=``, ``>``, ``>=``, ``in`` and ``not in``. Null is not
            compared; it passes ``not in``. In a list of lists, a tuple names a field of a struct: ``("address", "city")``.

    Raises:
        SchemaError: these are no such tuples.
    """
    try:
        # Checks the form.
        pq.filters_to_expression(filters)
        return any_of([all_of([_condition(*one) for one in conditions]) for conditions in _alternatives(filters)])
    except (ValueError, TypeError, pa.ArrowException) as error:
        raise SchemaError(
            f"this is not a filter: filters={filters!r} ({error})",
            remedy=('give a string such as "fare > 10", a pyarrow expression or tuples (column, op, value)'),
        ) from error


def _alternatives(filters: Any) -> Sequence[Sequence[tuple[Any, str, Any]]]:
    return [filters] if isinstance(filters[0][0], str) else filters


def _condition(name: Any, symbol: str, value: Any) -> Predicate:
    column: Column = (name,) if isinstance(name, str) else tuple(name)
    if symbol in ("in", "not in"):
        values = value.combine_chunks() if isinstance(value, pa.ChunkedArray) else value
        is_in = IsIn.equal(column, values if isinstance(values, pa.Array) else pa.array(values))
        return is_in if symbol == "in" else Not(is_in)
    comparison = "==" if symbol == "=" else symbol
    if comparison not in OPERATORS:
        raise ValueError(f"no operator: {symbol!r}")
    return Comparison(column, comparison, value if isinstance(value, pa.Scalar) else pa.scalar(value))
