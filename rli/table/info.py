"""What a table is and how it is, in a few lines, without reading its records."""

from __future__ import annotations

from dataclasses import dataclass

from rli.coordination.of_table import coordination_of
from rli.errors import RliError
from rli.hudi.table_features import require_writable
from rli.index.any_index import facts_of
from rli.index.contract import TableIndex
from rli.index.reports import IndexFacts
from rli.model import Scope, TableType
from rli.settings import TableSettings
from rli.telemetry import metrics
from rli.urls import without_password
from rli.view.definition import TableDefinition
from rli.view.depth import told_depth
from rli.view.snapshot import Snapshot, told_of_now


@dataclass(frozen=True, slots=True)
class IndexInfo:
    """The index of a table.

    Attributes:
        url: where it is; without a password.
        scope: where a record key is unique.
        entries: record keys in it; None where its store would have to read all of them.
        bytes: all that it costs its store; None where the store cannot tell.
        shards: how many shards the key space is cut into; None for an index without a store.
        key_mode: "exact" or "digest"; None for an index without a store.
        format_version: of its records; None for an index without a store.
        unseen_commits: how many instants of the table it has still to follow; None if it cannot follow the table.
    """

    url: str
    scope: Scope
    entries: int | None
    bytes: int | None
    shards: int | None
    key_mode: str | None
    format_version: int | None
    unseen_commits: int | None


@dataclass(frozen=True, slots=True)
class TableInfo:
    """What a table is and how it is.

    Attributes:
        location: of the table, absolute or a URI.
        name: of the table.
        table_version: of Hudi's format.
        table_type: copy-on-write or merge-on-read.
        record_key, partition_by: columns.
        ordering: columns that decide between two versions of a record; none where the later write wins.
        columns: name and Arrow type of each column; empty in a table that was never written.
        commits: completed writes on the active timeline.
        pending: instants that have not completed.
        last_commit: instant of the last write; None before the first one.
        files: live base files; in a merge-on-read table, each with its log files.
        bytes: their size.
        partitions: folders that hold live base files or log files.
        index: None if the table has no index, or its index cannot be opened; ``problems`` says why.
        settings: what rli keeps with the table; None where Hudi made the table and rli has no index of it.
        lease: the writer that holds the lease; None if nobody does.
        problems: what is wrong, with what to do; ``rli doctor`` looks deeper.
    """

    location: str
    name: str
    table_version: int
    table_type: TableType
    record_key: tuple[str, ...]
    partition_by: tuple[str, ...]
    ordering: tuple[str, ...]
    columns: dict[str, str]
    commits: int
    pending: int
    last_commit: str | None
    files: int
    bytes: int
    partitions: int
    index: IndexInfo | None
    settings: TableSettings | None
    lease: str | None
    problems: tuple[str, ...]


def table_info(table: TableDefinition, index: TableIndex | RliError) -> TableInfo:
    """Facts about a table; it lists files and reads the timeline, but no records.

    Args:
        table: its definition.
        index: its index, or why that cannot be opened.

    Raises:
        CorruptTableError: the timeline cannot be read.
    """
    return told_of_now(table, lambda snapshot: _info_as_of(snapshot, index))


def _info_as_of(snapshot: Snapshot, index: TableIndex | RliError) -> TableInfo:
    table, timeline, properties = snapshot.table, snapshot.timeline, snapshot.table.properties
    problems = _problems_of_writing(table)
    found, lease = None, None
    if isinstance(index, RliError):
        problems.append(str(index))
    else:
        found = _index_info(table, index, problems)
        lease = _lease(table, index, problems)
    slices = snapshot.slices
    groups = dict(slices)
    if not properties.is_copy_on_write:
        told_depth(table.location, groups.values())
    return TableInfo(
        location=table.location,
        name=properties.name,
        table_version=properties.version,
        table_type=TableType(properties.table_type.lower()),
        record_key=properties.record_key_fields,
        partition_by=properties.partition_fields,
        ordering=properties.ordering_fields,
        columns={} if snapshot.schema is None else {field.name: str(field.type) for field in snapshot.schema},
        commits=len(timeline.completed_writes),
        pending=len(timeline.pending),
        last_commit=None if timeline.latest_write is None else timeline.latest_write.time,
        files=len(groups),
        bytes=sum(file_slice.size for file_slice in groups.values()),
        partitions=len({group.partition_path for group in groups}),
        index=found,
        settings=table.settings,
        lease=lease,
        problems=tuple(problems),
    )


def _problems_of_writing(table: TableDefinition) -> list[str]:
    try:
        require_writable(table.properties)
    except RliError as error:
        return [str(error)]
    return []


def _index_info(table: TableDefinition, index: TableIndex, problems: list[str]) -> IndexInfo | None:
    unseen, facts = None, IndexFacts()
    try:
        facts = facts_of(index)
        _, missing = index.unseen(table)
        unseen = missing.lag
        metrics.INDEX_LAG.set(unseen, table=table.location)
    except RliError as error:
        problems.append(str(error))
    return IndexInfo(
        url=without_password(index.url),
        scope=index.scope,
        entries=facts.entries,
        bytes=facts.bytes,
        shards=facts.shards,
        key_mode=facts.key_mode,
        format_version=facts.format_version,
        unseen_commits=unseen,
    )


def _lease(table: TableDefinition, index: TableIndex, problems: list[str]) -> str | None:
    try:
        coordination = coordination_of(table, index)
        holder = coordination.exclusion.holder()
        dead = coordination.writers.abandoned()
    except RliError as error:
        problems.append(str(error))
        return None
    if dead:
        problems.append(f"writers died, and the next write cleans up after them: instants={dead}")
    if holder is not None and holder.damage is not None:
        problems.append(holder.damage)
    return None if holder is None else holder.writer
