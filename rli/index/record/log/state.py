"""The commit log as it was read at one moment: a value that never changes, so that threads can share it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from rli.errors import CorruptIndexError
from rli.index.record.log.checkpoint import CHECKPOINT, Checkpoint
from rli.index.record.log.dictionary import Dictionary
from rli.index.record.log.limits import LogLimits
from rli.index.record.log.logged_instants import LoggedInstants
from rli.index.record.log.record import LogRecord, record_name
from rli.model import FileGroupId


@dataclass(frozen=True)
class LogState:
    """All records of a commit log up to its head: the older ones as a checkpoint, the others one by one.

    Attributes:
        base: stands for the older records.
        limits: of the log; the same in all its states.
        records: those behind it, in order.
        contents: of ``records``, as they are stored.
        head: the last commit sequence given out, 0 in an empty log.
        group_count: how many file groups have a number.
    """

    base: Checkpoint
    limits: LogLimits
    records: tuple[LogRecord, ...] = ()
    contents: tuple[bytes, ...] = ()
    head: int = 0
    group_count: int = 0
    _numbers: Mapping[FileGroupId, int] = field(default_factory=dict)
    _sequences: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def behind(cls, base: Checkpoint, limits: LogLimits) -> LogState:
        """A log that has no records but those of a checkpoint."""
        return cls(base, limits, head=base.head, group_count=base.group_count)

    def extended(self, added: Sequence[tuple[LogRecord, bytes]]) -> LogState:
        """The log with further records, each given with its content.

        Raises:
            CorruptIndexError: they do not follow.
        """
        if not added:
            return self
        records = [record for record, _ in added]
        self._require_next(records)
        groups = [group for record in records for group in record.file_groups]
        numbers = dict(zip(groups, range(self.group_count, self.group_count + len(groups)), strict=True))
        return replace(
            self,
            records=(*self.records, *records),
            contents=(*self.contents, *(content for _, content in added)),
            head=records[-1].last_sequence,
            group_count=self.group_count + len(groups),
            _numbers={**self._numbers, **numbers},
            _sequences={**self._sequences, **{time: r.first_sequence for r in records for time in r.instants}},
        )

    def folded(self, count: int) -> LogState:
        """The same log, with the first ``count`` of its records in a checkpoint that is not in the store yet."""
        base = self.base
        for start in range(0, count, self.limits.per_page):
            end = min(start + self.limits.per_page, count)
            head, groups = self.records[end - 1].last_sequence, self._first_group_behind(end)
            pairs = zip(self.records[start:end], self.contents[start:end], strict=True)
            base = base.with_records(list(pairs), head, groups)
        return self.adopting(base)

    def compacted(self, count: int) -> LogState:
        """The same log, with the first ``count`` of its records in the store's checkpoint.

        Where another process changes the checkpoint meanwhile, this log stays as it is.
        """
        folded = self.folded(count)
        published = folded.base.publish()
        return self if published is None else replace(folded, base=published)

    def adopting(self, base: Checkpoint) -> LogState:
        """The same log behind another checkpoint of it; behind its own if that stands for more records."""
        if base.head <= self.base.head:
            return replace(self, base=self.base.replacing(base))
        # It stands for records that this state has not read. Adopting it would show commits that the caller's checks
        # did not see (P18).
        if base.head > self.head:
            return self
        both = zip(self.records, self.contents, strict=True)
        behind = LogState.behind(base.sharing(self.base), self.limits)
        return behind.extended([pair for pair in both if pair[0].first_sequence > base.head])

    @property
    def end(self) -> tuple[str, bytes] | None:
        """Name and content of the control record at the end of the log: a store that has it has this log. None of an empty log."""
        if self.records:
            return record_name(self.records[-1].first_sequence), self.contents[-1]
        return (CHECKPOINT, self.base.content) if self.base.content else None

    @cached_property
    def instants(self) -> LoggedInstants:
        """Which instants of the timeline the log brings."""
        return LoggedInstants(self.base, self.records, self._sequences)

    @cached_property
    def dictionary(self) -> Dictionary:
        """What the numbers of entries mean."""
        return Dictionary(self.base, self.records, self.head, self.group_count, self._numbers)

    def records_after(self, sequence: int) -> Sequence[LogRecord]:
        """The records whose sequences are greater, in order; reads those that the checkpoint stands for."""
        if sequence < self.base.head:
            return (*self.base.records_after(sequence), *self.records)
        return self.records[bisect_right(self.records, sequence, key=lambda record: record.first_sequence) :]

    def newest_first(self) -> Iterator[LogRecord]:
        """All records, the newest first; those that the checkpoint stands for are read as far as they are asked for."""
        yield from reversed(self.records)
        yield from self.base.newest_first()

    def record_at(self, sequence: int) -> LogRecord | None:
        """The record that begins with a sequence; None if no record does."""
        if sequence <= self.base.head:
            return self.base.record_at(sequence)
        position = bisect_left(self.records, sequence, key=lambda record: record.first_sequence)
        found = self.records[position : position + 1]
        return found[0] if found and found[0].first_sequence == sequence else None

    def last_of(self, actions: frozenset[str]) -> str | None:
        """The instant of the last record with one of these actions; None without one."""
        for record in reversed(self.records):
            if record.action in actions and record.instant:
                return record.instant
        older = [(sequence, instant) for action, sequence, instant in self.base.last_of if action in actions]
        return max(older)[1] if older else None

    def _first_group_behind(self, count: int) -> int:
        last = self.records[count - 1]
        return last.first_file_group + len(last.file_groups)

    def _require_next(self, records: Sequence[LogRecord]) -> None:
        head, groups = self.head, self.group_count
        for record in records:
            if record.first_sequence != head + 1 or record.first_file_group != groups:
                raise CorruptIndexError(
                    f"the index's commit log has a gap: sequence={record.first_sequence} expected={head + 1}",
                    remedy="drop the index and bootstrap it again",
                )
            head, groups = record.last_sequence, groups + len(record.file_groups)
