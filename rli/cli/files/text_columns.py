"""Columns of text as typed columns, without changing a value.

A new column gets a type only if each of its texts is that type's own spelling of the value: ``02134`` stays text, and
so do ``1.10``, ``+5``, ``1E3``, ``NaN`` and integers of more than 64 bits. A column that the table knows gets the table's
type; a text that does not fit is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

_OFFSET: Final = r"(Z|[+-][0-9]{2}:?[0-9]{2})"
_DAY: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME: Final = rf"{_DAY}[T ][0-9]{{2}}:[0-9]{{2}}(:[0-9]{{2}}(\.[0-9]{{1,6}})?)?"
_WHOLE: Final = "0|-?[1-9][0-9]*"
_FRACTION: Final = r"-?(0|[1-9][0-9]*)\.(0|[0-9]*[1-9])"
# Python writes 1e-05, Java 1.0E-5. Such as 1e3 or 2E10 may be codes.
_POWER: Final = r"-?[0-9](\.[0-9]*[1-9])?e[+-][0-9]{2,3}|-?[0-9]\.(0|[0-9]*[1-9])E-?[0-9]{1,3}"
_NUMBER: Final = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
_NO_NUMBER: Final = r"(?i)[+-]?(nan|inf|infinity)"

_SAFE_DIGITS: Final = 15
"""Decimal digits that a double keeps, whichever they are."""
_SAFE_INTEGER: Final = 2**53

INSTANT: Final = pa.timestamp("us", tz="UTC")


class UnfitStringError(ValueError):
    """A text that is no value of its column's type.

    Attributes:
        row: where it is in the column.
    """

    def __init__(self, reason: str, row: int) -> None:
        super().__init__(reason)
        self.row = row


def guessed(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column in the type that spells all its values as they are; unchanged if there is no such type.

    Args:
        texts: of strings; nulls are kept.
    """
    for guess in (_as_integers, _as_booleans, guessed_times, _as_doubles):
        typed = guess(texts)
        if typed is not None:
            return typed
    return texts


