"""Partitions of Hudi's metadata table leave it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from rli.errors import InvalidInputError
from rli.hudi.metadata.partitions import PartitionKind, kind_of
from rli.publication.fence import Fence
from rli.publication.metadata_partitions import remove_partitions
from rli.telemetry import events
from rli.view.definition import TableDefinition
from rli.view.planned_indexing import partitions_of, pending_indexings


@dataclass(frozen=True, slots=True)
class MetadataChange:
    """What a call has changed of a metadata table.

    Attributes:
        added: partitions that were built, with those that they need.
        removed: partitions that were removed, with those that need them.
        listed: partitions that readers rely on now.
        dry_run: whether it only told what it would do.
    """

    added: tuple[str, ...]
    removed: tuple[str, ...]
    listed: tuple[str, ...]
    dry_run: bool = False


def disable_metadata(names: Collection[str] | None, fence: Fence) -> MetadataChange:
    """Remove partitions of the metadata table, or the whole of it; see ``foretold_removal``. The caller holds the lease.

    Of a partition that Hudi builds or has scheduled, the indexing is aborted: its indexer must be dead.

    Raises:
        InvalidInputError: the metadata table has no such partition.
        LeaseLostError: another writer took the lease over.
    """
    change = foretold_removal(fence.table, names)
    if change.removed or names is None:
        remove_partitions(change.removed or (PartitionKind.FILES,), fence)
    if change.removed:
        events.METADATA_DISABLED.log(table=fence.table.location, partitions=change.removed)
    return MetadataChange((), change.removed, change.listed)


def foretold_removal(table: TableDefinition, names: Collection[str] | None) -> MetadataChange:
    """What ``disable_metadata`` would remove now: the named partitions and those that need them, or all.

    Raises:
        InvalidInputError: the metadata table has no such partition.
    """
    table = table.reloaded()
    properties, indexings = table.properties, pending_indexings(table.load_timeline())
    present = partitions_of(properties, indexings)
    unknown = sorted({*(names or ())} - {*present})
    if unknown:
        raise InvalidInputError(
            f"the metadata table has no such partition: partition={unknown[0]}",
            remedy=f"choose from {', '.join(present)}" if present else "the table has no metadata table",
        )
    goes = {*present} if names is None else _with_dependent(names, present)
    # An indexing ends as a whole.
    goes |= {name for one in indexings if not one.partitions.isdisjoint(goes) for name in one.unlisted(properties)}
    removed = tuple(name for name in present if name in goes)
    listed = tuple(name for name in properties.metadata_partitions if name not in goes)
    return MetadataChange((), removed, listed, dry_run=True)


def _with_dependent(names: Iterable[str], present: Sequence[str]) -> set[str]:
    goes = {*names}
    if PartitionKind.FILES in goes:
        return {*present}
    if PartitionKind.COLUMN_STATS in goes:
        goes |= {PartitionKind.PARTITION_STATS} & {*present}
    if PartitionKind.RECORD_INDEX in goes:
        goes |= {name for name in present if kind_of(name) is PartitionKind.SECONDARY_INDEX}
    return goes
