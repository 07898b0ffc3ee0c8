"""Bounds of column statistics: how values of a column's type are stored, and what stored ones mean.

Version 1 (tables of version 6 and 8) has wrappers for dates and decimals. Version 2 stores the values of Parquet, with
their type beside them. "Unknown" is a legal answer: a reader then keeps the file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import ROUND_FLOOR, Context, Decimal
from enum import StrEnum
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rli.hudi.metadata.records import DECIMAL_ORDINAL, Bound, BoundValue, ValueType


class StatisticsVersion(StrEnum):
    """How bounds are stored; ``.hoodie/.index_defs/index.json`` names the version of each index."""

    V1 = "V1"
    V2 = "V2"


_FIXED, _DATE = 9, 12
_TIMES: Final = {"ms": 13, "us": 14}
_INSTANTS: Final = {"ms": 15, "us": 16, "ns": 17}
_LOCAL_TIMES: Final = {"ms": 18, "us": 19, "ns": 20}
_UNITS: Final = {number: unit for units in (_TIMES, _INSTANTS, _LOCAL_TIMES) for unit, number in units.items()}
_NANOSECONDS: Final = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}

_PLAIN: Final[tuple[tuple[Callable[[pa.DataType], bool], str, int], ...]] = (
    (pa.types.is_boolean, "BooleanWrapper", 2),
    (lambda kind: pa.types.is_integer(kind) and kind.bit_width <= 32 and kind != pa.uint32(), "IntWrapper", 3),
    (lambda kind: pa.types.is_integer(kind) and kind != pa.uint64(), "LongWrapper", 4),
    (pa.types.is_float32, "FloatWrapper", 5),
    (pa.types.is_float64, "DoubleWrapper", 6),
    (lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind), "StringWrapper", 7),
    (lambda kind: pa.types.is_binary(kind) or pa.types.is_large_binary(kind), "BytesWrapper", 8),
    (pa.types.is_fixed_size_binary, "BytesWrapper", _FIXED),
)

_V1_DECIMAL_DIGITS, _V1_DECIMAL_SCALE = 30, 15
_WIDE: Final = Context(prec=200)
"""Digits for any decimal of Arrow."""

_EXACT_INTEGERS: Final = 1 << 53
_FIRST_SURROGATE: Final = "\ud800"


def value_type_of(kind: pa.DataType) -> ValueType | None:
    """The type beside the bounds of a column, in version 2; None for a type without statistics.

    Example:
        >>> value_type_of(pa.decimal128(12, 2))
        ValueType(ordinal=10, details='12,2')
    """
    if pa.types.is_decimal(kind):
        return ValueType(DECIMAL_ORDINAL, f"{kind.precision},{kind.scale}")
    if pa.types.is_date32(kind):
        return ValueType(_DATE)
    ordinal = _time_ordinal(kind) or next((number for fits, _, number in _PLAIN if fits(kind)), None)
    return None if ordinal is None else ValueType(ordinal)


def _time_ordinal(kind: pa.DataType) -> int | None:
    if pa.types.is_timestamp(kind):
        return (_INSTANTS if kind.tz else _LOCAL_TIMES).get(kind.unit)
    return _TIMES.get(kind.unit) if pa.types.is_time(kind) else None


def stored_bound(value: pa.Scalar, version: StatisticsVersion) -> Bound | None:
    """A bound as the metadata table stores it.

    Args:
        value: of the column, not null.
        version: of the index.

    Returns:
        None if the value cannot be stored: its column then has no statistics for the file at all, since bounds that are
        missing mean that all values are null.

    Example:
        >>> stored_bound(pa.scalar(7, pa.int32()), StatisticsVersion.V2)
        Bound(wrapper='IntWrapper', value=7)
    """
    kind = value.type
    return bound_form(kind, version)(value.as_py() if _number_of(kind) is None else value.value)


def plain_values(values: pa.Array) -> list[Any]:
    """Values in Python, in their order: days and times as numbers since 1970.

    Example:
        >>> plain_values(pa.array([1, None], pa.date32()))
        [1, None]
    """
    number = _number_of(values.type)
    plain: list[Any] = (values if number is None else values.view(number)).to_pylist()
    return plain


def _number_of(kind: pa.DataType) -> pa.DataType | None:
    """The type of the numbers that stand for days or times; None for values of other types."""
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return pa.int32()
    return pa.int64() if pa.types.is_timestamp(kind) or pa.types.is_time64(kind) else None


def bound_form(kind: pa.DataType, version: StatisticsVersion) -> Callable[[Any], Bound | None]:
    """As ``stored_bound``, for values of one type as ``plain_values`` gives them."""
    if pa.types.is_decimal(kind):
        return lambda value: _stored_decimal(value, kind.scale, version)
    if pa.types.is_date32(kind):
        return partial(Bound, "IntWrapper" if version == StatisticsVersion.V2 else "DateWrapper")
    if (ordinal := _time_ordinal(kind)) is not None:
        if ordinal in _TIMES.values() and version == StatisticsVersion.V1:
            return lambda _: None
        return partial(Bound, "IntWrapper" if ordinal == _TIMES["ms"] else "LongWrapper")
    wrapper = next((name for fits, name, _ in _PLAIN if fits(kind)), None)
    return (lambda _: None) if wrapper is None else partial(_stored_plain, wrapper)


def _stored_plain(wrapper: str, value: BoundValue) -> Bound | None:
    return None if isinstance(value, float) and math.isnan(value) else Bound(wrapper, value)


def _stored_decimal(value: Decimal, scale: int, version: StatisticsVersion) -> Bound | None:
    if version == StatisticsVersion.V2:
        unscaled = int(value.scaleb(scale, _WIDE))
        return Bound("BytesWrapper", unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True))
    exponent = value.as_tuple().exponent
    fits = isinstance(exponent, int) and -exponent <= _V1_DECIMAL_SCALE
    fits = fits and abs(value) < Decimal(10) ** (_V1_DECIMAL_DIGITS - _V1_DECIMAL_SCALE)
    return Bound("DecimalWrapper", value) if fits else None


def bound_value(bound: Bound | None, value_type: ValueType | None, kind: pa.DataType) -> pa.Scalar | None:
    r"""The value of a bound in a column's type.

    Args:
        bound: as stored.
        value_type: beside it, in version 2.
        kind: of the column as the table has it now; the file may have an older one.

    Returns:
        None if the bound is missing, is not exact in that type, or says nothing about the order of values: NaN, or a
        string on whose order Java and Parquet may disagree.

    Example:
        >>> bound_value(Bound("BytesWrapper", b"\xfe\x71"), ValueType(10, "12,2"), pa.decimal128(12, 2))
        <pyarrow.Decimal128Scalar: Decimal('-3.99')>
    """
    if bound is None:
        return None
    for fits, read in _READERS:
        if fits(kind):
            try:
                value = read(bound, value_type, kind)
                return None if value is None else pa.scalar(value, kind)
            except (ValueError, TypeError, ArithmeticError):
                return None
    return None


def bound_values(bounds: pa.StructArray, value_types: pa.StructArray, wanted: pa.Array, kind: pa.DataType) -> pa.Array:
    """As ``bound_value``, of many bounds.

    Args:
        bounds: as ``rli.hudi.metadata.columns`` decodes them.
        value_types: beside them.
        wanted: bool array: the other bounds are ignored.
        kind: of the column.

    Returns:
        Array of that type, null where ``bound_value`` gives None, and where a bound is not wanted.
    """
    values = pa.nulls(len(bounds), kind)
    names = [field.name for field in bounds.type]
    parts = [pc.if_else(wanted, part, None) for part in bounds.flatten()]
    held = [(wrapper, part) for wrapper, part in zip(names, parts, strict=True) if part.null_count < len(part)]
    left = np.zeros(len(bounds), np.bool_)
    for wrapper, part in held:
        plain = _plain_values(wrapper, part, value_types, kind)
        values = pc.coalesce(values, plain)
        left |= pc.and_(part.is_valid(), plain.is_null()).to_numpy(zero_copy_only=False)
    places = np.flatnonzero(left).tolist()
    if not places:
        return values
    each = [_value_at(place, held, value_types, kind) for place in places]
    return pc.replace_with_mask(values, pa.array(left), pa.array(each, kind))


def _value_at(
    place: int, held: Sequence[tuple[str, pa.Array]], value_types: pa.StructArray, kind: pa.DataType
) -> pa.Scalar | None:
    wrapper, part = next((wrapper, part) for wrapper, part in held if part[place].is_valid)
    stored = value_types[place].as_py()
    value_type = stored and ValueType(stored["typeOrdinal"], stored["additionalInfo"])
    return bound_value(Bound(wrapper, part[place].as_py()), value_type, kind)


def _plain_values(wrapper: str, part: pa.Array, value_types: pa.StructArray, kind: pa.DataType) -> pa.Array:
    """The values that are stored in the column's own form; null for others, which ``bound_value`` converts one by one."""
    unknown = pa.nulls(len(part), kind)
    if part.type == kind and wrapper in {"BooleanWrapper", "IntWrapper", "LongWrapper", "BytesWrapper"}:
        return part
    if wrapper == "StringWrapper" and pa.types.is_string(kind):
        return pc.if_else(pc.string_is_ascii(part), part, None)
    if wrapper in {"FloatWrapper", "DoubleWrapper"} and kind in (part.type, pa.float64()):
        values = part.cast(kind)
        return pc.if_else(pc.is_nan(values), None, values)
    if wrapper in {"IntWrapper", "DateWrapper", "LocalDateWrapper"} and pa.types.is_date32(kind):
        return part.view(kind)
    if wrapper == "LongWrapper" and pa.types.is_timestamp(kind):
        same = [ordinal for ordinal, unit in _UNITS.items() if unit == kind.unit]
        is_alike = pc.is_in(pc.struct_field(value_types, "typeOrdinal"), value_set=pa.array(same, pa.int32()))
        return pc.if_else(is_alike, part.view(kind), None)
    return unknown


