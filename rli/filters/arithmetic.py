"""Arithmetic of values: whatever would not fit its type fails, and nothing is rounded in silence.

Integers are computed in 64 bits. A quotient of integers is a floating-point number. Decimals stay decimals; beside
floating-point numbers they must be cast. A division by zero is null.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from rli.filters.values import MAX_PRECISION, Guard, Value, applied, cast, fitting

_MOST_PLACES: Final = 76
"""Of decimals with 256 bits."""

_PLACES_OF_INTEGERS: Final = 19
_DIGITS_OF_QUOTIENTS: Final = 6

_CHECKED: Final[dict[str, Callable[..., Any]]] = {
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
}


def calculated(symbol: str, left: Value, right: Value, guard: Guard) -> Value:
    """The value of ``left symbol right``: one of ``+ - * / %``.

    Raises:
        ValueError: values of these types are not computed.
    """
    left, right = _numbers(left, right, guard)
    if pa.types.is_temporal(left.kind) and pa.types.is_temporal(right.kind) and symbol == "-":
        return applied(pc.subtract_checked, guard.over(left), right)
    for operand in (left, right):
        if not _is_number(operand.kind):
            raise ValueError(f"'{symbol}' computes with numbers: type={operand.kind}")
    match symbol:
        case "/":
            return _quotient(left, right, guard)
        case "%":
            return _remainder(left, right, guard)
        case _:
            is_decimal = pa.types.is_decimal(left.kind) or pa.types.is_decimal(right.kind)
            if is_decimal and _places(left.kind) + _places(right.kind) >= MAX_PRECISION:
                left, right = _as_wide_decimal(left, guard), _as_wide_decimal(right, guard)
            return applied(_CHECKED[symbol], guard.over(left), right)


def negated(value: Value, guard: Guard) -> Value:
    """The value with the other sign; raises ``ValueError`` for what is no number."""
    number = widened(value, guard)
    if not _is_number(number.kind):
        raise ValueError(f"'-' computes with numbers: type={number.kind}")
    return applied(pc.negate_checked, guard.over(number))


def absolute(value: Value, guard: Guard) -> Value:
    """The value without its sign; raises ``ValueError`` for what is no number."""
    return applied(pc.abs_checked, guard.over(widened(value, guard)))


def widened(value: Value, guard: Guard) -> Value:
    """An integer in 64 bits; any other value as it is."""
    return cast(value, pa.int64(), guard) if pa.types.is_integer(value.kind) else value


def _numbers(left: Value, right: Value, guard: Guard) -> tuple[Value, Value]:
    """Both operands in types that are computed with each other."""
    left, right = _beside(widened(left, guard), right, guard), _beside(widened(right, guard), left, guard)
    kinds = [left.kind, right.kind]
    if any(map(pa.types.is_decimal, kinds)) and any(map(pa.types.is_floating, kinds)):
        raise ValueError("a decimal beside a floating-point number; cast one of them: cast(x as double)")
    if any(map(pa.types.is_floating, kinds)) and any(map(pa.types.is_integer, kinds)):
        return cast(left, pa.float64(), guard), cast(right, pa.float64(), guard)
    return left, right


def _beside(value: Value, other: Value, guard: Guard) -> Value:
    """A constant in the type in which it is computed with another value."""
    if value.literal is None or other.literal is not None or not _is_number(other.kind):
        return value
    kind = pa.int64() if pa.types.is_integer(other.kind) else other.kind
    if not isinstance(value.literal.value, str | bool):
        return widened(fitting(value, kind), guard)
    raise ValueError(f"a constant is no number: {value.literal.value!r}")


def _quotient(left: Value, right: Value, guard: Guard) -> Value:
    if pa.types.is_integer(left.kind) and pa.types.is_integer(right.kind):
        left, right = cast(left, pa.float64(), guard), cast(right, pa.float64(), guard)
    if pa.types.is_decimal(left.kind) or pa.types.is_decimal(right.kind):
        # In a type of 256 bits: the digits of a quotient soon are too many for 128.
        left, right = _as_wide_decimal(left, guard, _DIGITS_OF_QUOTIENTS), _as_wide_decimal(right, guard)
    return applied(pc.divide_checked, guard.over(left), _null_for_zero(right))


def _remainder(left: Value, right: Value, guard: Guard) -> Value:
    """Has the sign of the dividend, as in SQL."""
    if not (pa.types.is_integer(left.kind) and pa.types.is_integer(right.kind)):
        raise ValueError(f"'%' computes with integers: types={left.kind}, {right.kind}")
    left, divisor = guard.over(left), _null_for_zero(right)
    whole = applied(pc.multiply_checked, applied(pc.divide_checked, left, divisor), divisor)
    return applied(pc.subtract_checked, left, whole)


def _null_for_zero(divisor: Value) -> Value:
    zero = Value.of_constant(pa.scalar(Decimal(0)).cast(divisor.kind))
    nothing = Value.of_constant(pa.scalar(None, divisor.kind))
    return applied(pc.if_else, applied(pc.equal, divisor, zero), nothing, divisor)


def _as_wide_decimal(value: Value, guard: Guard, digits: int = 0) -> Value:
    """A number in a decimal of 256 bits, with some more digits behind the point; a floating-point number as it is."""
    if not (pa.types.is_integer(value.kind) or pa.types.is_decimal(value.kind)):
        return value
    scale = value.kind.scale if pa.types.is_decimal(value.kind) else 0
    return cast(value, pa.decimal256(min(_places(value.kind) + digits, _MOST_PLACES), scale + digits), guard)


def _places(kind: pa.DataType) -> int:
    """The digits that a decimal takes for values of a type; none for types that are not exact."""
    if pa.types.is_decimal(kind):
        return int(kind.precision)
    return _PLACES_OF_INTEGERS if pa.types.is_integer(kind) else 0


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
