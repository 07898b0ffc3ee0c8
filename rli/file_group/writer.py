"""Writing file groups: what every engine calls for the file groups that a write changes.

The base file goes to the write's work folder, where no reader sees it, and the journal beside it. A call may be
repeated, raced or abandoned: each attempt has a write token of its own, and only the attempts whose result the
driver accepts are published.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rli.errors import UnsupportedTableError
from rli.file_group import work_rows
from rli.file_group.conditions import Condition
from rli.file_group.journal import Journal, Positions, SectionsOf, write_journal
from rli.file_group.log_appends import LogAppending
from rli.file_group.merge import (
    Comparison,
    MergePlan,
    Numbers,
    merge_all,
    merge_batch,
    numbers_of,
    plan_merge,
    starts_of,
)
from rli.file_group.stored_records import StoredRecords
from rli.file_group.work_rows import Change
from rli.hudi.base_file_writer import BaseFileWriter, WrittenFile, new_bloom_filter, repeating_columns
from rli.hudi.bloom_filter import FALSE_POSITIVE_RATE, BloomFilter
from rli.hudi.file_names import BaseFileName
from rli.hudi.meta_columns import COMMIT_TIME, RECORD_KEY, with_record_meta_columns
from rli.hudi.schema import conform, holds_same
from rli.hudi.timeline.commit_metadata import AppendedTo, WriteStat
from rli.model import FileGroupId, WriteCounts
from rli.storage import Storage
from rli.view.file_slice_reader import FileSliceReader
from rli.view.file_slices import FileSlice
from rli.view.paths import unpublished_file, unpublished_files
from rli.view.slice_reader import SliceReader

_FEW: Final = 100

TOGETHER_BYTES: Final = 4 * 1024 * 1024
"""The largest base file that is read whole. A larger file may turn out unchanged after a read of the compared columns alone."""


@dataclass(frozen=True, slots=True)
class WriteContext:
    """What every task of a write needs to know. Picklable.

    Attributes:
        storage: the table.
        instant: the write's instant.
        schema: of the records after the write, without meta columns.
        ordering_field: decides between records of one key; None if the newest arrival wins.
        partition_fields: keep their stored values where a record stays in its partition against its own values.
        compression: Parquet codec.
        kept: columns of which updated records keep their stored values; arriving ones have brought theirs.
        skips_unchanged: whether a file group is left alone in which every record is replaced by an equal one.
        bloom_filter_rate: which share of foreign keys the bloom filters of the files may claim; a file that keeps the filter of
            the one before may claim twice as many.
        holds_journals: whether results bring the content of their journals along: to the process that wrote them.
        expired_before: see ``ExpiringState.expired_before`` (``rli.index.contract``).
        sections_of: puts journals in sections; None for writes of few keys.
        when: the caller's condition on records that replace or delete stored ones; None where there is none.
        saves: whether files are made; if not, the results tell which files would be, with no size and no journal.
        held_bytes: size in memory of records merged together; beyond it, no further file is added. Small files may decompress to
            much more.
        appending: how changes of file groups become log files; None if they become base files, as in a copy-on-write table.
    """

    storage: Storage
    instant: str
    schema: pa.Schema
    ordering_field: str | None
    partition_fields: tuple[str, ...]
    compression: str
    kept: tuple[str, ...] = ()
    skips_unchanged: bool = False
    bloom_filter_rate: float = FALSE_POSITIVE_RATE
    holds_journals: bool = False
    expired_before: str | None = None
    sections_of: SectionsOf | None = None
    when: Condition | None = None
    saves: bool = True
    held_bytes: int = 32 * 1024 * 1024
    appending: LogAppending | None = None

    def open(self, base: FileSlice) -> SliceReader:
        """Opens a file slice of the table; raises as ``SliceReaders.open``."""
        if self.appending is None:
            return FileSliceReader(self.storage, base)
        return self.appending.readers.open(base)


@dataclass(frozen=True, slots=True)
class FileGroupTarget:
    """A file group to write, or to append to.

    Attributes:
        group: its name.
        base: its newest slice; None for a new file group.
        write_token: tells this attempt from all others for the same file group: three numbers, ``1-2-3``.
    """

    group: FileGroupId
    base: FileSlice | None
    write_token: str


@dataclass(frozen=True, slots=True)
class FileGroupResult:
    """One accepted attempt, or what would have been written if anything had changed.

    Attributes:
        group: the file group.
        counts: what became of the work rows.
        stat: the base file or log file; None if nothing changed, so that nothing was written.
        journal: the journal file; None if no key came or went.
        replaces: the file groups whose records are all in this one now.
        refused: keys whose delete the caller's condition refused.
    """

    group: FileGroupId
    counts: WriteCounts
    stat: WriteStat | None
    journal: Journal | None
    replaces: tuple[FileGroupId, ...] = ()
    refused: tuple[str, ...] = ()


def write_file_groups(
    context: WriteContext, targets: Sequence[FileGroupTarget], rows: pa.Table, counts: Sequence[int]
) -> list[FileGroupResult]:
    """Merge work rows into file groups and write their next base files: small ones together, which takes less time.

    In a merge-on-read table, changes of records of an existing file group become a log file.

    Memory is bounded by the work rows and, for small file groups, ``context.held_bytes`` of records and one file of ``TOGETHER_BYTES``;
    for others by the key column of a file group and a batch of its records.

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

    A single one is larger, or its changes may become a log file: no column is read but those that are compared.

    A single file is open at a time: processes may have few of them, on some systems 256.
    """
    columns = with_record_meta_columns(context.schema)
    changes = rows.column(work_rows.CHANGE).to_numpy()
    small, start, held = list[tuple[SliceReader | None, pa.Table]](), 0, 0
    for number, target in enumerate(targets):
        with ExitStack() as opened:
            reader = opened.enter_context(context.open(target.base)) if target.base else None
            size = target.base.size if target.base else 0
            own = changes[starts[number] : starts[number + 1]]
            is_appended = context.appending is not None and context.appending.may_append(target.base, reader, own)
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
                yield range(number, number + 1), StoredRecords.of([(large, large.read_columns(_compared(context)))])
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
        record_keys: string array, shape (n,).

    Returns:
        Shape (n, columns); null where the slice has no such key or no value for it.
    """
    with opener(base) as reader:
        stored = reader.read_columns(pa.schema([pa.field(RECORD_KEY, pa.string()), *schema]))
    # The keys sought are hashed: they are few beside those of the file.
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
    plan = _plan(context, [target.group for target in targets], rows, numbers_of(counts), stored)
    results = _written(context, targets, plan, stored)
    if not any(plan.refused):
        return results
    return [replace(result, refused=refused) for result, refused in zip(results, plan.refused, strict=True)]


