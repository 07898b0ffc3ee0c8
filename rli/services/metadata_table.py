"""Partitions of Hudi's metadata table leave it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from rli.errors import InvalidInputError, RliError
from rli.hudi.metadata.index_definitions import load_index_definitions
from rli.hudi.metadata.partitions import PartitionKind, with_dependent
from rli.hudi.properties import TableProperties
from rli.hudi.timeline.instant import Action
from rli.metadata_table.indexed_columns import chosen_columns, names_of_columns
from rli.publication.fence import Fence
from rli.publication.instants import TableInstant
from rli.publication.metadata_partitions import remove_partitions
from rli.telemetry import events
from rli.view.definition import TableDefinition
from rli.view.planned_indexing import DamagedIndexing, PendingIndexing, partitions_of, readable_indexings
from rli.view.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class MetadataChange:
    """What a call has changed of a metadata table.

    Attributes:
        added: partitions that were built, with those that they need.
        removed: partitions that were removed, with those that need them.
        listed: partitions that readers rely on now.
        dry_run: whether it only told what it would do.
        columns: the columns whose statistics were removed, as ``Table.metadata.enable`` takes them; empty if they were its default.
    """

    added: tuple[str, ...]
    removed: tuple[str, ...]
    listed: tuple[str, ...]
    dry_run: bool = False
    columns: tuple[str, ...] = ()


def disable_metadata(names: Collection[str] | None, fence: Fence) -> MetadataChange:
    """Remove partitions of the metadata table, or the whole of it; see ``foretold_removal``. The caller holds the lease.

    Of a partition that Hudi builds or has scheduled, the indexing is aborted: its indexer must be dead. With the whole metadata
    table, those go, too, whose plans cannot be read.

    Raises:
        InvalidInputError: the metadata table has no such partition.
        CorruptTableError: as ``foretold_removal``.
        LeaseLostError: another writer took the lease over.
    """
    change = foretold_removal(fence.table, names)
    is_whole = names is None or PartitionKind.FILES in change.removed
    if is_whole:
        for damaged in readable_indexings(fence.table.load_timeline())[1]:
            fence.require_held()
            TableInstant(fence.table, damaged.instant.time, Action.INDEXING).drop()
    if change.removed or is_whole:
        remove_partitions(change.removed or (PartitionKind.FILES,), fence)
    if change.removed:
        events.METADATA_DISABLED.log(table=fence.table.location, partitions=change.removed)
    return MetadataChange((), change.removed, change.listed, columns=change.columns)


def foretold_removal(table: TableDefinition, names: Collection[str] | None) -> MetadataChange:
    """What ``disable_metadata`` would remove now: the named partitions and those that need them, or all.

    Raises:
        InvalidInputError: the metadata table has no such partition.
        CorruptTableError: the plan of a pending indexing cannot be read, and may be of one of the named partitions.
    """
    table = table.reloaded()
    properties, timeline = table.properties, table.load_timeline()
    indexings, damaged = readable_indexings(timeline)
    present = partitions_of(properties, indexings)
    unknown = sorted({*(names or ())} - {*present})
    if unknown and damaged:
        raise damaged[0].error
    if unknown:
        raise InvalidInputError(
            f"the metadata table has no such partition: partition={unknown[0]}",
            remedy=f"choose from {', '.join(present)}" if present else "the table has no metadata table",
        )
    goes = {*present} if names is None else _going(names, present, indexings, properties)
    removed = tuple(name for name in present if name in goes)
    if names is not None and PartitionKind.FILES not in goes:
        _require_no_part(removed, damaged, indexings, properties)
    listed = tuple(name for name in properties.metadata_partitions if name not in goes)
    return MetadataChange((), removed, listed, dry_run=True, columns=_chosen_columns(table, removed))


def _chosen_columns(table: TableDefinition, removed: Collection[str]) -> tuple[str, ...]:
    """As ``MetadataChange.columns``."""
    if PartitionKind.COLUMN_STATS not in removed:
        return ()
    try:
        definition = load_index_definitions(table.storage, table.properties).get(PartitionKind.COLUMN_STATS)
        schema = Snapshot.now(table).schema
    except RliError:
        # What cannot be read is often why the partitions are removed.
        return ()
    columns = chosen_columns(() if definition is None else definition.columns)
    by_default = [] if schema is None else chosen_columns(names_of_columns(schema))
    return () if {*columns} == {*by_default} else tuple(columns)


def _require_no_part(
    removed: Iterable[str],
    damaged: Iterable[DamagedIndexing],
    indexings: Iterable[PendingIndexing],
    properties: TableProperties,
) -> None:
    """Raise if an indexer builds a partition by a plan that cannot be read, for the indexing would have to end with it."""
    planned = {name for one in indexings for name in one.partitions}
    is_built = not planned.union(properties.metadata_partitions).issuperset(removed)
    for indexing in damaged:
        if is_built and indexing.is_begun:
            raise indexing.error


def _going(
    names: Iterable[str], present: Sequence[str], indexings: Sequence[PendingIndexing], properties: TableProperties
) -> set[str]:
    """Some partitions, those that need them, and those whose indexing ends with one of these."""
    goes, more = set[str](), {*names}
    while not more <= goes:
        goes |= more
        more = with_dependent(goes, present)
        # An indexing ends as a whole.
        more |= {name for one in indexings if not one.partitions.isdisjoint(more) for name in one.unlisted(properties)}
    return goes
