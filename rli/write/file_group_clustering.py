"""Writing one file group that takes over the records of others: a task of a clustering."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from rli.errors import ConflictError, CorruptIndexError
from rli.file_group import work_rows
from rli.file_group.batches import coalesce_tables
from rli.file_group.journal import Journal, open_journal
from rli.file_group.work_rows import Change
from rli.file_group.writer import FileGroupResult, WriteContext, base_file_path, with_file_name
from rli.hudi.base_file_writer import BYTES_PER_ROW_GROUP, BaseFileWriter, new_bloom_filter
from rli.hudi.file_names import BaseFileName, new_file_id
from rli.hudi.meta_columns import RECORD_KEY, with_meta_columns
from rli.hudi.timeline.commit_metadata import WriteStat
from rli.index.locators import Locator
from rli.locations import LOCATION_SCHEMA
from rli.model import FileGroupId, WriteCounts
from rli.storage import Storage
from rli.view.file_slice_reader import READ_BATCH_ROWS, FileSliceReader
from rli.view.file_slices import FileSlice
from rli.view.paths import unpublished_file

_ATTEMPT: Final = "0-0-0"
_SAMPLE: Final = 5


@dataclass(frozen=True, slots=True)
class ClusteringContext:
    """What every task of a clustering needs to know. Picklable.

    Attributes:
        write: the write.
        locator: as of the state that the clustering builds on.
    """

    write: WriteContext
    locator: Locator


def cluster_file_groups(context: ClusteringContext, sources: Sequence[FileSlice]) -> FileGroupResult | None:
    """Write the records of some file slices of one partition to a new file group, and its journal.

    Each attempt makes a file group of its own, so attempts may be repeated or raced. Memory is bounded by a batch of
    records.

    Returns:
        The base file; None if another writer has changed a record of them since.

    Raises:
        CorruptIndexError: the index does not place the records where they are.
        CorruptTableError: a base file cannot be read.
    """
    group = FileGroupId(sources[0].group.partition_path, new_file_id())
    try:
        return _write(context, sources, group)
    except ConflictError:
        return None


def _write(context: ClusteringContext, sources: Sequence[FileSlice], group: FileGroupId) -> FileGroupResult:
    storage, instant = context.write.storage, context.write.instant
    file_name = str(BaseFileName(group.file_id, _ATTEMPT, instant))
    path = base_file_path(group, file_name)
    journal = Journal(instant, f"{group.file_id}_{_ATTEMPT}.parquet", group)
    with (
        open_journal(storage, journal) as told,
        BaseFileWriter(
            storage,
            unpublished_file(instant, path),
            context.write.schema,
            compression=context.write.compression,
            bloom_filter=new_bloom_filter(_rows_of(storage, sources)),
        ) as writer,
    ):
        for batch in coalesce_tables(
            _stored(storage, sources, context.write.schema), READ_BATCH_ROWS, BYTES_PER_ROW_GROUP
        ):
            told.write(_journal_rows(context, group, batch))
            records = with_file_name(batch.drop_columns([work_rows.PRIOR_FILE_ID, work_rows.PRIOR_INSTANT]), file_name)
            writer.write(records, records.column(RECORD_KEY))
        written = writer.finish()
    stat = WriteStat(
        file_id=group.file_id,
        path=path,
        partition_path=group.partition_path,
        previous_instant=None,
        writes=written.rows,
        inserts=written.rows,
        update_writes=0,
        deletes=0,
        written_bytes=written.size,
        file_size=written.size,
    )
    return FileGroupResult(WriteCounts(), stat, journal.name, tuple(source.group for source in sources))


def _rows_of(storage: Storage, sources: Iterable[FileSlice]) -> int:
    rows = 0
    for source in sources:
        with FileSliceReader(storage, source) as reader:
            rows += reader.rows
    return rows


def _stored(storage: Storage, sources: Iterable[FileSlice], schema: pa.Schema) -> Iterator[pa.Table]:
    """The records of all sources, meta columns included, each with the file id and the instant of its source."""
    for source in sources:
        with FileSliceReader(storage, source) as reader:
            for batch in reader.batches(with_meta_columns(schema)):
                file_ids, instants = (
                    pa.repeat(pa.scalar(name, pa.string()), batch.num_rows)
                    for name in (source.group.file_id, source.instant)
                )
                with_id = batch.append_column(work_rows.PRIOR_FILE_ID, file_ids)
                yield with_id.append_column(work_rows.PRIOR_INSTANT, instants)


def _journal_rows(context: ClusteringContext, group: FileGroupId, records: pa.Table) -> pa.Table:
    """What the journal keeps of some records: where, and since when, they were."""
    keys = records.column(RECORD_KEY).combine_chunks()
    partition_paths = pa.repeat(pa.scalar(group.partition_path, pa.string()), len(keys))
    columns = (records.column(name) for name in (work_rows.PRIOR_FILE_ID, work_rows.PRIOR_INSTANT))
    found = context.locator.trace(pa.table([keys, partition_paths, *columns], schema=LOCATION_SCHEMA))
    elsewhere = pc.fill_null(pc.not_equal(found.column("file_id"), records.column(work_rows.PRIOR_FILE_ID)), True)
    if pc.any(elsewhere).as_py():
        wrong = keys.filter(elsewhere.combine_chunks())
        raise CorruptIndexError(
            f"the index does not place records where they are: partition={group.partition_path} count={len(wrong)} "
            f"keys={wrong.slice(0, _SAMPLE).to_pylist()}; verify the index, then repair or bootstrap it"
        )
    return pa.table(
        {
            work_rows.RECORD_KEY: keys,
            work_rows.CHANGE: pa.repeat(pa.scalar(int(Change.MOVE_IN), pa.int8()), len(keys)),
            work_rows.PRIOR_PARTITION_PATH: found.column("partition_path"),
            work_rows.PRIOR_FILE_ID: found.column("file_id"),
            work_rows.PRIOR_INSTANT: found.column("instant_time"),
        }
    )