def guessed_times(texts: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """The column as dates, local times, or instants, if all its values are of one of these kinds."""
    if _all(texts, _DAY):
        return _cast(texts, pa.date32())
    if _all(texts, _TIME):
        return _cast(texts, pa.timestamp("us"))
    return _cast(texts, INSTANT) if _all(texts, _TIME + _OFFSET) else None


def first_changed_number(texts: pa.ChunkedArray) -> int | None:
    """The row of the first number that a type would change; None if not all values are numbers."""
    if not _all(texts, _NUMBER):
        return None
    changed = pc.invert(_matches(texts, f"{_WHOLE}|{_FRACTION}"))
    position: int = pc.index(changed, True).as_py()
    return position if position >= 0 else _first(texts, lambda part: _as_integers(part) is None)


def is_number(kind: pa.DataType) -> bool:
    """Whether values of a type are numbers."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def numbers_of(texts: pa.ChunkedArray) -> list[str] | None:
    """The values of a column of numbers, without nulls; None if it has none, or others too."""
    return texts.drop_null().to_pylist() if _all(texts, _NUMBER) else None


def fitted(texts: pa.ChunkedArray, kind: pa.DataType, *, is_lenient: bool = False) -> pa.ChunkedArray:
    """The column in the type that the table, or the user, gives it.

    Args:
        texts: of strings.
        kind: the type.
        is_lenient: take ``007`` for the number 7, and round integers of which a double cannot hold all digits.

    Raises:
        UnfitStringError: a value does not fit.
    """
    if pa.types.is_string(kind):
        return texts
    if texts.null_count == len(texts):
        return pa.chunked_array([pa.nulls(len(texts), kind)])
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        _require_numbers(texts, kind, is_lenient=is_lenient)
    prepared = _with_offsets(texts) if pa.types.is_timestamp(kind) and kind.tz is not None else texts
    if pa.types.is_integer(kind) and is_lenient:
        prepared = pc.replace_substring_regex(prepared, r"^\+", "")
    typed = _cast(prepared, kind)
    if typed is None:
        raise UnfitStringError(_no_value_of(kind), _first(prepared, lambda part: _cast(part, kind) is None))
    if pa.types.is_floating(kind):
        _require(pc.or_(pc.is_finite(typed), _matches(texts, _NO_NUMBER)), _no_value_of(kind))
        if not is_lenient:
            _require_exact_integers(texts, typed)
    return typed


def holds_numbers(kind: pa.DataType, texts: pa.ChunkedArray) -> bool:
    """Whether a type holds the values of some numbers, however they are spelled."""
    try:
        typed = fitted(texts, kind, is_lenient=True)
        if pa.types.is_floating(kind):
            _require_exact_integers(texts, typed)
    except UnfitStringError:
        return False
    return True


def _require_numbers(texts: pa.ChunkedArray, kind: pa.DataType, *, is_lenient: bool) -> None:
    form = r"[+-]?[0-9]+" if pa.types.is_integer(kind) else f"{_NUMBER}|{_NO_NUMBER}"
    _require(_matches(texts, form), _no_value_of(kind))
    if not is_lenient:
        padded = pc.match_substring_regex(texts, r"^\+|^-?0[0-9]")
        _require(pc.invert(padded), f"a {kind} keeps neither leading zeros nor a plus sign")


def _require_exact_integers(texts: pa.ChunkedArray, typed: pa.ChunkedArray) -> None:
    long = pc.fill_null(_matches(texts, r"[+-]?[0-9]{8,}"), False)
    for row in pc.indices_nonzero(long).to_pylist():
        if int(typed[row].as_py()) != int(texts[row].as_py()):
            raise UnfitStringError(f"a {typed.type} keeps fewer digits", row)


def _require(holds: pa.ChunkedArray, reason: str) -> None:
    row = pc.index(holds, False).as_py()
    if row >= 0:
        raise UnfitStringError(reason, row)


def _no_value_of(kind: pa.DataType) -> str:
    return f"it is not a {kind}, or outside its range or precision"


def _as_integers(texts: pa.ChunkedArray) -> pa.ChunkedArray | None:
    return _cast(texts, pa.int64()) if _all(texts, _WHOLE) else None


def _as_booleans(texts: pa.ChunkedArray) -> pa.ChunkedArray | None:
    spellings = ("true|false", "True|False", "TRUE|FALSE")
    return _cast(texts, pa.bool_()) if any(_all(texts, spelling) for spelling in spellings) else None


def _as_doubles(texts: pa.ChunkedArray) -> pa.ChunkedArray | None:
    if not _all(texts, f"{_WHOLE}|{_FRACTION}|{_POWER}"):
        return None
    # The sign, the point and one leading zero are no digits of the number.
    is_safe = pc.and_(
        pc.less_equal(pc.utf8_length(texts), _SAFE_DIGITS), pc.invert(pc.match_substring_regex(texts, "[eE]"))
    )
    unsure = texts.filter(pc.invert(is_safe), null_selection_behavior="drop")
    if all(_is_exact(text.as_py()) for text in unsure):
        return _cast(texts, pa.float64())
    return None


def _is_exact(text: str) -> bool:
    value = float(text)
    if text.lstrip("-").isdigit() and abs(int(text)) > _SAFE_INTEGER:
        return False
    return value not in {float("inf"), float("-inf")} and Decimal(repr(value)) == Decimal(text)


def _with_offsets(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Times without an offset count as UTC, days as their midnight."""
    times = pc.replace_substring_regex(texts, f"^({_DAY})$", r"\1 00:00:00")
    return pc.replace_substring_regex(times, rf"^({_DAY}[T ][0-9:]+(\.[0-9]+)?)$", r"\1Z")


def _matches(texts: pa.ChunkedArray, form: str) -> pa.ChunkedArray:
    # RE2's $ would also match before a line break at the end.
    return pc.match_substring_regex(texts, rf"\A(?:{form})\z")


def _all(texts: pa.ChunkedArray, form: str) -> bool:
    """Whether there are values, and all of them have a form."""
    return bool(pc.all(_matches(texts, form)).as_py())


def _cast(texts: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray | None:
    try:
        return texts.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _first(texts: pa.ChunkedArray, is_unfit: Callable[[pa.ChunkedArray], bool]) -> int:
    """The first row that makes a column unfit; some row does."""
    start, end = 0, len(texts)
    while end - start > 1:
        middle = (start + end) // 2
        if is_unfit(texts.slice(start, middle - start)):
            end = middle
        else:
            start = middle
    return start
