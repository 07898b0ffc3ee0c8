"""Building the partition of the metadata table that is the index of a table."""

from __future__ import annotations

from contextlib import suppress

from rli.commit.exclusive_service import unsynced_service
from rli.errors import CorruptIndexError, IndexMismatchError, IndexNotReadyError
from rli.index.any_index import verified
from rli.index.contract import TableIndex
from rli.index.kinds import InMetadataTable
from rli.index.reports import VerifyReport
from rli.model import Scope
from rli.publication.fence import Fence
from rli.services.metadata_births import NewPartitions, enable_metadata
from rli.services.metadata_table import disable_metadata
from rli.tasks import TaskRunner
from rli.view.definition import TableDefinition


def built_partition(kind: InMetadataTable, table: TableDefinition, index: TableIndex, tasks: TaskRunner) -> int:
    """Build the partition of an index, unless it agrees with the table's files; returns the number of records in the index.

    Args:
        kind: of the index.
        table: the table.
        index: its index, which may lack its partition yet.
        tasks: runs the work on each base file.

    Raises:
        CorruptTableError: a file of the table is damaged or missing.
        LeaseBusyError, LeaseLostError: as for ``MetadataOfTable.enable``.
    """

    def compare() -> VerifyReport:
        return verified(table, index, tasks, lambda: None)

    with suppress(IndexNotReadyError, IndexMismatchError, CorruptIndexError):
        if (report := compare()).agrees:
            return report.records
    with unsynced_service(table, index, "bootstrap") as (_, fence):
        build_again(kind, index.scope, fence)
    return compare().records


def build_again(kind: InMetadataTable, scope: Scope, fence: Fence) -> None:
    """Build a partition of the metadata table from the table's files, and remove the present one before."""
    if kind.partition in fence.table.reloaded().properties.all_metadata_partitions:
        disable_metadata([kind.partition], fence)
    enable_metadata(NewPartitions([kind.partition], scope), fence)
