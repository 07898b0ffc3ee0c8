"""Values that pyarrow computes of a record's columns, with their types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from rli.filters.constants import UNFIT, as_value_of, natural_value
from rli.filters.predicates import Column, Predicate, columns_of
from rli.filters.syntax import Literal

MAX_PRECISION: Final = 38
"""Of decimals with 128 bits."""


@dataclass(frozen=True, slots=True)
class Value:
    """A value for each record.

    Attributes:
        expression: computes it.
        kind: its type.
        columns: which it reads.
        is_column: whether it is the value of one column as it is.
        constant: the value, if it is the same for every record.
        literal: the constant as the text has it, if its type may still be chosen.
    """

    expression: pc.Expression
    kind: pa.DataType
    columns: tuple[Column, ...] = ()
    is_column: bool = False
    constant: pa.Scalar | None = None
    literal: Literal | None = None

    @classmethod
    def of_column(cls, column: Column, kind: pa.DataType) -> Value:
        return cls(pc.field(*column), kind, (column,), is_column=True)

    @classmethod
    def of_constant(cls, constant: pa.Scalar, literal: Literal | None = None) -> Value:
        return cls(pc.scalar(constant), constant.type, constant=constant, literal=literal)

    @classmethod
    def of_literal(cls, literal: Literal) -> Value:
        return cls.of_constant(natural_value(literal), literal)

    @classmethod
    def of_predicate(cls, predicate: Predicate) -> Value:
        return cls(predicate.expression(), pa.bool_(), tuple(dict.fromkeys(columns_of(predicate))))

    @property
    def is_null(self) -> bool:
        """Whether the value is null for every record."""
        return self.constant is not None and not self.constant.is_valid


@dataclass(frozen=True, slots=True)
class Guard:
    """The records for which a value counts: for others it may not fail. pyarrow computes all branches for all records.

    Attributes:
        conditions: neither of them is null; all of them hold for these records.
    """

    conditions: tuple[pc.Expression, ...] = ()

    def if_true(self, condition: pc.Expression) -> Guard:
        return Guard((*self.conditions, pc.coalesce(condition, pc.scalar(pa.scalar(False)))))

    def unless_true(self, condition: pc.Expression) -> Guard:
        return Guard((*self.conditions, ~pc.coalesce(condition, pc.scalar(pa.scalar(False)))))

    def unless_false(self, condition: pc.Expression) -> Guard:
        return Guard((*self.conditions, pc.coalesce(condition, pc.scalar(pa.scalar(True)))))

    def over(self, value: Value) -> Value:
        """A value that is null for all other records."""
        if not self.conditions or value.constant is not None:
            return value
        counts = reduce(pc.and_kleene, self.conditions)
        nothing = pc.scalar(pa.scalar(None, value.kind))
        return replace(value, expression=pc.if_else(counts, value.expression, nothing), is_column=False)


def applied(function: Callable[..., Any], *operands: Value, **options: Any) -> Value:
    """A function of pyarrow applied to some values.

    Raises:
        ValueError: it takes no values of these types.
    """
    try:
        kind = function(*(pa.array([], operand.kind) for operand in operands), **options).type
    except (pa.ArrowException, TypeError) as error:
        kinds = ", ".join(str(operand.kind) for operand in operands)
        raise ValueError(f"nothing is computed of values of such types: {kinds} ({error})") from error
    columns = dict.fromkeys(column for operand in operands for column in operand.columns)
    return Value(function(*(operand.expression for operand in operands), **options), kind, tuple(columns))


def cast(value: Value, kind: pa.DataType, guard: Guard) -> Value:
    """A value in another type; where it would change, its computation fails.

    Raises:
        ValueError: there is no such conversion, or a constant does not fit.
    """
    if value.kind == kind:
        return value
    try:
        if value.literal is not None:
            return Value.of_constant(as_value_of(value.literal, kind).cast(kind))
        if value.constant is not None:
            return Value.of_constant(value.constant.cast(kind))
        pa.array([], value.kind).cast(kind)
    except UNFIT as error:
        raise ValueError(f"no conversion of {value.kind} into {kind} ({error})") from error
    expression = guard.over(value).expression
    if pa.types.is_string(value.kind) and pa.types.is_timestamp(kind) and kind.tz is not None:
        # As for constants: a time without an offset is in UTC.
        naive = expression.cast(pa.timestamp(kind.unit))
        return Value(pc.assume_timezone(naive, "UTC").cast(kind), kind, value.columns)
    return Value(expression.cast(kind), kind, value.columns)


def fitting(value: Value, kind: pa.DataType) -> Value:
    """A value beside values of a type: a constant whose type may still be chosen is fitted to it.

    Raises:
        ValueError: the constant does not fit.
    """
    if value.literal is None:
        return value
    try:
        return Value.of_constant(as_value_of(value.literal, kind))
    except UNFIT as error:
        raise ValueError(
            f"a constant does not fit: value={value.literal.value!r} type={kind} ({error}); write strings in quotes and "
            "numbers without"
        ) from error


def alike(values: Sequence[Value], guards: Sequence[Guard]) -> list[Value]:
    """Values in the one type that holds all of them.

    Args:
        values: of branches or arguments.
        guards: the records for which each of them counts.

    Raises:
        ValueError: there is no such type.
    """
    typed = [value for value in values if value.literal is None and not value.is_null]
    if not typed:
        typed = [value for value in values if not value.is_null]
    if not typed:
        return list(values)
    kind = reduce(_common, (value.kind for value in typed))
    if pa.types.is_integer(kind) and any(
        value.literal is not None and isinstance(value.literal.value, float) for value in values
    ):
        kind = pa.float64()
    return [cast(value, kind, guard) for value, guard in zip(values, guards, strict=True)]


def _common(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    if left == right:
        return left
    if pa.types.is_integer(left) and pa.types.is_integer(right):
        return pa.int64()
    if _is_binary_number(left) and _is_binary_number(right):
        return pa.float64()
    if _is_exact_number(left) and _is_exact_number(right):
        places, scale = (max(each) for each in zip(_digits(left), _digits(right), strict=True))
        return pa.decimal128(min(places + scale, MAX_PRECISION), scale)
    raise ValueError(f"values of two types: {left} and {right}; cast one of them")


def _is_binary_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind)


def _is_exact_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_decimal(kind)


def _digits(kind: pa.DataType) -> tuple[int, int]:
    """Digits before and behind the point."""
    return (kind.precision - kind.scale, kind.scale) if pa.types.is_decimal(kind) else (19, 0)
