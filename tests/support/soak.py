"""How many random cases the tests try: few in CI, many in ``make soak``."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from typing import Final, TypeVar

Case = TypeVar("Case")

FACTOR: Final = int(os.environ.get("RLI_SOAK", "1"))
"""How many times as many as in CI."""

EVERY_POINT: Final = FACTOR > 1
"""Whether a crash test kills at every change, not only at some."""


def cases(usual: int) -> int:
    """The number of random cases where CI tries ``usual``."""
    return usual * FACTOR


def in_ci(few: Sequence[Case], *, of: Collection[Case]) -> list[Case]:
    """The cases that CI tries, which are few, or all of them in ``make soak``.

    Args:
        few: whose code differs in what the test promises.
        of: all.
    """
    return [*few, *(case for case in of if EVERY_POINT and case not in few)]
