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

_COUNTED: Final = ("inserted", "updated", "moved", "deleted", "unchanged")
_COUNTED_SINCE: Final = ("duplicates",)
"""What commits of earlier versions do not tell."""


@dataclass(frozen=True, slots=True)
class CommitFacts:
    """Facts of a write. What a commit does not tell, or tells in a damaged entry, is None or empty.

    Attributes:
        counts: rows, by the names of ``WriteCounts``; commits of earlier versions do not count duplicates.
        writer: user and host.
        seconds: from the begin of the write to its publication.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    writer: str | None = None
    seconds: float | None = None

    @classmethod
    def of_write(cls, counts: WriteCounts, began: str, now: datetime) -> Self:
        """The facts of a write of this process.

        Args:
            counts: what became of the records.
            began: the write's instant.
            now: by the clock that the table's instants are taken from.
        """
        seconds = (now.replace(tzinfo=UTC) - instant_moment(began)).total_seconds()
        return cls(asdict(counts), _this_writer(), max(0.0, seconds))

    @classmethod
    def of_entries(cls, entries: Mapping[str, str]) -> Self:
        """The facts that a commit's extra metadata tells."""
        seconds = None
        with suppress(KeyError, ValueError):
            seconds = float(entries[_SECONDS])
        return cls(_counts_of(entries), entries.get(_WRITER), seconds)

    @property
    def entries(self) -> dict[str, str]:
        """As a commit's extra metadata keeps them."""
        told = {_COUNTS: json.dumps(self.counts)} if self.counts else {}
        if self.writer is not None:
            told[_WRITER] = self.writer
        if self.seconds is not None:
            told[_SECONDS] = f"{self.seconds:.3f}"
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
