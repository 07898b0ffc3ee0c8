"""Compaction of Hudi's metadata table, without which every commit adds log files that every reader reads."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

from rli.hudi.metadata.reader import MetadataTableReader
from rli.hudi.timeline.instant import Action, new_instant_time
from rli.hudi.timeline.timeline import Timeline
from rli.metadata_table.compaction import (
    Groups,
    changed_groups,
    deltacommits_since_compaction,
    held_back_by,
    instant_of_compaction,
    write_compaction,
)
from rli.metadata_table.new_files import NewFiles
from rli.publication.fence import Fence
from rli.publication.metadata_compaction import PlannedCompaction, publish_compaction, remove_superseded
from rli.telemetry import events, metrics
from rli.view import paths
from rli.view.definition import TableDefinition

DELTACOMMITS_OF_COMPACTION: Final = 10
"""After so many a writer compacts, as Hudi's writers do."""


@dataclass(frozen=True, slots=True)
class MetadataCompaction:
    """What a compaction of the metadata table did.

    Attributes:
        instant: of the compaction; None if there was none.
        file_groups: that have new base files.
        deltacommits: since the compaction before.
        files_deleted: of older slices.
        held_back_by: the pending instant that must end first; None if nothing held the compaction back.
        dry_run: whether it only told what it would do.
    """

    instant: str | None
    file_groups: int
    deltacommits: int
    files_deleted: int
    held_back_by: str | None
    dry_run: bool = False


def compact_metadata(fence: Fence, *, least: int = 1) -> MetadataCompaction:
    """Merge the log files of the metadata table into base files, and remove what no reader needs any more.

    Args:
        fence: of the caller, who holds the lease.
        least: deltacommits since the last compaction, below which nothing is done.

    Raises:
        CorruptTableError: a file of the metadata table is damaged.
        LeaseLostError: another writer took the lease over; the metadata table is as it was, or compacted.
        UnsupportedTableError: the metadata table has a form that rli does not read.
    """
    began, table = time.monotonic(), fence.table.reloaded()
    data, reader = _reader(table)
    deltacommits = _waiting(reader)
    metrics.METADATA_DELTACOMMITS.set(deltacommits, table=table.location)
    # Before the folders are listed: writers ask often, and seldom is there enough to do.
    groups = [*changed_groups(reader)] if deltacommits >= least else []
    if not groups:
        return MetadataCompaction(None, 0, deltacommits, 0, None)
    pending = held_back_by(data, reader.timeline)
    if pending is not None:
        metrics.METADATA_HELD_BACK.add(1, table=table.location)
        events.METADATA_HELD_BACK.log(table=table.location, instant=pending, deltacommits=deltacommits)
        return MetadataCompaction(None, 0, deltacommits, 0, pending)
    instant = _compact(table, data, reader, groups, fence)
    # Of a reader that knows the new base files.
    reader = _reader(table)[1]
    files = [file.path for partition in reader.all_partitions for file in reader.superseded(partition)]
    remove_superseded(files, fence)
    metrics.SERVICES.add(1, service="metadata compaction")
    events.METADATA_COMPACTED.log(
        table=table.location,
        instant=instant,
        file_groups=len(groups),
        deltacommits=deltacommits,
        files=len(files),
        seconds=time.monotonic() - began,
    )
    return MetadataCompaction(instant, len(groups), deltacommits, len(files), None)


def foretold_compaction(table: TableDefinition) -> MetadataCompaction:
    """What a compaction would do now; nothing is changed. Raises as ``compact_metadata``."""
    data, reader = _reader(table)
    if not reader.all_partitions:
        return MetadataCompaction(None, 0, 0, 0, None, dry_run=True)
    groups = sum(1 for _ in changed_groups(reader))
    return MetadataCompaction(None, groups, _waiting(reader), 0, held_back_by(data, reader.timeline), dry_run=True)


def _waiting(reader: MetadataTableReader) -> int:
    """The deltacommits that a compaction would merge; none without a metadata table."""
    return deltacommits_since_compaction(reader.timeline) if reader.all_partitions else 0


def _compact(table: TableDefinition, data: Timeline, reader: MetadataTableReader, groups: Groups, fence: Fence) -> str:
    used = max(data.latest_time or "", reader.timeline.latest_time or "")
    now = new_instant_time(table.now(), used or None)
    instant, folder = instant_of_compaction(reader.timeline, now), paths.birth_folder(uuid4().hex)
    layout = table.timeline_layout
    new = NewFiles(table, paths.birth_files(folder), instant, now)
    try:
        files, metadata = write_compaction(reader, groups, new, layout)
    except BaseException:
        table.storage.delete_folder(folder)
        raise
    completed = layout.completed_path(instant, Action.COMMIT, new_instant_time(table.now(), now))
    publish_compaction(
        folder, PlannedCompaction(files=tuple(files), completed=completed), layout.encode(metadata), fence
    )
    return instant


def _reader(table: TableDefinition) -> tuple[Timeline, MetadataTableReader]:
    data = table.load_timeline()
    return data, MetadataTableReader(table.storage, data, table.properties)
