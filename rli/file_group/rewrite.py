"""Rewriting: the stored records of file groups and the changes become the next base files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rli.errors import UnsupportedTableError
from rli.file_group.changed_values import ChangeNotes
from rli.file_group.kept_values import keeping_stored
from rli.file_group.merge import MergePlan, by_group, merge_all, merge_batch
from rli.file_group.stored_records import StoredRecords
from rli.file_group.write_context import FileGroupResult, FileGroupTarget, WriteContext, base_file_path
from rli.hudi.base_file_writer import BaseFileWriter, WrittenFile, new_bloom_filter, repeating_columns
from rli.hudi.bloom_filter import BloomFilter
from rli.hudi.file_names import BaseFileName
from rli.hudi.meta_columns import RECORD_KEY
from rli.hudi.timeline.commit_metadata import WriteStat
from rli.model import FileGroupId
from rli.view.paths import unpublished_file, unpublished_files
from rli.view.slice_reader import SliceReader


def require_no_compaction(context: WriteContext, targets: Sequence[FileGroupTarget]) -> None:
    """Pass file groups for which no compaction is planned: Hudi does not expect another base file beside its own.

    Raises:
        UnsupportedTableError: a compaction of a file group is planned.
    """
    planned = {} if context.appending is None else context.appending.compactions
    for target in targets:
        if target.group in planned:
            raise UnsupportedTableError(
                "records need a new base file in a file group of which a compaction is planned: "
                f"partition={target.group.partition_path} file_id={target.group.file_id} "
                f"compaction={planned[target.group]}",
                remedy="run the compaction first, and write again",
            )


def rewrite(
    context: WriteContext,
    targets: Sequence[FileGroupTarget],
    plan: MergePlan,
    stored: StoredRecords,
    records: pa.Table,
    *,
    changes: NDArray[np.bool_],
) -> list[FileGroupResult]:
    """Write the next base file of each file group that changes, and its journal.

    Args:
        context: the write.
        targets: the file groups.
        plan: of the merge.
        stored: the stored records.
        records: the work rows as records (``with_record_meta_columns``).
        changes: of each file group whether it changes; the others are left alone.

    Returns:
        The results in the order of the file groups.
    """
    added = by_group(plan.added_of(records.select([RECORD_KEY, *context.noted])), plan.added_to)
    merged = _merged(context, plan, stored, records)
    context.storage.make_folder(unpublished_files(context.instant))
    rows, replaced_rows = by_group(plan.rows, plan.rows_of), plan.replaced_rows
    replaced, removed = plan.replaced.tolist(), plan.removed.tolist()
    results = []
    for number, target in enumerate(targets):
        if not changes[number]:
            results.append(FileGroupResult.left_alone(target, plan.counts[number]))
            continue
        file_name = str(BaseFileName(target.group.file_id, target.write_token, context.instant))
        new_keys = added[number].column(RECORD_KEY)
        written = _write(
            context,
            target.group,
            file_name,
            merged.batches[number],
            new_keys,
            reader=stored.readers[number],
            with_dictionary=merged.with_dictionary,
        )
        stat = _stat_of(target, file_name, written, (len(new_keys), replaced[number], removed[number]))
        journal = context.journaled(target.group, target.write_token, rows[number], replaced_rows[number])
        changed = merged.notes[number].changed(added[number])
        results.append(FileGroupResult(target.group, plan.counts[number], stat, journal, changed=changed))
    return results


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


@dataclass(frozen=True, slots=True)
class _Merged:
    """What the next base files hold.

    Attributes:
        batches: of each file group, its records after the merge.
        with_dictionary: the columns that have a dictionary in all files; None if each file's first records tell.
        notes: of each file group, the changed values; complete once its batches are read.
    """

    batches: Sequence[Iterable[pa.Table]]
    with_dictionary: Sequence[str] | None
    notes: Sequence[ChangeNotes]


def _merged(context: WriteContext, plan: MergePlan, stored: StoredRecords, records: pa.Table) -> _Merged:
    if len(stored.readers) == 1:
        notes = ChangeNotes(context.noted)
        batches = chain(_merged_batches(context, plan, stored, records, notes), [plan.added_of(records)])
        return _Merged([batches], None, [notes])
    known = stored.known
    kept = keeping_stored(context, known, records, plan.rows, plan.fates)
    merged, counts = merge_all(known, kept, plan)
    # A column that repeats no value of many files repeats none of a single file.
    batches_of_all = [[part] for part in by_group(merged, counts)]
    return _Merged(batches_of_all, repeating_columns(merged), _notes_of_all(context, plan, stored, kept))


def _notes_of_all(
    context: WriteContext, plan: MergePlan, stored: StoredRecords, records: pa.Table
) -> Sequence[ChangeNotes]:
    """What is noted of each of several file groups, whose stored records are known whole."""
    notes = [ChangeNotes(context.noted) for _ in stored.readers]
    if context.noted:
        counts = np.bincount(plan.of_stored, minlength=len(notes))
        fates = np.split(plan.fates, np.cumsum(counts)[:-1])
        for note, known, own in zip(notes, by_group(stored.known, counts), fates, strict=True):
            note.note(known, records, own)
    return notes


def _merged_batches(
    context: WriteContext, plan: MergePlan, stored: StoredRecords, records: pa.Table, notes: ChangeNotes
) -> Iterator[pa.Table]:
    """What is left of the stored records of a single file group, whose changed values are noted."""
    start = 0
    for batch in stored.batches(records.schema):
        fates = plan.fates[start : start + batch.num_rows]
        start += batch.num_rows
        kept = keeping_stored(context, batch, records, plan.rows, fates)
        notes.note(batch, kept, fates)
        yield merge_batch(batch, kept, fates)


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
