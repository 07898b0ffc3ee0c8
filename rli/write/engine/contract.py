"""What a write asks of the engine that runs it, and what an engine may rely on.

The operation (``rli.write.operations.operation``) decides: the schema, which records move, where new ones go,
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
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

import pyarrow as pa

from rli.file_group.write_context import FileGroupResult
from rli.index.contract import TableIndex
from rli.index.locators import Locator
from rli.index.reports import SomeKeys
from rli.tasks import TaskRunner
from rli.view.definition import TableDefinition
from rli.view.file_slices import FileSlice
from rli.write.engine.workload import WorkloadProfile
from rli.write.engine.write_plan import WritePlan
from rli.write.rows.keying import Keying
from rli.write.rows.late_moves import LateMoves
from rli.write.rows.tagging import TaggedBatch
from rli.write.rows.tally import Tally

Tagging = Callable[[pa.Table, Locator], TaggedBatch]
"""Makes work rows of keyed rows, which it locates. Picklable."""


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
        flushes_in_tasks: whether each task waits for the disk; if not, the commit does, for all files at once.
    """

    flushes_in_tasks: ClassVar[bool]

    @property
    @abstractmethod
    def tasks(self) -> TaskRunner:
        """Runs the independent pieces of everything else: sync, conflict check, inline maintenance."""

    @property
    @abstractmethod
    def workers(self) -> TaskRunner:
        """Runs pieces that read and write file groups, side by side."""

    @abstractmethod
    def stored_records(
        self, slices: Sequence[FileSlice], read: Callable[[FileSlice], pa.Table], schema: pa.Schema
    ) -> Any:
        """What a function reads from some file slices, as a source of ``request``, in the engine's own form.

        Args:
            slices: the slices.
            read: gives records. Picklable.
            schema: of the records.
        """

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
