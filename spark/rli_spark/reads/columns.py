"""A column of Spark as a filter of rli: what surely holds for each record for which the column is true.

Spark analyses the column over a frame with the table's columns. Of the analysed expression, those parts are taken that mean for Spark and for
rli the same, or for Spark something narrower. Files are passed over by these parts, and Spark tests the whole column. Not taken are:

- comparisons in which NaN counts, because Spark takes NaN as the greatest number, and those of single-precision numbers;
- clock times and times without a zone, if the session's time zone is another one than UTC, because rli tells times in UTC;
- sums, differences and products, which may overflow in Spark, and functions that rli does not know;
- ``lower`` and ``upper`` beside strings to which Java and rli may fold different letters.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.sql import Column, DataFrame, SparkSession

from rli.errors import RliError
from rli.filters.filter import Filter
from rli_spark.session.batches import spark_schema

_COMPARISONS: Final = {
    "EqualTo": "=",
    "EqualNullSafe": "=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
}
_FLIPPED: Final = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

_INTEGERS: Final = ("tinyint", "smallint", "int", "bigint")
_TIMES: Final = ("timestamp", "timestamp_ntz")
_ORDERED: Final = ("boolean", *_INTEGERS, "string", "date", *_TIMES)
"""Types whose values Spark and rli compare in the same way."""

_PARTS_OF_TIMES: Final = {
    "Year": "year",
    "Month": "month",
    "DayOfMonth": "day",
    "Hour": "hour",
    "Minute": "minute",
    "Second": "second",
}
_UNITS: Final = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
_UTC: Final = ("UTC", "Etc/UTC", "GMT", "Z", "+00:00")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_JOINED_LETTERS: Final = ("SS", "FF", "FI", "FL", "ST")
"""What Java makes of one letter, such as ``ß``, where rli leaves the letter as it is."""


@dataclass(frozen=True, slots=True)
class _Value:
    """A value of a record.

    Attributes:
        text: in the language of filters.
        kind: type of Spark.
        equals: tells the only constants to which it may be compared, by equality alone; None for all.
    """

    text: str
    kind: str
    equals: Callable[[str], bool] | None = None


def implied_filter(spark: SparkSession, column: Column, schema: pa.Schema) -> str | None:
    """A filter that each record passes for which a column of Spark is true; None if nothing can be told.

    Args:
        spark: a session. Of Spark Connect, nothing is told: the server analyses the column.
        column: a condition over the columns of the table.
        schema: of the table, with meta columns.

    Raises:
        pyspark.errors.AnalysisException: the column does not fit the table.
    """
    frame = spark.createDataFrame([], spark_schema(schema)).where(column)
    # The session's clock tells what such a time means beside others.
    is_utc = spark.conf.get("spark.sql.session.timeZone") in _UTC
    unknown = [field.name for field in schema if not is_utc and _has_local_time(field.type)]
    text = _implied(frame, unknown)
    try:
        return None if text is None or Filter.of(text, schema) is None else text
    except (RliError, RecursionError):
        return None


def _has_local_time(kind: pa.DataType) -> bool:
    return pa.types.is_nested(kind) or (pa.types.is_timestamp(kind) and kind.tz is None)


def _implied(frame: DataFrame, unknown: Collection[str]) -> str | None:
    plan = getattr(frame, "_jdf", None)
    if plan is None:
        return None
    try:
        where = plan.queryExecution().analyzed()
        columns = {one.exprId().id(): one.name() for one in _each(where.child().output())}
        names = {number: name for number, name in columns.items() if name not in unknown}
        return _Reader(names).condition(where.condition(), is_exact=False)
    except (Py4JError, RecursionError):
        # A part that this version of Spark has otherwise.
        return None


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads analysed expressions of Spark.

    Attributes:
        names: number of an attribute → name of the column, of the columns that may be compared.
    """

    names: dict[int, str]

    def condition(self, node: Any, *, is_exact: bool) -> str | None:
        """A condition that holds if the node is true; with ``is_exact``, one that is true, false and null where the node is."""
        name, parts = _name(node), list(_each(node.children()))
        found: str | None = None
        match name:
            case "And" | "Or":
                found = self._joined(name, parts, is_exact=is_exact)
            case "Not":
                inner = self.condition(parts[0], is_exact=True)
                found = None if inner is None else f"(not {inner})"
            case "IsNull" | "IsNotNull":
                column = self._column(parts[0])
                found = None if column is None else f"({column.text} is {'not ' if name == 'IsNotNull' else ''}null)"
            case "In":
                found = self._is_in(parts[0], parts[1:], is_exact=is_exact)
            case "Like" | "StartsWith":
                found = self._is_like(name, node, parts)
            case "EqualNullSafe" if is_exact or not any(map(_is_constant, parts)):
                # Where both are null, it is true, and "=" is not.
                pass
            case _ if name in _COMPARISONS:
                found = self._comparison(name, parts, is_exact=is_exact)
            case _:
                replacement = _replacement(node)
                found = None if replacement is None else self.condition(replacement, is_exact=is_exact)
        return found

    def _joined(self, name: str, parts: list[Any], *, is_exact: bool) -> str | None:
        known = [self.condition(part, is_exact=is_exact) for part in parts]
        found = [part for part in known if part is not None]
        needs_all = is_exact or name == "Or"
        return None if not found or (needs_all and None in known) else f"({f' {name.lower()} '.join(found)})"

    def _comparison(self, name: str, parts: list[Any], *, is_exact: bool) -> str | None:
        symbol, (left, right) = _COMPARISONS[name], parts
        if _is_constant(left):
            left, right, symbol = right, left, _FLIPPED[symbol]
        value = self._value(left)
        if value is None or (is_exact and value.equals is not None):
            return None
        if not _is_constant(right):
            other = self._column(right)
            both = other is not None and other.kind == value.kind and value.kind in _ORDERED and value.equals is None
            return f"({value.text} {symbol} {other.text})" if both and other is not None else None
        constant = _constant(right, value)
        # NaN is greater than all numbers for Spark, and than none for rli.
        is_told = symbol == "=" or (value.equals is None and (value.kind in _ORDERED or symbol in ("<", "<=")))
        return f"({value.text} {symbol} {constant})" if is_told and constant is not None else None

    def _is_in(self, left: Any, constants: list[Any], *, is_exact: bool) -> str | None:
        value = self._value(left)
        if value is None or (is_exact and value.equals is not None) or not all(_is_constant(one) for one in constants):
            return None
        texts = [_constant(one, value) for one in constants]
        known = [text for text in texts if text is not None]
        return f"({value.text} in ({', '.join(known)}))" if known and len(known) == len(texts) else None

    def _is_like(self, name: str, node: Any, parts: list[Any]) -> str | None:
        value = self._value(parts[0])
        if value is None or value.kind != "string" or value.equals is not None or not _is_constant(parts[1]):
            return None
        pattern = parts[1].eval(None)
        text = "" if pattern is None else str(pattern.toString())
        if not text or "\\" in text or (name == "Like" and node.escapeChar() != "\\"):
            return None
        if name == "StartsWith":
            text = text.replace("%", "\\%").replace("_", "\\_") + "%"
        return f"({value.text} like {_quoted(text)})"

    def _value(self, node: Any) -> _Value | None:
        """A column, or a function of one."""
        name, parts = _name(node), list(_each(node.children()))
        match name:
            case "AttributeReference" | "GetStructField":
                return self._column(node)
            case "Cast":
                return self._wider(self._value(parts[0]), _kind(node))
            case "Lower" | "Upper" | "Length":
                return self._of_string(name, parts[0], _kind(node))
            case "TruncTimestamp" | "Remainder" | "Substring":
                return self._of_constants(name, node, parts)
            case _ if name in _PARTS_OF_TIMES:
                time = self._time(node, parts[0])
                return None if time is None else _Value(f"{_PARTS_OF_TIMES[name]}({time})", "int")
        replacement = _replacement(node)
        return None if replacement is None else self._value(replacement)

    def _wider(self, value: _Value | None, kind: str) -> _Value | None:
        """A number as a wider integer: the same number."""
        if value is None or value.kind not in _INTEGERS or kind not in _INTEGERS[_INTEGERS.index(value.kind) :]:
            return None
        return _Value(value.text, kind)

    def _of_constants(self, name: str, node: Any, parts: list[Any]) -> _Value | None:
        if name == "Substring":
            return self._substring(parts)
        if name == "Remainder":
            value = self._value(parts[0])
            is_whole = value is not None and value.kind in _INTEGERS and _is_constant(parts[1])
            divisor = _constant(parts[1], value) if value is not None and is_whole else None
            return None if value is None or divisor is None else _Value(f"({value.text} % {divisor})", value.kind)
        unit = parts[0].eval(None).toString().lower() if _is_constant(parts[0]) else None
        time = self._time(node, parts[1]) if unit in _UNITS else None
        return None if time is None else _Value(f"date_trunc('{unit}', {time})", _kind(node))

    def _of_string(self, name: str, node: Any, kind: str) -> _Value | None:
        value = self._column(node)
        if value is None or value.kind != "string":
            return None
        told = {"Lower": str.isascii, "Upper": _is_upper_told}.get(name)
        return _Value(f"{name.lower()}({value.text})", kind, told)

    def _substring(self, parts: list[Any]) -> _Value | None:
        value = self._column(parts[0])
        if value is None or value.kind != "string" or not all(_is_constant(part) for part in parts[1:]):
            return None
        numbers = [part.eval(None) for part in parts[1:]]
        if None in numbers:
            return None
        # Without a length, Spark takes the greatest one.
        given = [str(number) for number in (numbers[:-1] if numbers[-1] == _GREATEST else numbers)]
        return _Value(f"substring({', '.join((value.text, *given))})", "string")

    def _time(self, node: Any, inner: Any) -> str | None:
        """The column of which a function of Spark tells a part in UTC."""
        if _name(inner) == "Cast" and _kind(inner) == "date":
            # A year, month or day of the date.
            node, inner = inner, next(_each(inner.children()))
        column = self._column(inner)
        if column is None or column.kind not in (*_TIMES, "date"):
            return None
        if column.kind == "timestamp" and not (node.timeZoneId().isDefined() and node.timeZoneId().get() in _UTC):
            return None
        return column.text

    def _column(self, node: Any) -> _Value | None:
        match _name(node):
            case "AttributeReference":
                name = self.names.get(node.exprId().id())
                return None if name is None else _Value(_named(name), _kind(node))
            case "GetStructField":
                outer = self._column(next(_each(node.children())))
                return None if outer is None else _Value(f"{outer.text}.{_named(node.extractFieldName())}", _kind(node))
        return None


