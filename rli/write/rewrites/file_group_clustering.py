"""Writing file groups that take over the records of others: a task of a clustering."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rli.errors import ConflictError
from rli.file_group import work_rows
from rli.file_group.batches import coalesce_tables
from rli.file_group.journal import Journal, open_journal
from rli.file_group.merge import newest_records
from rli.file_group.work_rows import Change
from rli.file_group.write_context import FileGroupResult, WriteContext, base_file_path
from rli.filters.value_expression import ValueExpression
from rli.hudi.base_file_writer import BYTES_PER_ROW_GROUP, BaseFileWriter, new_bloom_filter
from rli.hudi.file_names import BaseFileName, new_write_token
from rli.hudi.meta_columns import COMMIT_TIME, RECORD_KEY, with_record_meta_columns
from rli.hudi.timeline.commit_metadata import WriteStat
from rli.index.locators import Locator
from rli.index.placing import Regrouping
from rli.model import FileGroupId, WriteCounts
from rli.view.file_slice_reader import READ_BATCH_ROWS
from rli.view.file_slices import FileSlice
from rli.view.paths import unpublished_file, unpublished_files
from rli.write.rewrites.placed import placed_by_index
from rli.write.rewrites.sorted_records import places_of

_PLACE: Final = "_rli_place"
"""Column with the number of the new file group of each record."""


@dataclass(frozen=True, slots=True)
class ClusteringContext:
    """What every task of a clustering needs to know. Picklable.

    Attributes:
        write: the write.
        locator: as of the state that the clustering builds on.
        sorting: values by which records are sorted into the new file groups; none to place the records as the regrouping says.
    """

    write: WriteContext
    locator: Locator
    sorting: tuple[ValueExpression, ...] = ()


def cluster_file_groups(context: ClusteringContext, regrouping: Regrouping) -> list[FileGroupResult] | None:
    """Write the records of some file slices of one partition to new file groups, and a journal of each.

    Each attempt has file names of its own, so attempts may be repeated or raced. Memory is bounded by a batch of records.

    Returns:
        The base file of each new file group, none where the records are sorted already; None if another writer has changed a
        record of them since.

    Raises:
        CorruptIndexError: the index does not place the records where they are.
        CorruptTableError: a base file cannot be read.
        InvalidInputError: a value by which records are sorted cannot be computed.
    """
    try:
        return _write(context, regrouping)
    except ConflictError:
        return None


def _write(context: ClusteringContext, regrouping: Regrouping) -> list[FileGroupResult]:
    sources = regrouping.sources
    partition_path, token = sources[0].group.partition_path, new_write_token()
    file_ids, places = regrouping.file_ids, None
    if context.sorting:
        places = places_of(context.write, sources, context.sorting, len(file_ids))
        if places is None:
            return []
        file_ids = file_ids[: int(places.max()) + 1]
    targets = [_Target(context, FileGroupId(partition_path, file_id), token) for file_id in file_ids]
    with ExitStack() as stack:
        rows = _rows_of(context.write, sources)
        kept = (
            None
            if context.write.expired_before is None
            else _kept(context.write, sources, context.write.expired_before)
        )
        for number, target in enumerate(targets):
            stack.enter_context(target.opened(rows if places is None else int(np.sum(places == number))))
        stored = _stored(context.write, sources, kept, places)
        for batch in coalesce_tables(stored, READ_BATCH_ROWS, BYTES_PER_ROW_GROUP):
            for target, records in zip(targets, _by_target(regrouping, file_ids, batch), strict=True):
                if records.num_rows:
                    target.write(records)
        written = [target.finish() for target in targets]
    replaces = tuple(source.group for source in sources)
    return [FileGroupResult(journal.group, WriteCounts(), stat, journal, replaces) for stat, journal in written]


def _by_target(regrouping: Regrouping, file_ids: Sequence[str], batch: pa.Table) -> list[pa.Table]:
    """The records of each new file group."""
    if _PLACE in batch.column_names:
        place, records = batch.column(_PLACE), batch.drop_columns([_PLACE])
        return [records.filter(pc.equal(place, number)) for number in range(len(file_ids))]
    if len(file_ids) == 1:
        return [batch]
    placed = regrouping.placement.file_ids_of(batch.column(RECORD_KEY).combine_chunks())
    return [batch.filter(pc.equal(placed, file_id)) for file_id in file_ids]


class _Target:
    """A new file group, while it is written.

    Args:
        context: of the task.
        group: the file group.
        token: of the attempt.
    """

    def __init__(self, context: ClusteringContext, group: FileGroupId, token: str) -> None:
        self._context = context
        self._group = group
        self._file_name = str(BaseFileName(group.file_id, token, context.write.instant))
        self._journal = Journal(context.write.instant, f"{group.file_id}_{token}.parquet", group)

    @contextmanager
    def opened(self, rows: int) -> Iterator[None]:
        """Open its files for at most so many rows."""
        write = self._context.write
        write.storage.make_folder(unpublished_files(write.instant))
        with (
            open_journal(write.storage, self._journal) as self._told,
            BaseFileWriter(
                write.storage,
                unpublished_file(write.instant, base_file_path(self._group, self._file_name)),
                write.schema,
                file_name=self._file_name,
                compression=write.compression,
                bloom_filter=new_bloom_filter(rows, write.bloom_filter_rate),
                partition_path=self._group.partition_path,
            ) as self._writer,
        ):
            yield

    def write(self, batch: pa.Table) -> None:
        """Add records, which come with the file id and the instant of their source."""
        self._told.write(_journal_rows(self._context, self._group, batch))
        records = batch.drop_columns([work_rows.PRIOR_FILE_ID, work_rows.PRIOR_INSTANT])
        self._writer.write(records, records.column(RECORD_KEY))

    def finish(self) -> tuple[WriteStat, Journal]:
        """Complete the base file; what was written."""
        written = self._writer.finish()
        stat = WriteStat(
            file_id=self._group.file_id,
            path=base_file_path(self._group, self._file_name),
            partition_path=self._group.partition_path,
            previous_instant=None,
            writes=written.rows,
            inserts=written.rows,
            update_writes=0,
            deletes=0,
            written_bytes=written.size,
            file_size=written.size,
        )
        return stat, self._journal


def _rows_of(write: WriteContext, sources: Iterable[FileSlice]) -> int:
    rows = 0
    for source in sources:
        with write.open(source) as reader:
            rows += reader.rows
    return rows


def _kept(write: WriteContext, sources: Iterable[FileSlice], expired_before: str) -> NDArray[np.bool_]:
    """Which records stay, where those of expired keys come together with newer ones: shape (records,).

    A file group holds a key once: the merge relies on it.
    """
    schema = pa.schema([pa.field(name, pa.string()) for name in (RECORD_KEY, COMMIT_TIME)])
    parts = [schema.empty_table()]
    for source in sources:
        with write.open(source) as reader:
            parts.append(reader.read_columns(schema))
    keys, times = (column.combine_chunks() for column in pa.concat_tables(parts).columns)
    newest = newest_records(keys, times)
    kept = np.ones(len(keys), dtype=bool)
    if newest is not None:
        kept = pc.greater_equal(times, expired_before).to_numpy(zero_copy_only=False)
        kept[newest] = True
    return kept


def _stored(
    write: WriteContext,
    sources: Iterable[FileSlice],
    kept: NDArray[np.bool_] | None,
    places: NDArray[np.int32] | None,
) -> Iterator[pa.Table]:
    """The records of all sources, with the meta columns that differ between them, each with its source's file id and instant.

    Args:
        write: the write.
        sources: the file slices.
        kept: which of them are wanted; None for all.
        places: numbers of their new file groups, which come with the records as ``_PLACE``; None where their keys tell.
    """
    start = 0
    for source in sources:
        with write.open(source) as reader:
            for records in reader.batches(with_record_meta_columns(write.schema)):
                chosen = None if kept is None else kept[start : start + records.num_rows]
                if places is not None:
                    records = records.append_column(_PLACE, pa.array(places[start : start + records.num_rows]))  # noqa: PLW2901
                start += records.num_rows
                batch = records if chosen is None or chosen.all() else records.filter(pa.array(chosen))
                file_ids, instants = (
                    pa.repeat(pa.scalar(name, pa.string()), batch.num_rows)
                    for name in (source.group.file_id, source.instant)
                )
                with_id = batch.append_column(work_rows.PRIOR_FILE_ID, file_ids)
                yield with_id.append_column(work_rows.PRIOR_INSTANT, instants)


def _journal_rows(context: ClusteringContext, group: FileGroupId, records: pa.Table) -> pa.Table:
    """What the journal keeps of some records: where, and since when, they were.

    Expired ones are not told: their keys may be elsewhere by now.
    """
    if context.write.expired_before is not None:
        records = records.filter(pc.greater_equal(records.column(COMMIT_TIME), context.write.expired_before))
    keys = records.column(RECORD_KEY).combine_chunks()
    # An index of some partitions does not know the entries of others. Where keys expire, the record tells their instant.
    since = work_rows.PRIOR_INSTANT if context.write.expired_before is None else COMMIT_TIME
    file_ids, instants = (records.column(name).combine_chunks() for name in (work_rows.PRIOR_FILE_ID, since))
    found = placed_by_index(context.locator, group, keys, file_ids, instants)
    return pa.table(
        {
            work_rows.RECORD_KEY: keys,
            work_rows.CHANGE: pa.repeat(pa.scalar(int(Change.MOVE_IN), pa.int8()), len(keys)),
            work_rows.PRIOR_PARTITION_PATH: found.column("partition_path"),
            work_rows.PRIOR_FILE_ID: found.column("file_id"),
            work_rows.PRIOR_INSTANT: found.column("instant_time"),
        }
    )
