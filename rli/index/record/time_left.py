"""How long a look-up waits for a commit that is in the index in part."""

from __future__ import annotations

import time
from dataclasses import dataclass

from rli.errors import IndexNotReadyError
from rli.index.record.entries.stored_entries import StoredEntries


@dataclass(frozen=True, slots=True)
class TimeLeft:
    """The time that is left to a look-up.

    Attributes:
        index: that is asked.
        timeout: seconds, in all.
        deadline: by the monotonic clock.
        advice: for a caller whose time is over.
    """

    index: StoredEntries
    timeout: float
    deadline: float
    advice: str

    @classmethod
    def of(cls, index: StoredEntries, timeout: float, advice: str) -> TimeLeft:
        """The time of a look-up that begins now."""
        return cls(index, timeout, time.monotonic() + timeout, advice)

    @property
    def seconds(self) -> float:
        """Until the deadline; 0 behind it."""
        return max(0.0, self.deadline - time.monotonic())

    def require(self) -> None:
        """Raise ``IndexNotReadyError`` behind the deadline."""
        if time.monotonic() <= self.deadline:
            return
        raise IndexNotReadyError(
            f"a commit is only partly in the index: url={self.index.url} applied "
            f"sequence={self.index.applied_sequence()} seconds={self.timeout:g}",
            remedy=self.advice,
        )
