"""The options of a write on the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar

from rli.model import CommitResult, MissingColumns, OnDuplicates, OnExisting, OnPartitionChange
from rli.write.operations.replacing import Partitions

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


class _Arguments:
    """Options of one verb, a dataclass."""

    __slots__ = ()

    @property
    def arguments(self: DataclassInstance) -> dict[str, Any]:
        """Keyword arguments of the verb that every engine takes."""
        return {item.name: getattr(self, item.name) for item in fields(self) if item.name != "dry_run"}


@dataclass(frozen=True, slots=True)
class UpsertOptions(_Arguments):
    """How a file is upserted; ``Table.upsert`` describes each option.

    Attributes:
        on_partition_change: None for what the table's settings say.
        missing: what becomes of columns of the table that the file lacks.
        on_duplicates: what happens if several records have one key.
        transaction: of the caller.
        metadata: of the caller.
        dry_run: only tell what the write would do; for the engine of this process.
    """

    verb: ClassVar[str] = "upsert"
    on_partition_change: OnPartitionChange | None = None
    missing: MissingColumns = MissingColumns.FAIL
    on_duplicates: OnDuplicates = OnDuplicates.SKIP
    transaction: tuple[str, int] | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class InsertOptions(_Arguments):
    """How a file is inserted; ``Table.insert`` describes each option.

    Attributes:
        on_existing: what becomes of records whose key the table holds.
        on_duplicates: what happens if several records have one key.
        transaction: of the caller.
        metadata: of the caller.
        dry_run: only tell what the write would do; for the engine of this process.
    """

    verb: ClassVar[str] = "insert"
    on_existing: OnExisting = OnExisting.SKIP
    on_duplicates: OnDuplicates = OnDuplicates.SKIP
    transaction: tuple[str, int] | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class MergeOptions(UpsertOptions):
    """How a file of changes is merged; ``Table.merge`` describes each option.

    Attributes:
        op: the operation column; None where other columns tell.
        when: the condition on changes of stored records; None for all.
    """

    verb: ClassVar[str] = "merge"
    op: str | None = None
    when: str | None = None


@dataclass(frozen=True, slots=True)
class OverwriteOptions(_Arguments):
    """How partitions are overwritten; ``Table.overwrite_partitions`` describes each option.

    Attributes:
        partitions: replaced beside those of the records; "all" for the whole table.
        on_partition_change: None for what the table's settings say.
        on_duplicates: what happens if several records have one key.
        transaction: of the caller.
        metadata: of the caller.
        dry_run: only tell what the write would do; for the engine of this process.
    """

    verb: ClassVar[str] = "overwrite_partitions"
    partitions: Partitions | None = None
    on_partition_change: OnPartitionChange | None = None
    on_duplicates: OnDuplicates = OnDuplicates.SKIP
    transaction: tuple[str, int] | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class DropOptions(_Arguments):
    """How partitions are dropped; ``Table.drop_partitions`` describes each option.

    Attributes:
        missing_ok: whether partitions that the table lacks are no error.
        transaction: of the caller.
        metadata: of the caller.
        dry_run: only tell what the drop would do; for the engine of this process.
    """

    missing_ok: bool = False
    transaction: tuple[str, int] | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    dry_run: bool = False


Verb = Callable[..., CommitResult]

WriteOptions = UpsertOptions | InsertOptions | MergeOptions | OverwriteOptions
"""Names the verb, too: a function of an engine and a method of ``Table``."""
