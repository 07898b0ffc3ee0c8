"""Lengths of time as users write them: ``30d``, ``12h``, ``90m``, ``45s``."""

from __future__ import annotations

import re
from typing import Final

_DURATION: Final = re.compile(r"([1-9][0-9]{0,8})([smhd])")
_SECONDS_OF: Final = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
"""The longest unit first."""


def parse_duration(text: str) -> int | None:
    """Seconds; None for a text that is no length of time."""
    found = _DURATION.fullmatch(text)
    return None if found is None else int(found[1]) * _SECONDS_OF[found[2]]


def duration_string(seconds: int) -> str:
    """Seconds, of which there is at least one, in the longest unit that fits."""
    unit, length = next((unit, length) for unit, length in _SECONDS_OF.items() if seconds % length == 0)
    return f"{seconds // length}{unit}"
