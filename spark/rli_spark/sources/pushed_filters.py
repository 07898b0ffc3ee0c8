"""Filters that Spark pushes into the source: those that mean for Spark and for pyarrow the same become a pyarrow expression.

Comparisons of floating-point numbers do not: Spark takes NaN as the greatest number. Spark tests all its filters again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from functools import reduce
from operator import and_, eq, ge, gt, le, lt, or_
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import datasource as spark

_COMPARISONS: Final[dict[type, Callable[[Any, Any], Any]]] = {
    spark.EqualTo: eq,
    spark.GreaterThan: gt,
    spark.GreaterThanOrEqual: ge,
    spark.LessThan: lt,
    spark.LessThanOrEqual: le,
}

_COMPARED: Final = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_date32,
    pa.types.is_decimal128,
    lambda kind: pa.types.is_timestamp(kind) and kind.tz is not None,
)


def understood(filters: Iterable[Any], schema: pa.Schema) -> pc.Expression | None:
    """An expression that is true wherever all the filters are; None if none of them is understood.

    Args:
        filters: of Spark.
        schema: of the table, with meta columns.
    """
    found = [expression for one in filters if (expression := _expression(one, schema)) is not None]
    return reduce(and_, found) if found else None


def _expression(one: Any, schema: pa.Schema) -> pc.Expression | None:
    if isinstance(one, spark.Not):
        inner = _expression(one.child, schema)
        return None if inner is None else ~inner
    path: tuple[str, ...] = getattr(one, "attribute", ())
    if len(path) != 1 or path[0] not in schema.names:
        return None
    column, kind = pc.field(path[0]), schema.field(path[0]).type
    if isinstance(one, spark.IsNull | spark.IsNotNull):
        return column.is_null() if isinstance(one, spark.IsNull) else column.is_valid()
    if type(one) not in _COMPARISONS and not isinstance(one, spark.In):
        return None
    # Null is neither in a list nor outside of it, as it is for each comparison.
    compare: Callable[[Any, Any], Any] = _COMPARISONS.get(type(one), eq)
    values = [_constant(value, kind) for value in (one.value if isinstance(one, spark.In) else [one.value])]
    if not values or None in values:
        return None
    return reduce(or_, (compare(column, value) for value in values))


def _constant(value: Any, kind: pa.DataType) -> pa.Scalar | None:
    """A value in the type of its column; None if it has no place there."""
    if value is None or not any(is_of(kind) for is_of in _COMPARED):
        return None
    if isinstance(value, bool) is not pa.types.is_boolean(kind) or (
        isinstance(value, datetime) and value.tzinfo is None
    ):
        return None
    try:
        return pa.scalar(value, kind)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return None
