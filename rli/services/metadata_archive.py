"""Archiving of the metadata table's own instants, as Hudi does it: no instant leaves before those of the table itself."""

from __future__ import annotations

from rli.hudi.metadata.metadata_files import metadata_layout
from rli.hudi.timeline.timeline import load_timeline
from rli.metadata_table.needed_instants import earliest_active
from rli.publication.archiving import archive_instants, instants_before
from rli.publication.fence import Fence


def archive_metadata(fence: Fence) -> None:
    """Move instants of the metadata table to its archive if neither readers nor an undo need them on its active timeline.

    Args:
        fence: of the caller, who holds the lease and has just archived instants of the table.

    Raises:
        CorruptTableError: an instant of the metadata table cannot be read.
        ConflictError: another engine archived at the same time; nothing was archived.
        LeaseLostError: another writer took the lease over, and finishes what was begun.
    """
    table = fence.table.reloaded()
    if not table.properties.all_metadata_partitions:
        return
    data, layout = table.load_timeline(), metadata_layout(table.timeline_layout)
    metadata = load_timeline(table.storage, layout)
    leaving = instants_before(metadata, earliest_active(data, metadata))
    if leaving:
        archive_instants(layout, leaving, (), fence)
