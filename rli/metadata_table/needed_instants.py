"""Which instants must stay on the active timelines of a table and of its metadata table."""

from __future__ import annotations

from rli.hudi.metadata.reader import MetadataTableReader
from rli.hudi.timeline.timeline import Timeline
from rli.metadata_table.compaction import last_compaction
from rli.view.definition import TableDefinition
from rli.view.table_metadata import commits_left_out


def earliest_needed(table: TableDefinition, timeline: Timeline) -> str | None:
    """The time from which on no instant leaves the active timeline; None in a table without a metadata table.

    To readers of Hudi 0.15, what lies in log files counts as long as its instant is on the active timeline. So only what a
    compaction has merged may leave. A commit that another engine has left out of the metadata table stays, too: the timeline alone
    tells that it is missing there.

    Args:
        table: as it is now.
        timeline: of the table.

    Raises:
        CorruptTableError: the timeline of the metadata table is broken.
    """
    if not table.properties.metadata_partitions:
        return None
    reader = MetadataTableReader(table.storage, timeline, table.properties)
    missing = (one.time for name in reader.partitions for one in commits_left_out(reader, name))
    # In table version 6, a compaction has the digits of the last deltacommit, and more behind them.
    return min([last_compaction(reader.timeline), *missing])


def earliest_active(data: Timeline, metadata: Timeline) -> str:
    """The time from which on no instant of a metadata table leaves its active timeline.

    Args:
        data: timeline of the table.
        metadata: timeline of its metadata table.

    Returns:
        All earlier instants were merged by the last compaction, and archived by the table itself. An instant on the table's
        active timeline can be rolled back, and Hudi then looks for it on the timeline of the metadata table.
    """
    last = last_compaction(metadata)
    if not last or not data.completed_writes:
        return ""
    # A write may have begun before the compaction and have completed behind it.
    unmerged = [i.time for i in metadata.completed if (i.completion_time or i.time) > last]
    pending = [instant.time for timeline in (data, metadata) for instant in timeline.pending]
    return min([last, *unmerged, *pending, *data.write_times])
