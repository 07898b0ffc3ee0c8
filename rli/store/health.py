"""What a store can tell of its own health; for ``rli doctor``."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable


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


@runtime_checkable
class SupportsHealth(Protocol):
    """A store that knows what may be wrong with it, beyond what reading and writing show."""

    def health(self) -> list[Finding]:
        """Look at the store's settings, room and surroundings; changes nothing.

        Raises:
            StoreUnavailableError: the store does not answer.
        """
        ...