def _read_boolean(bound: Bound, _: ValueType | None, __: pa.DataType) -> BoundValue | None:
    return bound.value if bound.wrapper == "BooleanWrapper" else None


def _read_integer(bound: Bound, _: ValueType | None, kind: pa.DataType) -> BoundValue | None:
    if bound.wrapper not in {"IntWrapper", "LongWrapper"}:
        return None
    pa.scalar(bound.value, kind)
    return bound.value


def _read_float(bound: Bound, _: ValueType | None, kind: pa.DataType) -> BoundValue | None:
    value = bound.value
    if isinstance(value, str | bytes | Decimal | bool):
        return None
    is_wide = bound.wrapper == "DoubleWrapper" and pa.types.is_float32(kind)
    is_inexact = isinstance(value, int) and (abs(value) > _EXACT_INTEGERS or pa.types.is_float32(kind))
    return None if is_wide or is_inexact or math.isnan(value) else float(value)


def _read_string(bound: Bound, _: ValueType | None, __: pa.DataType) -> BoundValue | None:
    # Java orders by UTF-16, Parquet by code point. They agree on what is below and above a string without characters
    # from the first surrogate on.
    is_clear = isinstance(bound.value, str) and max(bound.value, default="") < _FIRST_SURROGATE
    return bound.value if bound.wrapper == "StringWrapper" and is_clear else None


