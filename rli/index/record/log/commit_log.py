"""The commit log: what gives an index's small numbers their meaning.

Every commit that the index knows is one record of the log, a control record named ``commit/<sequence>``, added by
compare-and-set at the log's head. A record owns one or more commit sequences and introduces the file groups that
no earlier record named, numbered on from the last. So sequences and file-group numbers are given out once, in one
atomic step, also in a race; and the log read from its start is both dictionaries of the index. Checkpoints
(``rli.index.record.log.checkpoint``) save readers that.

A record of a table's commit repeats nothing that the timeline says. A record of a transaction on the index alone
is the commit itself: the log is its timeline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias, TypeVar

from rli.codec.entries import MAX_FILE_GROUP, MAX_SEQUENCE
from rli.errors import SettingsError
from rli.index.record.log.checkpoint import Checkpoint
from rli.index.record.log.limits import DEFAULT_LIMITS, LogLimits
from rli.index.record.log.record import LogRecord, RecordDraft, block_of, record_name, sequence_of
from rli.index.record.log.state import LogState
from rli.store.contract import Store

Beside = TypeVar("Beside")

_Reading: TypeAlias = Callable[[Sequence[str]], tuple[Beside, list[bytes | None]]]
"""Reads something, and some control records."""


class CommitLog:
    """The commit log of one index, read once and then only where it has grown.

    Threads may share it (P18): what it keeps is one immutable ``LogState``, replaced as a whole. Each caller works on
    the state that its own call returned; another thread may have replaced the kept one since.

    Args:
        store: of the index.
        limits: what is held record by record; tests set smaller ones.
    """

    def __init__(self, store: Store, limits: LogLimits = DEFAULT_LIMITS) -> None:
        self.store = store
        self._limits = limits
        self._state = self._nothing = LogState.behind(Checkpoint(store), limits)
        self._setbacks = store.setbacks

    @property
    def last_read(self) -> LogState:
        """The log as some call read it last; empty before the first ``refresh``."""
        return self._state

    @property
    def is_doubtful(self) -> bool:
        """Whether the store may have lost records since they were read, and may have others in their place (P25)."""
        return self.store.setbacks != self._setbacks

    def refresh(self) -> LogState:
        """Read what was appended since the last call; all of it where the store went back to an earlier state."""
        return self._refresh(lambda names: (None, self.store.read_controls(names)))[1]

    def refresh_with_applied(self) -> tuple[int | None, LogState]:
        """The store's ``applied_sequence``, and what ``refresh`` gives. A log that has not grown takes no further request.

        They need not be of one moment.
        """
        return self._refresh(self.store.applied_beside)

    def _refresh(self, read: _Reading[Beside]) -> tuple[Beside, LogState]:
        # Counted before the reading. A loss that the reading itself notices then counts as a difference at the next
        # call.
        setbacks = self.store.setbacks
        beside, state = self._read_on(self._nothing if self.is_doubtful else self._state, read)
        self._state, self._setbacks = state, setbacks
        return beside, state

    def append(self, after: LogState, draft: RecordDraft) -> LogState | None:
        """Add a record right behind a state of the log.

        Args:
            after: the state that the caller decided on.
            draft: of the record; file groups that have a number keep it.

        Returns:
            The log with the record at its end, or None when another writer appended first: refresh, check again, and
            call again.
        """
        named = list(dict.fromkeys(draft.file_groups))
        known = after.dictionary.numbers_of(named)
        introduced = tuple(group for group in named if group not in known)
        # All numbers follow from ``after``, not from a newer state of this process: the append fails if anything came
        # in between, and the caller decides again (P18).
        record = LogRecord.of(draft, after.head + 1, after.group_count, introduced)
        _require_numbers_left(record)
        content = record.to_json()
        if not self._try_append(record, content):
            return None
        state = after.extended([(record, content)])
        # Another thread may have read a log that went back and has another record here (P25): that one is kept.
        if self._state is after:
            self._state = self._compacted(state)
        return state

    def _read_on(self, known: LogState, read: _Reading[Beside]) -> tuple[Beside, LogState]:
        if known.end is None:
            log = self._read_anew(known)
            return read([])[0], log
        # What was known last is read again: a server that lost it may have been given something else since.
        end, content = known.end
        beside, (found, following) = read([end, record_name(known.head + 1)])
        # By its bytes. A number alone proves nothing: a server that went back has given it out again (P25).
        if found != content:
            return beside, self._read_anew(self._nothing if known.records else known)
        # Records are numbered without gaps: if the next one is absent, the log has not grown.
        log = known if following is None else self._read_behind(known)
        # Other processes write checkpoints; what is kept here stays small by them, too.
        is_long = len(log.records) > 3 * self._limits.read_singly
        return beside, log.adopting(Checkpoint.read(self.store)) if is_long else log

    def _read_anew(self, known: LogState) -> LogState:
        return self._read_behind(LogState.behind(Checkpoint.read(self.store).sharing(known.base), self._limits))

    def _read_behind(self, known: LogState) -> LogState:
        """The log with all further records."""
        start = known.head + 1
        while known.head + 1 == start or block_of(known.head + 1) != block_of(start):
            start = known.head + 1
            found = self._read_block(start)
            known = known.extended(_parsed(found))
            if len(known.records) > self._limits.held:
                # A log without a checkpoint, of an older version. The next append writes one.
                known = known.folded(len(known.records) - self._limits.read_singly)
            if not found:
                break
        return known

    def _read_block(self, start: int) -> list[tuple[str, bytes]]:
        """The records from a sequence to the end of its block."""
        return self.store.scan_control(block_of(start), start=record_name(start))

    def _compacted(self, log: LogState) -> LogState:
        """The same log, with its older records in a new checkpoint if there have come to be many of them (P23)."""
        if sum(len(record.file_groups) for record in log.records) > self._limits.groups_read_singly:
            return log.compacted(len(log.records))
        singly = self._limits.read_singly
        is_long = len(log.records) >= 2 * singly or bool(log.base.unwritten)
        return log.compacted(len(log.records) - singly) if is_long else log

    def _try_append(self, record: LogRecord, content: bytes) -> bool:
        """Put a record at the end of the log, if nobody else has put one there."""
        name = record_name(record.first_sequence)
        # The name is the next sequence, so "absent" means "right behind ``after``": one comparison is both the lock and
        # the counter.
        if self.store.compare_and_set(name, None, content):
            return True
        # The answer to an earlier attempt of ours may have been lost on the way. A record of the same writer may still
        # be another one: two processes that register what they find of another engine's commits may have found
        # different ones.
        stored = self.store.read_control(name)
        return stored is not None and LogRecord.from_json(record.first_sequence, stored) == record


def _parsed(found: Iterable[tuple[str, bytes]]) -> list[tuple[LogRecord, bytes]]:
    return [(LogRecord.from_json(sequence_of(name), content), content) for name, content in found]


def _require_numbers_left(record: LogRecord) -> None:
    groups = record.first_file_group + len(record.file_groups)
    if record.last_sequence > MAX_SEQUENCE or groups > MAX_FILE_GROUP:
        raise SettingsError(
            f"the index has given out all its numbers: sequence={record.last_sequence} file groups={groups}",
            remedy="bootstrap a new index",
        )
