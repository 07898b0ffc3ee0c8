"""pyarrow expressions are understood exactly, or not at all."""

from __future__ import annotations

from functools import reduce
from itertools import product
from operator import or_

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from rli.filters.expressions import known_part
from rli.filters.predicates import Unknown

X, Y = pc.field("x"), pc.field("a", "b")


@pytest.mark.parametrize(
    "expression",
    [
        X == 5,
        pa.scalar(1.5) > Y,
        ~(X > 3) & (Y != "' and x == 5"),
        X.isin([1.0, None]),
        pc.is_in(X, value_set=pa.array([1, 2]), skip_nulls=True),
        X.is_null(nan_is_null=True),
        X.is_nan() | Y.is_null(),
        X <= Y,
        X & pc.scalar(pa.scalar(True)),
        reduce(or_, [n == X for n in range(3000)]),
    ],
)
def test_an_understood_expression_is_the_same(expression: pc.Expression) -> None:
    assert known_part(expression).expression().equals(expression)


@pytest.mark.parametrize(
    "expression",
    [
        pc.ends_with(X, "a"),
        pc.starts_with(X, "a", ignore_case=True),
        X + 1 > 2,
        X.cast(pa.int64()) == 1,
        pc.field(0) == 1,
        pc.coalesce(X, Y),
    ],
)
def test_other_functions_are_unknown(expression: pc.Expression) -> None:
    assert known_part(expression) == Unknown()


@pytest.mark.parametrize("prefix", ["a", "az", "\ud7ff", "a\U0010ffff", "\U0010ffff"])
def test_beginnings_of_strings_are_ranges(prefix: str) -> None:
    """The range holds all strings with the prefix, and no others."""
    letters = ["", "a", "b", "z", "\ud7ff", "\ue000", "\U0010ffff"]
    strings = pa.table({"x": [None, *map("".join, product(letters, repeat=3))]})
    found = known_part(pc.starts_with(X, prefix))
    expected = strings.filter(pc.starts_with(X, prefix))
    if found != Unknown():
        assert strings.filter(found.expression()) == expected
    assert (found == Unknown()) == (prefix == "\U0010ffff")


def test_deep_expressions_are_unknown() -> None:
    assert known_part(reduce(lambda inner, _: ~inner, range(2000), X == 1)) == Unknown()
