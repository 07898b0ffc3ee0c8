"""Instants: the points of a table's timeline, and the text that stands for their time.

The time of an instant is ``yyyyMMddHHmmssSSS`` in the table's time zone, UTC in tables that rli makes. Such texts
order like the times they stand for. Tables of early Hudi versions hold times of 14 digits, without milliseconds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final

from rli.errors import CorruptTableError, SettingsError

_DIGITS: Final = 17
_DIGITS_WITHOUT_MILLISECONDS: Final = 14
_MILLISECOND: Final = timedelta(milliseconds=1)


class InstantState(StrEnum):
    """How far an instant got."""

    REQUESTED = "requested"
    INFLIGHT = "inflight"
    COMPLETED = "completed"


class Action(StrEnum):
    """The actions of Hudi's timeline."""

    COMMIT = "commit"
    DELTA_COMMIT = "deltacommit"
    REPLACE_COMMIT = "replacecommit"
    COMPACTION = "compaction"
    LOG_COMPACTION = "logcompaction"
    CLUSTERING = "clustering"
    CLEAN = "clean"
    ROLLBACK = "rollback"
    SAVEPOINT = "savepoint"
    RESTORE = "restore"
    INDEXING = "indexing"
    SCHEMA_COMMIT = "schemacommit"


WRITE_ACTIONS: Final = frozenset[str]({Action.COMMIT, Action.DELTA_COMMIT, Action.REPLACE_COMMIT})
"""Actions whose completed instants hold commit metadata and make base files visible."""

UNDOING_ACTIONS: Final = frozenset[str]({Action.ROLLBACK, Action.RESTORE})
"""Actions that take completed instants back."""

ACTIONS: Final = frozenset[str](Action)
"""All actions that a timeline may hold."""

_COMPLETES_AS: Final[dict[str, str]] = {
    Action.COMPACTION: Action.COMMIT,
    Action.LOG_COMPACTION: Action.DELTA_COMMIT,
    Action.CLUSTERING: Action.REPLACE_COMMIT,
}


@dataclass(frozen=True, slots=True)
class Instant:
    """One instant in one state, as a file of the timeline tells it.

    Attributes:
        time: when it was requested; unique in the table.
        action: what it does (see ``Action``).
        state: how far it got.
        completion_time: when it completed; None for pending instants, and in table version 6, which keeps none.
        file_name: in the folder of the timeline.
        size: bytes of that file.
    """

    time: str
    action: str
    state: InstantState
    completion_time: str | None
    file_name: str
    size: int

    @property
    def is_completed(self) -> bool:
        return self.state is InstantState.COMPLETED

    @property
    def completed_action(self) -> str:
        """The action of the completed instant that this one becomes: a compaction completes as a commit."""
        return completed_action(self.action)

    @property
    def is_write(self) -> bool:
        """Whether base files of this instant become visible when it completes."""
        return self.completed_action in WRITE_ACTIONS


def completed_action(action: str) -> str:
    """The action of the completed instant that a pending one becomes: a compaction completes as a commit."""
    return _COMPLETES_AS.get(action, action)


def format_instant_time(moment: datetime) -> str:
    """Time of an instant, milliseconds cut off; a naive moment is UTC."""
    utc = moment.astimezone(UTC) if moment.tzinfo else moment
    return f"{utc.year:04d}{utc:%m%d%H%M%S}{utc.microsecond // 1000:03d}"


def is_instant_time(text: str) -> bool:
    """Whether a text has the form of an instant that rli makes: 17 ASCII digits."""
    return re.fullmatch(rf"[0-9]{{{_DIGITS}}}", text) is not None


def new_instant_time(now_utc: datetime, after: str | None) -> str:
    """Time for a new instant: now, or one millisecond after ``after`` where the clock has not got past it.

    Args:
        now_utc: the clock; a naive moment is UTC.
        after: the newest instant time in use, None where there is none.

    Returns:
        17 digits, strictly greater than ``after``.

    Raises:
        CorruptTableError: ``after`` lies ahead of the clock and is no time.
    """
    now = format_instant_time(now_utc)
    if after is None or now > after:
        return now
    try:
        return format_instant_time(instant_moment(after[:_DIGITS]) + _MILLISECOND)
    except (ValueError, OverflowError) as error:
        raise CorruptTableError(
            f"the newest instant is ahead of the clock and is not a time: instant={after}",
            remedy="check the files of the timeline, this one was not written by a table writer",
        ) from error


def parse_instant_time(text: str) -> str:
    """Instant time that a user gave, as 17 digits to compare instants with.

    17 digits stand for themselves; 14 digits mean the end of that second, so that every instant within it is at or
    before the result. An ISO date or date with time means exactly that moment (a date alone: its midnight), cut to
    milliseconds; it is UTC unless it has an offset.

    Raises:
        SettingsError: the text has none of these forms.
    """
    stripped = text.strip()
    try:
        if re.fullmatch(r"\d+", stripped, re.ASCII):
            return _from_digits(stripped)
        return format_instant_time(datetime.fromisoformat(stripped))
    except (ValueError, OverflowError) as error:
        raise SettingsError(
            f"not an instant or a time: value={text!r}",
            remedy=(
                "give an instant of the timeline (17 digits: yyyyMMddHHmmssSSS), yyyyMMddHHmmss, or an ISO time such "
                "as 2024-05-31T12:00:00"
            ),
        ) from error


def _from_digits(digits: str) -> str:
    if len(digits) == _DIGITS_WITHOUT_MILLISECONDS:
        digits += "999"
    if len(digits) != _DIGITS:
        raise ValueError(digits)
    return format_instant_time(instant_moment(digits))


def instant_moment(digits: str) -> datetime:
    """The moment that 14 or 17 digits stand for, as if the table's time zone were UTC; ``ValueError`` for other texts."""
    seconds = datetime.strptime(digits[:_DIGITS_WITHOUT_MILLISECONDS], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    milliseconds = digits[_DIGITS_WITHOUT_MILLISECONDS:] or "999"
    return seconds + timedelta(milliseconds=int(milliseconds))


def instant_before(instant: str, seconds: int) -> str:
    """The instant so many seconds before another one; a text before all instants where that is no time."""
    try:
        return format_instant_time(instant_moment(instant) - timedelta(seconds=seconds))
    except (ValueError, OverflowError):
        # Some instants of Hudi's own are no times: 00000000000001.
        return ""
