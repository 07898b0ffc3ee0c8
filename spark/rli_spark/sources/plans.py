"""What is read of a table, in parts for Spark's tasks. A part is picklable, and gives its rows as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Protocol, TypeVar

import pyarrow as pa

import rli
from rli.filters.filter import Filter
from rli.filters.predicates import all_of
from rli.hudi.meta_columns import with_meta_columns
from rli.reads.changes.completions import Completions
from rli.reads.changes.table_changes import ChangeChoices, ChangePiece, PlannedChanges
from rli.table.table import opened_table
from rli.view.file_slices import FileSlice
from rli.view.scan import SnapshotScan
from rli.view.snapshot import Snapshot
from rli_spark.planning.parallelism import Parallelism
from rli_spark.rows.row_batches import shared_out
from rli_spark.sources.options import SourceOptions, View
from rli_spark.sources.pushed_filters import understood

Item = TypeVar("Item", FileSlice, ChangePiece)

_BATCH_ROWS: Final = 65_536
_STRINGS: Final = pa.list_(pa.string())
_COUNTS: Final = (
    *("inserted", "updated", "moved", "deleted", "unchanged", "duplicates"),
    *("files", "written_bytes", "attempts", "conflicts"),
)

TIMELINE: Final = pa.schema(
    [
        *((name, pa.string()) for name in ("time", "action", "state", "completion_time", "operation", "writer")),
        ("seconds", pa.float64()),
        *((name, pa.int64()) for name in _COUNTS),
        ("phases", pa.map_(pa.string(), pa.float64())),
        ("undone", _STRINGS),
        ("transaction", pa.struct([("application", pa.string()), ("number", pa.int64())])),
        ("metadata", pa.map_(pa.string(), pa.string())),
    ]
)
"""Of the view ``timeline``: the fields of ``rli.HistoryEntry``."""

FILES: Final = pa.schema(
    [*((name, pa.string()) for name in ("partition_path", "file_id", "instant", "path")), ("bytes", pa.int64())]
)
"""Of the view ``files``: the live files."""

INDEXES: Final = pa.schema(
    [
        *((name, pa.string()) for name in ("url", "scope", "key_mode")),
        *((name, pa.int64()) for name in ("entries", "bytes", "shards", "format_version", "unseen_commits")),
        ("problems", _STRINGS),
    ]
)
"""Of the view ``indexes``: the fields of ``rli.IndexInfo``, and why they are missing."""


class Part(Protocol):
    """What one task reads."""

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Its rows."""


@dataclass(frozen=True)
class ChangesPart:
    """Changes that one task reads.

    Attributes:
        planned: the range, without its commits.
        pieces: of it.
    """

    planned: PlannedChanges
    pieces: Sequence[ChangePiece]

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Its changes; raises as ``ChangeRequest.rows``."""
        for piece in self.pieces:
            yield from piece.rows(self.planned.request)


def schema_of(options: SourceOptions) -> pa.Schema:
    """Schema of what is read; raises as ``parts_of``."""
    if options.view not in (View.RECORDS, View.CHANGES):
        return {View.TIMELINE: TIMELINE, View.FILES: FILES, View.INDEXES: INDEXES}[options.view]
    with rli.open_table(options.path) as table:
        if options.view is View.CHANGES:
            return planned_changes(table, options, options.since, options.until).request.result_schema
        return opened_table(table).told(options.as_of, lambda snapshot: snapshot.scan(options.columns).schema)


def parts_of(options: SourceOptions, columns: Sequence[str], pushed: Sequence[Any], cores: int) -> Sequence[Any]:
    """Parts of about the same size.

    Args:
        options: what is read.
        columns: of records, which ones Spark wants.
        pushed: filters of Spark.
        cores: how many tasks Spark runs at a time.

    Raises:
        TableNotFoundError: there is no table.
        RliError: otherwise as ``Table.read``, ``Table.changes``, ``Table.history`` and ``Table.info``.
    """
    with rli.open_table(options.path) as table:
        match options.view:
            case View.RECORDS:
                return _parts_of_records(table, options, columns, pushed, cores)
            case View.CHANGES:
                return parts_of_changes(planned_changes(table, options, options.since, options.until), cores)
            case View.TIMELINE:
                return [_timeline(table)]
            case View.FILES:
                return [opened_table(table).told(options.as_of, _files)]
        return [_indexes(table)]


def planned_changes(table: rli.Table, options: SourceOptions, since: str | None, until: str | None) -> PlannedChanges:
    """The changes of a range; raises as ``Table.changes``."""
    opened = opened_table(table)
    choices = ChangeChoices(opened.scope, options.images, options.columns, options.filters)
    return PlannedChanges.of(opened.reloaded(), since, until, choices)


def parts_of_changes(planned: PlannedChanges, cores: int) -> list[ChangesPart]:
    """Planned changes in parts of about the same size."""
    alone = replace(planned, plan=replace(planned.plan, commits=()))
    return [ChangesPart(alone, some) for some in _balanced(planned.pieces(), cores)]


def latest_position(table: rli.Table) -> str | None:
    """The instant of the commit that completed last; None before the first commit."""
    definition = opened_table(table).reloaded()
    writes = Completions.of(definition, definition.load_timeline()).writes
    return writes[-1].time if writes else None


def rows_of(part: Part, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a part, in the types that Spark wants."""
    for batch in part.to_batches():
        rows = pa.Table.from_batches([batch]).select(schema.names).cast(schema)
        yield from rows.combine_chunks().to_batches(max_chunksize=_BATCH_ROWS)


