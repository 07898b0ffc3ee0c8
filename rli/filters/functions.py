"""The functions of filters and value expressions, by the names that they have in SQL.

A function of null is null, but for ``coalesce`` and ``nullif``. Parts of a time are those of the UTC clock.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from rli.filters.arithmetic import absolute
from rli.filters.values import Guard, Value, alike, applied, cast

_UNITS: Final = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")

Function: TypeAlias = Callable[[Sequence[Value], Guard], Value]


def called(name: str, operands: Sequence[Value], guard: Guard) -> Value:
    """The value of a function.

    Args:
        name: in small letters.
        operands: its arguments.
        guard: the records for which it counts.

    Raises:
        ValueError: there is no such function, or it takes no such arguments.
    """
    if name not in _FUNCTIONS:
        raise ValueError(f"no function of this name: {name}; there are coalesce, {', '.join(sorted(_FUNCTIONS))}")
    function, least, most = _FUNCTIONS[name]
    if len(operands) < least or (most is not None and len(operands) > most):
        raise ValueError(f"{name} takes {least} arguments{'' if least == most else ' or more'}: given={len(operands)}")
    return function(operands, guard)


def concatenated(operands: Sequence[Value], _: Guard) -> Value:
    """Strings put together; null if one of them is null."""
    strings = [_string("concat", operand) for operand in operands]
    return applied(pc.binary_join_element_wise, *strings, Value.of_constant(pa.scalar("")), null_handling="emit_null")


def _string(name: str, operand: Value) -> Value:
    if operand.is_null:
        return Value.of_constant(pa.scalar(None, pa.string()))
    if not (pa.types.is_string(operand.kind) or pa.types.is_large_string(operand.kind)):
        raise ValueError(f"{name} takes strings: type={operand.kind}; write cast(x as string)")
    return operand


def _of_string(name: str, function: Callable[..., Any], operands: Sequence[Value], _: Guard, **options: Any) -> Value:
    return applied(function, _string(name, operands[0]), **options)


def _whole_number(name: str, operand: Value) -> int:
    value = None if operand.constant is None else operand.constant.as_py()
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ValueError(f"{name} takes whole numbers as constants here")


def _substring(operands: Sequence[Value], _: Guard) -> Value:
    """From a position, counted from 1, or from the end where it is negative; as Spark has it."""
    text = _string("substring", operands[0])
    position = _whole_number("substring", operands[1])
    length = _whole_number("substring", operands[2]) if len(operands) > 2 else None
    if length is not None and length <= 0:
        return applied(pc.utf8_slice_codeunits, text, start=0, stop=0)
    if position >= 0:
        start = max(position - 1, 0)
        return applied(pc.utf8_slice_codeunits, text, start=start, stop=None if length is None else start + length)
    # Where the text is shorter than the position says, the part before its beginning counts, too.
    tail = applied(pc.utf8_slice_codeunits, text, start=position, stop=None)
    if length is None or length >= -position:
        return tail
    return applied(pc.utf8_slice_codeunits, text, start=position, stop=position + length)


def _rounded(operands: Sequence[Value], guard: Guard) -> Value:
    """Halves are rounded away from zero."""
    digits = _whole_number("round", operands[1]) if len(operands) > 1 else 0
    return applied(pc.round, guard.over(operands[0]), ndigits=digits, round_mode="half_towards_infinity")


def _null_if(operands: Sequence[Value], guard: Guard) -> Value:
    value, other = alike(operands, [guard, guard])
    equal = applied(pc.coalesce, applied(pc.equal, value, other), Value.of_constant(pa.scalar(False)))
    return applied(pc.if_else, equal, Value.of_constant(pa.scalar(None, value.kind)), value)


def _time(name: str, operand: Value) -> Value:
    if not (pa.types.is_timestamp(operand.kind) or pa.types.is_date(operand.kind)):
        raise ValueError(f"{name} takes dates and times: type={operand.kind}; write cast(x as timestamp)")
    if pa.types.is_timestamp(operand.kind) and operand.kind.tz not in (None, "UTC"):
        return cast(operand, pa.timestamp(operand.kind.unit, "UTC"), Guard())
    return operand


def _part_of_time(
    name: str, function: Callable[..., Any], operands: Sequence[Value], guard: Guard, **options: Any
) -> Value:
    time = _time(name, operands[0])
    if name in ("hour", "minute", "second") and pa.types.is_date(time.kind):
        time = cast(time, pa.timestamp("s"), guard)
    return applied(function, time, **options)


def _truncated(operands: Sequence[Value], _: Guard) -> Value:
    """A time at the beginning of its year, month, …; weeks begin on Mondays."""
    unit = None if operands[0].constant is None else operands[0].constant.as_py()
    if not isinstance(unit, str) or unit.lower() not in _UNITS:
        raise ValueError(f"date_trunc takes one of {', '.join(_UNITS)} first, in quotes")
    return applied(pc.floor_temporal, _time("date_trunc", operands[1]), unit=unit.lower())


def _formatted(name: str, operands: Sequence[Value], guard: Guard) -> Value:
    """A time, or for ``from_unixtime`` seconds since 1970, as a string in a pattern of Java."""
    pattern = _pattern(name, operands[1]) if len(operands) > 1 else _SECONDS_PATTERN
    time = operands[0]
    if name == "from_unixtime":
        if not pa.types.is_integer(time.kind):
            raise ValueError(f"from_unixtime takes seconds as a whole number: type={time.kind}")
        time = cast(cast(time, pa.int64(), guard), pa.timestamp("s", "UTC"), guard)
    else:
        time = _part_of_time("second", pc.floor_temporal, [time], guard, unit="second")
        time = cast(time, pa.timestamp("s", time.kind.tz), guard)
    return applied(pc.strftime, time, format=_strftime_form(name, pattern))


def _pattern(name: str, operand: Value) -> str:
    value = None if operand.constant is None else operand.constant.as_py()
    if isinstance(value, str):
        return value
    raise ValueError(f"{name} takes a pattern as its second argument, in quotes")


def _strftime_form(name: str, pattern: str) -> str:
    """A pattern of Java as ``strftime`` has it."""
    parts = [found.group() for found in _PATTERN_PART.finditer(pattern)]
    unknown = [part for part in parts if part[0].isalpha() and part not in _PATTERNS]
    if unknown or pattern.count("'") % 2:
        raise ValueError(
            f"{name} takes a pattern of {', '.join(_PATTERNS)}, of signs, and of letters in quotes: pattern={pattern!r}"
        )
    return "".join(_PATTERNS.get(part) or _as_it_is(part) for part in parts)


def _as_it_is(part: str) -> str:
    unquoted = part[1:-1] or "'" if part[0] == "'" else part
    return unquoted.replace("%", "%%")


_SECONDS_PATTERN: Final = "yyyy-MM-dd HH:mm:ss"
_PATTERNS: Final = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}
_PATTERN_PART: Final = re.compile(r"'[^']*'|(?P<letter>[A-Za-z])(?P=letter)*|[^A-Za-z']+")

_FUNCTIONS: Final[dict[str, tuple[Function, int, int | None]]] = {
    "nullif": (_null_if, 2, 2),
    "concat": (concatenated, 1, None),
    "lower": (partial(_of_string, "lower", pc.utf8_lower), 1, 1),
    "upper": (partial(_of_string, "upper", pc.utf8_upper), 1, 1),
    "trim": (partial(_of_string, "trim", pc.utf8_trim, characters=" "), 1, 1),
    "ltrim": (partial(_of_string, "ltrim", pc.utf8_ltrim, characters=" "), 1, 1),
    "rtrim": (partial(_of_string, "rtrim", pc.utf8_rtrim, characters=" "), 1, 1),
    "length": (partial(_of_string, "length", pc.utf8_length), 1, 1),
    "substring": (_substring, 2, 3),
    "substr": (_substring, 2, 3),
    "abs": (lambda operands, guard: absolute(operands[0], guard), 1, 1),
    "round": (_rounded, 1, 2),
    "floor": (lambda operands, _: applied(pc.floor, operands[0]), 1, 1),
    "ceil": (lambda operands, _: applied(pc.ceil, operands[0]), 1, 1),
    "ceiling": (lambda operands, _: applied(pc.ceil, operands[0]), 1, 1),
    "year": (partial(_part_of_time, "year", pc.year), 1, 1),
    "month": (partial(_part_of_time, "month", pc.month), 1, 1),
    "day": (partial(_part_of_time, "day", pc.day), 1, 1),
    "hour": (partial(_part_of_time, "hour", pc.hour), 1, 1),
    "minute": (partial(_part_of_time, "minute", pc.minute), 1, 1),
    "second": (partial(_part_of_time, "second", pc.second), 1, 1),
    "date_trunc": (_truncated, 2, 2),
    "date_format": (partial(_formatted, "date_format"), 2, 2),
    "from_unixtime": (partial(_formatted, "from_unixtime"), 1, 2),
}
"""Name → function, least and greatest number of arguments."""
