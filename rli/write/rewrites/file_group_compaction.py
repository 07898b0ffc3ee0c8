"""Writing the next base file of a file group with log files: a task of a compaction."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable

from rli.errors import CorruptTableError
from rli.file_group.batches import coalesce_tables
from rli.file_group.write_context import FileGroupResult, WriteContext, base_file_path
from rli.hudi.base_file_writer import BYTES_PER_ROW_GROUP, BaseFileWriter, WrittenFile, new_bloom_filter
from rli.hudi.file_names import BaseFileName, new_write_token
from rli.hudi.meta_columns import RECORD_KEY, with_record_meta_columns
from rli.hudi.timeline.commit_metadata import WriteStat
from rli.hudi.timeline.compaction_plan import CompactionOperation
from rli.model import WriteCounts
from rli.view.file_slice_reader import READ_BATCH_ROWS
from rli.view.file_slices import DataFile, FileSlice, SeenInstants
from rli.view.paths import unpublished_file, unpublished_files
from rli.view.snapshot import Snapshot


def planned_slices(snapshot: Snapshot, operations: Iterable[CompactionOperation]) -> list[FileSlice]:
    """The file slices that a plan names.

    Args:
        snapshot: a state of the table after the plan was made.
        operations: of the plan.

    Raises:
        CorruptTableError: a file of the plan is missing.
    """
    planned = list(operations)
    stored = snapshot.slices.all_versions({operation.partition_path for operation in planned})
    files = {(one.group, posixpath.basename(file.path)): file for one in stored for file in one.files}
    # Table version 6 tells by instants which blocks count; later, a file has the blocks of one commit.
    seen = None if snapshot.timeline.layout.keeps_completion_times else SeenInstants.of(snapshot.timeline)

    def file_of(operation: CompactionOperation, name: str) -> DataFile:
        found = files.get((operation.group, name))
        if found is None:
            raise CorruptTableError(
                f"a file of a scheduled compaction is missing: partition={operation.partition_path} file={name}",
                remedy="restore it from a backup, or unschedule the compaction with Hudi",
            )
        return found

    return [
        FileSlice(
            operation.group,
            operation.base_instant,
            None if operation.base_file is None else file_of(operation, operation.base_file),
            tuple(file_of(operation, name) for name in operation.log_files),
            seen,
        )
        for operation in planned
    ]


def compact_file_group(context: WriteContext, file_slice: FileSlice) -> FileGroupResult:
    """Write the merged records of a file slice to the next base file of its file group, where no reader sees it yet.

    Each attempt has a file name of its own, so attempts may be repeated or raced. Memory is bounded as that of
    ``MergedReader``, and by a row group.

    Raises:
        CorruptTableError: a file of the slice is missing or damaged.
        UnsupportedTableError: a log file holds what rli does not merge.
    """
    group = file_slice.group
    name = str(BaseFileName(group.file_id, new_write_token(), context.instant))
    path = base_file_path(group, name)
    written = _write(context, file_slice, name, unpublished_file(context.instant, path))
    stat = WriteStat(
        file_id=group.file_id,
        path=path,
        partition_path=group.partition_path,
        previous_instant=None if file_slice.base is None else file_slice.instant,
        writes=written.rows,
        inserts=written.rows if file_slice.base is None else 0,
        update_writes=0,
        deletes=0,
        written_bytes=written.size,
        file_size=written.size,
    )
    return FileGroupResult(group, WriteCounts(), stat, None)


def _write(context: WriteContext, file_slice: FileSlice, name: str, path: str) -> WrittenFile:
    schema = with_record_meta_columns(context.schema)
    context.storage.make_folder(unpublished_files(context.instant))
    with (
        context.open(file_slice) as reader,
        BaseFileWriter(
            context.storage,
            path,
            context.schema,
            file_name=name,
            compression=context.compression,
            bloom_filter=new_bloom_filter(reader.rows, context.bloom_filter_rate),
            partition_path=file_slice.group.partition_path,
        ) as writer,
    ):
        for records in coalesce_tables(reader.batches(schema), READ_BATCH_ROWS, BYTES_PER_ROW_GROUP):
            writer.write(records, records.column(RECORD_KEY))
        return writer.finish()
