"""What a write asks of the engine that runs it, and what an engine may rely on.

The operation (``rli.write.operation``) decides: the schema, which records move, where new ones go,
what the write depends on, when to try again. The engine does the work on rows, here or on many machines, with the pure
functions that the operation hands it. So all engines merge, tag and place in the same way.

A write goes through an engine in these steps::

    request = engine.request(source, keying)      once, for all attempts (P19)
        rows = request.tag(locator, tagging)      once in each attempt
            rows.profile                          counts, by which the operation plans
            rows.without_late_moves(...)          only if records move
            rows.write(plan)                      base files and journals, one result for each file group
        request.files_of(save)                    only if deleted keys are to be kept
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc

from rli.file_group import work_rows
from rli.file_group.work_rows import Change
from rli.file_group.writer import (
    TOGETHER_BYTES,
    FileGroupResult,
    FileGroupTarget,
    WriteContext,
    write_file_groups,
)
from rli.index.contract import Placement, TableIndex
from rli.index.locators import Locator
from rli.index.reports import SomeKeys
from rli.model import FileGroupId, WriteCounts
from rli.tasks import TaskRunner
from rli.view.definition import TableDefinition
from rli.view.file_slices import FileSlice
from rli.write.keying import Keying
from rli.write.tagging import LateMoves, TaggedBatch, departures, place
from rli.write.tally import Tally

_MOST_TOGETHER: Final = 64
"""File groups of a lot: beyond that, little is gained."""

_LOTS_PER_WRITER: Final = 4

Tagging = Callable[[pa.Table, Locator], TaggedBatch]
"""Makes work rows of keyed rows, which it locates. Picklable."""


@dataclass(frozen=True, slots=True)
class WorkloadProfile:
    """Counts of tagged rows, by which a write is planned.

    Attributes:
        inserted: partition path → new record keys, and those of which their file group decides whether they are new.
        changed: file group → records that are updated in it or deleted from it.
        leaving: file group → records stored in it that came with another partition, late ones included.
        arriving: partition path → moving records that it gains; empty until late ones are left out.
        left_out: record keys that change nothing.
        duplicates: rows of the request that are not among these, because another row has their key.
    """

    inserted: Mapping[str, int] = field(default_factory=dict)
    changed: Mapping[FileGroupId, int] = field(default_factory=dict)
    leaving: Mapping[FileGroupId, int] = field(default_factory=dict)
    arriving: Mapping[str, int] = field(default_factory=dict)
    left_out: int = 0
    duplicates: int = 0

    @property
    def origins(self) -> frozenset[FileGroupId]:
        """The file groups that hold records of the write."""
        return frozenset(self.changed) | frozenset(self.leaving)

    @property
    def apart(self) -> WriteCounts:
        """What became of the rows of the request that are not in the profile's file groups and partitions."""
        return WriteCounts(unchanged=self.left_out, duplicates=self.duplicates)

    @property
    def new(self) -> dict[str, int]:
        """Partition path → records that are placed in it: inserted, moved, or undecided ones."""
        gained = dict(self.inserted)
        for partition_path, count in self.arriving.items():
            gained[partition_path] = gained.get(partition_path, 0) + count
        return gained


@dataclass(frozen=True, slots=True)
class RowPlacing:
    """Gives new and moving rows their file group. Picklable; a repetition gives each row the same one.

    Attributes:
        placements: partition path → where its new records go.
    """

    placements: Mapping[str, Placement]

    def place(self, new: pa.Table) -> pa.Table:
        """Rows of new and moving records with their file group, and for each move the row that leaves the old one."""
        if not new.num_rows:
            return new
        placed = place(new, self.placements)
        moves = pc.equal(placed.column(work_rows.CHANGE), int(Change.MOVE_IN))
        return pa.concat_tables([placed, departures(placed.filter(moves))]) if pc.any(moves).as_py() else placed


@dataclass(frozen=True, slots=True)
class FileGroupWriting:
    """Writes file groups: a task of a write. Picklable.

    Attributes:
        context: of the write.
        slices: the live slices of those file groups that exist.
    """

    context: WriteContext
    slices: Mapping[FileGroupId, FileSlice]

    def write(self, group: FileGroupId, rows: pa.Table, token: str) -> FileGroupResult:
        """Merge all work rows of a file group into its next base file; see ``write_file_groups``.

        Args:
            group: the file group.
            rows: its work rows, one for a key.
            token: tells this attempt from all others for the same file group: three numbers, ``1-2-3``.
        """
        return self.write_lot([group], rows, [rows.num_rows], [token])[0]

    def write_lot(
        self, groups: Sequence[FileGroupId], rows: pa.Table, counts: Sequence[int], tokens: Sequence[str]
    ) -> list[FileGroupResult]:
        """Write several file groups, in less time than one after the other; see ``write_file_groups``.

        Args:
            groups: the file groups, at best those of a lot (``WritePlan.lots``).
            rows: the work rows of all of them; those of one file group follow those of the one before.
            counts: how many each has.
            tokens: of each, as for ``write``.
        """
        targets = [
            FileGroupTarget(group, self.slices.get(group), token) for group, token in zip(groups, tokens, strict=True)
        ]
        return write_file_groups(self.context, targets, rows, counts)


