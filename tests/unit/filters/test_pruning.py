"""What bounds of columns prove."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from rli.filters.column_bounds import ColumnBounds
from rli.filters.expressions import known_part
from rli.filters.predicates import Column
from rli.filters.pruning import may_match

X = pc.field("x")


@dataclass(frozen=True)
class OneUnit:
    kind: pa.DataType
    least: Any
    greatest: Any
    may_hold_null: bool = False
    units: int = 1

    def of(self, column: Column) -> ColumnBounds | None:
        if column != ("x",):
            return None
        least, greatest = (pa.array([bound], self.kind) for bound in (self.least, self.greatest))
        return ColumnBounds(least, greatest, np.array([self.may_hold_null]), np.array([True]))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (X > 10, False),
        (X >= 10, True),
        (X < 5, False),
        (X == 11, False),
        (X != 7, True),
        (~(X <= 10), False),
        (X.isin([1, 2, 11]), False),
        (X.isin([1, 7]), True),
        (X.is_null(), False),
        ((X > 10) | (pc.field("y") == 1), True),
        ((X > 10) & (pc.field("y") == 1), False),
        (pc.scalar(pa.scalar(False)), False),
        (X + 1 > 100, True),
    ],
)
def test_a_unit_between_5_and_10(expression: pc.Expression, expected: bool) -> None:  # noqa: FBT001
    assert may_match(known_part(expression), OneUnit(pa.int64(), 5, 10)).tolist() == [expected]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (X != 5.0, True),
        (~(X == 5.0), True),
        (X > 5.0, False),
        (X.is_nan(), True),
        (X.isin([float("nan")]), True),
        (X.isin([6.0]), False),
        (pa.scalar(float("nan")) == X, False),
    ],
)
def test_bounds_do_not_speak_of_nan(expression: pc.Expression, expected: bool) -> None:  # noqa: FBT001
    assert may_match(known_part(expression), OneUnit(pa.float64(), 5.0, 5.0)).tolist() == [expected]


@pytest.mark.parametrize(
    "bounds", [OneUnit(pa.float64(), None, None), OneUnit(pa.float64(), float("nan"), float("nan"))]
)
def test_unknown_bounds_prove_nothing(bounds: OneUnit) -> None:
    for expression in (X > 1, X == 1, X.isin([1.0]), ~X.isin([1.0]), X != 1):
        assert may_match(known_part(expression), bounds).tolist() == [True]


def test_strings_cut_off_are_bounds() -> None:
    bounds = OneUnit(pa.binary(), "é".encode()[:1], b"\xff")
    assert may_match(known_part(X == "é"), bounds).tolist() == [True]
    assert may_match(known_part(X < "a"), bounds).tolist() == [False]
