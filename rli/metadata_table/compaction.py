"""Compaction of the metadata table: each file group with log files gets a base file of what both hold together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from rli.hudi.metadata.group_slices import GroupSlice
from rli.hudi.metadata.reader import MetadataTableReader
from rli.hudi.timeline.commit_metadata import COMPACT, CommitMetadata
from rli.hudi.timeline.compaction_plan import CompactionOperation, CompactionPlan
from rli.hudi.timeline.instant import Action
from rli.hudi.timeline.layouts import TimelineLayout
from rli.hudi.timeline.timeline import Timeline
from rli.metadata_table.new_files import NewFiles

_SUFFIX: Final = "001"
"""Of a compaction in table version 6, behind the instant of the last deltacommit."""


Groups: TypeAlias = Sequence[tuple[str, GroupSlice]]
"""File groups, each behind its partition."""


def write_compaction(
    reader: MetadataTableReader, groups: Groups, new: NewFiles, layout: TimelineLayout
) -> tuple[list[str], CommitMetadata]:
    """Write the new base files of some file groups, and the pending states of the instant.

    Memory holds the log files of one file group, and one block of its base file.

    Args:
        reader: of the metadata table, whose timeline was loaded under the lease.
        groups: to compact.
        new: the files; their instant is that of the compaction.
        layout: of the timeline of the metadata table, relative to the metadata table.

    Returns:
        The files in the order in which they are to come into the metadata table; the content of the completed instant.

    Raises:
        CorruptTableError: a file of the metadata table is damaged or missing.
        UnsupportedTableError: the metadata table has a form that rli does not read.
    """
    stats = [
        new.write_base(partition, group.file_id, reader.scan_group(partition, group), _base_instant(group))
        for partition, group in groups
    ]
    operations = tuple(_operation(partition, group) for partition, group in groups)
    plan = CompactionPlan(operations, keeps_meta_columns=False).to_avro()
    pending = new.write_pending(layout, Action.COMPACTION, plan)
    metadata = CommitMetadata(tuple(stats), avro_schema=new.schema, operation=COMPACT)
    return [*(stat.path for stat in stats), *pending], metadata


def changed_groups(reader: MetadataTableReader) -> Iterator[tuple[str, GroupSlice]]:
    """The file groups that log files have changed, each behind its partition; raises as ``MetadataTableReader.groups``."""
    for partition in reader.all_partitions:
        for group in reader.groups(partition):
            if group.changed_logs:
                yield partition, group


def last_compaction(metadata: Timeline) -> str:
    """The instant of the last completed compaction of the metadata table, whose timeline this is; "" without one."""
    return _last_completed(metadata, Action.COMMIT)


def last_deltacommit(metadata: Timeline) -> str:
    """The instant of its last completed deltacommit; "" without one."""
    return _last_completed(metadata, Action.DELTA_COMMIT)


def deltacommits_since_compaction(metadata: Timeline) -> int:
    """How many deltacommits the metadata table has completed since its last compaction.

    Args:
        metadata: timeline of the metadata table.
    """
    last = last_compaction(metadata)
    changes = (instant for instant in metadata.completed if instant.action == Action.DELTA_COMMIT)
    return sum((instant.completion_time or instant.time) > last for instant in changes)


def held_back_by(data: Timeline, metadata: Timeline) -> str | None:
    """The pending instant that must end before the metadata table can be compacted; None if there is none.

    A compaction merges what counts. The changes of an instant that completes later would be passed over behind it.

    Args:
        data: timeline of the table.
        metadata: timeline of the metadata table.
    """
    unfinished = [i.time for i in metadata.pending if i.action in {Action.COMPACTION, Action.LOG_COMPACTION}]
    changes = {i.time for i in metadata.instants if i.action == Action.DELTA_COMMIT}
    pending = {instant.time for instant in data.pending}
    if data.layout.keeps_completion_times:
        unfinished += pending & changes
    else:
        # Log files name the base file before them, so one that comes later may name one that is no longer the newest.
        last = last_deltacommit(metadata)
        unfinished += [time for time in pending if time <= last]
        unfinished += [i.time for i in metadata.pending if i.action == Action.DELTA_COMMIT]
    return min(unfinished, default=None)


def instant_of_compaction(metadata: Timeline, now: str) -> str:
    """The instant of a compaction: the present time, in table version 6 the last deltacommit's with a suffix.

    Args:
        metadata: timeline of the metadata table, with a deltacommit.
        now: after all times of both timelines.
    """
    if metadata.layout.keeps_completion_times:
        return now
    return last_deltacommit(metadata) + _SUFFIX


def _last_completed(metadata: Timeline, action: Action) -> str:
    return max((instant.time for instant in metadata.completed if instant.action == action), default="")


def _operation(partition: str, group: GroupSlice) -> CompactionOperation:
    return CompactionOperation(
        partition,
        group.file_id,
        None if group.base is None else group.base.name,
        _base_instant(group),
        tuple(map(str, group.names)),
        sum(log.size for log in group.logs),
        0 if group.base is None else group.base.size,
    )


def _base_instant(group: GroupSlice) -> str:
    return group.base_instant or group.names[0].instant
