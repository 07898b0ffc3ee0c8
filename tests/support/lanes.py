"""Which tests run where: cases of Spark on each line of PySpark or on PySpark 3.5 alone, and the quick tests on which Python.

What Spark calls and how Spark plans differ between the lines, so each verb, the data source, streams and workers have a case on
both. What rli does with an index of some kind, in the driver, in a conflict or in a repeat does not: such cases run on one line, as do
tests marked ``one_spark``. Where cases have their turn (``tests.support.turns``), a test that belongs on both lines runs on one of them,
in turn, too.

The quick tests run with all others, on PySpark's Python. Where the unit lane runs them at the same time on another version
(``.ci/run``), they run there alone: PySpark's Python runs the same code in the tests of tables.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

import pytest

from tests.support.soak import EVERY_POINT
from tests.support.turns import SHARE, TURN

_UNIT_LANE_IS_BESIDE: Final = os.environ.get("RLI_UNIT_LANE") == "beside"
_OF_UNIT_LANE: Final = re.compile(r"tests/(index|unit)/")
_NOT_OF_UNIT_LANE: Final = frozenset({"spark", "hudi", "docker", "crash", "slow"})

_ON_BOTH_LINES: Final = re.compile(r"tests/(docs|spark)/")
_NOT_ON_BOTH_LINES: Final = frozenset({"hudi", "one_spark", "skip_allowed"})


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
    is_in_soak = "soak" in marks and not EVERY_POINT
    return is_in_soak or (is_quick and _UNIT_LANE_IS_BESIDE) or _has_turn_on_other_spark(item, marks)


def _has_turn_on_other_spark(item: pytest.Item, marks: set[str]) -> bool:
    # As the lane of PySpark 4 selects them in the Makefile.
    is_on_both = _ON_BOTH_LINES.match(item.nodeid) is not None and "spark" in marks and not marks & _NOT_ON_BOTH_LINES
    if TURN is None or not is_on_both:
        return False
    # The quotient makes all cases of a test meet both lines.
    is_on_newer = (zlib.crc32(item.nodeid.encode()) + TURN // SHARE) % 2 == 0
    return is_on_newer != _is_newer_spark()


def _is_newer_spark() -> bool:
    try:
        return int(version("pyspark").partition(".")[0]) >= 4
    except PackageNotFoundError:
        return False


def first_on_every_spark(cases: Sequence[Any], count: int = 1) -> list[Any]:
    """Parameters of a test: the first cases run on each line of PySpark, the others on PySpark 3.5 alone.

    Args:
        cases: a value each, or a tuple of values.
        count: how many are the first.
    """
    others = [case if isinstance(case, tuple) else (case,) for case in cases[count:]]
    return [*cases[:count], *(pytest.param(*values, marks=pytest.mark.one_spark) for values in others)]
