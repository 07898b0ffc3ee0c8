"""Values that pyarrow computes of a record's columns, with their types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from rli.filters.constants import UNFIT, as_value_of, natural_value
from rli.filters.predicates import Column, Computed, Predicate, columns_of, computed_parts
from rli.filters.syntax import Literal

MAX_PRECISION: Final = 38
"""Of decimals with 128 bits."""

_MOST_PARTS: Final = 100_000

_FAILING: Final = frozenset(
    [
        pc.add_checked,
        pc.subtract_checked,
        pc.multiply_checked,
        pc.divide_checked,
        pc.negate_checked,
        pc.abs_checked,
        pc.round,
    ]
)
"""Functions that do not give a value for all values."""


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
        size: how many columns, constants and functions it has, each as often as it is computed.
        may_fail: whether it cannot be computed for some values.

    Raises:
        ValueError: it has too many parts.
    """

    expression: pc.Expression
    kind: pa.DataType
    columns: tuple[Column, ...] = ()
    is_column: bool = False
    constant: pa.Scalar | None = None
    literal: Literal | None = None
    size: int = 1
    may_fail: bool = False

    def __post_init__(self) -> None:
        if self.size > _MOST_PARTS:
            raise ValueError("too complex: nested divisions, choices and checks are computed several times")

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
        columns = tuple(dict.fromkeys(columns_of(predicate)))
        computed = list(computed_parts(predicate))
        size = 1 + len(columns) + sum(part.size for part in computed)
        may_fail = any(part.may_fail for part in computed)
        return cls(predicate.expression(), pa.bool_(), columns, size=size, may_fail=may_fail)

    @property
    def predicate(self) -> Computed:
        """The value of a boolean type as a predicate."""
        return Computed(self.expression, self.columns, self.size, self.may_fail)

    @property
    def is_null(self) -> bool:
        """Whether the value is null for every record."""
        return self.constant is not None and not self.constant.is_valid


@dataclass(frozen=True, slots=True)
class Guard:
    """The records for which a value counts: for others it may not fail. pyarrow computes all branches for all records.

    A condition that may fail itself guards nothing: it would be computed once more for each value behind it.

    Attributes:
        conditions: neither of them is null; all of them hold for these records.
    """

    conditions: tuple[Value, ...] = ()

    def if_true(self, condition: Value) -> Guard:
        return self._and(condition, default=False)

    def unless_true(self, condition: Value) -> Guard:
        return self._and(condition, default=False, is_negated=True)

    def unless_false(self, condition: Value) -> Guard:
        return self._and(condition, default=True)

    def _and(self, condition: Value, *, default: bool, is_negated: bool = False) -> Guard:
        if condition.may_fail:
            return self
        certain = applied(pc.coalesce, condition, Value.of_constant(pa.scalar(default)))
        return Guard((*self.conditions, applied(pc.invert, certain) if is_negated else certain))

    def over(self, value: Value) -> Value:
        """A value that is null for all other records."""
        if not self.conditions or value.constant is not None:
            return value
        counts = reduce(partial(applied, pc.and_kleene), self.conditions)
        # For its columns, the value says what it did.
        guarded = applied(pc.if_else, counts, value, Value.of_constant(pa.scalar(None, value.kind)))
        return replace(guarded, may_fail=value.may_fail)


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
    return Value(
        function(*(operand.expression for operand in operands), **options),
        kind,
        tuple(columns),
        size=1 + sum(operand.size for operand in operands),
        may_fail=function in _FAILING or any(operand.may_fail for operand in operands),
    )


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
    guarded = guard.over(value)
    expression = guarded.expression
    if pa.types.is_string(value.kind) and pa.types.is_timestamp(kind) and kind.tz is not None:
        # As for constants: a time without an offset is in UTC.
        expression = pc.assume_timezone(expression.cast(pa.timestamp(kind.unit)), "UTC")
    return Value(expression.cast(kind), kind, guarded.columns, size=guarded.size + 1, may_fail=True)


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
