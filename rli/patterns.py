"""Regular expressions of settings, matched in time linear in the text.

Settings come with tables, also with other people's, and Python's own matcher may backtrack for ever. These are RE2's: they have
no look-around and no references to groups.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

_REMEMBERED: Final = 65_536


def require_pattern(pattern: str) -> None:
    """Raise ``ValueError`` for a text that is no regular expression of RE2, or that Python does not know as one.

    >>> require_pattern("day=2026-11-.*")
    """
    try:
        # RE2 takes some mistakes, such as too many repetitions, for letters.
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(str(error)) from error
    finds(pattern, "")


@lru_cache(_REMEMBERED)
def finds(pattern: str, text: str) -> bool:
    """Whether a pattern fits a part of a text.

    >>> finds("^b+$", "bbb"), finds("b", "abc")
    (True, True)
    """
    found: bool = pc.match_substring_regex(pa.array([text], pa.string()), pattern)[0].as_py()
    return found


def fits(pattern: str, text: str) -> bool:
    """Whether a pattern fits a whole text.

    >>> fits("b|abc", "abc"), fits("b", "abc")
    (True, False)
    """
    return finds(rf"\A(?:{pattern})\z", text)
