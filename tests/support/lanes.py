"""Which tests run where: cases of Spark on each line of PySpark or on PySpark 3.5 alone, and the quick tests on which Python.

What Spark calls and how Spark plans differ between the lines, so each verb, the data source, streams and workers have a case on
both. What rli does with an index of some kind, in the driver, in a conflict or in a repeat does not: such cases run on one line, as do
tests marked ``one_spark``.

The quick tests run with all others, on PySpark's Python. Where the unit lane runs them at the same time on another version
(``.ci/run``), they run there alone: PySpark's Python runs the same code in the tests of tables.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any, Final

import pytest

from tests.support.soak import EVERY_POINT

_UNIT_LANE_IS_BESIDE: Final = os.environ.get("RLI_UNIT_LANE") == "beside"
_OF_UNIT_LANE: Final = re.compile(r"tests/(index|unit)/")
_NOT_OF_UNIT_LANE: Final = frozenset({"spark", "hudi", "docker", "crash", "slow"})


@pytest.hookimpl
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what runs elsewhere: in ``make soak``, or in the unit lane beside."""
    left_out = {item for item in items if _runs_elsewhere(item)}
    if left_out:
        config.hook.pytest_deselected(items=[*left_out])
        items[:] = [item for item in items if item not in left_out]


def _runs_elsewhere(item: pytest.Item) -> bool:
    marks = {mark.name for mark in item.iter_markers()}
    # As QUICK_TESTS of the Makefile selects them.
    is_quick = _OF_UNIT_LANE.match(item.nodeid) is not None and not marks & _NOT_OF_UNIT_LANE
    return ("soak" in marks and not EVERY_POINT) or (is_quick and _UNIT_LANE_IS_BESIDE)


def first_on_every_spark(cases: Sequence[Any], count: int = 1) -> list[Any]:
    """Parameters of a test: the first cases run on each line of PySpark, the others on PySpark 3.5 alone.

    Args:
        cases: a value each, or a tuple of values.
        count: how many are the first.
    """
    others = [case if isinstance(case, tuple) else (case,) for case in cases[count:]]
    return [*cases[:count], *(pytest.param(*values, marks=pytest.mark.one_spark) for values in others)]
