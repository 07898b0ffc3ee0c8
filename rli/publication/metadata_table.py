"""What becomes of Hudi's metadata table with a change.

Hudi's readers take the files that the metadata table lists for all there are. A commit of rli that is not in it
would be invisible to them, and lost at Hudi's next write. So what a change does not keep goes before the change is
published: the metadata table as a whole, or a partition of it alone. Hudi builds it again at its next write.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Final

from rli.errors import CorruptTableError, UnsupportedTableError
from rli.hudi.metadata.partitions import METADATA_FOLDER, PartitionKind
from rli.metadata_table.kept_partitions import KeptPartitions
from rli.metadata_table.upkeep import NOTHING_KEPT, Upkeep, Upkept
from rli.publication.metadata_files import ReplacesFiles
from rli.publication.metadata_partitions import remove_partitions
from rli.telemetry import events
from rli.view.definition import TableDefinition
from rli.view.snapshot import Snapshot
from rli.view.table_change import TableChange

_ATTEMPTS: Final = 1 << 31
"""To carry out a table service; one number for each, by chance."""


def kept_by_service(table: TableDefinition, change: TableChange) -> KeptPartitions:
    """What becomes of the partitions with a table service, before it changes anything. The caller holds the lease."""
    return _told(table, lambda upkeep: Upkept(upkeep.kept_by_service(change), None)).partitions


def upkept_by_service(table: TableDefinition, instant: str, change: TableChange) -> Upkept:
    """What becomes of the metadata table with a table service whose files are gone. The caller holds the lease.

    Args:
        table: the table.
        instant: of the table service, not completed.
        change: that it has made.
    """
    return _told(table, lambda upkeep: upkeep.of_service(instant, change, secrets.randbelow(_ATTEMPTS)))


def _told(table: TableDefinition, tell: Callable[[Upkeep], Upkept]) -> Upkept:
    table = table.reloaded()
    if not table.properties.metadata_partitions:
        return NOTHING_KEPT
    try:
        return tell(Upkeep(Snapshot.now(table)))
    except (CorruptTableError, UnsupportedTableError) as error:
        # An announced service is carried out, whatever becomes of the metadata table: until then, nobody writes.
        return Upkept(KeptPartitions((), dict.fromkeys(table.properties.metadata_partitions, str(error))), None)


def let_go(partitions: KeptPartitions, fence: ReplacesFiles, table: TableDefinition) -> None:
    """Make readers use no partition of the metadata table that a change does not keep. The caller holds the lease.

    Args:
        partitions: those that the change keeps, and the others.
        fence: of the caller.
        table: its definition, read under the lease.
    """
    if partitions.keeps_nothing:
        listed = table.properties.all_metadata_partitions
        if listed or table.storage.exists(METADATA_FOLDER):
            remove_partitions([PartitionKind.FILES, *listed], fence)
    elif partitions.dropped:
        remove_partitions([*partitions.dropped], fence)
    for name, reason in partitions.dropped.items():
        events.METADATA_DROPPED.log(table=fence.table.location, partition=name, reason=reason)
