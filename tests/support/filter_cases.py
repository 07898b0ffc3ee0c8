"""Random filters in each of their forms, with the records they must pass, over columns of every type.

Which records a filter passes is computed here record by record, from Python's values: no code of rli or pyarrow decides
it. Expressions that are pyarrow's alone (casts, arithmetic, ``is_nan``, patterns) have pyarrow's answer over the full read.
"""

from __future__ import annotations

import datetime as dt
import math
import operator
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

Row: TypeAlias = dict[str, Any]
Truth: TypeAlias = Callable[[Row], bool | None]

NAN: Final = float("nan")
LONG: Final = "x" * 5000
"""Arrow writes no bounds of so long a text."""

_UTC: Final = dt.UTC
_INTS: Final = [0, 1, -1, 5, 7, 100]
_FLOATS: Final = [0.0, -0.0, 1.5, -1.5, 5.0, 7.0, math.inf, -math.inf, NAN]
_TIMES: Final = [
    dt.datetime(1, 1, 2, tzinfo=_UTC),
    dt.datetime(1500, 3, 1, tzinfo=_UTC),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=_UTC),
    dt.datetime(2024, 1, 1, 0, 0, 0, 1000, tzinfo=_UTC),
    dt.datetime(9999, 12, 31, tzinfo=_UTC),
]
_DATES: Final = [
    dt.date(1, 1, 1),
    dt.date(1582, 10, 10),
    dt.date(1970, 1, 1),
    dt.date(2024, 2, 29),
    dt.date(9999, 12, 31),
]
_TEXTS: Final = ["", "a", "A", "a\x00", "é", "𐀀", "\uffff", "null", "ab%", "a_b", "\n", "'", LONG, LONG + "a"]
_BYTES: Final = [b"", b"\x00", b"\xff", b"\xff" * 2000, b"a", b"\x80"]


@dataclass(frozen=True, slots=True)
class Kind:
    """A column's type as records arrive, values for it, and how a text filter writes one; None: it cannot."""

    type: pa.DataType
    values: list[Any]
    text: Callable[[Any], str] | None = repr


def _float_text(value: float) -> str:
    return {math.inf: "1e999", -math.inf: "-1e999"}.get(value, repr(value))


KINDS: Final[dict[str, Kind]] = {
    "i8": Kind(pa.int8(), _INTS),
    "u8": Kind(pa.uint8(), [0, 1, 5, 200, 255]),
    "i16": Kind(pa.int16(), _INTS),
    "u32": Kind(pa.uint32(), [0, 1, 5, 2**32 - 1]),
    "i32": Kind(pa.int32(), [*_INTS, -(2**31), 2**31 - 1]),
    "i64": Kind(pa.int64(), [*_INTS, 2**40, -(2**62), 2**63 - 1]),
    "f16": Kind(pa.float16(), [0.0, -0.0, 1.5, NAN], _float_text),
    "f32": Kind(pa.float32(), _FLOATS, _float_text),
    "f64": Kind(pa.float64(), [*_FLOATS, 5e-324, 1e300], _float_text),
    "s": Kind(pa.string(), _TEXTS),
    "dictionary": Kind(pa.dictionary(pa.int32(), pa.string()), ["a", "b", "c"]),
    "b": Kind(pa.binary(), _BYTES, None),
    "bool": Kind(pa.bool_(), [True, False]),
    "date": Kind(pa.date32(), _DATES, lambda value: f"'{value.isoformat()}'"),
    "date64": Kind(pa.date64(), _DATES, lambda value: f"'{value.isoformat()}'"),
    "moment": Kind(pa.timestamp("us", "UTC"), _TIMES, lambda value: f"'{value.isoformat()}'"),
    "zoned": Kind(pa.timestamp("ms", "Europe/Rome"), _TIMES[2:], lambda value: f"'{value.isoformat()}'"),
    "money": Kind(pa.decimal128(10, 2), [Decimal(x) for x in ("0", "-0.01", "1.23", "99999999.99", "1")], str),
    "wide": Kind(pa.decimal128(38, 10), [Decimal(x) for x in ("0", "-0.5", "1.5", "1234567890123.25")], str),
}
STRUCT: Final = pa.struct([("u", pa.int64()), ("w", pa.float64()), ("v", pa.string())])
LIST: Final = pa.list_(pa.int64())

_OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class Case:
    """A filter.

    Attributes:
        expression: for pyarrow.
        text: the same in the text language; None if it has no such form.
        tuples: the same as tuples, in disjunctive form; None likewise.
        truth: whether the text and the tuples pass a record; None if only pyarrow knows.
    """

    expression: pc.Expression
    text: str | None = None
    tuples: list[list[tuple[str, str, Any]]] | None = None
    truth: Truth | None = None

    @property
    def forms(self) -> list[Any]:
        """The filter in each of its forms."""
        return [form for form in (self.expression, self.text, self.tuples) if form is not None]


