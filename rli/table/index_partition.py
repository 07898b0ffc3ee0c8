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
    """Build a partition of the metadata table, unless it is right; returns how many records its index holds."""

    def compare() -> VerifyReport:
        return verified(table, index, tasks, lambda: None)

    with suppress(IndexNotReadyError, IndexMismatchError, CorruptIndexError):
        if (report := compare()).agrees:
            return report.records
    with unsynced_service(table, index, "bootstrap") as (_, fence):
        build_again(kind, index.scope, fence)
    return compare().records


def build_again(kind: InMetadataTable, scope: Scope, fence: Fence) -> None:
    """Build a partition of the metadata table from the table's files, in the place of the one that is there."""
    if kind.partition in fence.table.reloaded().properties.all_metadata_partitions:
        disable_metadata([kind.partition], fence)
    enable_metadata(NewPartitions([kind.partition], scope), fence)