def _written(
    context: WriteContext, targets: Sequence[FileGroupTarget], plan: MergePlan, stored: StoredRecords
) -> list[FileGroupResult]:
    changes = ~plan.changes_nothing
    if context.skips_unchanged and plan.may_change_nothing.any():
        changes &= _changed(context, plan, stored)
    if not changes.any():
        return [_left_alone(target, told) for target, told in zip(targets, plan.counts, strict=True)]
    base = _appended_to(context, targets, plan, stored)
    if base is None:
        _require_no_compaction(context, targets)
    if not context.saves:
        return [
            _foretold(target, told, is_appended=base is not None) if changed else _left_alone(target, told)
            for target, told, changed in zip(targets, plan.counts, changes.tolist(), strict=True)
        ]
    records = _records_of(context, targets, plan)
    if context.appending is not None and base is not None:
        return [_appended(context, context.appending, base, targets[0].write_token, plan, stored, records)]
    added_keys = _by_group(plan.added_of(records.select([RECORD_KEY])), plan.added_to)
    merged = _merged(context, plan, stored, records)
    context.storage.make_folder(unpublished_files(context.instant))
    told_rows, replaced_rows = _by_group(plan.rows, plan.rows_of), plan.replaced_rows
    replaced, removed = plan.replaced.tolist(), plan.removed.tolist()
    results = []
    for number, target in enumerate(targets):
        if not changes[number]:
            results.append(_left_alone(target, plan.counts[number]))
            continue
        file_name = str(BaseFileName(target.group.file_id, target.write_token, context.instant))
        new_keys = added_keys[number].column(RECORD_KEY)
        written = _write(
            context,
            target.group,
            file_name,
            merged.batches[number],
            new_keys,
            reader=stored.readers[number],
            with_dictionary=merged.with_dictionary,
        )
        changed = (len(new_keys), replaced[number], removed[number])
        stat = _stat_of(target, file_name, written, changed)
        told = _journaled(context, target.group, target.write_token, told_rows[number], replaced_rows[number])
        results.append(FileGroupResult(target.group, plan.counts[number], stat, told))
    return results