@dataclass(slots=True)
class FilterCases:
    """Makes records and filters from one source of chance.

    Attributes:
        chance: the source.
        partition: a name of ``KINDS``: the type of the column ``p``.
        columns: names of ``KINDS``.
    """

    chance: random.Random
    partition: str
    columns: list[str] = field(default_factory=lambda: list(KINDS))

    def records(self, count: int, columns: list[str]) -> pa.Table:
        """Random records; values of one call are few, so that bounds are narrow."""
        found = {"id": pa.array([f"k{self.chance.randrange(80)}" for _ in range(count)])}
        kind = KINDS[self.partition]
        folders = [value for value in kind.values if not isinstance(value, str) or value in "aAé"]
        found["p"] = self._array(kind.type, folders, count)
        for name in columns:
            found[name] = self._array(KINDS[name].type, KINDS[name].values, count)
        inner = [self._array(one.type, values, count, 0.3) for one, values in zip(STRUCT, self._inside(), strict=True)]
        found["st"] = pa.StructArray.from_arrays(
            inner, fields=list(STRUCT), mask=pa.array([self.chance.random() < 0.3 for _ in range(count)])
        )
        found["l"] = self._array(LIST, [[], [1], [1, None]], count)
        return pa.table(found)

    def _inside(self) -> list[list[Any]]:
        return [KINDS["i64"].values, KINDS["f64"].values, KINDS["s"].values]

    def _array(self, kind: pa.DataType, values: list[Any], count: int, nulls: float | None = None) -> pa.Array:
        some = self.chance.sample(values, min(len(values), self.chance.randint(1, 3)))
        share = self.chance.choice([0, 0, 0.3, 1]) if nulls is None else nulls
        chosen = [None if self.chance.random() < share else self.chance.choice(some) for _ in range(count)]
        if pa.types.is_dictionary(kind):
            return pa.array(chosen, kind.value_type).dictionary_encode()
        return pa.array(chosen, kind)

    def case(self, depth: int) -> Case:
        """A random filter, with so many levels of ``and``, ``or`` and ``not``."""
        roll = self.chance.random()
        if depth == 0 or roll < 0.3:
            return self.chance.choice(
                [self._comparison, self._comparison, self._membership, self._null, self._foreign]
            )()
        if roll < 0.5:
            return _negated(self.case(depth - 1))
        left, right = self.case(depth - 1), self.case(depth - 1)
        return _joined(left, right) if roll < 0.75 else _either(left, right)

    def _column(self) -> tuple[str, Kind]:
        name = self.chance.choice([*self.columns, "p"])
        return name, KINDS[self.partition if name == "p" else name]

    def _comparison(self) -> Case:
        name, kind = self._column()
        value = self.chance.choice(kind.values)
        symbol = self.chance.choice(["==", "!="] if name == "bool" or kind.type == pa.bool_() else list(_OPERATORS))

        def truth(row: Row) -> bool | None:
            return None if row[name] is None else _OPERATORS[symbol](row[name], value)

        expression = _OPERATORS[symbol](pc.field(name), _scalar(value, kind))
        text = None if kind.text is None or value != value else f"{name} {symbol} {kind.text(value)}"  # noqa: PLR0124
        return Case(expression, text, [[(name, symbol, _scalar(value, kind))]], truth)

    def _membership(self) -> Case:
        name, kind = self._column()
        values = self.chance.choices(kind.values, k=self.chance.randint(1, 4))
        is_text = kind.text is not None and NAN not in values and self.chance.random() < 0.6
        if kind.text is not None and is_text:
            shown = ", ".join(map(kind.text, values))
            is_negated = self.chance.random() < 0.4

            def truth(row: Row) -> bool | None:
                return None if row[name] is None else (row[name] in values) is not is_negated

            array = pa.array([*values, *_both_zeros(values)], _plain(kind))
            within = pc.field(name).isin(array)
            expression = pc.if_else(pc.field(name).is_valid(), within, pc.scalar(pa.scalar(None, pa.bool_())))
            expression = ~expression if is_negated else expression
            return Case(expression, f"{name} {'not in' if is_negated else 'in'} ({shown},)", None, truth)
        return self._membership_of_tuples(name, kind, [*values, None] if self.chance.random() < 0.3 else values)

    def _membership_of_tuples(self, name: str, kind: Kind, values: list[Any]) -> Case:
        symbol = self.chance.choice(["in", "not in"])

        def truth(row: Row) -> bool | None:
            is_inside = any(_same(row[name], value) for value in values)
            return is_inside if symbol == "in" else not is_inside

        within = pc.field(name).isin(pa.array([*values, *_both_zeros(values)], _plain(kind)))
        tuples = [[(name, symbol, pa.array(values, _plain(kind)))]]
        return Case(within if symbol == "in" else ~within, None, tuples, truth)

    def _null(self) -> Case:
        name, _ = self._column()
        if self.chance.random() < 0.5:
            return Case(pc.field(name).is_null(), f"{name} is null", None, lambda row: row[name] is None)
        return Case(pc.field(name).is_valid(), f"{name} is not null", None, lambda row: row[name] is not None)

    def _foreign(self) -> Case:
        """An expression that pyarrow alone has."""
        value = self.chance.choice(_INTS)
        text = self.chance.choice(["", "a", "é", "x" * 10, LONG])
        moment = pa.scalar(self.chance.choice(_TIMES[2:4]), pa.timestamp("ns", "UTC"))
        number = self.chance.choice(["i32", "i64", "f32", "f64", "money"])
        known = [name for name in ("i32", "f32", "f64", "s", "moment", "date", "bool") if name in self.columns]
        choices = [
            pc.field("st", "u") == value,
            pc.field("st", "u") > value,
            pc.field("st", "w") != float(value),
            pc.field("st", "w").isin([0.0, NAN]),
            pc.field("st", "v") < text,
            pc.field("st", "u").is_null(),
            pc.field("st").is_valid(),
            pc.field("l").is_null(),
            pc.field("_hoodie_record_key") < f"k{abs(value)}",
        ]
        if len(known) == 7 and number in self.columns:
            choices += [
                pc.field(number).cast(pa.float64()) > value + 0.5,
                pc.field(number) == value,
                pc.field(number) > value + 0.5,
                pc.field(number) <= value + 0.1,
                pc.scalar(value) < pc.field(number),
                pc.field("f32") >= 0.1,
                pc.field("f32") == pc.field("f64"),
                pc.field("f64").is_nan(),
                pc.field("f32").is_null(nan_is_null=True),
                pc.field("f64").isin([0.0]),
                pc.field("f64").isin([-0.0, None]),
                pc.is_in(pc.field("f32"), value_set=pa.array([NAN, None]), skip_nulls=True),
                pc.field("f64") == NAN,
                pc.field("f64") + 1 > value,
                pc.starts_with(pc.field("s"), text),
                pc.match_like(pc.field("s"), self.chance.choice(["a%", "%b", "a\\_b", "%", LONG + "%"])),
                pc.field("moment") > moment,
                pc.field("bool"),
                pc.field("date").is_valid() & pc.scalar(value=True),
            ]
        return Case(self.chance.choice(choices))


