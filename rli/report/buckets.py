"""Commits in groups, so that a chart of any number of commits has a bounded number of bars."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from rli.hudi.timeline.instant import instant_moment
from rli.report.facts import Commit

_MOST: Final = 60
_DAY: Final = timedelta(days=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Bucket:
    """Consecutive commits.

    Attributes:
        label: when they completed, in UTC.
        commits: may be empty.
    """

    label: str
    commits: tuple[Commit, ...]

    def sum(self, of: Callable[[Commit], float | None]) -> float:
        """A sum over the commits; what is not known counts as 0."""
        return sum(of(commit) or 0 for commit in self.commits)

    def last(self, of: Callable[[Commit], int | None]) -> int | None:
        """The last known value; None if there is none."""
        return next((value for commit in reversed(self.commits) if (value := of(commit)) is not None), None)


def bucketed(commits: Sequence[Commit], most: int = _MOST) -> list[Bucket]:
    """A bucket for each commit, or for equal times if there are more commits than ``most``.

    Args:
        commits: in their order.
        most: buckets.
    """
    moments = _moments(commits)
    if not moments:
        return []
    span = max(moments) - min(moments)
    if len(commits) <= most or not span:
        shown = [*zip(moments, commits, strict=True)][-most:]
        return [Bucket(_label(moment, span), (commit,)) for moment, commit in shown]
    begin, width = min(moments), span / most
    inside: list[list[Commit]] = [[] for _ in range(most)]
    for moment, commit in zip(moments, commits, strict=True):
        inside[min(most - 1, int((moment - begin) / width))].append(commit)
    return [Bucket(_label(begin + width * number, span), tuple(some)) for number, some in enumerate(inside)]


def _moments(commits: Sequence[Commit]) -> list[datetime]:
    """When each commit completed; an instant of Hudi's own that is no time gets the time of its neighbour."""
    found, latest = [], None
    for commit in commits:
        with suppress(ValueError, OverflowError):
            latest = instant_moment(commit.entry.completion_time or commit.entry.time)
        found.append(latest)
    first = next((moment for moment in found if moment is not None), _EPOCH)
    return [moment or first for moment in found]


def _label(moment: datetime, span: timedelta) -> str:
    return f"{moment:%Y-%m-%d %H:%M}" if span > _DAY else f"{moment:%m-%d %H:%M:%S}"
