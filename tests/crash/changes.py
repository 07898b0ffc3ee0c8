"""The changes of an operation before which CI kills; ``make soak`` kills before every one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from tests.support.soak import EVERY_POINT

_FEWEST: Final = 4
_DECISIVE: Final = re.compile(
    r"before (replace \S+|(publish|move|delete) \S+/(\d+(_\d+)?\.\w+|history/\S+))",
)
"""A file of settings is replaced; an instant completes or goes; the archive of a timeline changes."""


def changes_to_kill(points: Sequence[str], every: int) -> list[int]:
    """Numbers of points, counted from 1: each change after which a reader sees another state, and of the others each ``every``-th.

    Args:
        points: what one run of the operation reported.
        every: 1 for all changes.
    """
    numbers = [number for number, point in enumerate(points, 1) if point.startswith("before")]
    if EVERY_POINT:
        return numbers
    decisive = {number for number in numbers if _DECISIVE.fullmatch(points[number - 1])}
    chosen = sorted({*numbers[::every], *decisive})
    inside = [number for number in chosen[1:] if not points[number - 1].endswith(" lease")]
    assert decisive, "none of the changes after which a reader sees another state was recognised"
    assert len(inside) >= _FEWEST, "kills before the first change and at the lease alone show nothing"
    return chosen
