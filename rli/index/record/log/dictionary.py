"""What the numbers of entries mean, as a state of the commit log says it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any

import pyarrow as pa
from numpy.typing import NDArray

from rli.codec import entries as codec
from rli.codec.entries import Entries
from rli.index.record.log.checkpoint import Checkpoint
from rli.index.record.log.names import Names, names_of
from rli.index.record.log.record import LogRecord
from rli.model import FileGroupId


@dataclass(frozen=True)
class Dictionary:
    """Commit sequences as instants, file-group numbers as file groups, and back.

    Attributes:
        base: has the older names.
        records: those behind it, in order, with the other names.
        head: the last commit sequence given out.
        group_count: how many file groups have a number.
    """

    base: Checkpoint
    records: tuple[LogRecord, ...]
    head: int
    group_count: int
    _numbers: Mapping[FileGroupId, int]

    def number_of(self, group: FileGroupId) -> int | None:
        """The number of a file group; None if no record introduced it."""
        return self.numbers_of([group]).get(group)

    def numbers_of(self, groups: Sequence[FileGroupId]) -> dict[FileGroupId, int]:
        """The numbers of those of some file groups that a record introduced."""
        recent = {group: self._numbers[group] for group in groups if group in self._numbers}
        return recent | self.base.numbers_of(group for group in groups if group not in recent)

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

    def instants_of(self, sequences: NDArray[Any]) -> pa.StringArray:
        """The instant that look-ups report for each commit sequence (shape (n,), 1 or more)."""
        firsts = [page.first_sequence for page in self.base.pages]
        (instants,) = self._named(sequences, [*firsts, self.base.head + 1], [attrgetter("instants")])
        return instants

    def groups_of(self, numbers: NDArray[Any]) -> tuple[pa.StringArray, pa.StringArray]:
        """Partition path and file id of each file-group number (shape (n,))."""
        firsts = [*(page.first_group for page in self.base.pages), self.base.group_count]
        paths, file_ids = self._named(numbers, firsts, [attrgetter("partition_paths"), attrgetter("file_ids")])
        return paths, file_ids

    @cached_property
    def partition_paths(self) -> pa.StringArray:
        """The partitions that any file group of the log is in, in order."""
        recent = {group.partition_path for group in self._numbers}
        return pa.array(sorted(recent | self.base.partition_paths()), pa.string())

    def _named(
        self, numbers: NDArray[Any], firsts: Sequence[int], columns: Sequence[Callable[[Names], pa.StringArray]]
    ) -> list[pa.StringArray]:
        def names_at(positions: Sequence[int]) -> list[Names]:
            self.base.load([position for position in positions if position < len(self.base.pages)])
            return [*map(self._names_at, positions)]

        return names_of(numbers, firsts, names_at, columns)

    def _names_at(self, position: int) -> Names:
        return self._names if position == len(self.base.pages) else self.base.page(position).names

    @cached_property
    def _names(self) -> Names:
        return Names.of(self.records)
