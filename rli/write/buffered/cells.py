"""Values of rows that a column takes as they are: the quick check of each row, before many are made one Arrow batch.

Arrow alone would not do: given a type, it cuts 1.5 to 1 without a word, and a batch that fails does not say by which row.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

Size = int
Check = Callable[[Any], Size | None]
"""Gives the bytes that a value takes in memory, about; None if the value may not fit the column."""

_NUMBER: Final = 8


def check_of(kind: pa.DataType) -> Check:
    """The check of the values of a type; of types that are seldom written it passes none."""
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _string
    if pa.types.is_int32(kind) or pa.types.is_int64(kind):
        return _integer(2 ** (kind.bit_width - 1))
    if pa.types.is_timestamp(kind) and kind.unit == "us":
        return _moment
    if pa.types.is_decimal128(kind):
        return _decimal(kind.precision, kind.scale)
    return _PLAIN.get(kind, _nothing)


def _string(value: Any) -> Size | None:
    # A lone surrogate has no form in UTF-8: it is left to the slow way, which says so.
    if type(value) is str and (value.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in value)):
        return len(value)
    return None


def _integer(above: int) -> Check:
    def check(value: Any) -> Size | None:
        return _NUMBER if type(value) is int and -above <= value < above else None

    return check


def _decimal(precision: int, scale: int) -> Check:
    def check(value: Any) -> Size | None:
        if type(value) is not Decimal or not value.is_finite():
            return None
        exponent = value.as_tuple().exponent
        fits = isinstance(exponent, int) and -exponent <= scale and value.adjusted() < precision - scale
        return 2 * _NUMBER if fits else None

    return check


def _float(value: Any) -> Size | None:
    return _NUMBER if type(value) is float else None


def _boolean(value: Any) -> Size | None:
    return 1 if type(value) is bool else None


def _bytes(value: Any) -> Size | None:
    return len(value) if type(value) is bytes else None


def _date(value: Any) -> Size | None:
    return _NUMBER if type(value) is date else None


def _moment(value: Any) -> Size | None:
    # A table takes moments without a zone as UTC.
    return _NUMBER if type(value) is datetime else None


def _nothing(_: Any) -> Size | None:
    return None


_PLAIN: Final = {pa.float64(): _float, pa.bool_(): _boolean, pa.binary(): _bytes, pa.date32(): _date}
