"""The tree of a text becomes a predicate, or a value, of the columns of a schema.

Comparisons of a column with constants or another column become predicates that bounds of columns tell of; all else is
computed. ``null`` follows SQL: a comparison with it is neither true nor false. Branches that do not count for a record,
behind ``case``, ``coalesce``, ``and`` and ``or``, cannot fail for it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from rli.filters.arithmetic import calculated, negated
from rli.filters.constants import UNFIT, as_value_of
from rli.filters.functions import called, concatenated
from rli.filters.likes import like
from rli.filters.predicates import (
    FLIPPED,
    OPERATORS,
    Column,
    ColumnComparison,
    Comparison,
    Constant,
    IsIn,
    IsNull,
    IsTrue,
    Not,
    Or,
    Predicate,
    all_of,
    any_of,
)
from rli.filters.syntax import COMPARISONS, Call, Case, Cast, Literal, Name, Syntax
from rli.filters.values import Guard, Value, alike, applied, cast, fitting

_LOGIC: Final = ("and", "or", "not", "is null", "in", "between", "like", *COMPARISONS)

_TYPES: Final = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "double": pa.float64(),
    "double precision": pa.float64(),
    "string": pa.string(),
    "varchar": pa.string(),
    "text": pa.string(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_DECIMAL: Final = re.compile(r"(?:decimal|numeric)(?:\((\d{1,2})(?:,(\d{1,2}))?\))?")
_PRECISION: Final = 10
"""Of a decimal that names none."""


@dataclass(frozen=True, slots=True)
class Binding:
    """Binds trees to the columns of a schema. A column ``source.fare`` is one of that name, or a field of a struct.

    Attributes:
        schema: of the records.
    """

    schema: pa.Schema

    def predicate(self, node: Syntax, guard: Guard = Guard()) -> Predicate:  # noqa: B008  (frozen)
        """A condition.

        Raises:
            ValueError: the tree is no condition, or names an unknown column or function.
        """
        if isinstance(node, Call) and node.function in _LOGIC:
            return self._logic(node.function, node.operands, guard)
        return _as_predicate(self.value(node, guard))

    def value(self, node: Syntax, guard: Guard = Guard()) -> Value:  # noqa: B008  (frozen)
        """A value.

        Raises:
            ValueError: as ``predicate``; or values of these types are not computed.
        """
        match node:
            case Literal():
                return Value.of_literal(node)
            case Name(path):
                return self._column(path)
            case Cast(operand, kind):
                return cast(self.value(operand, guard), _type(kind), guard)
            case Case(branches, default):
                return self._case(branches, default, guard)
            case Call("col", (Literal(str() as name),)):
                return self._column((name,))
            case Call(function, operands):
                return self._call(function, operands, guard)

    def _column(self, path: tuple[str, ...]) -> Value:
        for split in range(len(path), 0, -1):
            name = ".".join(path[:split])
            if name in self.schema.names:
                return self._field((name, *path[split:]), self.schema.field(name).type)
        raise ValueError(f"{_UNKNOWN}: column={'.'.join(path)} found={self._named}; quote strings")

    def _field(self, column: Column, kind: pa.DataType) -> Value:
        for name in column[1:]:
            if not pa.types.is_struct(kind) or kind.get_field_index(name) < 0:
                raise ValueError(f"{_UNKNOWN}: column={'.'.join(column)} found={self._named}; quote strings")
            kind = kind.field(name).type
        return Value.of_column(column, kind)

    @property
    def _named(self) -> list[str]:
        # Hudi's five meta columns can be named, but nobody has meant one of them.
        return [known for known in self.schema.names if not known.startswith("_hoodie_")]

    def _logic(self, function: str, operands: tuple[Syntax, ...], guard: Guard) -> Predicate:
        if function in ("and", "or"):
            return self._joined(function, operands, guard)
        if function == "between":
            value, low, high = operands
            return self._joined("and", (Call(">=", (value, low)), Call("<=", (value, high))), guard)
        if function == "not":
            return Not(self.predicate(operands[0], guard))
        return _tested(function, [self.value(operand, guard) for operand in operands])

    def _joined(self, function: str, operands: tuple[Syntax, ...], guard: Guard) -> Predicate:
        parts: list[Predicate] = []
        for operand in operands:
            parts.append(self.predicate(operand, guard))
            condition = Value.of_predicate(parts[-1])
            guard = guard.unless_false(condition) if function == "and" else guard.unless_true(condition)
        return all_of(parts) if function == "and" else any_of(parts)

    def _call(self, function: str, operands: tuple[Syntax, ...], guard: Guard) -> Value:
        if function in _LOGIC:
            return Value.of_predicate(self._logic(function, operands, guard))
        if function == "coalesce":
            return self._coalesced(operands, guard)
        values = [self.value(operand, guard) for operand in operands]
        match function:
            case "+" | "-" | "*" | "/" | "%":
                return calculated(function, values[0], values[1], guard)
            case "-x":
                return negated(values[0], guard)
            case "||":
                return concatenated(values, guard)
            case _:
                return called(function, values, guard)

    def _coalesced(self, operands: tuple[Syntax, ...], guard: Guard) -> Value:
        if not operands:
            raise ValueError("coalesce takes 1 argument or more")
        values: list[Value] = []
        guards: list[Guard] = []
        for operand in operands:
            values.append(self.value(operand, guard))
            guards.append(guard)
            guard = guard.if_true(applied(pc.is_null, values[-1]))
        return applied(pc.coalesce, *alike(values, guards))

    def _case(self, branches: Sequence[tuple[Syntax, Syntax]], default: Syntax, guard: Guard) -> Value:
        conditions: list[Value] = []
        values: list[Value] = []
        guards: list[Guard] = []
        for condition, value in branches:
            conditions.append(Value.of_predicate(self.predicate(condition, guard)))
            is_met = conditions[-1]
            guards.append(guard.if_true(is_met))
            values.append(self.value(value, guards[-1]))
            guard = guard.unless_true(is_met)
        *values, chosen = alike([*values, self.value(default, guard)], [*guards, guard])
        for met, taken in zip(reversed(conditions), reversed(values), strict=True):
            certain = applied(pc.coalesce, met, Value.of_constant(pa.scalar(False)))
            chosen = applied(pc.if_else, certain, taken, chosen)
        return chosen


_UNKNOWN: Final = "it names a column that the table does not have"


def _type(name: str) -> pa.DataType:
    if name in _TYPES:
        return _TYPES[name]
    found = _DECIMAL.fullmatch(name)
    if found is None:
        raise ValueError(f"no type of this name: {name}; there are {', '.join(_TYPES)} and decimal(10,2)")
    precision, scale = int(found[1] or _PRECISION), int(found[2] or 0)
    try:
        return pa.decimal128(precision, scale)
    except (ValueError, pa.ArrowException) as error:
        raise ValueError(f"no decimal: {name} ({error})") from error


def _tested(function: str, values: Sequence[Value]) -> Predicate:
    match function:
        case "is null":
            return _is_null(values[0])
        case "like":
            return like(*values)
        case "in":
            return _is_in(values)
        case _:
            return _compared(function, *values)


def _as_predicate(value: Value) -> Predicate:
    if value.is_null:
        return Constant(None)
    if value.kind != pa.bool_():
        raise ValueError(f"a condition is true or false: type={value.kind}; write a comparison")
    if value.constant is not None:
        return Constant(value.constant.as_py())
    return IsTrue(value.columns[0]) if value.is_column else value.predicate


def _is_null(value: Value) -> Predicate:
    if value.constant is not None:
        return Constant(value.is_null)
    if value.is_column:
        return IsNull(value.columns[0])
    return applied(pc.is_null, value).predicate


def _compared(symbol: str, left: Value, right: Value) -> Predicate:
    if any(value.is_null and value.literal is not None for value in (left, right)):
        raise ValueError("null is compared with 'is null' and 'is not null'")
    left, right = (one if one.literal is None else _beside(one, other) for one, other in ((left, right), (right, left)))
    if left.is_column and right.is_column:
        return ColumnComparison(left.columns[0], symbol, right.columns[0])
    if left.is_column and right.constant is not None:
        return Comparison(left.columns[0], symbol, right.constant)
    if right.is_column and left.constant is not None:
        return Comparison(right.columns[0], FLIPPED[symbol], left.constant)
    compared = applied(pc.equal, left, right)
    if left.constant is not None and right.constant is not None:
        return Constant(_truth(symbol, left.constant, right.constant))
    return replace(compared, expression=OPERATORS[symbol](left.expression, right.expression)).predicate


def _truth(symbol: str, left: pa.Scalar, right: pa.Scalar) -> bool | None:
    if not left.is_valid or not right.is_valid:
        return None
    return bool(OPERATORS[symbol](left.as_py(), right.as_py()))


def _beside(value: Value, other: Value) -> Value:
    """A constant in the type of another value; one beside a constant stays as it is."""
    return value if other.literal is not None else fitting(value, other.kind)


def _is_in(operands: Sequence[Value]) -> Predicate:
    value, *members = operands
    if any(member.is_null for member in members):
        raise ValueError("null is compared with 'is null' and 'is not null'")
    if not members:
        return Constant(value=False)
    if not value.is_column or any(member.constant is None for member in members):
        return any_of([_compared("==", value, member) for member in members])
    column, kind = value.columns[0], value.kind
    exact = [_exact(member, kind) for member in members]
    is_in = IsIn.equal(column, pa.array([member.as_py() for member in exact], kind))
    # Null for null, as SQL has it: the set itself says false.
    return Or((is_in, Comparison(column, "==", exact[0])))


def _exact(member: Value, kind: pa.DataType) -> pa.Scalar:
    """A member of a set in the type of the column."""
    if member.constant is None:
        raise ValueError("a member of a set is a constant")
    try:
        return (member.constant if member.literal is None else as_value_of(member.literal, kind)).cast(kind)
    except UNFIT as error:
        shown = member.constant if member.literal is None else member.literal.value
        raise ValueError(
            f"a constant does not fit: value={shown!r} type={kind} ({error}); write strings in quotes and numbers without"
        ) from error
