"""Writing one file group: what every engine calls, once for each file group that a write changes.

The base file goes to the write's work folder, where no reader sees it, and the journal beside it. A call may be
repeated, raced or abandoned: each attempt has a write token of its own, and only the attempts whose result the
driver accepts are published.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rli.file_group import work_rows
from rli.file_group.journal import Journal, SectionsOf, write_journal
from rli.file_group.merge import MergePlan, merge_batch, plan_merge
from rli.file_group.work_rows import Change
from rli.hudi.base_file_writer import BaseFileWriter, WrittenFile, new_bloom_filter
from rli.hudi.bloom_filter import FALSE_POSITIVE_RATE, BloomFilter
from rli.hudi.file_names import BaseFileName
from rli.hudi.meta_columns import COMMIT_TIME, RECORD_KEY, with_record_meta_columns
from rli.hudi.schema import conform, holds_same
from rli.hudi.timeline.commit_metadata import WriteStat
from rli.model import FileGroupId, WriteCounts
from rli.storage import Storage
from rli.view.file_slice_reader import READ_BATCH_ROWS, FileSliceReader
from rli.view.file_slices import FileSlice
from rli.view.paths import unpublished_file

_FEW: Final = 100

_READ_AT_ONCE: Final = 4 * 1024 * 1024
"""Bytes of a slice: where nothing changes in a larger one, it pays to have read the compared columns alone."""


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
        expired_before: see ``TableIndex.expired_before``.
        sections_of: puts journals in sections; None for writes of few keys.
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


@dataclass(frozen=True, slots=True)
class FileGroupTarget:
    """A file group to write.

    Attributes:
        group: its name.
        base: its newest slice; None for a new file group.
    """

    group: FileGroupId
    base: FileSlice | None


@dataclass(frozen=True, slots=True)
class FileGroupResult:
    """One accepted attempt, or what would have been written if anything had changed.

    Attributes:
        group: the file group.
        counts: what became of the work rows.
        stat: the base file; None if nothing changed, so that nothing was written.
        journal: the journal file; None if no key came or went.
        replaces: the file groups whose records are all in this one now.
    """

    group: FileGroupId
    counts: WriteCounts
    stat: WriteStat | None
    journal: Journal | None
    replaces: tuple[FileGroupId, ...] = ()


def write_file_group(
    context: WriteContext, target: FileGroupTarget, rows: pa.Table, write_token: str
) -> FileGroupResult:
    """Merge work rows into a file group and write its next base file.

    Memory is bounded by the work rows, the key column of the file group and a batch of its records.

    Args:
        context: the write.
        target: the file group.
        rows: its work rows (``work_schema(context.schema)``), one for a key.
        write_token: tells this attempt from all others for the same file group.

    Raises:
        RecordExistsError: the file group holds a key that must be new.
        CorruptIndexError: index and file group contradict each other.
        CorruptTableError: the base file cannot be read.
    """
    name = BaseFileName(target.group.file_id, write_token, context.instant)
    if target.base is None:
        plan = plan_merge(target.group, rows, pa.array([], pa.string()), None, context.ordering_field)
        written = _write(context, target, str(name), plan, None)
    else:
        with FileSliceReader(context.storage, target.base) as reader:
            stored = _Stored(
                reader, reader.read_columns(_read_first(context, reader, target.base.size)).combine_chunks()
            )
            plan = _plan(context, target, rows, stored.known)
            if plan.changes_nothing:
                return FileGroupResult(target.group, plan.counts, None, None)
            if context.skips_unchanged and plan.may_change_nothing and not _changes(context, plan, stored):
                return FileGroupResult(target.group, plan.counts_of_nothing, None, None)
            written = _write(context, target, str(name), plan, stored)
    journal = Journal(context.instant, f"{target.group.file_id}_{write_token}.parquet", target.group)
    stat = WriteStat(
        file_id=target.group.file_id,
        path=base_file_path(target.group, str(name)),
        partition_path=target.group.partition_path,
        previous_instant=target.base.instant if target.base else None,
        writes=written.rows,
        inserts=len(plan.added),
        update_writes=plan.replaced,
        deletes=plan.removed,
        written_bytes=written.size,
        file_size=written.size,
    )
    updated = None if context.expired_before is None else plan.fates[plan.fates >= 0]
    held = write_journal(context.storage, journal, plan.rows, updated, context.sections_of)
    told = held if held is None or context.holds_journals else held.without_content
    return FileGroupResult(target.group, plan.counts, stat, told)


def read_stored(storage: Storage, base: FileSlice, schema: pa.Schema, record_keys: pa.Array) -> pa.Table:
    """Some columns of stored records.

    Args:
        storage: the table.
        base: the file slice that holds the records.
        schema: of the columns.
        record_keys: string array, shape (n,).

    Returns:
        Shape (n, columns); null where the slice has no such key or no value for it.
    """
    with FileSliceReader(storage, base) as reader:
        stored = reader.read_columns(pa.schema([pa.field(RECORD_KEY, pa.string()), *schema]))
    # The keys sought are hashed: they are few beside those of the file.
    rows = pc.fill_null(pc.index_in(stored.column(RECORD_KEY), value_set=record_keys), -1).to_numpy()
    found = np.flatnonzero(rows >= 0)
    positions = np.full(len(record_keys), -1, np.int64)
    positions[rows[found]] = found
    return stored.select(schema.names).take(pa.array(positions, mask=positions < 0))


@dataclass(frozen=True, slots=True)
class _Stored:
    """The stored records of a file group.

    Attributes:
        reader: of its slice.
        known: the columns of all its records that were read before, those among them that a merge compares.
    """

    reader: FileSliceReader
    known: pa.Table

    def batches(self, schema: pa.Schema) -> Iterator[pa.Table]:
        """The records in order, in batches, as ``FileSliceReader.batches`` gives them; no column is read again."""
        known = self.known.column_names
        others = pa.schema([field for field in schema if field.name not in known])
        if not len(others):
            for start in range(0, self.known.num_rows, READ_BATCH_ROWS):
                yield self.known.slice(start, READ_BATCH_ROWS).select(schema.names)
            return
        start = 0
        for batch in self.reader.batches(others):
            parts = {False: batch, True: self.known.slice(start, batch.num_rows)}
            yield pa.table([parts[name in known].column(name) for name in schema.names], schema=schema)
            start += batch.num_rows


def _read_first(context: WriteContext, reader: FileSliceReader, size: int) -> pa.Schema:
    """The columns that decide what becomes of stored records; of a small slice all columns, so that it is read once."""
    if reader.has_few_rows and size <= _READ_AT_ONCE:
        return with_record_meta_columns(context.schema)
    ordering = [context.schema.field(context.ordering_field)] if context.ordering_field else []
    age = [] if context.expired_before is None else [pa.field(COMMIT_TIME, pa.string())]
    return pa.schema([pa.field(RECORD_KEY, pa.string()), *ordering, *age])


def _plan(context: WriteContext, target: FileGroupTarget, rows: pa.Table, compared: pa.Table) -> MergePlan:
    field = context.ordering_field
    ordering = compared.column(field).combine_chunks() if field else None
    expired = None
    if context.expired_before is not None:
        is_old = pc.less(compared.column(COMMIT_TIME), context.expired_before)
        expired = pc.fill_null(is_old, False).to_numpy()
    keys = compared.column(RECORD_KEY).combine_chunks()
    return plan_merge(target.group, rows, keys, ordering, field, expired=expired)


def _changes(context: WriteContext, plan: MergePlan, stored: _Stored) -> bool:
    """Whether a record is replaced by one with other values; reads up to the first such record."""
    records = conform(plan.rows, context.schema)
    start = 0
    for batch in stored.batches(context.schema):
        fates = plan.fates[start : start + batch.num_rows]
        start += batch.num_rows
        replaced = np.flatnonzero(fates >= 0)
        # Most updates change the first record that they replace.
        for some in (replaced[:_FEW], replaced[_FEW:]):
            if len(some):
                arriving = _keeping_stored(context, batch, records, plan.rows, fates)
                if not holds_same(batch.take(pa.array(some)), arriving.take(pa.array(fates[some]))):
                    return True
    return False


def _write(
    context: WriteContext,
    target: FileGroupTarget,
    file_name: str,
    plan: MergePlan,
    stored: _Stored | None,
) -> WrittenFile:
    schema = with_record_meta_columns(context.schema)
    records = _records_of(context, file_name, plan.rows, schema)
    added = records if len(plan.added) == records.num_rows else records.take(pa.array(plan.added))
    reader = stored.reader if stored else None
    bloom_filter, covers_stored = _bloom_filter(reader, len(plan.added), context.bloom_filter_rate)
    with BaseFileWriter(
        context.storage,
        unpublished_file(context.instant, base_file_path(target.group, file_name)),
        context.schema,
        compression=context.compression,
        bloom_filter=bloom_filter,
        partition_path=target.group.partition_path,
    ) as writer:
        if stored is not None:
            start = 0
            no_keys = pa.array([], pa.string())
            for batch in stored.batches(schema):
                fates = plan.fates[start : start + batch.num_rows]
                start += batch.num_rows
                merged = merge_batch(batch, _keeping_stored(context, batch, records, plan.rows, fates), fates)
                writer.write(merged, no_keys if covers_stored else merged.column(RECORD_KEY))
        writer.write(added, added.column(RECORD_KEY))
        return writer.finish()


def base_file_path(group: FileGroupId, file_name: str) -> str:
    """Where a base file of a file group is in the table."""
    return f"{group.partition_path}/{file_name}" if group.partition_path else file_name


def _bloom_filter(reader: FileSliceReader | None, added: int, rate: float) -> tuple[BloomFilter, bool]:
    """A filter for the new file, and whether it holds the stored keys already."""
    if reader is None:
        return new_bloom_filter(added, rate), True
    stored = reader.bloom_filter
    # Twice as many false positives cost less than hashing all keys again.
    if stored is not None and stored.room(2 * rate) >= added:
        return stored, True
    # Half as much again as is needed now, so that the next few commits can add to it.
    return new_bloom_filter((reader.rows + added) * 3 // 2, rate), False


def _records_of(context: WriteContext, file_name: str, rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The work rows as records of the file group, of ``with_record_meta_columns(context.schema)``."""
    count = rows.num_rows
    token = file_name.split("_")[1].partition("-")[0]
    numbers = pa.array(np.arange(count)).cast(pa.string())
    times = pa.repeat(pa.scalar(context.instant, pa.string()), count)
    sequence_numbers = pc.binary_join_element_wise(context.instant, token, numbers, "_")
    data = conform(rows, context.schema)
    columns = [times, sequence_numbers, rows.column(work_rows.RECORD_KEY), *data.columns]
    return pa.table(columns, schema=schema)


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
    keeping = dict.fromkeys(context.partition_fields, stays) | dict.fromkeys(context.kept, updated)
    origin = np.full(rows.num_rows, -1, dtype=np.int64)
    origin[fates[replaced]] = replaced
    positions = pa.array(origin, mask=origin < 0)
    for name, kept in keeping.items():
        column = pc.if_else(kept, stored.column(name).take(positions), records.column(name))
        records = records.set_column(records.schema.get_field_index(name), records.schema.field(name), column)
    return records
