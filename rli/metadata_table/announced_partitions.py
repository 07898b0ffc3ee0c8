"""Partitions of the metadata table that an indexer of Hudi builds, and that no writer can log to yet.

Hudi 1.2 lists a partition when its first files are complete, and other versions before they exist. Until both is the case, a commit leaves
the partition out. The indexer then takes each commit that it finds in the metadata table for one that is in the partition, too
(``AbstractIndexingCatchupTask``). So the commit would be missing from the index for good.
"""

from __future__ import annotations

from rli.errors import CorruptTableError, UnsupportedTableError
from rli.hudi.metadata.reader import MetadataTableReader
from rli.view.planned_indexing import PendingIndexing, begun_indexings
from rli.view.snapshot import Snapshot


def announced_partitions(snapshot: Snapshot) -> dict[str, PendingIndexing]:
    """The partitions that an indexer builds and nobody can log to, each with its indexing.

    Args:
        snapshot: of the table, its properties as they are now.

    Raises:
        CorruptTableError: the plan of an indexing that has begun cannot be read; names the file.
    """
    table = snapshot.table
    building = {
        name: indexing
        for indexing in begun_indexings(snapshot.timeline)
        for name in indexing.unlisted(table.properties)
    }
    if not building:
        return {}
    reader = MetadataTableReader(table.storage, snapshot.timeline, table.properties)
    logged = {name for name in table.properties.metadata_partitions_inflight if _has_groups(name, reader)}
    return {name: indexing for name, indexing in building.items() if name not in logged}


def require_none_announced(snapshot: Snapshot) -> None:
    """Pass a change of records if no index that Hudi builds would lack it.

    A table without a metadata table passes: nobody looks for its commits there.

    Args:
        snapshot: of the table, its properties as they are now.

    Raises:
        ConflictError: there is one; names it and its indexing.
        CorruptTableError: as ``announced_partitions``.
    """
    if not snapshot.table.properties.metadata_partitions:
        return
    for name, indexing in announced_partitions(snapshot).items():
        problem = "an indexer of Hudi builds an index that would lack this commit"
        raise indexing.conflict(snapshot.table, name, problem, "repeat the call when the indexer has listed the index")


def _has_groups(name: str, reader: MetadataTableReader) -> bool:
    try:
        reader.groups(name)
    except (CorruptTableError, UnsupportedTableError):
        # The latter if rli knows no partitions of its kind.
        return False
    return True