def _appended_to(
    context: WriteContext, targets: Sequence[FileGroupTarget], plan: MergePlan, stored: StoredRecords
) -> FileSlice | None:
    """The slice of a single file group that gets a log file; None if next base files are to be written."""
    appending, base = context.appending, targets[0].base
    if appending is None or base is None or len(targets) > 1:
        return None
    changes = plan.rows.column(work_rows.CHANGE).to_numpy()
    may_append = appending.may_append(base, stored.readers[0], changes) and appending.wins(plan, stored.known)
    return base if may_append else None


def _appended(  # noqa: PLR0917  (called once)
    context: WriteContext,
    appending: LogAppending,
    base: FileSlice,
    token: str,
    plan: MergePlan,
    stored: StoredRecords,
    records: pa.Table,
) -> FileGroupResult:
    """The result of appending a log file to a slice."""
    group = base.group
    for batch, fates in _kept_values(context, plan, stored):
        records = _keeping_stored(context, batch, records, plan.rows, fates)
    chosen = np.concatenate([plan.fates[plan.replaced_records], plan.added])
    removed = stored.known.take(pa.array(plan.removed_records))
    content = appending.content(context.instant, group, records.take(pa.array(chosen)), removed)
    name, appended_to = appending.name(base, context.instant, token)
    stat = WriteStat(
        file_id=group.file_id,
        path=base_file_path(group, str(name)),
        partition_path=group.partition_path,
        previous_instant=name.instant,
        writes=len(chosen),
        inserts=len(plan.added),
        update_writes=len(plan.replaced_records),
        deletes=removed.num_rows,
        written_bytes=len(content),
        file_size=len(content),
        appended_to=appended_to,
    )
    context.storage.make_folder(unpublished_files(context.instant))
    path = unpublished_file(context.instant, stat.path)
    context.storage.write_bytes(path, content)
    (rows,), (replaced,) = _by_group(plan.rows, plan.rows_of), plan.replaced_rows
    told = _journaled(context, group, token, rows, replaced)
    return FileGroupResult(group, plan.counts[0], stat, told)


def _require_no_compaction(context: WriteContext, targets: Sequence[FileGroupTarget]) -> None:
    """Pass file groups to rewrite for which no compaction is planned: Hudi does not expect another base file beside its own."""
    planned = {} if context.appending is None else context.appending.compactions
    for target in targets:
        if target.group in planned:
            raise UnsupportedTableError(
                "records need a new base file in a file group of which a compaction is planned: "
                f"partition={target.group.partition_path} file_id={target.group.file_id} "
                f"compaction={planned[target.group]}",
                remedy="run the compaction first, and write again",
            )


def _kept_values(
    context: WriteContext, plan: MergePlan, stored: StoredRecords
) -> Iterator[tuple[pa.Table, NDArray[np.int64]]]:
    """The stored columns of which records keep values, in batches, with the fates of their records; nothing if there are none."""
    wanted, placed = (plan.rows.column(name) for name in (work_rows.WANTED_PARTITION_PATH, work_rows.PARTITION_PATH))
    names = {*context.kept, *(() if wanted.equals(placed) else context.partition_fields)}
    start = 0
    if names:
        for batch in stored.batches(pa.schema([field for field in context.schema if field.name in names])):
            yield batch, plan.fates[start : start + batch.num_rows]
            start += batch.num_rows


def _journaled(
    context: WriteContext, group: FileGroupId, token: str, rows: pa.Table, replaced: Positions
) -> Journal | None:
    """The journal of a file group, if there is anything to tell."""
    journal = Journal(context.instant, f"{group.file_id}_{token}.parquet", group)
    updated = None if context.expired_before is None else replaced
    held = write_journal(context.storage, journal, rows, updated, context.sections_of)
    return held if held is None or context.holds_journals else held.without_content


