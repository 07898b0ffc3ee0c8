"""What only some kinds of index do: a class for each role, which a kind inherits if it has it.

A caller that needs a role asks ``isinstance(index, Role)``, and says itself what it does without.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import pyarrow as pa

from rli.file_group.changed_values import ChangedValues
from rli.file_group.journal import SectionsOf
from rli.store.contract import Store
from rli.tasks import TaskRunner
from rli.view.definition import TableDefinition
from rli.view.snapshot import Snapshot
from rli.view.table_change import TableChange


class SharesStore(ABC):
    """Writers may agree in a store that they reach by the index."""

    @property
    @abstractmethod
    def shared_store(self) -> Store | None:
        """The store that all writers share through the index: it may keep their lease. None if each process has its own."""


class KeptInStore(SharesStore):
    """The index is kept in a key-value store."""

    @property
    @abstractmethod
    def identity(self) -> str | None:
        """Tells the index from every other one, also under another URL of its store; None if nobody has written it yet."""

    @property
    @abstractmethod
    def home(self) -> str | None:
        """Names the machine and the data where all of the index is on one machine; None where others reach it too."""

    @abstractmethod
    def prepare_for_writing(self) -> None:
        """Called before each write begins."""

    @abstractmethod
    def is_gone(self) -> bool:
        """Whether the index has been dropped since it was opened, so that another one may be in its place."""

    @abstractmethod
    def drop(self) -> None:
        """Remove the index with all that it holds; the table is not touched."""


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """How the index of a column in a store is.

    Attributes:
        is_built: whether its build has ended.
        follows: whether it can follow the table; True before it is built.
        is_of_table: whether it is of this table, and of a column that the records still have, with values of the same sort.
        size: in bytes; 0 where the store cannot tell.
        lag: number of the table's commits that it has not followed; None if it is not built, or cannot follow.
        build: random name of the build that made it.
    """

    is_built: bool
    follows: bool
    is_of_table: bool
    size: int
    lag: int | None
    build: str


@dataclass(frozen=True, slots=True)
class WantedColumn:
    """A column to index.

    Attributes:
        column: its name.
        kind: its type.
    """

    column: str
    kind: pa.DataType


OnFiles = Callable[[int, int], None]
"""Told how many of how many files were read."""


@dataclass(frozen=True, slots=True)
class UnpublishedWrite:
    """A write that is about to be published.

    Attributes:
        snapshot: the state before it.
        instant: of the write.
        change: what it changes; its files are not in the table yet.
        schema: of the records after it, without meta columns.
        changed: the changed values that its process has noted; None if they are not known.
    """

    snapshot: Snapshot
    instant: str
    change: TableChange
    schema: pa.Schema
    changed: ChangedValues | None = None


class IndexesColumns(ABC):
    """Indexes of columns are kept beside the index, in the same store: value of the column → record keys.

    All methods raise ``StoreUnavailableError`` if the store does not answer.
    """

    @abstractmethod
    def follow_columns(
        self, table: TableDefinition, tasks: TaskRunner, held: Mapping[str, ChangedValues] = MappingProxyType({})
    ) -> None:
        """Bring the indexes of columns up to date; one that is missing, or of a former column, is passed over.

        Args:
            table: the table.
            tasks: runs the work on each file group.
            held: changed values of commits that the caller has just written, by their instants.

        Raises:
            RliError: one cannot follow the table; the others have.
        """

    @abstractmethod
    def keys_with(self, name: str, column: str, snapshot: Snapshot, values: pa.Array, most: int) -> pa.Array | None:
        """The keys of all records that have one of some values in a state of the table, and perhaps of further records.

        Args:
            name: of the index.
            column: of which the index has to be; another one may have taken its name.
            snapshot: the state.
            values: string array without nulls, as ``rli.hudi.metadata.secondary_keys.index_form`` prints them.
            most: keys that the caller wants at most.

        Returns:
            Distinct string array; None if the index cannot tell, or finds more.

        Raises:
            IndexNotFoundError: there is no such index.
        """

    @abstractmethod
    def facts_of(self, name: str, table: TableDefinition, schema: pa.Schema | None) -> ColumnFacts | None:
        """How the index of a column is; None if there is none.

        Args:
            name: of the index.
            table: the table.
            schema: of its records.
        """

    @abstractmethod
    def build_column(
        self, name: str, wanted: WantedColumn, table: TableDefinition, tasks: TaskRunner, on_files: OnFiles
    ) -> str:
        """Build the index of a column beside writers, and bring it up to date; returns the name of the build.

        If a build of the same index died, this one continues behind its last finished shard. Everything else of the name goes first.

        Args:
            name: of the index.
            wanted: the column.
            table: the table.
            tasks: bring the index up to date.
            on_files: told how many of how many files were read.

        Raises:
            ConflictError: another process builds it, or has dropped it meanwhile.
            CorruptTableError: a file is lost or damaged.
            SettingsError: the store can have no other one beside it.
        """

    @abstractmethod
    def require_unique(self, write: UnpublishedWrite, locate: Callable[[pa.Array], pa.Table]) -> None:
        """Pass a write after which no two records have one value of a column with a unique index. The caller holds the lease.

        Args:
            write: the write.
            locate: where record keys are in the state before it: ``LOCATION_SCHEMA``.

        Raises:
            RepeatedValueError: two records would have one.
            IndexNotReadyError: the index is lost, or cannot tell.
        """

    @abstractmethod
    def require_no_repeats(self, name: str, column: str, snapshot: Snapshot) -> None:
        """Pass a table of which no two records have one value of a column. The caller holds the lease.

        Args:
            name: of the index.
            column: its column.
            snapshot: the table.

        Raises:
            RepeatedValueError: two have.
        """

    @abstractmethod
    def drop_column(self, name: str) -> None:
        """Remove the index of a column, if there is one."""


class RemembersCommits(ABC):
    """The index keeps a log of the commits that it has followed, which a recovery asks."""

    @property
    @abstractmethod
    def is_built(self) -> bool:
        """Whether the index can follow the table; False before a bootstrap."""

    @abstractmethod
    def standing(self, instants: Iterable[str]) -> list[str]:
        """Those of some instants whose changes the index holds and has not taken back, the newest first."""

    @abstractmethod
    def knows(self, instant: str) -> bool:
        """Whether a commit may have been acknowledged, as far as the index tells."""

    @abstractmethod
    def last_followed(self) -> list[tuple[str, str]]:
        """Instant and action of the last commits of rli that the index holds and that stand, the newest first."""


class ExpiresKeys(ABC):
    """Keys may expire.

    Attributes:
        ttl: seconds for which a key is known after the last commit that wrote its record; None: for ever.
    """

    ttl: int | None


class AppliesSections(ABC):
    """A large commit is applied section by section."""

    @property
    @abstractmethod
    def sections_of(self) -> SectionsOf:
        """Puts the keys of a commit into sections."""

    @property
    @abstractmethod
    def keys_together(self) -> int:
        """New keys of a commit up to which it is applied as one."""


class ForgetsDeletes(ABC):
    """The index keeps something of each delete."""

    @abstractmethod
    def forget_deletes(self, kept: Sequence[str]) -> int:
        """Remove what is kept of deletes before some commits, if that pays; returns of how many keys.

        Args:
            kept: the instants of all commits that readers may still read the table as of.
        """


class KnowsPlaces(ABC):
    """The index knows where its table is, and serves no copy of it."""

    @abstractmethod
    def relocate(self, table: TableDefinition, *, also: bool) -> tuple[str, ...]:
        """Serve the table where it is now; see ``Table.relocate``."""