def _read_binary(bound: Bound, _: ValueType | None, __: pa.DataType) -> BoundValue | None:
    return bound.value if bound.wrapper == "BytesWrapper" else None


def _read_date(bound: Bound, _: ValueType | None, __: pa.DataType) -> BoundValue | None:
    return bound.value if bound.wrapper in {"IntWrapper", "DateWrapper", "LocalDateWrapper"} else None


def _read_decimal(bound: Bound, value_type: ValueType | None, kind: pa.DataType) -> BoundValue | None:
    if isinstance(bound.value, Decimal):
        return _exact(bound.value, kind.scale)
    # Hudi 0.15 also leaves bytes of another scale than the column's, without its type: their meaning is not known.
    if value_type is None or not value_type.is_decimal or not isinstance(bound.value, bytes):
        return None
    _, _, scale = (value_type.details or "").partition(",")
    unscaled = Decimal(int.from_bytes(bound.value, "big", signed=True))
    return _exact(unscaled.scaleb(-int(scale), _WIDE), kind.scale)


def _exact(value: Decimal, scale: int) -> Decimal | None:
    rounded = value.quantize(Decimal(1).scaleb(-scale), ROUND_FLOOR, _WIDE)
    return rounded if rounded == value else None


def _read_time(bound: Bound, value_type: ValueType | None, kind: pa.DataType) -> BoundValue | None:
    if not isinstance(bound.value, int) or isinstance(bound.value, bool):
        return None
    is_micros = bound.wrapper in {"TimeMicrosWrapper", "TimestampMicrosWrapper"}
    unit = "us" if is_micros else kind.unit if value_type is None else _UNITS.get(value_type.ordinal)
    if unit is None:
        return None
    value, rest = divmod(bound.value * _NANOSECONDS[unit], _NANOSECONDS[kind.unit])
    return None if rest else value


_READERS: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[..., BoundValue | None]], ...]] = (
    (pa.types.is_boolean, _read_boolean),
    (pa.types.is_integer, _read_integer),
    (pa.types.is_floating, _read_float),
    (lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind), _read_string),
    (lambda kind: pa.types.is_binary(kind) or pa.types.is_large_binary(kind), _read_binary),
    (pa.types.is_fixed_size_binary, _read_binary),
    (pa.types.is_decimal, _read_decimal),
    (pa.types.is_date32, _read_date),
    (lambda kind: pa.types.is_timestamp(kind) or pa.types.is_time(kind), _read_time),
)