@dataclass(frozen=True, slots=True)
class WritePlan:
    """How tagged rows become base files.

    Attributes:
        placing: where new records go.
        writing: what each task does.
        sizes: every file group that the rows change → about how many bytes it takes to write.
    """

    placing: RowPlacing
    writing: FileGroupWriting
    sizes: Mapping[FileGroupId, float]

    def lots(self, groups: Sequence[FileGroupId], writers: int) -> list[range]:
        """Which of some file groups to write together, by their positions: small ones that follow each other.

        Args:
            groups: the file groups.
            writers: lots that are written at a time; each gets some, so that all end at about the same time.
        """
        most = min(_MOST_TOGETHER, -(-len(groups) // (writers * _LOTS_PER_WRITER)))
        lots: list[range] = []
        size = 0.0
        for number, group in enumerate(groups):
            size += self.sizes[group]
            if not lots or size > TOGETHER_BYTES or len(lots[-1]) >= most:
                lots.append(range(number, number))
                size = self.sizes[group]
            lots[-1] = range(lots[-1].start, number + 1)
        return lots


class TaggedRows(ABC):
    """The work rows of one attempt, each of them once.

    Attributes:
        profile: counts of the rows.
    """

    profile: WorkloadProfile

    @abstractmethod
    def without_late_moves(self, late: LateMoves) -> TaggedRows:
        """The rows less those moves that came too late, with ``arriving`` in their profile.

        Args:
            late: leaves late ones out, a file group that records leave at a time.

        Raises:
            VoidAttemptError: the tasks have compared other records than were tagged.
        """

    @abstractmethod
    def keys_of_moves(self, most: int) -> list[str]:
        """Some record keys of rows that move."""

    @abstractmethod
    def write(self, plan: WritePlan) -> Iterable[FileGroupResult]:
        """Write all file groups that the rows change; gives the results of the accepted attempts.

        Raises:
            RecordExistsError: a file group holds a key that must be new.
            VoidAttemptError: the tasks have written other records than were tagged.
            CorruptIndexError: index and file group contradict each other.
            CorruptTableError: a base file cannot be read.
        """


class Request(ABC):
    """The keyed rows of a write, computed once: every attempt gets the same.

    Attributes:
        schema: of the records as they will be written, without working columns; empty where keys come alone.
        bytes_per_row: what a row takes in memory: an estimate.
        received: all rows that the caller gave; see ``Keying.received``.
    """

    schema: pa.Schema
    bytes_per_row: float
    received: Tally

    @abstractmethod
    def tag(self, locator: Locator, tagging: Tagging) -> AbstractContextManager[TaggedRows]:
        """The work rows of an attempt, released when the context ends.

        Args:
            locator: as of the attempt's snapshot.
            tagging: gets rows of distinct keys, and all those of one key in one call.

        Raises:
            ConflictError: another commit changed records while they were looked up.
            LeaseLostError: another writer took this process for dead, and removed the request.
            VoidAttemptError: the tasks have read other rows than were requested.
        """

    @abstractmethod
    def files_of(self, save: Callable[[pa.Table, str], str | None]) -> list[str]:
        """The files that a function makes of the request's rows.

        Args:
            save: picklable. It gets rows of distinct keys, all those of one key in one call, and three numbers such as ``1-2-3``,
                which tell this attempt from all others. It returns the path of its file, or None if it made none.

        Raises:
            VoidAttemptError: the tasks have read other rows than were requested.
        """

    @abstractmethod
    def some_keys(self, choose: Callable[[pa.Array], SomeKeys]) -> SomeKeys:
        """All the keys that a function chooses from the request's distinct keys, a batch at a time."""


class Engine(ABC):
    """Runs the work of writes on rows.

    Attributes:
        syncs_in_tasks: whether each task waits for the disk; if not, the commit does, for all files at once.
    """

    syncs_in_tasks: ClassVar[bool]

    @property
    @abstractmethod
    def tasks(self) -> TaskRunner:
        """Runs the independent pieces of everything else: sync, conflict check, inline maintenance."""

    @abstractmethod
    def request(
        self, source: Any, keying: Keying, table: TableDefinition, index: TableIndex
    ) -> AbstractContextManager[Request]:
        """The keyed rows of a source, computed once and kept until the context ends.

        Args:
            source: rows in the engine's own form, such as a ``pyarrow.Table`` or a Spark frame.
            keying: forms keys. Picklable.
            table: that is written.
            index: of the table.

        Raises:
            SchemaError, InvalidKeyError: the rows do not fit.
            SettingsError: the engine cannot reach the index.
        """