def _negated(case: Case) -> Case:
    truth = case.truth
    if truth is None:
        return Case(~case.expression)

    def opposite(row: Row) -> bool | None:
        value = truth(row)
        return None if value is None else not value

    return Case(~case.expression, None if case.text is None else f"not ({case.text})", None, opposite)


def _joined(left: Case, right: Case) -> Case:
    first, second = left.truth, right.truth
    expression = left.expression & right.expression
    if first is None or second is None:
        return Case(expression)

    def both(row: Row) -> bool | None:
        values = (first(row), second(row))
        return False if False in values else None if None in values else True

    tuples = [one + other for one in left.tuples or [] for other in right.tuples or []]
    return Case(expression, _text(left, "and", right), tuples or None, both)


def _either(left: Case, right: Case) -> Case:
    first, second = left.truth, right.truth
    expression = left.expression | right.expression
    if first is None or second is None:
        return Case(expression)

    def one_of(row: Row) -> bool | None:
        values = (first(row), second(row))
        return True if True in values else None if None in values else False

    tuples = left.tuples + right.tuples if left.tuples and right.tuples else None
    return Case(expression, _text(left, "or", right), tuples, one_of)


def _text(left: Case, word: str, right: Case) -> str | None:
    return None if left.text is None or right.text is None else f"({left.text}) {word} ({right.text})"


def _same(stored: Any, value: Any) -> bool:
    """Whether a set that holds a value holds a stored one: NaN is in a set with NaN, null in one with null."""
    return stored is value or stored == value or (value != value and stored != stored)  # noqa: PLR0124


def _both_zeros(values: list[Any]) -> list[float]:
    return [0.0, -0.0] if any(isinstance(value, float) and value == 0 for value in values) else []


def _plain(kind: Kind) -> pa.DataType:
    """The type of constants that pyarrow compares with a column."""
    plain = kind.type.value_type if pa.types.is_dictionary(kind.type) else kind.type
    others = {pa.float16(): pa.float32(), pa.date64(): pa.date32(), KINDS["zoned"].type: pa.timestamp("ms", "UTC")}
    return others.get(plain, plain)


def _scalar(value: Any, kind: Kind) -> pa.Scalar:
    return pa.scalar(value, _plain(kind))
