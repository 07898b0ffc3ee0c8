"""Ranges of commits by completion time, and whether the timeline can still tell all of a range."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date

from rli.errors import InstantNotFoundError, InvalidInputError
from rli.hudi.timeline.instant import Action, parse_instant_time
from rli.reads.changes.completions import CompletedWrite, Completions
from rli.view.definition import TableDefinition


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of a range.

    Attributes:
        completed: a completion time, 17 digits.
        write: the write that the caller has named by its instant; None for a time.
    """

    completed: str
    write: CompletedWrite | None = None


@dataclass(frozen=True, slots=True)
class CommitRange:
    """The commits that completed after ``since``, up to ``until``.

    Attributes:
        since: excluded; None for all commits from the first one on.
        until: included; None for all up to the last one.
        repeats_ties: whether the commits that completed at the time of ``since``, where it names none, are given again: the
            storage's times are so coarse that one of them may have been published later.
    """

    since: Bound | None
    until: Bound | None
    repeats_ties: bool = False

    @classmethod
    def of(cls, table: TableDefinition, completions: Completions, since: object, until: object) -> CommitRange:
        """The range that a caller gives.

        Args:
            table: the table.
            completions: of its timeline.
            since: an instant or a time, as text, date or datetime; None or "" for the first commit.
            until: likewise; None or "" for the last commit.

        Raises:
            InvalidInputError: one of them is neither an instant nor a time, or they are in the wrong order.
            SettingsError: a text has none of the forms of a time.
            InstantNotFoundError: one of them names a commit that was undone, or has not completed.
        """
        low, high = _bound(completions, "since", since), _bound(completions, "until", until)
        if low is not None and high is not None and high.completed < low.completed:
            raise InvalidInputError(f"the range ends before it begins: since={since} until={until}", remedy="swap them")
        is_exact = completions.timeline.layout.keeps_completion_times
        return cls(low, high, repeats_ties=not is_exact and not table.storage.is_local)

    def of_writes(self, completions: Completions) -> Iterator[CompletedWrite]:
        """The writes of the range, in the order of their completion."""
        return (write for write in completions.writes if self._holds(write))

    def _holds(self, write: CompletedWrite) -> bool:
        if self.until is not None and write.completed > self.until.completed:
            return False
        if self.since is None or write.completed > self.since.completed:
            return True
        if write.completed < self.since.completed:
            return False
        named = self.since.write
        # All of them in their order, or none: who replays one alone goes back to what it wrote.
        return self.repeats_ties if named is None else write.time > named.time


def writes_after(table: TableDefinition, since: object) -> list[CompletedWrite]:
    """The commits behind a position, in the order of their completion; ``since`` and errors as ``CommitRange.of``."""
    completions = Completions.of(table, table.load_timeline())
    return list(CommitRange.of(table, completions, since, None).of_writes(completions))


def first_writes(writes: Sequence[CompletedWrite], most: int) -> Sequence[CompletedWrite]:
    """The first of some writes: ``most`` of them, and those that completed at the time of the last one.

    A range that ends at one of several writes of one time has all of them.
    """
    if len(writes) <= most:
        return writes
    last = writes[most - 1].completed
    return [*writes[:most], *(write for write in writes[most:] if write.completed == last)]


def require_not_undone(completions: Completions, since: Bound) -> None:
    """Pass the position of a reader that cannot have seen a commit that was undone later.

    Raises:
        InstantNotFoundError: it may have seen one.
    """
    timeline = completions.timeline
    is_position = any(write.completed == since.completed for write in completions.writes)
    for undoing in timeline.undoing:
        # A rollback undoes the commit that completed last. So what was rolled back after a commit that is still there had not
        # completed before it.
        is_before = completions.time(undoing) <= since.completed
        if is_before or (is_position and undoing.action == Action.ROLLBACK):
            continue
        undone = timeline.undone_by(undoing).instants
        for time in undone:
            if time <= since.completed and time not in timeline.write_times:
                raise _undone(completions, time, since.completed)


def first_not_archived(table: TableDefinition, completions: Completions, since: Bound | None) -> CompletedWrite | None:
    """The first commit behind which all changes are on the active timeline, if ``since`` is before it; else None."""
    # The oldest instant: an archive takes no commit that completed after it, but leaves those that began after it.
    first = min(completions.timeline.unsaved_writes, key=lambda write: write.time, default=None)
    if first is None or (since is not None and since.completed >= completions.time(first)) or not table.has_archive():
        return None
    return CompletedWrite(completions.time(first), first)


def _bound(completions: Completions, name: str, given: object) -> Bound | None:
    if given is None or given == "":
        return None
    if not isinstance(given, str | date):
        raise InvalidInputError(
            f"neither an instant nor a time: {name}={given!r}", remedy="give a string, a date or a datetime"
        )
    text = given.isoformat() if isinstance(given, date) else given.strip()
    write = completions.find(text)
    if write is not None:
        return Bound(write.completed, write)
    if completions.timeline.is_undone(text):
        raise _undone(completions, text, text, name)
    if any(instant.time == text and instant.is_write for instant in completions.timeline.pending):
        raise InstantNotFoundError(
            f"the commit has not completed, or is being undone: {name}={text}",
            remedy="give a completed commit: rli timeline TABLE",
        )
    # A rollback or a clean: who has loaded the table since it completed has seen what was before.
    service = next((instant for instant in completions.timeline.completed if instant.time == text), None)
    return Bound(parse_instant_time(text) if service is None else completions.time(service))


def _undone(completions: Completions, undone: str, at: str, name: str = "since") -> InstantNotFoundError:
    before = [write.time for write in completions.writes if write.completed <= at]
    left = f"with since={before[-1]}" if before else "without since"
    return InstantNotFoundError(
        f"a commit was undone that a reader at this position may have seen: {name}={at} undone={undone}",
        remedy=f"load the table again and read its changes from there, or go on {left} if that commit was not seen",
    )
