"""Equal texts are found by their hashes."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rli.codec.distinct import are_surely_distinct
from tests.support.soak import cases

STRINGS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), max_size=30)


@settings(max_examples=cases(100))
@given(STRINGS)
def test_repeated_strings_are_never_distinct(texts: list[str]) -> None:
    assert are_surely_distinct(pa.array(texts, pa.string())) == (len(set(texts)) == len(texts))


@pytest.mark.parametrize("form", ["{}", "trip-{:09d}", "{:09d}-00000000-0000-0000-0000-000000000000", "{0:09d}{0:09d}"])
def test_regular_keys_are_told_apart(form: str) -> None:
    keys = pa.array([form.format(number) for number in range(50_000)])
    assert are_surely_distinct(keys)
    assert not are_surely_distinct(pa.concat_arrays([keys, keys.slice(7, 1)]))
