"""Memory of Spark's driver for one write: ``python -m benchmarks.growth.driver [TASKS FILE_GROUPS]``.

Feeds the driver the headings of so many tasks (1,000), of which each changes all of so many file groups (10,000), and plans the write
from these. Prints what arrives, and what it takes in memory, in bytes for each file group; without Spark, in a few seconds.
"""

from __future__ import annotations

import gc
import pickle
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Final, TypeVar
from uuid import UUID

import numpy as np
import pyarrow as pa

from rli.file_group import work_rows
from rli.file_group.journal import Journal
from rli.file_group.write_context import FileGroupResult, WriteContext
from rli.hudi.timeline.commit_metadata import WriteStat
from rli.model import FileGroupId, WriteCounts
from rli.storage import Storage
from rli.view.file_slices import DataFile, FileSlice
from rli.write.engine.write_plan import FileGroupWriting
from rli.write.rows.tally import Tally
from rli_spark.planning.execution_plan import ExecutionPlan, Resources
from rli_spark.planning.parallelism import Parallelism
from rli_spark.requests.request_files import RequestFile
from rli_spark.rows.file_groups import LotWriting
from rli_spark.rows.headings import HEADINGS, Headings, Kind, added_up, count_headings, counts_of
from rli_spark.rows.lots import Lots
from rli_spark.rows.row_batches import table_of

Made = TypeVar("Made")

_TASKS, _FILE_GROUPS = 1_000, 10_000
_INSTANT: Final = "20260101000000000"
_ROWS_PER_TASK: Final = 64 * 1024 * 1024
_BYTES_PER_BATCH: Final = 256 * 1024


def headings_for_driver(tasks: int, groups: list[FileGroupId]) -> list[tuple[object, ...]]:
    """What the driver gets of tasks that each change all of some file groups."""
    execution = ExecutionPlan(Resources(sys.maxsize), Parallelism(lambda: tasks))
    sums = execution.sums(tasks)
    paths, file_ids = zip(*((group.partition_path, group.file_id) for group in groups), strict=True)
    counts = counts_of(
        Kind.STAYING, pa.table(dict(zip(work_rows.FILE_GROUP, (list(paths), list(file_ids)), strict=True)))
    )
    told = table_of(count_headings(counts, sums), HEADINGS)
    if sums == 1:
        return list(_rows(told)) * tasks
    shares = (told.slice(number, 1) for number in range(told.num_rows))
    return [row for share in shares for table in added_up(iter([share] * tasks)) for row in _rows(table)]


def main(tasks: int, count: int) -> None:
    """Print a line for each thing that the driver keeps."""
    groups = [
        FileGroupId(f"date=2026-{number % 12 + 1:02}-01", f"{UUID(int=number * 2**64)}-0") for number in range(count)
    ]
    told = headings_for_driver(tasks, groups)
    arrived = sum(len(row[-1]) for row in told if isinstance(row[-1], bytes))
    _tell(f"headings of {tasks:,} tasks, as they arrive", arrived, count, "file group")
    headings, size = _kept(lambda: Headings.summed(told))
    _tell("the same, added up", size, count, "file group")
    profile, size = _kept(lambda: headings.profile)
    _tell("profile of the write", size, count, "file group")
    sizes = {group: float(rows) for group, rows in profile.changed.items()}
    slices, size = _kept(lambda: {group: _slice_of(number, group) for number, group in enumerate(groups)})
    _tell("live file slices of the table", size, count, "file slice")
    lots, size = _kept(lambda: Lots.of(sizes, sizes, tasks))
    _tell("lots, for each task", size, count, "file group")
    context = WriteContext(Storage("/tmp"), _INSTANT, pa.schema([]), None, (), "zstd")  # noqa: S108  (nothing is written)
    writing, _ = _kept(lambda: LotWriting.of(FileGroupWriting(context, slices), lots))
    _tell("file slices for the tasks, pickled", len(pickle.dumps(writing)), count, "file group")
    _, size = _kept(lambda: pickle.loads(pickle.dumps([_result_of(group) for group in groups])))  # noqa: S301  (of our own)
    _tell("results of the write", size, count, "file group")
    _, size = _kept(lambda: [_file_of(number) for number in range(tasks)])
    _tell("files of the request, of 64 MiB each", size, tasks, "task")


def _rows(table: pa.Table) -> Iterator[tuple[object, ...]]:
    return zip(*(column.to_pylist() for column in table.columns), strict=True)


def _kept(make: Callable[[], Made]) -> tuple[Made, int]:
    """What a function makes, and the bytes of memory that it keeps."""
    gc.collect()
    tracemalloc.start()
    arrow = pa.total_allocated_bytes()
    made = make()
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return made, size + pa.total_allocated_bytes() - arrow


def _tell(name: str, size: int, count: int, unit: str) -> None:
    print(f"{name:<45}{size / 2**20:>9.2f} MiB{size / count:>9.0f} bytes a {unit}")


def _slice_of(number: int, group: FileGroupId) -> FileSlice:
    path = f"{group.partition_path}/{group.file_id}_{number}-0-0_{_INSTANT}.parquet"
    return FileSlice(group, _INSTANT[:-6] + f"{number:06}", DataFile(path, 2**27 + number))


def _result_of(group: FileGroupId) -> FileGroupResult:
    name = f"{group.file_id}_1-2-3_{_INSTANT}.parquet"
    stat = WriteStat(
        group.file_id, f"{group.partition_path}/{name}", group.partition_path, _INSTANT, 9, 0, 9, 0, 2**20, 2**20
    )
    return FileGroupResult(group, WriteCounts(updated=9), stat, Journal(_INSTANT, name, group))


def _file_of(task: int) -> RequestFile:
    batches = _ROWS_PER_TASK // _BYTES_PER_BATCH
    bounds = np.arange(batches, dtype=np.uint32)
    path = f".hoodie/.rli/requests/{_INSTANT}/{task}-{UUID(int=task).hex}.arrow"
    return RequestFile(path, Tally(1, task), _ROWS_PER_TASK, bounds, bounds.copy(), np.arange(batches + 1))


if __name__ == "__main__":
    given = [int(number) for number in sys.argv[1:]]
    main(*(given or (_TASKS, _FILE_GROUPS)))
