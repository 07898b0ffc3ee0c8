"""Constants of a text as values of the types that they are compared with, stored in or computed with."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from rli.filters.syntax import Literal

UNFIT = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError)
"""What pyarrow raises for a value that does not fit a type."""


def as_value_of(literal: Literal, kind: pa.DataType) -> pa.Scalar:
    """A constant to compare values of a type with: of that type, or of one in which it keeps its value.

    Raises:
        pa.ArrowException, OverflowError: the constant does not fit the type.
    """
    value = literal.value
    if value is None:
        return pa.scalar(None, kind)
    if isinstance(value, str) and not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        if pa.types.is_timestamp(kind):
            return _moment(value, kind)
        return pa.scalar(value).cast(kind)
    if isinstance(value, int | float) and not isinstance(value, bool) and pa.types.is_decimal(kind):
        return pa.scalar(_decimal(literal))
    if isinstance(value, float) and pa.types.is_integer(kind):
        return pa.scalar(value)
    return pa.scalar(value, kind)


def natural_value(literal: Literal) -> pa.Scalar:
    """A constant beside which no other value gives it a type."""
    value = literal.value
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**63:
        return pa.scalar(Decimal(value))
    return pa.scalar(value)


def _decimal(literal: Literal) -> Decimal:
    """A number with all the digits that the text has."""
    is_plain = bool(literal.text) and not literal.text.lower().lstrip("-").startswith(("0x", "0b", "0o"))
    return Decimal(literal.text if is_plain else repr(literal.value))


def _moment(text: str, kind: pa.DataType) -> pa.Scalar:
    """A time as a text gives it; UTC where it has no offset, as in the table."""
    if kind.tz is None:
        return pa.scalar(text).cast(kind)
    try:
        return pa.scalar(text).cast(kind)
    except pa.ArrowInvalid:
        return pc.assume_timezone(pa.scalar(text).cast(pa.timestamp(kind.unit)), "UTC").cast(kind)
