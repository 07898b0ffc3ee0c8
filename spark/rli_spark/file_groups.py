"""The last stage of every write: work rows go to the task of their file group, which writes it."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import DataFrame

from rli.layout.file_slices import FileSlice
from rli.model import FileGroupId
from rli.table.file_groups import work_rows
from rli.table.file_groups.file_group_writer import FileGroupResult, FileGroupTarget, WriteContext, write_file_group
from rli.table.file_groups.tagging import groups_of, require_slice
from rli.table.file_groups.work_rows import Change
from rli_spark.batches import map_tables

_RESULT: Final = pa.schema([("result", pa.binary())])
_NEW_RECORDS: Final = pa.array([int(Change.INSERT), int(Change.ARRIVE)], pa.int8())


def write_file_groups(
    work: DataFrame, context: WriteContext, slices: Mapping[FileGroupId, FileSlice], tasks: int
) -> list[FileGroupResult]:
    """Write every file group that the work rows name; returns the results of the accepted attempts.

    Args:
        work: work rows.
        context: the write.
        slices: the live slices of those file groups that exist.
        tasks: how many tasks to share them out over, 0 if there are no work rows.
    """
    if not tasks:
        return []
    arranged = work.repartition(tasks, *work_rows.FILE_GROUP).sortWithinPartitions(*work_rows.FILE_GROUP)
    written = map_tables(arranged, lambda tables: _write_all(tables, context, slices), _RESULT)
    return [pickle.loads(row.result) for row in written.collect()]  # noqa: S301  (our own executors made it)


def _write_all(
    tables: Iterator[pa.Table], context: WriteContext, slices: Mapping[FileGroupId, FileSlice]
) -> Iterator[pa.Table]:
    task = TaskContext.get()
    if task is None:
        raise RuntimeError("file groups are written by Spark tasks only")
    for group, rows in whole_groups(tables):
        base = slices.get(group)
        adds_only = pc.all(pc.is_in(rows.column(work_rows.CHANGE), value_set=_NEW_RECORDS)).as_py()
        if base is None and not adds_only:
            require_slice(slices, group)
        token = f"{task.partitionId()}-{task.stageId()}-{task.taskAttemptId()}"
        result = write_file_group(context, FileGroupTarget(group, base), rows, token)
        yield pa.table([[pickle.dumps(result)]], schema=_RESULT)


def whole_groups(
    tables: Iterator[pa.Table], columns: tuple[str, str] = work_rows.FILE_GROUP
) -> Iterator[tuple[FileGroupId, pa.Table]]:
    """Each file group with all its rows, from a stream that is sorted by the columns that name the file group."""
    name: FileGroupId | None = None
    pending: list[pa.Table] = []
    for table in tables:
        for group, rows in groups_of(table, columns):
            if group != name:
                if name is not None:
                    yield name, pa.concat_tables(pending)
                name, pending = group, []
            pending.append(rows)
    if name is not None:
        yield name, pa.concat_tables(pending)
