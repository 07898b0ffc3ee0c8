"""Whether a unit with some bounds may hold a record that passes a filter.

For each predicate and unit, two questions are answered: may it be true for a record, may it be false for one? "Yes" is
always safe. A comparison is asked of the bounds themselves, by pyarrow, with the constant as the filter has it: where
pyarrow would convert the column or the constant, it converts the bound alike. All these conversions keep the order of
values, so what a bound shows holds for each value. Pairs of types without such a conversion are not compared.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rli.filters.column_bounds import Bounds, ColumnBounds, is_bytes
from rli.filters.predicates import (
    And,
    Comparison,
    Constant,
    IsIn,
    IsNan,
    IsNull,
    IsTrue,
    Not,
    Or,
    Predicate,
)

Truths: TypeAlias = NDArray[np.bool_]


def may_match(predicate: Predicate, bounds: Bounds) -> Truths:
    """Whether each unit may hold a record for which a predicate is true: shape (units,).

    False is proven. True says nothing: bounds are missing, or too wide, or the predicate has an unknown part.
    """
    return _outcomes(predicate, bounds).may_be_true


@dataclass(frozen=True, slots=True)
class _Outcomes:
    """Which values a predicate may have for a record of each unit: shape (units,); null may always be one."""

    may_be_true: Truths
    may_be_false: Truths


def _outcomes(predicate: Predicate, bounds: Bounds) -> _Outcomes:
    match predicate:
        case And(parts):
            each = [_outcomes(part, bounds) for part in parts]
            return _Outcomes(
                np.logical_and.reduce([one.may_be_true for one in each]),
                np.logical_or.reduce([one.may_be_false for one in each]),
            )
        case Or(parts):
            each = [_outcomes(part, bounds) for part in parts]
            return _Outcomes(
                np.logical_or.reduce([one.may_be_true for one in each]),
                np.logical_and.reduce([one.may_be_false for one in each]),
            )
        case Not(part):
            inner = _outcomes(part, bounds)
            return _Outcomes(inner.may_be_false, inner.may_be_true)
        case Constant(value):
            return _Outcomes(np.full(bounds.units, value is True), np.full(bounds.units, value is False))
        case Comparison() | IsIn() | IsNull() | IsNan() | IsTrue():
            found = bounds.of(predicate.column)
            return _either(bounds.units) if found is None else _of_column(predicate, found)
        case _:
            return _either(bounds.units)


def _either(units: int) -> _Outcomes:
    return _Outcomes(np.ones(units, np.bool_), np.ones(units, np.bool_))


def _of_column(predicate: Comparison | IsIn | IsNull | IsNan | IsTrue, bounds: ColumnBounds) -> _Outcomes:
    values, null, nan = bounds.may_hold_values, bounds.may_hold_null, _may_hold_nan(bounds)
    match predicate:
        case Comparison(_, symbol, value):
            return _compared(bounds, symbol, value)
        case IsTrue():
            return _compared(bounds, "==", pa.scalar(True))
        case IsIn():
            return _contained(bounds, predicate)
        case IsNull(_, nan_is_null):
            return _Outcomes(null | nan if nan_is_null else null, values)
        case IsNan():
            return _Outcomes(nan, values)


def _may_hold_nan(bounds: ColumnBounds) -> Truths:
    """Bounds do not speak of NaN."""
    is_floating = pa.types.is_floating(bounds.least.type)
    return bounds.may_hold_values if is_floating else np.zeros(len(bounds.least), np.bool_)


def _compared(bounds: ColumnBounds, symbol: str, value: pa.Scalar) -> _Outcomes:
    """A comparison of each value with a constant. For NaN all comparisons are false but ``!=``."""
    constant = _comparable(bounds.least.type, value)
    if constant is None:
        return _either(len(bounds.least))
    least, greatest, fixed = pc.field("least"), pc.field("greatest"), pc.scalar(constant)
    # What must hold of the bounds if the comparison is true for one value, and for all values.
    match symbol:
        case "<":
            one, all_values = least < fixed, greatest < fixed
        case "<=":
            one, all_values = least <= fixed, greatest <= fixed
        case ">":
            one, all_values = greatest > fixed, least > fixed
        case ">=":
            one, all_values = greatest >= fixed, least >= fixed
        case "==" | "!=":
            one, all_values = (least <= fixed) & (greatest >= fixed), (least >= fixed) & (greatest <= fixed)
        case _:
            return _either(len(bounds.least))
    # A bound that is not known may be any value.
    known = [pc.coalesce(one, pc.scalar(pa.scalar(True))), pc.coalesce(all_values, pc.scalar(pa.scalar(False)))]
    asked = _asked(bounds, known)
    if asked is None:
        return _either(len(bounds.least))
    may_be_true, must_be_true = asked
    found = _Outcomes(
        may_be_true & bounds.may_hold_values, ~must_be_true & bounds.may_hold_values | _may_hold_nan(bounds)
    )
    return _Outcomes(found.may_be_false, found.may_be_true) if symbol == "!=" else found


def _asked(bounds: ColumnBounds, questions: list[pc.Expression]) -> list[Truths] | None:
    """The answers to questions about least and greatest values; None if pyarrow does not answer."""
    from pyarrow import acero  # noqa: PLC0415  (it loads pandas where that is installed)

    source = acero.TableSourceNodeOptions(pa.table({"least": bounds.least, "greatest": bounds.greatest}))
    names = [str(number) for number in range(len(questions))]
    plan = [
        acero.Declaration("table_source", source),
        acero.Declaration("project", acero.ProjectNodeOptions(questions, names)),
    ]
    try:
        answers = acero.Declaration.from_sequence(plan).to_table(use_threads=False)
    except pa.ArrowException:
        return None
    return [answer.to_numpy() for answer in answers.columns]


def _comparable(kind: pa.DataType, constant: pa.Scalar) -> pa.Scalar | None:
    """A constant to compare bounds of a type with; None for types between which pyarrow may not keep the order."""
    if not constant.is_valid or not _keep_order(kind, constant.type):
        return None
    return constant.cast(kind) if is_bytes(kind) else constant


def _keep_order(kind: pa.DataType, other: pa.DataType) -> bool:
    """Whether pyarrow keeps the order of values when it compares a column with constants of another type."""
    if is_bytes(kind):
        return is_bytes(other)
    return kind == other or any(is_kind(kind) and fits(other) for is_kind, fits in _COMPARABLE)


def _is_exact_integer(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) and kind != pa.uint64()


def _is_number(kind: pa.DataType) -> bool:
    return _is_exact_integer(kind) or kind in (pa.float32(), pa.float64())


_COMPARABLE: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], bool]], ...]] = (
    (_is_number, _is_number),
    # A conversion of a decimal to a floating-point number may not keep the order.
    (pa.types.is_decimal, lambda kind: pa.types.is_decimal(kind) or _is_exact_integer(kind)),
    (pa.types.is_timestamp, lambda kind: pa.types.is_timestamp(kind) or pa.types.is_date32(kind)),
    (pa.types.is_time, pa.types.is_time),
)
"""Types of columns, and the types of other constants that they are compared with."""


def _contained(bounds: ColumnBounds, predicate: IsIn) -> _Outcomes:
    """Membership of each value in a set, which is true or false for NaN and null too."""
    matches_null = predicate.matches_null and predicate.values.null_count > 0
    found = _places_in_set(bounds, predicate.values)
    may_be_true = may_be_false = bounds.may_hold_values
    if found is not None:
        inside, all_inside = found
        holds_nan = pa.types.is_floating(predicate.values.type) and pc.any(pc.is_nan(predicate.values)).as_py()
        may_be_true = inside & bounds.may_hold_values | (_may_hold_nan(bounds) if holds_nan else False)
        may_be_false = ~all_inside & bounds.may_hold_values
    null = bounds.may_hold_null
    return _Outcomes(may_be_true | null, may_be_false) if matches_null else _Outcomes(may_be_true, may_be_false | null)


def _places_in_set(bounds: ColumnBounds, values: pa.Array) -> tuple[Truths, Truths] | None:
    """Whether a value of a set may be between the bounds, and whether each value of the unit must be in the set."""
    kind = bounds.least.type
    if not _keep_order(kind, values.type):
        return None
    try:
        members = sorted(value for value in _sortable(values.drop_null().cast(kind)) if value == value)  # noqa: PLR0124
        least, greatest = _sortable(bounds.least), _sortable(bounds.greatest)
    except (pa.ArrowException, TypeError):
        return None
    # The two zeros and values that pyarrow converts may be in a set that holds their equals, or may not be.
    is_exact = not pa.types.is_floating(kind) and (kind == values.type or is_bytes(kind))
    inside, all_inside = np.ones(len(least), np.bool_), np.zeros(len(least), np.bool_)
    for unit, (low, high) in enumerate(zip(least, greatest, strict=True)):
        first = 0 if low is None else bisect_left(members, low)
        inside[unit] = first < len(members) and (high is None or members[first] <= high)
        all_inside[unit] = is_exact and low is not None and low == high and inside[unit]
    return inside, all_inside


def _sortable(array: pa.Array) -> list[Any]:
    """The values of an array in Python, in types that have the array's order; a date may be outside of Python's range."""
    if pa.types.is_date32(array.type) or pa.types.is_time32(array.type):
        array = array.cast(pa.int32())
    elif pa.types.is_timestamp(array.type) or pa.types.is_time64(array.type):
        array = array.cast(pa.int64())
    values: list[Any] = array.to_pylist()
    return values
