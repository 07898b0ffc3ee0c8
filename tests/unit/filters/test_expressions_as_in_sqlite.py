"""Random expressions have the values that SQLite computes, null and all."""

from __future__ import annotations

import sqlite3
from typing import Any, Final

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from rli.filters.filter import Filter
from rli.filters.value_expression import ValueExpression
from tests.support.soak import cases

COLUMNS: Final = pa.schema([("a", pa.int64()), ("b", pa.int32()), ("s", pa.string()), ("t", pa.string())])
ROWS: Final = st.lists(
    st.tuples(
        st.none() | st.integers(-3, 3),
        st.none() | st.integers(-3, 3),
        st.none() | st.sampled_from(["", "a", "ab", "a%", "A_b", "é"]),
        st.none() | st.sampled_from(["", "a", "b", "%"]),
    ),
    min_size=1,
    max_size=6,
)
LEAF_NUMBERS: Final = st.sampled_from(["a", "b", "0", "2", "-1"])
LEAF_STRINGS: Final = st.sampled_from(["s", "t", "''", "'a'", "'a_b'"])


def numbers(depth: int) -> st.SearchStrategy[str]:
    if depth == 0:
        return LEAF_NUMBERS
    one, text, truth = numbers(depth - 1), strings(depth - 1), truths(depth - 1)
    return st.one_of(
        LEAF_NUMBERS,
        st.tuples(one, st.sampled_from("+-*%"), one).map(lambda parts: f"({' '.join(parts)})"),
        one.map("(- {})".format),
        one.map("abs({})".format),
        text.map("length({})".format),
        st.tuples(one, one).map(lambda parts: f"coalesce({parts[0]}, {parts[1]})"),
        st.tuples(one, one).map(lambda parts: f"nullif({parts[0]}, {parts[1]})"),
        st.tuples(truth, one, one).map(lambda parts: "case when {} then {} else {} end".format(*parts)),
        st.tuples(truth, one, truth, one).map(lambda parts: "case when {} then {} when {} then {} end".format(*parts)),
    )


def strings(depth: int) -> st.SearchStrategy[str]:
    if depth == 0:
        return LEAF_STRINGS
    one, truth = strings(depth - 1), truths(depth - 1)
    return st.one_of(
        LEAF_STRINGS,
        st.tuples(one, one).map(lambda parts: f"({parts[0]} || {parts[1]})"),
        st.tuples(one, st.integers(1, 3), st.integers(0, 2)).map(lambda parts: "substr({}, {}, {})".format(*parts)),
        one.map("trim({})".format),
        st.tuples(truth, one, one).map(lambda parts: "case when {} then {} else {} end".format(*parts)),
    )


def truths(depth: int) -> st.SearchStrategy[str]:
    number, text = numbers(max(depth - 1, 0)), strings(max(depth - 1, 0))
    leaves = st.one_of(
        st.tuples(number, st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">="]), number).map(
            lambda parts: f"({' '.join(parts)})"
        ),
        st.tuples(text, st.sampled_from(["=", "<", ">="]), text).map(lambda parts: f"({' '.join(parts)})"),
        number.map("({} is null)".format),
        text.map("({} is not null)".format),
        st.tuples(number, st.sampled_from(["in", "not in"]), LEAF_NUMBERS, number).map(
            lambda parts: "({} {} ({}, {}, 7))".format(*parts)
        ),
        st.tuples(number, number, number).map(lambda parts: "({} between {} and {})".format(*parts)),
        st.tuples(text, st.sampled_from(["a%", "%b", "_", "a!%", "", "%", "A!_b"])).map(
            lambda parts: f"({parts[0]} like '{parts[1]}' escape '!')"
        ),
    )
    if depth == 0:
        return leaves
    one = truths(depth - 1)
    return st.one_of(
        leaves,
        one.map("(not {})".format),
        st.tuples(one, st.sampled_from(["and", "or"]), one).map(lambda parts: f"({' '.join(parts)})"),
    )


@settings(max_examples=cases(100), deadline=None)
@given(rows=ROWS, expression=st.one_of(numbers(3), strings(3), truths(3)))
def test_values_as_in_sqlite(rows: list[tuple[Any, ...]], expression: str) -> None:
    found = ValueExpression.of(expression, COLUMNS).of_table(table_of(rows)).to_pylist()
    # SQLite has numbers for true and false.
    assert [int(value) if isinstance(value, bool) else value for value in found] == asked(rows, expression)


@settings(max_examples=cases(100), deadline=None)
@given(rows=ROWS, condition=truths(3))
def test_filters_as_in_sqlite(rows: list[tuple[Any, ...]], condition: str) -> None:
    passes = Filter.of(condition, COLUMNS)
    assert passes is not None
    expected = [value == 1 for value in asked(rows, condition)]
    assert passes.mask(table_of(rows)).to_pylist() == expected
    opposite = Filter.of(f"not {condition}", COLUMNS)
    assert opposite is not None
    assert opposite.mask(table_of(rows)).to_pylist() == [value == 0 for value in asked(rows, condition)]


def table_of(rows: list[tuple[Any, ...]]) -> pa.Table:
    return pa.table([list(column) for column in zip(*rows, strict=True)], schema=COLUMNS)


def asked(rows: list[tuple[Any, ...]], expression: str) -> list[Any]:
    with sqlite3.connect(":memory:") as database:
        database.execute("pragma case_sensitive_like = on")
        database.execute("create table r (a integer, b integer, s text, t text)")
        database.executemany("insert into r values (?, ?, ?, ?)", rows)
        found = [value for (value,) in database.execute(f"select {expression} from r order by rowid")]  # noqa: S608
    database.close()
    return found
