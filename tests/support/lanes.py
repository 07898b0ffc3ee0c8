"""Which cases of a test of Spark run on each line of PySpark, and which on PySpark 3.5 alone.

What Spark calls and how Spark plans differ between the lines, so each verb, the data source, streams and workers have a case on
both. What rli does with an index of some kind, in the driver, in a conflict or in a repeat does not: such cases run on one line, as do
tests marked ``one_spark``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest


def first_on_every_spark(cases: Sequence[Any], count: int = 1) -> list[Any]:
    """Parameters of a test: the first cases run on each line of PySpark, the others on PySpark 3.5 alone.

    Args:
        cases: a value each, or a tuple of values.
        count: how many are the first.
    """
    others = [case if isinstance(case, tuple) else (case,) for case in cases[count:]]
    return [*cases[:count], *(pytest.param(*values, marks=pytest.mark.one_spark) for values in others)]
