"""Types that a user gives to columns on the command line, and the type that suits some numbers."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Final

import pyarrow as pa
import typer

from rli.hudi.schema import MAX_DECIMAL_PRECISION

_TYPES: Final[Mapping[str, pa.DataType]] = {
    "string": pa.string(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}
_NAMES: Final = {kind: name for name, kind in _TYPES.items()}
_WHOLE: Final = re.compile(r"[+-]?[0-9]+")
_DECIMAL: Final = re.compile(r"decimal\(([0-9]{1,2}),([0-9]{1,2})\)")


def parse_column_types(given: Iterable[str] | None) -> dict[str, pa.DataType]:
    """Types of columns from texts such as ``zip=string``, ``price=decimal(9,2)`` or ``event.payload=string``."""
    parsed = {}
    for text in given or ():
        path, _, name = text.partition("=")
        kind = _type_of(name)
        if not all(path.split(".")) or kind is None:
            raise typer.BadParameter(
                f"{text!r} gives no column a type; write COLUMN=TYPE with one of {[*_TYPES, 'decimal(DIGITS,SCALE)']}"
            )
        if "." in path and kind != pa.string():
            raise typer.BadParameter(
                f"{text!r} gives a part of a column a type; a part can be kept as a string only: {path}=string"
            )
        parsed[path] = kind
    return parsed


def name_of_type(kind: pa.DataType) -> str | None:
    """The name of a type on the command line; None if it has none."""
    if pa.types.is_decimal128(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return _NAMES.get(kind)


def type_option(column: str, kind: pa.DataType) -> str:
    """The option that gives a column a type, quoted for a shell."""
    return f"--column-type {shlex.quote(f'{column}={name_of_type(kind)}')}"


def type_of_numbers(numbers: Iterable[str]) -> pa.DataType | None:
    """The type that holds the values of some numbers: bigint, double, or a decimal; None if no type does."""
    texts = list(numbers)
    are_exact = all(map(_is_exact, texts))
    if all(map(_WHOLE.fullmatch, texts)):
        if all(-(2**63) <= Decimal(text) < 2**63 for text in texts):
            return pa.int64()
        # A double that holds these integers loses digits of the next ones.
        return decimal_of_numbers(texts) or (pa.float64() if are_exact else None)
    return pa.float64() if are_exact else decimal_of_numbers(texts)


def decimal_of_numbers(numbers: Iterable[str]) -> pa.DataType | None:
    """The smallest decimal that holds the values of some numbers; None if none does."""
    values = [Decimal(text) for text in numbers]
    scale = max(max(0, -int(value.as_tuple().exponent)) for value in values)
    digits = max(max(0, value.adjusted() + 1) for value in values) + scale
    return pa.decimal128(max(1, digits), scale) if digits <= MAX_DECIMAL_PRECISION else None


def _is_exact(text: str) -> bool:
    """Whether a double is spelled as the number; a whole number must equal it."""
    nearest = float(text)
    if nearest in {float("inf"), float("-inf")}:
        return False
    return Decimal(nearest if _WHOLE.fullmatch(text) else repr(nearest)) == Decimal(text)


def _type_of(name: str) -> pa.DataType | None:
    decimal = _DECIMAL.fullmatch(name)
    if decimal is None:
        return _TYPES.get(name)
    precision, scale = int(decimal[1]), int(decimal[2])
    return pa.decimal128(precision, scale) if 0 < precision <= MAX_DECIMAL_PRECISION and scale <= precision else None