_GREATEST: Final = 2**31 - 1


def _is_upper_told(constant: str) -> bool:
    return constant.isascii() and not any(letters in constant for letters in _JOINED_LETTERS)


def _each(values: Any) -> Iterator[Any]:
    return (values.apply(place) for place in range(values.size()))


def _name(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _is_constant(node: Any) -> bool:
    """Whether a value is written in the column: others that are the same for each record, such as the time, change until Spark reads."""
    return _name(node) == "Literal" or (_name(node) == "Cast" and all(map(_is_constant, _each(node.children()))))


def _kind(node: Any) -> str:
    return str(node.dataType().simpleString())


def _replacement(node: Any) -> Any:
    """What Spark computes in place of an expression; None where it computes the expression itself."""
    return node.replacement() if any(one.getSimpleName() == "RuntimeReplaceable" for one in _interfaces(node)) else None


def _interfaces(node: Any) -> Iterator[Any]:
    kind = node.getClass()
    while kind is not None:
        yield from kind.getInterfaces()
        kind = kind.getSuperclass()


def _constant(node: Any, value: _Value) -> str | None:
    """A constant to compare a value with, in the language of filters; None if there is none with the same meaning."""
    kind, given = _kind(node), node.eval(None)
    is_same = kind == value.kind or (kind in _INTEGERS and value.kind in _INTEGERS)
    if given is None or not is_same:
        return None
    text: str | None = None
    match kind:
        case "string":
            plain = str(given.toString())
            text = _quoted(plain) if value.equals is None or value.equals(plain) else None
        case "double":
            text = repr(given) if abs(given) < float("inf") else None
        case "date" | "timestamp" | "timestamp_ntz":
            text = _moment(kind, given)
        case _ if kind in ("boolean", *_INTEGERS):
            text = str(given).lower()
    return text


def _moment(kind: str, given: int) -> str | None:
    """A date in days, or a time in microseconds, since 1970; None if the language of filters has none such."""
    try:
        if kind == "date":
            return f"date '{date(1970, 1, 1) + timedelta(days=given)}'"
        return f"timestamp '{(_EPOCH + timedelta(microseconds=given)).replace(tzinfo=None)}'"
    except OverflowError:
        return None


def _named(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _quoted(text: str) -> str:
    escaped = text.encode("unicode_escape").decode().replace("'", "\\'")
    return f"'{escaped}'"
