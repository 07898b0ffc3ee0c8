"""Building the partition of the metadata table that is the index of a table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from rli.commit.exclusive_service import unsynced_service
from rli.errors import (
    CorruptIndexError,
    CorruptTableError,
    IndexMismatchError,
    IndexNotReadyError,
    InstantNotFoundError,
    TableNotFoundError,
    UnsupportedTableError,
)
from rli.hudi.metadata.index_definitions import load_index_definitions
from rli.hudi.metadata.partitions import METADATA_FOLDER, PartitionKind
from rli.hudi.metadata.reader import MetadataTableReader
from rli.hudi.properties import load_properties
from rli.index.any_index import verified
from rli.index.contract import TableIndex
from rli.index.kinds import InMetadataTable
from rli.index.reports import VerifyReport
from rli.metadata_table.kept_partitions import KEPT_KINDS
from rli.model import Scope
from rli.publication.fence import Fence
from rli.services.metadata_births import enable_metadata
from rli.services.metadata_table import disable_metadata
from rli.services.new_partitions import NewPartitions
from rli.table.keys_for_hudi import require_droppable
from rli.table.opened import OpenTable
from rli.tasks import TaskRunner
from rli.telemetry import events
from rli.view.definition import TableDefinition
from rli.view.table_metadata import require_each_commit

_WITH_THE_INDEX: Final = "the record index that it needs was built again; rli index create builds it, too"


def built_partition(
    kind: InMetadataTable, table: TableDefinition, index: TableIndex, tasks: TaskRunner, patience: float
) -> int:
    """Build the partition of an index, unless it agrees with the table's files, and the lists of files are sound.

    Returns the number of records in the index.

    Args:
        kind: of the index.
        table: the table.
        index: its index, which may lack its partition yet.
        tasks: runs the work on each base file.
        patience: seconds; for how long to wait for the lease at most.

    Raises:
        CorruptTableError: a file of the table is damaged or missing.
        LeaseBusyError, LeaseLostError: as for ``MetadataOfTable.enable``.
    """

    def compare() -> VerifyReport:
        return verified(table, index, tasks, lambda: None)

    with suppress(IndexNotReadyError, IndexMismatchError, CorruptIndexError):
        if (report := compare()).agrees and not _are_lists_broken(table.reloaded()):
            return report.records
    with unsynced_service(table, index, "bootstrap", patience=patience) as (_, fence):
        build_again(kind, index.scope, fence)
    return compare().records


@contextmanager
def rebuilt_if_lost(table: OpenTable, seconds: float) -> Iterator[None]:
    """Build the partition of a table's index again if a service within the block has removed it.

    Undoing a commit of another engine removes it, because no journal tells the keys of the commit.

    Args:
        table: whose index may be a partition of the metadata table.
        seconds: for how long to wait for the lease.
    """
    had = _has_partition(table)
    yield
    if had and not _has_partition(table):
        definition, index = table.refreshed()
        kind = table.kind
        if isinstance(kind, InMetadataTable):
            with unsynced_service(definition, index, "rebuild of the index", patience=seconds) as (_, fence):
                build_again(kind, index.scope, fence)


def _has_partition(table: OpenTable) -> bool:
    """Whether a table's index is a partition that readers rely on."""
    properties, kind = table.follow().properties, table.kind
    return isinstance(kind, InMetadataTable) and kind.partition in properties.metadata_partitions


def drop_partition(kind: InMetadataTable, table: OpenTable) -> None:
    """Remove the partition of a table's index from the metadata table, if it is there; raises as ``require_droppable``."""
    definition, index = table.refreshed()
    with unsynced_service(definition, index, "drop of the index") as (durable, fence):
        require_droppable(durable.reloaded(), kind.partition)
        if kind.partition in durable.reloaded().properties.all_metadata_partitions:
            disable_metadata([kind.partition], fence)


def build_again(kind: InMetadataTable, scope: Scope, fence: Fence) -> None:
    """Build a partition of the metadata table from the table's files, and remove the present one before.

    Where the lists of files are broken, or lack a commit of another engine, all partitions that rli makes are built again, but for indexes
    on columns: ``create_index`` builds these, and a warning names those that went.
    """
    table = fence.table.reloaded()
    listed, names, columns = table.properties.all_metadata_partitions, [kind.partition], None
    removed: tuple[str, ...] = ()
    if _are_lists_broken(table):
        names += [name for name in KEPT_KINDS if name in listed and name != kind.partition]
        definition = load_index_definitions(table.storage, table.properties).get(PartitionKind.COLUMN_STATS)
        columns = None if definition is None else definition.columns or None
        removed = disable_metadata(None, fence).removed
    elif kind.partition in listed:
        removed = disable_metadata([kind.partition], fence).removed
    present = enable_metadata(NewPartitions(names, scope, columns), fence).listed
    for name in removed:
        if name not in present:
            events.METADATA_DROPPED.log(table=table.location, partition=name, reason=_WITH_THE_INDEX)


def _are_lists_broken(table: TableDefinition) -> bool:
    """Whether the lists of files cannot be read, or lack a commit: no partition can be kept without them."""
    if PartitionKind.FILES not in table.properties.metadata_partitions:
        return False
    try:
        if load_properties(table.storage, METADATA_FOLDER).version != table.properties.version:
            return True
        reader = MetadataTableReader(table.storage, table.load_timeline(), table.properties)
        require_each_commit(reader, PartitionKind.FILES, table)
        reader.require_readable(PartitionKind.FILES)
    except InstantNotFoundError:
        # Others have compacted them meanwhile.
        return False
    except (CorruptTableError, TableNotFoundError, UnsupportedTableError):
        return True
    return False