def _stat_of(target: FileGroupTarget, file_name: str, written: WrittenFile, changed: tuple[int, int, int]) -> WriteStat:
    """What a commit says of a base file, whose records were inserted, updated and deleted so many times."""
    inserts, updates, deletes = changed
    return WriteStat(
        file_id=target.group.file_id,
        path=base_file_path(target.group, file_name),
        partition_path=target.group.partition_path,
        previous_instant=target.base.instant if target.base else None,
        writes=written.rows,
        inserts=inserts,
        update_writes=updates,
        deletes=deletes,
        written_bytes=written.size,
        file_size=written.size,
    )


def _foretold(target: FileGroupTarget, counts: WriteCounts, *, is_appended: bool) -> FileGroupResult:
    """The result for a file group that a dry run would write: a base file or log file without content."""
    stat = WriteStat(
        file_id=target.group.file_id,
        path="",
        partition_path=target.group.partition_path,
        previous_instant=target.base.instant if target.base else None,
        writes=0,
        inserts=counts.inserted,
        update_writes=counts.updated,
        deletes=counts.deleted,
        written_bytes=0,
        file_size=0,
        appended_to=AppendedTo("", ()) if is_appended else None,
    )
    return FileGroupResult(target.group, counts, stat, None)


def _left_alone(target: FileGroupTarget, counts: WriteCounts) -> FileGroupResult:
    """The result for a file group of which every record, if any, is replaced by an equal one."""
    unchanged = replace(counts, updated=0, unchanged=counts.unchanged + counts.updated)
    return FileGroupResult(target.group, unchanged, None, None)


def _by_group(rows: pa.Table, counts: Numbers) -> list[pa.Table]:
    """The rows of each file group."""
    return [rows.slice(start, count) for start, count in zip(starts_of(counts).tolist(), counts.tolist(), strict=True)]


def _compared(context: WriteContext) -> pa.Schema:
    """The columns that decide what becomes of stored records."""
    merged_by = None if context.appending is None else context.appending.ordering
    ordering = [context.schema.field(name) for name in {context.ordering_field, merged_by} if name]
    age = [] if context.expired_before is None else [pa.field(COMMIT_TIME, pa.string())]
    asked = [] if context.when is None else [context.schema.field(name) for name in context.when.target]
    others = [field for field in asked if field not in ordering]
    return pa.schema([pa.field(RECORD_KEY, pa.string()), *ordering, *age, *others])


def _plan(
    context: WriteContext, groups: Sequence[FileGroupId], rows: pa.Table, of_rows: Numbers, stored: StoredRecords
) -> MergePlan:
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
        arriving = _keeping_stored(context, batch, records, plan.rows, fates)
        replaced = np.flatnonzero(fates >= 0)
        for number in np.unique(numbers[replaced]).tolist():
            own = replaced[numbers[replaced] == number]
            # Most updates change the first record that they replace.
            for some in (own[:_FEW], own[_FEW:]):
                if len(some) and not changed[number]:
                    stays = holds_same(batch.take(pa.array(some)), arriving.take(pa.array(fates[some])))
                    changed[number] = not stays
    return changed


@dataclass(frozen=True, slots=True)
class _Merged:
    """What the next base files hold.

    Attributes:
        batches: of each file group, its records after the merge.
        with_dictionary: the columns that have a dictionary in all files; None if each file's first records tell.
    """

    batches: Sequence[Iterable[pa.Table]]
    with_dictionary: Sequence[str] | None


def _merged(context: WriteContext, plan: MergePlan, stored: StoredRecords, records: pa.Table) -> _Merged:
    if len(stored.readers) == 1:
        return _Merged([chain(_merged_batches(context, plan, stored, records), [plan.added_of(records)])], None)
    known = stored.known
    merged, counts = merge_all(known, _keeping_stored(context, known, records, plan.rows, plan.fates), plan)
    # A column that repeats no value of many files repeats none of a single file.
    return _Merged([[part] for part in _by_group(merged, counts)], repeating_columns(merged))


def _merged_batches(
    context: WriteContext, plan: MergePlan, stored: StoredRecords, records: pa.Table
) -> Iterator[pa.Table]:
    """What is left of the stored records of a single file group."""
    start = 0
    for batch in stored.batches(records.schema):
        fates = plan.fates[start : start + batch.num_rows]
        start += batch.num_rows
        yield merge_batch(batch, _keeping_stored(context, batch, records, plan.rows, fates), fates)


