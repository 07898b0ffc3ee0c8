"""Writing a table in this process: the plain-Python engine.

Memory is bounded by the batch that is written and by the file groups that are written at a time: one for each core, up to eight.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from rli.codec.key_arrays import as_key_array
from rli.commit.conflicts import ReadSet, newer_keys
from rli.commit.write_transaction import OnStep, PreparedWrite, WriteTransaction
from rli.file_group import work_rows
from rli.file_group.work_rows import Change
from rli.file_group.writer import FileGroupResult, FileGroupTarget, WriteContext, write_file_group
from rli.hudi.file_names import new_file_id
from rli.hudi.key_generator import require_record_keys
from rli.hudi.schema import conform
from rli.hudi.table_features import require_writable
from rli.index.record.record_index import RecordIndex
from rli.model import CommitResult, FileGroupId, OnPartitionChange, Step
from rli.tasks import InProcess, InThreads
from rli.view.caller_metadata import CallerMetadata
from rli.view.definition import TableDefinition
from rli.write.maintenance import write_and_maintain
from rli.write.placement import plan_placements
from rli.write.tagging import (
    current_locations,
    delete_rows,
    departures,
    groups_of,
    late_arrivals,
    newest_of,
    place,
    require_no_moves,
    require_slice,
    require_slices,
    to_work_rows,
    with_keys,
)


def upsert(
    table: TableDefinition,
    index: RecordIndex,
    records: pa.Table,
    on_change: OnPartitionChange,
    *,
    attempts: int,
    on_step: OnStep,
    caller: CallerMetadata,
) -> CommitResult:
    """Insert, update and move records; see ``Table.upsert``."""
    require_writable(table.properties)
    ordering = table.properties.ordering_field
    keyed = newest_of(with_keys(records, table.key_generator, ordering), ordering)
    return write_and_maintain(
        partial(WriteTransaction.begin, table, index, InProcess(), on_step, caller=caller),
        partial(_write_records, keyed, records.nbytes / max(records.num_rows, 1), on_change),
        attempts,
        InProcess(),
    )


def delete(
    table: TableDefinition,
    index: RecordIndex,
    record_keys: pa.Array,
    *,
    attempts: int,
    on_step: OnStep,
    caller: CallerMetadata,
) -> CommitResult:
    """Remove records by key; see ``Table.delete``."""
    keys = as_key_array(record_keys).unique()
    require_record_keys(keys)
    return write_and_maintain(
        partial(WriteTransaction.begin, table, index, InProcess(), on_step, caller=caller),
        partial(_write_deletes, keys),
        attempts,
        InProcess(),
    )


def _write_records(
    keyed: pa.Table, bytes_per_record: float, on_change: OnPartitionChange, write: WriteTransaction
) -> PreparedWrite:
    data = [field for field in keyed.schema if not field.name.startswith(work_rows.PREFIX)]
    schema = write.schema_with(pa.schema(data))
    fitting = conform(keyed, pa.schema([*(keyed.schema.field(name) for name in keyed.column_names[:2]), *schema]))
    keys = fitting.column(work_rows.RECORD_KEY).combine_chunks()
    rows = to_work_rows(fitting, current_locations(write.index, keys, write.sequence), on_change)
    write.on_step(Step.TAGGED)
    in_time = _without_late_arrivals(write, rows)
    late = rows.num_rows - in_time.num_rows
    arriving = in_time.filter(_is(in_time, Change.MOVE_IN))
    if on_change is OnPartitionChange.FAIL:
        require_no_moves(arriving.num_rows, arriving.column(work_rows.RECORD_KEY).slice(0, 5).to_pylist())
    placed = _placed(write, in_time.filter(_is(in_time, Change.INSERT, Change.MOVE_IN)), bytes_per_record)
    work = pa.concat_tables([in_time.filter(_is(in_time, Change.UPDATE)), placed, departures(arriving)])
    write.on_step(Step.RESOLVED)
    results = list(_write_groups(write, write.context(schema, is_synced=False), work))
    return PreparedWrite(results, schema, "UPSERT", late, ReadSet(_origins(rows)))


def _write_deletes(keys: pa.Array, write: WriteTransaction) -> PreparedWrite:
    schema = write.snapshot.schema or pa.schema([])
    rows = delete_rows(keys, current_locations(write.index, keys, write.sequence), schema)
    write.on_step(Step.TAGGED)
    results = list(_write_groups(write, write.context(schema, is_synced=False), rows))
    read = ReadSet(_origins(rows), partial(newer_keys, write.index, write.sequence, keys))
    return PreparedWrite(results, schema, "DELETE", len(keys) - rows.num_rows, read)


def _origins(rows: pa.Table) -> frozenset[FileGroupId]:
    """The file groups where the records of work rows are stored."""
    return frozenset(group for group, _ in groups_of(rows, work_rows.PRIOR_FILE_GROUP))


def _without_late_arrivals(write: WriteTransaction, rows: pa.Table) -> pa.Table:
    """Work rows less the arriving records that are older than what is stored in their old partition."""
    ordering = write.table.properties.ordering_field
    arriving = rows.filter(_is(rows, Change.MOVE_IN))
    if ordering is None or not arriving.num_rows:
        return rows
    late: list[pa.Array] = []
    by_origin = dict(groups_of(arriving, work_rows.PRIOR_FILE_GROUP))
    slices = require_slices(write.snapshot.slices, by_origin)
    for group, part in by_origin.items():
        field = pa.field(ordering, rows.schema.field(ordering).type)
        mask = late_arrivals(write.table.storage, slices[group], field, part)
        late.append(part.column(work_rows.RECORD_KEY).combine_chunks().filter(mask))
    too_late = pa.concat_arrays(late)
    return rows.filter(pc.invert(pc.is_in(rows.column(work_rows.RECORD_KEY), value_set=too_late)))


def _placed(write: WriteTransaction, new_rows: pa.Table, bytes_per_record: float) -> pa.Table:
    if not new_rows.num_rows:
        return new_rows
    counted = pc.value_counts(new_rows.column(work_rows.PARTITION_PATH).combine_chunks())
    new_records = Counter({entry["values"]: entry["counts"] for entry in counted.to_pylist()})
    placements = plan_placements(
        new_records,
        write.bytes_per_record(bytes_per_record),
        write.snapshot.slices.of_partitions(new_records),
        write.table.require_settings(),
        new_file_id,
    )
    return place(new_rows, placements)


def _write_groups(write: WriteTransaction, context: WriteContext, work: pa.Table) -> Iterable[FileGroupResult]:
    new = pc.unique(work.filter(_is(work, Change.INSERT, Change.MOVE_IN)).column(work_rows.FILE_ID))
    may_be_new = set(new.to_pylist())
    by_group = dict(groups_of(work))
    live = write.snapshot.slices.of_groups(by_group)
    targets: list[tuple[FileGroupTarget, pa.Table, str]] = []
    for number, (group, rows) in enumerate(by_group.items()):
        base = live.get(group) if group.file_id in may_be_new else require_slice(live, group)
        targets.append((FileGroupTarget(group, base), rows, f"{number}-0-0"))
    for result in InThreads().run(lambda target: write_file_group(context, *target), targets):
        yield result
        write.on_step(Step.FILE_GROUP_WRITTEN)
    write.on_step(Step.WRITTEN)


def _is(rows: pa.Table, *changes: Change) -> pa.ChunkedArray:
    return pc.is_in(rows.column(work_rows.CHANGE), value_set=pa.array([int(change) for change in changes], pa.int8()))
