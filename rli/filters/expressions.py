"""What is known of the meaning of a pyarrow expression."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from rli.filters.arrow_messages import SerialisedExpression
from rli.filters.likes import begins_with
from rli.filters.predicates import (
    FLIPPED,
    And,
    Column,
    ColumnComparison,
    Comparison,
    Constant,
    IsIn,
    IsNan,
    IsNull,
    IsTrue,
    Not,
    Or,
    Predicate,
    Unknown,
)

_MOST_DEPTH: Final = 200
"""Of calls inside each other; a chain of ``and`` or of ``or`` counts as one."""

_MATCH, _SKIP = 0, 1
"""Whether null is in a set that holds null: of ``null_matching_behavior``."""


@dataclass(frozen=True, slots=True)
class _Field:
    column: Column


@dataclass(frozen=True, slots=True)
class _Options:
    values: pa.Scalar


_Operand: TypeAlias = Predicate | _Field | pa.Scalar | _Options

Shape: TypeAlias = tuple[tuple[str, str], ...]
"""An expression in parts, in prefix order, with its constants: two expressions of one shape have the same values."""

_UNREADABLE: Final = (
    ValueError,
    ArithmeticError,
    LookupError,
    TypeError,
    AttributeError,
    struct.error,
    pa.ArrowException,
)


def known_part(expression: pc.Expression, named: Mapping[Shape, str] = MappingProxyType({})) -> Predicate:
    """A predicate of the meaning of an expression; parts whose meaning is not known here are unknown.

    Args:
        expression: the expression.
        named: shapes of parts that count as columns, and the names of these.
    """
    try:
        whole = _parsed(SerialisedExpression.of(expression), named)
        return Unknown() if _is_deep(whole) else whole
    except _UNREADABLE:
        return Unknown()


def shape_of(expression: pc.Expression) -> Shape | None:
    """The shape of an expression; None if it cannot be told."""
    try:
        serialised = SerialisedExpression.of(expression)
        return tuple(_part(kind, text, serialised) for kind, text in serialised.tokens)
    except _UNREADABLE:
        return None


def _part(kind: str, text: str, serialised: SerialisedExpression) -> tuple[str, str]:
    """A token, with the constant itself in place of its number."""
    if kind not in ("literal", "options"):
        return kind, text
    constant = serialised.constant(text)
    return kind, f"{constant.type} {constant.as_py()!r}"


def _parsed(serialised: SerialisedExpression, named: Mapping[Shape, str]) -> Predicate:
    """Reads the tokens of an expression from the first to the last, without recursion."""
    # Names of the calls that are open, where each begins, and what it has been given so far.
    calls: list[tuple[str, int, list[_Operand]]] = [("", 0, [])]
    parts: Shape = tuple(_part(*token, serialised) for token in serialised.tokens) if named else ()
    tokens = enumerate(serialised.tokens)
    following = (token for _, token in tokens)
    for place, (kind, text) in tokens:
        if kind == "call":
            calls.append((text, place, []))
        elif kind == "end":
            name, begin, operands = calls.pop()
            column = named.get(parts[begin : place + 1])
            calls[-1][2].append(_of_call(name, operands) if column is None else _Field((column,)))
        else:
            calls[-1][2].append(_operand(kind, text, serialised, following))
    ((_, _, (whole,)),) = calls
    return _as_predicate(whole)


def _of_call(name: str, operands: list[_Operand]) -> Predicate:
    return _CALLS[name](*operands) if name in _CALLS else Unknown()


def _operand(kind: str, text: str, serialised: SerialisedExpression, following: Iterator[tuple[str, str]]) -> _Operand:
    match kind:
        case "field_ref":
            return _Field((text,))
        case "nested_field_ref":
            return _Field(tuple(name for _, name in islice(following, int(text))))
        case "literal":
            return serialised.constant(text)
        case "options":
            return _Options(serialised.constant(text))
        case _:
            raise ValueError(f"a part of an unknown kind: {kind}")


def _as_predicate(operand: _Operand) -> Predicate:
    match operand:
        case _Field(column):
            return IsTrue(column)
        case _Options():
            raise ValueError("options stand where an operand is expected")
        case pa.Scalar():
            is_truth = pa.types.is_boolean(operand.type) or pa.types.is_null(operand.type)
            return Constant(operand.as_py()) if is_truth else Unknown()
        case _:
            return operand


def _joined(join: type[And | Or], left: _Operand, right: _Operand) -> Predicate:
    first = _as_predicate(left)
    parts = first.parts if isinstance(first, join) else (first,)
    return join((*parts, _as_predicate(right)))


def _comparison(symbol: str, left: _Operand, right: _Operand) -> Predicate:
    match left, right:
        case _Field(column), pa.Scalar():
            return Comparison(column, symbol, right)
        case pa.Scalar(), _Field(column):
            return Comparison(column, FLIPPED[symbol], left)
        case _Field(first), _Field(second):
            return ColumnComparison(first, symbol, second)
        case _:
            return Unknown()


def _is_in(column: _Operand, options: _Operand) -> Predicate:
    if not isinstance(column, _Field) or not isinstance(options, _Options):
        return Unknown()
    matching = options.values["null_matching_behavior"].as_py()
    if matching not in (_MATCH, _SKIP):
        return Unknown()
    return IsIn(column.column, options.values["value_set"].values, matches_null=matching == _MATCH)


def _is_null(operand: _Operand, options: _Operand | None = None) -> Predicate:
    if not isinstance(operand, _Field):
        return Unknown()
    nan_is_null = isinstance(options, _Options) and bool(options.values["nan_is_null"].as_py())
    return IsNull(operand.column, nan_is_null)


def _is_valid(operand: _Operand) -> Predicate:
    return Not(_is_null(operand))


def _is_nan(operand: _Operand) -> Predicate:
    return IsNan(operand.column) if isinstance(operand, _Field) else Unknown()


def _starts_with(operand: _Operand, options: _Operand) -> Predicate:
    if not isinstance(operand, _Field) or not isinstance(options, _Options):
        return Unknown()
    prefix, ignores_case = options.values["pattern"].as_py(), options.values["ignore_case"].as_py()
    found = [] if ignores_case else begins_with(operand.column, prefix, pa.string())
    return And(tuple(found)) if len(found) > 1 else Unknown()


def _not(operand: _Operand) -> Predicate:
    return Not(_as_predicate(operand))


_CALLS: Final[dict[str, Callable[..., Predicate]]] = {
    "and_kleene": partial(_joined, And),
    "or_kleene": partial(_joined, Or),
    "invert": _not,
    "is_in": _is_in,
    "is_null": _is_null,
    "is_valid": _is_valid,
    "is_nan": _is_nan,
    "starts_with": _starts_with,
    "equal": partial(_comparison, "=="),
    "not_equal": partial(_comparison, "!="),
    "less": partial(_comparison, "<"),
    "less_equal": partial(_comparison, "<="),
    "greater": partial(_comparison, ">"),
    "greater_equal": partial(_comparison, ">="),
}
"""pyarrow's functions whose meaning is known."""


def _is_deep(predicate: Predicate) -> bool:
    """Whether so many predicates are inside each other that functions that call themselves would fail."""
    level: list[Predicate] = [predicate]
    for _ in range(_MOST_DEPTH):
        level = [part for outer in level for part in _parts_of(outer)]
        if not level:
            return False
    return True


def _parts_of(predicate: Predicate) -> tuple[Predicate, ...]:
    match predicate:
        case And(parts) | Or(parts):
            return parts
        case Not(part):
            return (part,)
        case _:
            return ()
