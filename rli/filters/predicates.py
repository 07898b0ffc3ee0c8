"""The tree of a filter: one form for texts, tuples and pyarrow expressions.

A predicate is true, false or null for a record, with pyarrow's meaning: ``expression`` gives it to pyarrow. A filter
passes the records for which it is true.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

Column: TypeAlias = tuple[str, ...]
"""The name of a column, followed by the names of fields inside it."""

OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
"""Comparisons by their symbols, for operands that pyarrow, Spark or Python compare."""

FLIPPED: Final = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""The symbol of a comparison whose sides are exchanged."""


@dataclass(frozen=True, slots=True)
class And:
    """All of some predicates, two at least."""

    parts: tuple[Predicate, ...]

    def expression(self) -> pc.Expression:
        return reduce(operator.and_, [part.expression() for part in self.parts])


@dataclass(frozen=True, slots=True)
class Or:
    """One of some predicates, two at least."""

    parts: tuple[Predicate, ...]

    def expression(self) -> pc.Expression:
        return reduce(operator.or_, [part.expression() for part in self.parts])


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite of a predicate; null where the predicate is null."""

    part: Predicate

    def expression(self) -> pc.Expression:
        return ~self.part.expression()


@dataclass(frozen=True, slots=True)
class Comparison:
    """A column compared with a constant: null for null; for NaN only ``!=`` is true."""

    column: Column
    symbol: str
    value: pa.Scalar

    def expression(self) -> pc.Expression:
        return OPERATORS[self.symbol](pc.field(*self.column), pc.scalar(self.value))


@dataclass(frozen=True, slots=True)
class ColumnComparison:
    """A column compared with another one."""

    left: Column
    symbol: str
    right: Column

    def expression(self) -> pc.Expression:
        return OPERATORS[self.symbol](pc.field(*self.left), pc.field(*self.right))


@dataclass(frozen=True, slots=True)
class IsIn:
    """A column's value is in a set: never null; NaN is in a set that holds it, ``-0.0`` and ``0.0`` are two values.

    Attributes:
        column: the column.
        values: the set.
        matches_null: whether null is in a set that holds null.
    """

    column: Column
    values: pa.Array
    matches_null: bool = True

    @classmethod
    def equal(cls, column: Column, values: pa.Array) -> IsIn:
        """A column's value equals one of some values: each zero equals the other."""
        if pa.types.is_floating(values.type) and pc.any(pc.equal(values, 0.0)).as_py():
            values = pa.concat_arrays([values, pa.array([0.0, -0.0]).cast(values.type)])
        return cls(column, values)

    def expression(self) -> pc.Expression:
        return pc.is_in(pc.field(*self.column), value_set=self.values, skip_nulls=not self.matches_null)


@dataclass(frozen=True, slots=True)
class IsNull:
    """A column's value is null, or NaN where NaN counts as null."""

    column: Column
    nan_is_null: bool = False

    def expression(self) -> pc.Expression:
        return pc.field(*self.column).is_null(nan_is_null=self.nan_is_null)


@dataclass(frozen=True, slots=True)
class IsNan:
    """A column's value is NaN; null for null."""

    column: Column

    def expression(self) -> pc.Expression:
        return pc.field(*self.column).is_nan()


@dataclass(frozen=True, slots=True)
class IsTrue:
    """A boolean column's value."""

    column: Column

    def expression(self) -> pc.Expression:
        return pc.field(*self.column)


@dataclass(frozen=True, slots=True)
class Constant:
    """True, false or null for every record."""

    value: bool | None

    def expression(self) -> pc.Expression:
        return pc.scalar(pa.scalar(self.value, pa.bool_()))


@dataclass(frozen=True, slots=True)
class Computed:
    """A condition on values that are computed of a record.

    Attributes:
        condition: true, false or null for a record.
        columns: which it reads.
        size: how many columns, constants and functions it has, each as often as it is computed.
        may_fail: whether it cannot be computed for some values.
    """

    condition: pc.Expression
    columns: tuple[Column, ...]
    size: int = 1
    may_fail: bool = False

    def expression(self) -> pc.Expression:
        return self.condition


@dataclass(frozen=True, slots=True)
class Unknown:
    """A part of a pyarrow expression whose meaning is not known here."""

    def expression(self) -> pc.Expression:
        raise ValueError("an unknown predicate has no expression")


Predicate: TypeAlias = (
    And | Or | Not | Comparison | ColumnComparison | IsIn | IsNull | IsNan | IsTrue | Constant | Computed | Unknown
)


def all_of(parts: list[Predicate]) -> Predicate:
    """All of one or more predicates."""
    return parts[0] if len(parts) == 1 else And(tuple(parts))


def any_of(parts: list[Predicate]) -> Predicate:
    """One of one or more predicates."""
    return parts[0] if len(parts) == 1 else Or(tuple(parts))


def computed_parts(predicate: Predicate) -> Iterator[Computed]:
    """The parts of a predicate that are about computed values."""
    match predicate:
        case And(parts) | Or(parts):
            for part in parts:
                yield from computed_parts(part)
        case Not(part):
            yield from computed_parts(part)
        case Computed():
            yield predicate


def columns_of(predicate: Predicate) -> Iterator[Column]:
    """The columns that a predicate names; those of unknown parts are missing."""
    match predicate:
        case And(parts) | Or(parts):
            for part in parts:
                yield from columns_of(part)
        case Not(part):
            yield from columns_of(part)
        case ColumnComparison(left, _, right):
            yield from (left, right)
        case Computed(_, columns):
            yield from columns
        case Constant() | Unknown():
            return
        case _:
            yield predicate.column


def has_unknown(predicate: Predicate) -> bool:
    """Whether the meaning of a part of a predicate is not known, and so neither are all its columns."""
    match predicate:
        case And(parts) | Or(parts):
            return any(has_unknown(part) for part in parts)
        case Not(part):
            return has_unknown(part)
        case _:
            return isinstance(predicate, Unknown)


def is_computed(predicate: Predicate) -> bool:
    """Whether a predicate, or a part of it, is about values that are computed of a record."""
    return any(True for _ in computed_parts(predicate))