def _write(
    context: WriteContext,
    group: FileGroupId,
    file_name: str,
    batches: Iterable[pa.Table],
    new_keys: pa.ChunkedArray,
    *,
    reader: SliceReader | None,
    with_dictionary: Sequence[str] | None,
) -> WrittenFile:
    bloom_filter, covers_stored = _bloom_filter(reader, len(new_keys), context.bloom_filter_rate)
    if covers_stored:
        bloom_filter.add(new_keys)
    with BaseFileWriter(
        context.storage,
        unpublished_file(context.instant, base_file_path(group, file_name)),
        context.schema,
        file_name=file_name,
        compression=context.compression,
        bloom_filter=bloom_filter,
        partition_path=group.partition_path,
        with_dictionary=with_dictionary,
    ) as writer:
        no_keys = pa.array([], pa.string())
        for part in batches:
            writer.write(part, no_keys if covers_stored else part.column(RECORD_KEY))
        return writer.finish()


def base_file_path(group: FileGroupId, file_name: str) -> str:
    """Where a base file of a file group is in the table."""
    return f"{group.partition_path}/{file_name}" if group.partition_path else file_name


def _bloom_filter(reader: SliceReader | None, added: int, rate: float) -> tuple[BloomFilter, bool]:
    """A filter for the new file, and whether it holds the stored keys already."""
    if reader is None:
        return new_bloom_filter(added, rate), True
    stored = reader.bloom_filter
    # Twice as many false positives cost less than hashing all keys again.
    if stored is not None and stored.room(2 * rate) >= added:
        return stored, True
    # Half as much again as is needed now, so that the next few commits can add to it.
    return new_bloom_filter((reader.rows + added) * 3 // 2, rate), False


def _records_of(context: WriteContext, targets: Sequence[FileGroupTarget], plan: MergePlan) -> pa.Table:
    """The work rows as records of their file groups, of ``with_record_meta_columns(context.schema)``."""
    rows = plan.rows
    numbers = np.arange(rows.num_rows) - starts_of(plan.rows_of)[plan.of_rows]
    tasks = [target.write_token.partition("-")[0] for target in targets]
    task = pa.array(tasks).take(pa.array(plan.of_rows)) if len(tasks) > 1 else tasks[0]
    times = pa.repeat(pa.scalar(context.instant, pa.string()), rows.num_rows)
    sequence_numbers = pc.binary_join_element_wise(context.instant, task, pa.array(numbers).cast(pa.string()), "_")
    data = conform(rows, context.schema)
    columns = [times, sequence_numbers, rows.column(work_rows.RECORD_KEY), *data.columns]
    return pa.table(columns, schema=with_record_meta_columns(context.schema))


def _keeping_stored(
    context: WriteContext, stored: pa.Table, records: pa.Table, rows: pa.Table, fates: NDArray[np.int64]
) -> pa.Table:
    """Records with the stored values that they keep, as far as these are in one batch of stored records.

    These are the partition values of records that stay against their own, and the kept columns of all that are updated.
    """
    wanted, placed = rows.column(work_rows.WANTED_PARTITION_PATH), rows.column(work_rows.PARTITION_PATH)
    may_stay = bool(context.partition_fields) and not wanted.equals(placed)
    replaced = np.flatnonzero(fates >= 0)
    if not (may_stay or context.kept) or not len(replaced):
        return records
    updated = pc.equal(rows.column(work_rows.CHANGE), int(Change.UPDATE))
    stays = pc.and_(updated, pc.fill_null(pc.not_equal(wanted, placed), False))
    of_partitions = context.partition_fields if may_stay else ()
    keeping = dict.fromkeys(of_partitions, stays) | dict.fromkeys(context.kept, updated)
    origin = np.full(rows.num_rows, -1, dtype=np.int64)
    origin[fates[replaced]] = replaced
    positions, found = pa.array(origin, mask=origin < 0), pa.array(origin >= 0)
    for name, kept in keeping.items():
        column = pc.if_else(pc.and_(kept, found), stored.column(name).take(positions), records.column(name))
        records = records.set_column(records.schema.get_field_index(name), records.schema.field(name), column)
    return records