def _parts_of_records(
    table: rli.Table, options: SourceOptions, columns: Sequence[str], pushed: Sequence[Any], cores: int
) -> list[SnapshotScan]:
    def plan(snapshot: Snapshot) -> list[SnapshotScan]:
        scan = _with_pushed(snapshot.scan(columns, options.filters), pushed)
        found = scan.matching_slices()
        # Tasks need not what was listed for the plan, and files are chosen.
        alone = replace(snapshot, metadata=None).require_not_removed
        scan = replace(scan, require_not_removed=alone, skipping=None)
        return [replace(scan, slices={one.group: one for one in some}) for some in _balanced(found, cores)]

    return opened_table(table).told(options.as_of, plan)


def _with_pushed(scan: SnapshotScan, pushed: Sequence[Any]) -> SnapshotScan:
    if scan.table_schema is None:
        return scan
    full = with_meta_columns(scan.table_schema)
    more = Filter.of(understood(pushed, full), full)
    if more is None or scan.filter is None:
        return scan if more is None else replace(scan, filter=more)
    both = all_of([scan.filter.predicate, more.predicate])
    return replace(scan, filter=Filter(scan.filter.expression & more.expression, both))


def _balanced(items: Sequence[Item], cores: int) -> list[list[Item]]:
    """Items in lists of about the same size in bytes."""
    tasks = min(len(items), Parallelism(lambda: cores).for_bytes(sum(item.size for item in items)))
    found: list[list[Item]] = [[] for _ in range(tasks)]
    for number, task in sorted(shared_out({number: item.size for number, item in enumerate(items)}, tasks).items()):
        found[task].append(items[number])
    return found


def _timeline(table: rli.Table) -> pa.Table:
    rows = [asdict(entry) for entry in table.history()]
    for row in rows:
        transaction = row["transaction"]
        row["transaction"] = transaction and dict(zip(("application", "number"), transaction, strict=True))
        row["metadata"], row["phases"] = list(row["metadata"].items()), list(row["phases"].items())
    return pa.Table.from_pylist(rows, TIMELINE)


def _files(snapshot: Snapshot) -> pa.Table:
    live = sorted(snapshot.slices.values(), key=lambda one: one.group)
    rows = [
        (one.group.partition_path, one.group.file_id, one.instant, file.path, file.size)
        for one in live
        for file in one.files
    ]
    return pa.Table.from_pylist([dict(zip(FILES.names, row, strict=True)) for row in rows], FILES)


def _indexes(table: rli.Table) -> pa.Table:
    info = table.info()
    if info.settings is None:
        return INDEXES.empty_table()
    known = {} if info.index is None else asdict(info.index)
    return pa.Table.from_pylist([{**known, "problems": list(info.problems)}], INDEXES)
