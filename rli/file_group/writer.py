"""Writing file groups: what every engine calls for the file groups that a write changes.

The base file goes to the write's work folder, where no reader sees it, and the journal beside it. A call may be
repeated, raced or abandoned: each attempt has a write token of its own, and only the attempts whose result the
driver accepts are published.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rli.file_group import work_rows
from rli.file_group.append import Append
from rli.file_group.conditions import Condition
from rli.file_group.kept_values import keeping_stored
from rli.file_group.merge import Comparison, MergePlan, numbers_of, plan_merge, starts_of
from rli.file_group.rewrite import require_no_compaction, rewrite
from rli.file_group.stored_records import SoughtKeys, StoredRecords, records_of
from rli.file_group.work_rows import Change
from rli.file_group.write_context import FileGroupResult, FileGroupTarget, WriteContext
from rli.hudi.meta_columns import COMMIT_TIME, RECORD_KEY, with_record_meta_columns
from rli.hudi.schema import conform, holds_same
from rli.view.file_slices import FileSlice
from rli.view.slice_reader import SliceReader

_FEW: Final = 100

TOGETHER_BYTES: Final = 4 * 1024 * 1024
"""The largest base file that is read whole. A larger file may turn out unchanged after a read of the compared columns alone."""

_ROWS_PER_SOUGHT_KEY: Final = 10
"""Of fewer stored rows for each arriving key, all records are read: to seek the keys would take longer."""


_MAY_BE_ABSENT: Final = work_rows.told_apart([*work_rows.NEW, Change.MOVE_IN])
"""Changes of keys that the index does not place in the file group, or not for certain."""


def write_file_groups(
    context: WriteContext, targets: Sequence[FileGroupTarget], rows: pa.Table, counts: Sequence[int]
) -> list[FileGroupResult]:
    """Merge work rows into file groups and write their next base files: small ones together, which takes less time.

    In a merge-on-read table, changes of records of an existing file group become a log file.

    Memory is bounded by the work rows and, for small file groups, ``context.held_bytes`` of records and one file of ``TOGETHER_BYTES``;
    for others by the key column of a file group and a batch of its records. A file group that gets a log file takes no more than a row
    group of its records.

    Args:
        context: the write.
        targets: the file groups.
        rows: their work rows (``work_schema(context.schema)``), one for a key in each file group; those of one file group
            follow those of the previous file group.
        counts: how many rows each file group has.

    Returns:
        The results in the order of the file groups.

    Raises:
        RecordExistsError: a file group holds a key that must be new.
        CorruptIndexError: index and file group contradict each other.
        CorruptTableError: a base file cannot be read.
    """
    starts = np.cumsum([0, *counts]).tolist()
    results: list[FileGroupResult] = []
    with closing(_stored(context, targets, rows, starts)) as parts:
        for part, stored in parts:
            start, end = part.start, part.stop
            some = rows.slice(starts[start], starts[end] - starts[start])
            results += _write_merged(context, targets[start:end], some, counts[start:end], stored)
    return results


def _stored(
    context: WriteContext, targets: Sequence[FileGroupTarget], rows: pa.Table, starts: Sequence[int]
) -> Generator[tuple[range, StoredRecords], None, None]:
    """The stored records of file groups, in parts: several small file groups, read whole, or a single one.

    A single one is larger, or its changes may become a log file: only the compared columns are read. For a log file, only the records of
    the arriving keys are read, if these keys are few.

    A single file is open at a time: processes may have few of them, on some systems 256.
    """
    columns = with_record_meta_columns(context.schema)
    changes, keys = rows.column(work_rows.CHANGE).to_numpy(), rows.column(work_rows.RECORD_KEY)
    small, start, held = list[tuple[SliceReader | None, pa.Table]](), 0, 0
    for number, target in enumerate(targets):
        with ExitStack() as opened:
            reader = opened.enter_context(context.open(target.base)) if target.base else None
            size = target.base.size if target.base else 0
            own = slice(starts[number], starts[number + 1])
            appending = context.appending
            is_appended = appending is not None and appending.may_append(target.base, reader, changes[own])
            is_small = reader is None or (reader.has_few_rows and size <= TOGETHER_BYTES and not is_appended)
            large = None if is_small else reader
            if large is None:
                records = reader.read_columns(columns) if reader else columns.empty_table()
                small.append((reader, records))
                held += records.nbytes
            if small and (large is not None or held >= context.held_bytes):
                end = start + len(small)
                yield range(start, end), StoredRecords.of(small)
                small, start, held = [], end, 0
            if large is not None:
                compared = _compared(context)
                if is_appended and len(changes[own]) * _ROWS_PER_SOUGHT_KEY <= large.rows_about:
                    arriving = keys.slice(own.start, own.stop - own.start).combine_chunks()
                    sought = SoughtKeys(arriving, are_stored=not _MAY_BE_ABSENT[changes[own]].any())
                    stored = StoredRecords.of_keys(large, sought, compared)
                else:
                    stored = StoredRecords.of([(large, large.read_columns(compared))])
                yield range(number, number + 1), stored
                start = number + 1
    if small:
        yield range(start, len(targets)), StoredRecords.of(small)


def read_stored(
    opener: Callable[[FileSlice], SliceReader], base: FileSlice, schema: pa.Schema, record_keys: pa.Array
) -> pa.Table:
    """Some columns of stored records.

    Args:
        opener: opens file slices.
        base: the file slice that holds the records.
        schema: of the columns.
        record_keys: distinct string array, shape (n,).

    Returns:
        Shape (n, columns); null where the slice has no such key or no value for it.
    """
    with opener(base) as reader:
        stored = records_of(reader, record_keys, pa.schema([pa.field(RECORD_KEY, pa.string()), *schema]))
    rows = pc.fill_null(pc.index_in(stored.column(RECORD_KEY), value_set=record_keys), -1).to_numpy()
    found = np.flatnonzero(rows >= 0)
    positions = np.full(len(record_keys), -1, np.int64)
    positions[rows[found]] = found
    return stored.select(schema.names).take(pa.array(positions, mask=positions < 0))


def _write_merged(
    context: WriteContext,
    targets: Sequence[FileGroupTarget],
    rows: pa.Table,
    counts: Sequence[int],
    stored: StoredRecords,
) -> list[FileGroupResult]:
    plan = _plan(context, targets, rows, counts, stored)
    append = Append.of(context, targets, plan, stored)
    if append is None and stored.sought is not None:
        # The next base file takes all stored records.
        stored = stored.with_others(_compared(context))
        plan = _plan(context, targets, rows, counts, stored)
    results = _written(context, targets, plan, stored, append)
    if not any(plan.refused):
        return results
    return [replace(result, refused=refused) for result, refused in zip(results, plan.refused, strict=True)]


def _written(
    context: WriteContext,
    targets: Sequence[FileGroupTarget],
    plan: MergePlan,
    stored: StoredRecords,
    append: Append | None,
) -> list[FileGroupResult]:
    changes = ~plan.changes_nothing
    if context.skips_unchanged and plan.may_change_nothing.any():
        changes &= _changed(context, plan, stored)
    if not changes.any():
        return [FileGroupResult.left_alone(target, told) for target, told in zip(targets, plan.counts, strict=True)]
    if append is None:
        require_no_compaction(context, targets)
    if not context.saves:
        return [
            FileGroupResult.foretold(target, told, is_appended=append is not None)
            if changed
            else FileGroupResult.left_alone(target, told)
            for target, told, changed in zip(targets, plan.counts, changes.tolist(), strict=True)
        ]
    records = _records_of(context, targets, plan)
    if append is not None:
        return [append.write(context, plan, stored, records)]
    return rewrite(context, targets, plan, stored, records, changes=changes)


def _compared(context: WriteContext) -> pa.Schema:
    """The columns that decide what becomes of stored records."""
    merged_by = None if context.appending is None else context.appending.ordering
    ordering = [context.schema.field(name) for name in {context.ordering_field, merged_by} if name]
    age = [] if context.expired_before is None else [pa.field(COMMIT_TIME, pa.string())]
    asked = [] if context.when is None else [context.schema.field(name) for name in context.when.target]
    others = [field for field in asked if field not in ordering]
    return pa.schema([pa.field(RECORD_KEY, pa.string()), *ordering, *age, *others])


def _plan(
    context: WriteContext,
    targets: Sequence[FileGroupTarget],
    rows: pa.Table,
    counts: Sequence[int],
    stored: StoredRecords,
) -> MergePlan:
    groups, of_rows = [target.group for target in targets], numbers_of(counts)
    field, compared = context.ordering_field, stored.known
    ordering = compared.column(field).combine_chunks() if field else None
    expired = None
    if context.expired_before is not None:
        is_old = pc.less(compared.column(COMMIT_TIME), context.expired_before)
        expired = pc.fill_null(is_old, False).to_numpy()
    keys = compared.column(RECORD_KEY).combine_chunks()
    passes = None if context.when is None else partial(_passes, context.when, compared)
    comparison = Comparison(field, ordering, expired, passes)
    return plan_merge(groups, rows, of_rows, keys, stored.of_known, comparison=comparison)


def _passes(
    when: Condition, known: pa.Table, rows: pa.Table, arriving: NDArray[np.int64], stored: NDArray[np.intp]
) -> NDArray[np.bool_]:
    source, target = rows.select(when.source), known.select(when.target)
    return when.passes(source.take(pa.array(arriving)), target.take(pa.array(stored)))


def _changed(context: WriteContext, plan: MergePlan, stored: StoredRecords) -> NDArray[np.bool_]:
    """Of each file group whether a record is replaced by one with other values; reads up to the first such record."""
    changed = ~plan.may_change_nothing
    records = conform(plan.rows, context.schema)
    start = 0
    for batch in stored.batches(context.schema):
        if changed.all():
            break
        part = slice(start, start + batch.num_rows)
        fates, numbers = plan.fates[part], plan.of_stored[part]
        start += batch.num_rows
        arriving = keeping_stored(context, batch, records, plan.rows, fates)
        replaced = np.flatnonzero(fates >= 0)
        for number in np.unique(numbers[replaced]).tolist():
            own = replaced[numbers[replaced] == number]
            # Most updates change the first record that they replace.
            for some in (own[:_FEW], own[_FEW:]):
                if len(some) and not changed[number]:
                    stays = holds_same(batch.take(pa.array(some)), arriving.take(pa.array(fates[some])))
                    changed[number] = not stays
    return changed


def _records_of(context: WriteContext, targets: Sequence[FileGroupTarget], plan: MergePlan) -> pa.Table:
    """The work rows as records of their file groups, of ``with_record_meta_columns(context.schema)``."""
    rows = plan.rows
    numbers = np.arange(rows.num_rows) - starts_of(plan.rows_of)[plan.of_rows]
    tasks = [target.write_token.partition("-")[0] for target in targets]
    times = pa.repeat(pa.scalar(context.instant, pa.string()), rows.num_rows)
    sequence_numbers = pa.array(numbers).cast(pa.string())
    if len(tasks) == 1:
        # Takes less than half of the time of joining.
        sequence_numbers = pc.utf8_replace_slice(sequence_numbers, 0, 0, f"{context.instant}_{tasks[0]}_")
    else:
        task = pa.array(tasks).take(pa.array(plan.of_rows))
        sequence_numbers = pc.binary_join_element_wise(context.instant, task, sequence_numbers, "_")
    data = conform(rows, context.schema)
    columns = [times, sequence_numbers, rows.column(work_rows.RECORD_KEY), *data.columns]
    return pa.table(columns, schema=with_record_meta_columns(context.schema))
