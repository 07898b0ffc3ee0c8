"""Cases in turn: ``make test`` runs a quarter of the cases of each test, for each commit another quarter.

The cases of a test are its parameters, and the classes that inherit it. Each test runs with one of its cases at least; a test with two
cases runs with one of them. ``RLI_TURN`` names the turn: a commit, as the Makefile has it. Without it all cases run. A test whose cases
have nothing in common but their form, such as one for each page, is marked ``every_case``.
"""

from __future__ import annotations

import os
import zlib
from collections import defaultdict
from typing import Final

import pytest

SHARE: Final = 4
"""Of so many cases, a turn has one."""

_NAME: Final = os.environ.get("RLI_TURN", "all")
TURN: Final = None if _NAME == "all" else int(_NAME, 16)
"""The number of the turn; None where all cases run."""


def in_turn(cases: list[str], test: str, turn: int) -> list[str]:
    """The cases of a test that have their turn.

    Args:
        cases: all of them.
        test: the test's name. Of two tests with the same cases, one begins with other cases than the other.
        turn: any number; ``SHARE`` numbers in a row have all cases.
    """
    share = min(SHARE, len(cases))
    first = (zlib.crc32(test.encode()) + turn) % share
    return cases[first::share]


@pytest.hookimpl
def pytest_report_header() -> str:
    """Say how to run the same cases again."""
    return f"cases in turn: TURN={_NAME}"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the cases whose turn it is not, of those that no option and no mark has left out."""
    if TURN is None:
        return
    cases: defaultdict[str, list[str]] = defaultdict(list)
    for item in items:
        cases[_test_of(item)].append(item.nodeid)
    kept = {case for test, all_cases in cases.items() for case in in_turn(all_cases, test, TURN)}
    left_out = [item for item in items if item.nodeid not in kept and item.get_closest_marker("every_case") is None]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        out = {*left_out}
        items[:] = [item for item in items if item not in out]


def _test_of(item: pytest.Item) -> str:
    """What the cases of a test have in common: the module and the name of the function."""
    return f"{item.nodeid.partition('::')[0]}::{getattr(item, 'originalname', item.name)}"
