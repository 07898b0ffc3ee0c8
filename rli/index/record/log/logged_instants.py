"""Which instants of a timeline a state of the commit log brings, and which of them it takes back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rli.index.record.log.checkpoint import Checkpoint
from rli.index.record.log.record import LogRecord


@dataclass(frozen=True)
class LoggedInstants:
    """The instants whose changes are, or are about to be, in the index.

    Attributes:
        base: knows the older ones.
        records: those behind it, in order, with the other instants.
    """

    base: Checkpoint
    records: tuple[LogRecord, ...]
    _sequences: Mapping[str, int]

    @property
    def last(self) -> str | None:
        """The greatest one."""
        known = [*self._sequences, *(page.greatest for page in self.base.pages if page.greatest)]
        return max(known, default=None)

    def __contains__(self, instant: str) -> bool:
        return self.sequence_of(instant) is not None

    def sequence_of(self, instant: str) -> int | None:
        """The first sequence of the record that brings an instant; None if no record does."""
        known = self._sequences.get(instant)
        return self.base.sequence_of(instant) if known is None else known

    def is_before(self, instant: str, sequence: int) -> bool:
        """Whether the changes of an instant come with an earlier sequence."""
        known = self.sequence_of(instant)
        return known is not None and known < sequence

    def standing(self, instants: Iterable[str]) -> list[str]:
        """Those of some instants whose changes are in the index and were not taken back, the newest first."""
        found = {time: known for time in instants if (known := self.sequence_of(time)) is not None}
        # An instant is never registered twice, so "undone somewhere behind" needs no order: once undone, it stays
        # undone.
        undone = {instant for record in self.records for instant in record.undoes}
        if found:
            undone |= self.base.undone_after(min(found.values()))
        return sorted(found.keys() - undone, key=lambda instant: (found[instant], instant), reverse=True)
