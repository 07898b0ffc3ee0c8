"""The deltacommit that brings some changes into the metadata table."""

from __future__ import annotations

from collections.abc import Iterable

from rli.hudi.metadata.reader import MetadataTableReader
from rli.hudi.metadata.schema import schema_text_of
from rli.hudi.timeline.instant import new_instant_time
from rli.metadata_table.contents import Contents
from rli.metadata_table.deltacommit import Deltacommit
from rli.metadata_table.group_logs import LogWriter
from rli.metadata_table.indexed_columns import IndexedColumns
from rli.metadata_table.live_statistics import LiveStatistics
from rli.view.snapshot import Snapshot


def next_deltacommit(
    snapshot: Snapshot,
    reader: MetadataTableReader,
    instant: str,
    contents: Contents,
    *,
    partitions: Iterable[str],
    columns: IndexedColumns,
    attempt: int = 0,
) -> Deltacommit | None:
    """The deltacommit of a change of the table; None if it changes nothing in the metadata table.

    Args:
        snapshot: of the table.
        reader: of the metadata table.
        instant: of the change.
        contents: what changes in the partitions.
        partitions: those that are kept.
        columns: with statistics.
        attempt: at a table service; see ``Upkeep.of_service``.
    """
    statistics = LiveStatistics(snapshot.table.storage, reader, columns)
    schema = schema_text_of(snapshot.table.properties.version)
    writer = LogWriter(instant, reader.timeline.layout.keeps_completion_times, schema, attempt)
    logs = [
        log
        for name in partitions
        for change in contents.changes(name, statistics)
        for log in writer.logs(reader.groups(name), change)
    ]
    if not logs:
        return None
    latest = max(filter(None, (snapshot.timeline.latest_time, reader.timeline.latest_time)))
    completion = new_instant_time(snapshot.table.now(), latest)
    return Deltacommit(instant, logs, snapshot.timeline.layout, completion, schema)
