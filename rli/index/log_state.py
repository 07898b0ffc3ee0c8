"""The commit log as it was read at one moment: a value that never changes, so that threads can share it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from rli.codec import entries as codec
from rli.codec.entries import Entries
from rli.errors import CorruptIndexError
from rli.index.log_record import LogRecord
from rli.index.names import Names, names_of
from rli.model import FileGroupId


@dataclass(frozen=True)
class LogState:
    """All records of a commit log up to its head.

    Attributes:
        records: in order.
        last: content of the last record; empty in an empty log.
        head: the last commit sequence given out, 0 in an empty log.
        group_count: how many file groups have a number.
    """

    records: tuple[LogRecord, ...] = ()
    last: bytes = b""
    head: int = 0
    group_count: int = 0
    _numbers: Mapping[FileGroupId, int] = field(default_factory=dict)
    _instants: Mapping[str, LogRecord] = field(default_factory=dict)
    _undone: frozenset[str] = frozenset()

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
            last=added[-1][1],
            head=records[-1].last_sequence,
            group_count=self.group_count + len(groups),
            _numbers={**self._numbers, **numbers},
            _instants={**self._instants, **{instant: record for record in records for instant in record.instants}},
            _undone=self._undone.union(*(record.undoes for record in records)),
        )

    @property
    def last_instant(self) -> str | None:
        """The greatest instant that the log names."""
        return max(self._instants, default=None)

    def knows(self, instant: str) -> bool:
        """Whether the changes of an instant are, or are about to be, in the index."""
        return instant in self._instants

    def knows_before(self, instant: str, sequence: int) -> bool:
        """Whether the changes of an instant come with an earlier sequence."""
        record = self._instants.get(instant)
        return record is not None and record.first_sequence < sequence

    def standing(self, instants: Iterable[str]) -> list[str]:
        """Those of some instants whose changes are in the index and were not taken back, the newest first."""
        found = {instant for instant in instants if instant in self._instants} - self._undone
        return sorted(found, key=lambda instant: (self._instants[instant].first_sequence, instant), reverse=True)

    def records_after(self, sequence: int) -> Sequence[LogRecord]:
        """The records whose sequences are greater, in order."""
        return self.records[bisect_right(self.records, sequence, key=lambda record: record.first_sequence) :]

    def last_of(self, actions: frozenset[str]) -> str | None:
        """The instant of the last record with one of these actions; None without one."""
        return next((r.instant for r in reversed(self.records) if r.action in actions and r.instant), None)

    def number_of(self, group: FileGroupId) -> int | None:
        """The number of a file group; None if no record introduced it."""
        return self._numbers.get(group)

    def knows_all(self, entries: Entries) -> bool:
        """Whether the log gave out all numbers of the entries."""
        if not len(entries):
            return True
        # A tombstone names no file group, but a commit like any other entry.
        live = codec.is_live(entries)
        return bool(
            codec.sequences(entries).max() <= self.head
            and (not live.any() or codec.file_groups(entries[live]).max() < self.group_count)
        )

    def instants_of(self, sequences: np.ndarray) -> pa.StringArray:
        """The instant that look-ups report for each commit sequence (shape (n,), 1 or more)."""
        return names_of(sequences, [(1, lambda: self._names.instants)])

    def groups_of(self, numbers: np.ndarray) -> tuple[pa.StringArray, pa.StringArray]:
        """Partition path and file id of each file-group number (shape (n,))."""
        return (
            names_of(numbers, [(0, lambda: self._names.partition_paths)]),
            names_of(numbers, [(0, lambda: self._names.file_ids)]),
        )

    @cached_property
    def _names(self) -> Names:
        return Names.of(self.records)

    def _require_next(self, records: Sequence[LogRecord]) -> None:
        head, groups = self.head, self.group_count
        for record in records:
            if record.first_sequence != head + 1 or record.first_file_group != groups:
                raise CorruptIndexError(
                    f"the index's commit log has a gap: sequence={record.first_sequence} expected={head + 1}; "
                    "bootstrap the index again"
                )
            head, groups = record.last_sequence, groups + len(record.file_groups)
