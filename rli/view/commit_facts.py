"""What a commit of rli tells of its write beyond Hudi's fields: its rows, who wrote it, and how long it took."""

from __future__ import annotations

import getpass
import json
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Final, Self

from rli.hudi.timeline.instant import instant_moment
from rli.model import WriteCounts

_COUNTS: Final = "rli.counts"
_WRITER: Final = "rli.writer"
_SECONDS: Final = "rli.seconds"
_EFFORT: Final = "rli.effort"

_COUNTED: Final = ("inserted", "updated", "moved", "deleted", "unchanged")
_COUNTED_SINCE: Final = ("duplicates",)
"""What commits of earlier versions do not tell."""


@dataclass(frozen=True, slots=True)
class WriteEffort:
    """What a write took until it was published.

    Attributes:
        attempts: how often it was tried.
        conflicts: how many of the attempts lost against other writers.
        phases: seconds by ``Phase``, up to the lease: the publication and all that follows are still to come when a commit is
            formed. Earlier attempts are in ``retries``.
    """

    attempts: int
    conflicts: int
    phases: Mapping[str, float]

    def to_string(self) -> str:
        """As a commit's extra metadata keeps it."""
        seconds = {phase: round(taken, 3) for phase, taken in self.phases.items()}
        return json.dumps({"attempts": self.attempts, "conflicts": self.conflicts, "seconds": seconds})

    @classmethod
    def from_string(cls, text: str | None) -> WriteEffort | None:
        """What a commit tells; None if it tells nothing, or the entry is damaged."""
        with suppress(ValueError, KeyError, TypeError, AttributeError):
            told = json.loads(text or "")
            phases = {str(phase): float(seconds) for phase, seconds in told["seconds"].items()}
            return cls(int(told["attempts"]), int(told["conflicts"]), phases)
        return None


@dataclass(frozen=True, slots=True)
class CommitFacts:
    """Facts of a write. What a commit does not tell, or tells in a damaged entry, is None or empty.

    Attributes:
        counts: rows, by the names of ``WriteCounts``; commits of earlier versions do not count duplicates.
        writer: user and host.
        seconds: from the begin of the write to its publication.
        effort: attempts, conflicts and phases; commits of earlier versions do not tell.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    writer: str | None = None
    seconds: float | None = None
    effort: WriteEffort | None = None

    @classmethod
    def of_write(cls, counts: WriteCounts, effort: WriteEffort, began: str, now: datetime) -> Self:
        """The facts of a write of this process.

        Args:
            counts: what became of the records.
            effort: of the write so far.
            began: the write's instant.
            now: by the clock that the table's instants are taken from.
        """
        seconds = (now.replace(tzinfo=UTC) - instant_moment(began)).total_seconds()
        return cls(asdict(counts), _this_writer(), max(0.0, seconds), effort)

    @classmethod
    def of_entries(cls, entries: Mapping[str, str]) -> Self:
        """The facts that a commit's extra metadata tells."""
        seconds = None
        with suppress(KeyError, ValueError):
            seconds = float(entries[_SECONDS])
        return cls(_counts_of(entries), entries.get(_WRITER), seconds, WriteEffort.from_string(entries.get(_EFFORT)))

    @property
    def entries(self) -> dict[str, str]:
        """As a commit's extra metadata keeps them."""
        told = {_COUNTS: json.dumps(self.counts)} if self.counts else {}
        if self.writer is not None:
            told[_WRITER] = self.writer
        if self.seconds is not None:
            told[_SECONDS] = f"{self.seconds:.3f}"
        if self.effort is not None:
            told[_EFFORT] = self.effort.to_string()
        return told


def _counts_of(entries: Mapping[str, str]) -> dict[str, int]:
    # A damaged entry must not keep the rest of a history from being shown.
    with suppress(ValueError, KeyError, TypeError):
        told = json.loads(entries[_COUNTS])
        names = (*_COUNTED, *(name for name in _COUNTED_SINCE if name in told))
        return {name: int(told[name]) for name in names}
    return {}


def _this_writer() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError, ImportError):
        # A container may run under a number that has no name.
        user = "unknown"
    return f"{user}@{socket.gethostname()}"
