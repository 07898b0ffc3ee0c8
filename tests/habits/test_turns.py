"""The cases that ``make test`` leaves to other commits have their turn."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.support.turns import SHARE, in_turn

_CASES = st.lists(st.text(), min_size=1, unique=True)


@given(cases=_CASES, test=st.text(), turn=st.integers(0, 2**32))
def test_turns_have_all_cases(cases: list[str], test: str, turn: int) -> None:
    kept = [in_turn(cases, test, turn + number) for number in range(SHARE)]
    assert {case for some in kept for case in some} == {*cases}


@given(cases=_CASES, test=st.text(), turn=st.integers(0, 2**32))
def test_each_turn_has_a_case(cases: list[str], test: str, turn: int) -> None:
    assert 1 <= len(in_turn(cases, test, turn)) <= -(-len(cases) // min(SHARE, len(cases)))
