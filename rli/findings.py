"""What a look at a store, an index or a table finds; each room has the looks at what it keeps, and ``rli doctor`` asks them all."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from rli.errors import IndexNotFoundError, RliError


class Verdict(StrEnum):
    """How a finding is meant."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        check: what was looked at, in a word or two.
        verdict: whether it is as it should be.
        detail: what was found.
        advice: what to do; None where nothing is to be done.

    >>> Finding("disk space", Verdict.WARNING, "free=12 MiB path=/data", "free space on this disk").verdict.value
    'warning'
    """

    check: str
    verdict: Verdict
    detail: str
    advice: str | None = None


def problem(check: str, error: RliError) -> Finding:
    """An error as a finding, with what to do."""
    advice = "run: rli index bootstrap TABLE" if isinstance(error, IndexNotFoundError) else error.remedy
    return Finding(check, Verdict.PROBLEM, error.problem, advice)
