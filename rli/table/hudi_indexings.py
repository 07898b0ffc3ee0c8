"""Indexings that Hudi has scheduled, carried out by rli: its partitions are built, and the instant is completed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from rli.errors import RliError, UnsupportedTableError
from rli.hudi.metadata.index_definitions import IndexDefinition, load_index_definitions
from rli.hudi.metadata.partitions import PartitionKind, kind_of
from rli.hudi.timeline.instant import Action
from rli.metadata_table.column_entries import ColumnEntries
from rli.model import Scope
from rli.publication.instants import TableInstant
from rli.services.new_partitions import NewPartitions
from rli.table.births import METADATA_SERVICE, OnProgress
from rli.table.metadata_of_table import build_partitions
from rli.table.opened import OpenTable
from rli.table.patience import patience
from rli.view.planned_indexing import PendingIndexing, pending_indexings
from rli.view.snapshot import Snapshot, told_of_now
from rli.view.table_change import NO_CHANGE


def run_indexings(
    opened: OpenTable, timeout: float | None, on_progress: OnProgress
) -> tuple[list[str], dict[str, RliError]]:
    """Carry out what Hudi has scheduled and its indexer has not begun.

    An indexing that an indexer of Hudi has begun is left to it. One that fails stays scheduled, and the others go on.

    Args:
        opened: the table.
        timeout: for the lease.
        on_progress: called with the number of files read, and of all files.

    Returns:
        The new partitions, and instant → failure: ``UnsupportedTableError`` if rli cannot build a partition of its plan, or as
        ``build_partitions``.

    Raises:
        CorruptTableError: a plan cannot be read; names the file.
    """
    built, failures = list[str](), dict[str, RliError]()
    table = opened.follow().reloaded()
    for indexing in pending_indexings(table.load_timeline()):
        # Hudi lists a partition before it has caught up, so a begun indexing is its indexer's to the end.
        if indexing.is_begun:
            continue
        missing = sorted(indexing.unlisted(table.properties))
        try:
            for wanted in told_of_now(table, partial(_wanted, opened.scope, missing)):
                built += build_partitions(opened, wanted, timeout, on_progress).added
            _complete(opened, indexing, timeout)
        except RliError as error:
            failures[indexing.instant.time] = error
    return built, failures


def _wanted(scope: Scope, names: Sequence[str], snapshot: Snapshot) -> list[NewPartitions]:
    """What builds some partitions; raises ``UnsupportedTableError`` if rli cannot keep one of them."""
    table = snapshot.table
    definitions = load_index_definitions(table.storage, table.properties)
    reasons = ColumnEntries(definitions, snapshot, snapshot.schema).reasons(names)
    reasons |= {name: "rli knows no partitions of this kind" for name in names if kind_of(name) is None}
    for name, reason in reasons.items():
        raise UnsupportedTableError(
            f"rli cannot build what Hudi has scheduled: table={table.location} partition={name} ({reason})",
            remedy=f"run Hudi's indexer, or abort the indexing: rli metadata disable TABLE --partitions {name}",
        )
    return [_partition(name, scope, definitions.get(name)) for name in names]


def _partition(name: str, scope: Scope, definition: IndexDefinition | None) -> NewPartitions:
    if name in {*PartitionKind}:
        return NewPartitions([name], scope)
    needed = PartitionKind.RECORD_INDEX if kind_of(name) is PartitionKind.SECONDARY_INDEX else PartitionKind.FILES
    return NewPartitions([needed], scope, of_column=definition)


def _complete(opened: OpenTable, indexing: PendingIndexing, timeout: float | None) -> None:
    """Complete the instant of an indexing, unless it has ended, or a partition has gone meanwhile."""
    with opened.service(METADATA_SERVICE, patience(timeout)) as (table, fence):
        pending = {one.instant.time for one in pending_indexings(table.load_timeline()) if not one.is_begun}
        if indexing.instant.time in pending and not indexing.unlisted(table.reloaded().properties):
            instant = TableInstant(table, indexing.instant.time, Action.INDEXING)
            # Content tells the next run that no indexer of Hudi works on the instant.
            fence.start(instant, NO_CHANGE, indexing.plan.completed())
            fence.complete(instant, NO_CHANGE, indexing.plan.completed())
