"""Filters as Spark's columns, with the meaning that they have for pyarrow.

Spark takes NaN as the greatest number and as equal to itself. Its Parquet reader passes over row groups by bounds that leave
NaN out, and by dictionaries that tell ``-0.0`` from ``0.0``. So columns of floating-point numbers are compared in a form
that the reader does not see.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from functools import reduce
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  (the name that everybody knows)

from rli.errors import InvalidInputError
from rli.filters import predicates as p
from rli.filters.filter import Filter
from rli_spark.session.batches import map_tables

Condition: TypeAlias = tuple[str, str, Any]

_AS_STRING: Final = {
    "date": pa.types.is_date,
    "timestamp_ntz": lambda kind: pa.types.is_timestamp(kind) and not kind.tz,
}


def passing(frame: DataFrame, passes: Filter, types: pa.Schema) -> DataFrame:
    """The records of a frame that pass a filter. Values that are computed of a record are computed by pyarrow.

    Args:
        frame: records of a table.
        passes: the filter.
        types: of the frame's columns, in their order, as the table has them.

    Raises:
        InvalidInputError: a constant cannot be compared with its column in Spark.
    """
    predicate = passes.predicate
    parts = list(predicate.parts) if isinstance(predicate, p.And) else [predicate]
    plain = [part for part in parts if not p.is_computed(part)]
    if plain:
        frame = frame.where(_Condition(types).of(p.all_of(plain), is_exact=False))
    if len(plain) == len(parts):
        return frame

    def chosen(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        for table in tables:
            records = table.cast(types)
            yield records.filter(passes.mask(records))

    return map_tables(frame, chosen, types)


class _Condition:
    """Forms columns of one table; ``is_exact``: null is told from false, which matters inside of ``not`` alone."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def of(self, predicate: p.Predicate, *, is_exact: bool) -> Column:
        match predicate:
            case p.And(parts):
                return reduce(operator.and_, [self.of(part, is_exact=is_exact) for part in parts])
            case p.Or(parts):
                return reduce(operator.or_, [self.of(part, is_exact=is_exact) for part in parts])
            case p.Not(part):
                return ~self.of(part, is_exact=True)
            case _:
                return self._leaf(predicate, is_exact=is_exact)

    def _leaf(self, predicate: p.Predicate, *, is_exact: bool) -> Column:
        match predicate:
            case p.Comparison():
                return self._comparison(predicate)
            case p.ColumnComparison():
                return self._comparison_of_columns(predicate)
            case p.IsIn():
                within = self._membership(predicate)
                return F.coalesce(within, F.lit(False)) if is_exact else within  # noqa: FBT003
            case p.IsNull(column, False):
                return _column(column).isNull()
            case p.IsTrue(column):
                return _column(column)
        raise InvalidInputError(
            f"in Spark there is no such filter: filter={predicate}", remedy="give a string or tuples"
        )

    def _comparison(self, predicate: p.Comparison) -> Column:
        column, kind = _column(predicate.column), self._type(predicate.column)
        compare = p.OPERATORS[predicate.symbol]
        if not predicate.value.is_valid:
            return F.lit(None).cast("boolean")
        if not pa.types.is_floating(kind):
            return compare(column, self._constant(predicate.value, kind))
        value = predicate.value.cast(kind, safe=False).as_py() + 0.0
        if value != value:  # noqa: PLR0124
            return F.when(column.isNotNull(), F.lit(predicate.symbol == "!="))
        compared = compare(_number(column), F.lit(value))
        return compared & ~F.isnan(column) if predicate.symbol in (">", ">=") else compared

    def _comparison_of_columns(self, predicate: p.ColumnComparison) -> Column:
        left, right = _column(predicate.left), _column(predicate.right)
        floating = [one for one in (predicate.left, predicate.right) if pa.types.is_floating(self._type(one))]
        compare = p.OPERATORS[predicate.symbol]
        if not floating:
            return compare(left, right)
        some_nan = reduce(operator.or_, [F.isnan(_column(one)) for one in floating])
        known = left.isNotNull() & right.isNotNull()
        ordered = F.when(some_nan, F.lit(predicate.symbol == "!=")).otherwise(compare(_number(left), _number(right)))
        return F.when(known, ordered)

    def _membership(self, predicate: p.IsIn) -> Column:
        column, kind = _column(predicate.column), self._type(predicate.column)
        values = predicate.values.drop_null()
        found: list[Column] = []
        if pa.types.is_floating(kind):
            numbers = [value + 0.0 for value in values.cast(kind, safe=False).to_pylist()]
            ordered = sorted({value for value in numbers if value == value})  # noqa: PLR0124
            found = [_number(column).isin(ordered)] if ordered else []
            found += [F.isnan(column)] if len(ordered) < len(set(numbers)) else []
        elif len(values):
            found = [column.isin([self._constant(value, kind) for value in values])]
        if predicate.matches_null and predicate.values.null_count:
            found.append(column.isNull())
        return reduce(operator.or_, found) if found else F.lit(False)  # noqa: FBT003

    def _type(self, column: p.Column) -> pa.DataType:
        kind = self._schema.field(column[0]).type
        for name in column[1:]:
            kind = kind.field(name).type
        return kind

    def _constant(self, value: pa.Scalar, kind: pa.DataType) -> Column:
        """A constant to compare a column with that does not hold floating-point numbers."""
        is_moment = pa.types.is_timestamp(kind) or pa.types.is_date(kind)
        if pa.types.is_date(kind) and pa.types.is_timestamp(value.type):
            raise InvalidInputError(f"a date is compared with a time: value={value}", remedy="give a date")
        if not is_moment:
            plain = value.as_py()
            return F.lit(bytearray(plain) if isinstance(plain, bytes) else plain)
        try:
            fitting = value.cast(kind)
        except pa.ArrowInvalid as error:
            raise InvalidInputError(
                f"a constant of the filter is finer than its column: value={value} type={kind} ({error})",
                remedy="round it",
            ) from error
        for name, is_kind in _AS_STRING.items():
            if is_kind(kind):
                return F.lit(fitting.cast(pa.string()).as_py()).cast(name)
        return F.timestamp_micros(F.lit(fitting.cast(pa.timestamp("us", kind.tz)).value))


def _column(column: p.Column) -> Column:
    return F.col(".".join(f"`{name.replace('`', '``')}`" for name in column))


def _number(column: Column) -> Column:
    """A number in a form that Spark's Parquet reader does not compare with bounds; both zeros are one."""
    return column.cast("double") + F.lit(0.0)


def require_portable(filters: object) -> None:
    """Raise ``InvalidInputError`` for a filter that Spark does not understand."""
    if isinstance(filters, pc.Expression):
        raise InvalidInputError(
            f"in Spark a filter is no pyarrow expression: filters={filters}",
            remedy="give a string or tuples (column, op, value), or filter the frame: read(spark, table).where(…)",
        )
