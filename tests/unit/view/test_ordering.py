"""Ordering values compare as in Java."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from rli.view.merging.ordering import comparable, is_at_least


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_numbers_compare_as_in_java(kind: pa.DataType) -> None:
    inf = float("inf")
    rising = comparable(pa.array([-inf, -1.5, -0.0, 0.0, 1.5, inf, float("nan")], kind))
    for number in range(1, len(rising)):
        assert is_at_least(rising[number:], rising[number - 1 : -1]).all()
        assert not is_at_least(rising[number - 1 : -1], rising[number:]).any()


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_every_nan_is_greatest(kind: type[np.floating]) -> None:
    nan = kind("nan")
    values = comparable(pa.array(np.array([kind("inf"), -nan, nan], kind)))
    assert is_at_least(values[1:], values[:-1]).all()
    assert not is_at_least(values[:1], values[1:2]).any()
    assert is_at_least(values[1:2], values[2:]).all()
