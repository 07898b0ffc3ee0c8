"""New partitions of Hudi's metadata table, built beside writers or under the lease, and brought into it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

import pyarrow as pa

from rli.hudi.metadata.index_definitions import IndexDefinition, load_index_definitions
from rli.hudi.metadata.metadata_files import metadata_layout
from rli.hudi.metadata.partitions import PartitionKind, is_of_expression
from rli.hudi.metadata.statistic_values import StatisticsVersion
from rli.hudi.timeline.timeline import Timeline, load_timeline
from rli.metadata_table.birth import Birth
from rli.metadata_table.indexed_columns import IndexedColumns, names_of_columns
from rli.metadata_table.initial_records import InitialRecords
from rli.metadata_table.kept_shards import remove_kept
from rli.model import Scope
from rli.publication.fence import Fence
from rli.publication.metadata_partitions import PlannedPartitions, add_partitions, remove_partitions
from rli.services.metadata_table import MetadataChange
from rli.services.new_partitions import NewPartitions
from rli.services.other_builders import require_no_other_indexer, require_no_other_writer
from rli.tasks import TaskRunner
from rli.telemetry import events, metrics
from rli.view import paths
from rli.view.definition import TableDefinition
from rli.view.lost_files import require_all_files
from rli.view.snapshot import Snapshot

_FIRST_VERSION_OF_STATISTICS_2: Final = 9


@dataclass(frozen=True, slots=True)
class PreparedPartitions:
    """New partitions whose files wait to be brought into the metadata table.

    Attributes:
        plan: what is to come.
        definitions: of the new partitions that have one.
        state: of the table that they were built from.
        seconds: that it took.
    """

    plan: PlannedPartitions
    definitions: tuple[IndexDefinition, ...]
    state: frozenset[tuple[str, str]]
    seconds: float


def prepare_partitions(
    wanted: NewPartitions,
    table: TableDefinition,
    folder: str,
    on_progress: Callable[[int, int], None] = lambda _, __: None,
    tasks: TaskRunner | None = None,
) -> PreparedPartitions | None:
    """Build the partitions that the metadata table lacks, in a folder; None if it lacks none. No lease is needed.

    What a former build of them has read is not read again.

    Args:
        wanted: the partitions.
        table: as it is now; its storage waits for the disk.
        folder: relative to the table; nobody else uses it.
        on_progress: told how many of how many files of the table are read.
        tasks: of an engine, which read the files; None to read them in this process.

    Raises:
        ConflictError: another engine is writing, or another process has removed what was read.
        CorruptTableError: a base file is missing or damaged.
        InvalidInputError: there is no such partition or column, a record key is in two partitions of the table, or statistics of other
            columns are kept already.
        UnsupportedTableError: tables of this version have no such partitions.
    """
    began, listed = time.monotonic(), table.properties.metadata_partitions
    kinds = [kind for kind in wanted.kinds(table.properties.version) if kind not in listed or kind in wanted.replaced]
    known = load_index_definitions(table.storage, table.properties)
    if PartitionKind.COLUMN_STATS not in kinds:
        wanted.require_columns_of(known.get(PartitionKind.COLUMN_STATS))
    if not kinds:
        return None
    wanted.require_supported(table.properties)
    snapshot = Snapshot.now(table)
    require_no_other_writer(snapshot)
    require_no_other_indexer(snapshot, kinds)
    # What is missing in the folders would be missing in the metadata table, too, and stay so when the file is back.
    require_all_files(snapshot)
    definitions = _definitions(wanted, snapshot, kinds)
    columns = IndexedColumns.of({**known, **{made.name: made for made in definitions}}, _schema(snapshot))
    own = [made for made in definitions if made == wanted.of_column]
    secondary = {made.name: made.columns[0] for made in own if not is_of_expression(made.name)}
    expressions = {made.name: made for made in own if is_of_expression(made.name)}
    is_partitioned = wanted.scope is Scope.PARTITION
    records = InitialRecords(snapshot, kinds, columns, is_partitioned, secondary, expressions, tasks)
    records.read(on_progress)
    birth = Birth.of(records, folder)
    files = birth.write(table.timeline_layout)
    plan = PlannedPartitions(
        partitions=tuple(kinds), instant=birth.new.instant, is_first=birth.is_first, files=tuple(files), source=folder
    )
    return PreparedPartitions(plan, tuple(definitions), _state(table, snapshot.timeline), time.monotonic() - began)


def publish_partitions(prepared: PreparedPartitions, fence: Fence) -> MetadataChange | None:
    """Bring partitions into the metadata table; None if the table has changed since they were built: then nothing is done.

    Args:
        prepared: the partitions.
        fence: of the caller, who holds the lease.

    Raises:
        ConflictError: another engine is writing.
        LeaseLostError: another writer took the lease over; nothing was added.
    """
    table = fence.table.reloaded()
    snapshot = Snapshot.now(table)
    if _state(table, snapshot.timeline) != prepared.state:
        return None
    require_no_other_writer(snapshot)
    plan = prepared.plan
    require_no_other_indexer(snapshot, plan.partitions)
    if replaced := [name for name in plan.partitions if name in table.properties.all_metadata_partitions]:
        # Until the new ones are listed, readers read more than they need.
        remove_partitions(replaced, fence)
    add_partitions(plan, prepared.definitions, fence)
    remove_kept(table.storage, plan.partitions)
    metrics.SERVICES.add(1, service="metadata")
    events.METADATA_ENABLED.log(table=table.location, partitions=plan.partitions, seconds=prepared.seconds)
    return MetadataChange(plan.partitions, (), fence.table.reloaded().properties.metadata_partitions)


def enable_metadata(
    wanted: NewPartitions,
    fence: Fence,
    on_progress: Callable[[int, int], None] = lambda _, __: None,
    tasks: TaskRunner | None = None,
) -> MetadataChange:
    """Build the partitions that the metadata table lacks, and bring them into it, while nobody else writes.

    Args:
        wanted: the partitions.
        fence: of the caller, who holds the lease.
        on_progress: as for ``prepare_partitions``.
        tasks: as for ``prepare_partitions``.

    Raises:
        RliError: as ``prepare_partitions`` and ``publish_partitions``.
    """
    table, folder = fence.table.reloaded(), paths.birth_folder(uuid4().hex)
    try:
        prepared = prepare_partitions(wanted, table, paths.birth_files(folder), on_progress, tasks)
        done = None if prepared is None else publish_partitions(prepared, fence)
    finally:
        table.storage.delete_folder(folder)
    return MetadataChange((), (), table.properties.metadata_partitions) if done is None else done


def is_unchanged(prepared_for: TableDefinition, timeline: Timeline) -> bool:
    """Whether nothing has completed in a table since its timeline was loaded."""
    return _state(prepared_for.reloaded(), prepared_for.load_timeline()) == _state(prepared_for, timeline)


def _state(table: TableDefinition, timeline: Timeline) -> frozenset[tuple[str, str]]:
    """What new partitions depend on: the completed instants of both timelines, and the partitions that are there."""
    metadata = load_timeline(table.storage, metadata_layout(table.timeline_layout))
    listed = ((name, "partition") for name in table.properties.metadata_partitions)
    own = ((instant.time, f"metadata {instant.action}") for instant in metadata.completed)
    return frozenset([*((instant.time, instant.action) for instant in timeline.completed), *own, *listed])


def _definitions(wanted: NewPartitions, snapshot: Snapshot, kinds: Collection[str]) -> list[IndexDefinition]:
    """Definitions of new partitions; those without one leave none."""
    found = []
    if PartitionKind.COLUMN_STATS in kinds:
        has_second = snapshot.table.properties.version >= _FIRST_VERSION_OF_STATISTICS_2
        version = StatisticsVersion.V2 if has_second else StatisticsVersion.V1
        # A table without records does not know its columns yet: without a list, each commit takes those that it has then.
        is_open = wanted.columns is None and snapshot.schema is None
        names = () if is_open else names_of_columns(_schema(snapshot), wanted.columns)
        kind = PartitionKind.COLUMN_STATS.value
        found.append(IndexDefinition(kind, kind, kind, names, version=version.value))
    if PartitionKind.RECORD_INDEX in kinds:
        kind, is_partitioned = PartitionKind.RECORD_INDEX.value, wanted.scope is Scope.PARTITION
        found.append(IndexDefinition(kind, kind, options={"isPartitioned": "true" if is_partitioned else "false"}))
    if wanted.of_column is not None and wanted.of_column.name in kinds:
        found.append(wanted.of_column)
    return found


def _schema(snapshot: Snapshot) -> pa.Schema:
    return snapshot.schema or pa.schema([])
