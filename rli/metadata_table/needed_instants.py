"""Which instants of the table its metadata table needs on the active timeline."""

from __future__ import annotations

from rli.hudi.metadata.reader import metadata_layout
from rli.hudi.timeline.timeline import load_timeline
from rli.metadata_table.compaction import last_compaction
from rli.view.definition import TableDefinition


def earliest_needed(table: TableDefinition) -> str | None:
    """The time from which on no instant leaves the active timeline; None in a table without a metadata table.

    To readers of Hudi 0.15, what lies in log files counts as long as its instant is on the active timeline. So only what a
    compaction has merged may leave.

    Raises:
        CorruptTableError: the timeline of the metadata table is broken.
    """
    if not table.properties.metadata_partitions:
        return None
    timeline = load_timeline(table.storage, metadata_layout(table.timeline_layout))
    # In table version 6, a compaction has the digits of the last deltacommit, and more behind them.
    return last_compaction(timeline)
