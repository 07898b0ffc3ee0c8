"""How many random cases the tests try: few in CI, many in ``make soak``."""

from __future__ import annotations

import os
from typing import Final

FACTOR: Final = int(os.environ.get("RLI_SOAK", "1"))
"""How many times as many as in CI."""

EVERY_POINT: Final = FACTOR > 1
"""Whether a crash test kills at every change, not only at some."""


def cases(usual: int) -> int:
    """The number of random cases where CI tries ``usual``."""
    return usual * FACTOR
