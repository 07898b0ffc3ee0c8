"""The contract of index kinds: how the index of a table is made, opened and removed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from rli.errors import SettingsError
from rli.hudi.metadata.partitions import PartitionKind
from rli.index.any_index import checked_records
from rli.index.contract import TableIndex
from rli.model import KeyMode, OnRepeatedKey, Scope
from rli.storage import Storage
from rli.tasks import TaskRunner
from rli.view.definition import TableDefinition


@dataclass(frozen=True, slots=True)
class IndexOptions:
    """How an index is to be built.

    Attributes:
        shards: see ``rli.create_index``.
        key_mode: see ``rli.create_index``.
        on_repeated: what a bootstrap does with a record key that the table holds more than once.
    """

    shards: int | None = None
    key_mode: KeyMode | str = KeyMode.EXACT
    on_repeated: OnRepeatedKey = OnRepeatedKey.FAIL


class IndexKind(ABC):
    """One kind of index: how the index of a table is made, opened and removed. The table's settings hold its URL."""

    @property
    @abstractmethod
    def has_store(self) -> bool:
        """Whether indexes of this kind are kept in a store of their own, which may keep the lease too."""

    @abstractmethod
    def scope_of(self, url: str) -> Scope:
        """Where a record key is unique in a table whose index has this URL."""

    @abstractmethod
    def require_url(self, url: str) -> None:
        """Raise ``SettingsError`` for a URL that this kind does not take."""

    @abstractmethod
    def open(self, table: TableDefinition) -> TableIndex:
        """Open the index of a table.

        Raises:
            IndexNotReadyError: it is missing.
            IndexMismatchError: the index at the URL belongs to another table, or to another place of this one.
            StoreUnavailableError: its store does not answer.
        """

    @abstractmethod
    def require_own(self, table: TableDefinition, url: str) -> None:
        """Pass a URL with no index, or with the table's own; raises ``IndexMismatchError`` for another one."""


class InMetadataTable(IndexKind):
    """A kind whose indexes are a partition of the table's metadata table: services of that table build and remove the partition.

    Attributes:
        partition: of the metadata table.
    """

    partition: PartitionKind


class KeptKind(IndexKind):
    """A kind whose indexes keep data of their own, which are made, built again and removed."""

    @abstractmethod
    def create(self, table: TableDefinition, options: IndexOptions) -> TableIndex:
        """Make the empty index of a new table.

        Raises:
            IndexExistsError: there is one already.
            StoreUnavailableError: its store does not answer.
        """

    @abstractmethod
    def rebuild(self, table: TableDefinition, options: IndexOptions, tasks: TaskRunner) -> tuple[TableIndex, int]:
        """Build the index again from the table's files; returns it, and how many records it holds.

        Raises:
            CorruptTableError: a record key lives in more than one place of its scope, or a file cannot be read.
        """

    @abstractmethod
    def open_to_relocate(self, table: TableDefinition) -> TableIndex:
        """Open the index of a table that may have been moved; raises as ``open``, but for the place."""

    @abstractmethod
    def drop_unfinished(self, url: str, table_id: str) -> None:
        """Drop the index of a table that was never completed; leaves indexes of others, or with commits, alone."""

    @abstractmethod
    def drop_own(self, url: str, table_id: str, storage: Storage) -> bool:
        """Drop the index of a table that is gone, damaged or not; leaves an index of another table, or of a copy, alone.

        Args:
            url: of the index.
            table_id: identity of the table.
            storage: of the table.

        Returns:
            Whether there was one.

        Raises:
            StoreUnavailableError: its store does not answer.
        """

    @abstractmethod
    def drop_damaged(self, url: str) -> None:
        """Remove what is at a URL although it cannot be read as an index."""


def require_valid(kind: IndexKind, url: str, options: IndexOptions) -> None:
    """Raise ``SettingsError`` for a URL or options that a kind does not take; the store judges those of an index in it."""
    kind.require_url(url)
    if not isinstance(kind, KeptKind) and (options.shards is not None or options.key_mode != KeyMode.EXACT):
        raise SettingsError(
            f"this index keeps no entries: index={url} shards={options.shards} key_mode={options.key_mode}",
            remedy="leave shards and key_mode out, or choose an index in a store, such as lmdb:///path",
        )


def created(kind: IndexKind, table: TableDefinition, options: IndexOptions) -> TableIndex:
    """The empty index of a new table; raises as ``KeptKind.create``."""
    return kind.create(table, options) if isinstance(kind, KeptKind) else kind.open(table)


def rebuilt(
    kind: IndexKind, table: TableDefinition, options: IndexOptions, tasks: TaskRunner
) -> tuple[TableIndex, int]:
    """Build the index of a table again; where nothing is to be built, the keys of the table are checked.

    Raises:
        CorruptTableError: a record key lives in more than one place of its scope, or a file cannot be read.
    """
    if isinstance(kind, KeptKind):
        return kind.rebuild(table, options, tasks)
    index = kind.open(table)
    return index, checked_records(table, index)


def opened_to_relocate(kind: IndexKind, table: TableDefinition) -> TableIndex:
    """Open the index of a table that may have been moved; raises as ``open``, but for the place."""
    return kind.open_to_relocate(table) if isinstance(kind, KeptKind) else kind.open(table)
