"""The last stage of every write: work rows go to the task of their file group, which writes it."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import DataFrame

from rli.write.engine import (
    Change,
    FileGroupId,
    FileGroupResult,
    FileGroupWriting,
    RowPlacing,
    Tally,
    WritePlan,
    groups_of,
    require_same,
    work_rows,
)
from rli_spark.batches import map_tables, tasks_for
from rli_spark.connect import is_connect, rows_of
from rli_spark.row_batches import DATA, SHUFFLE_KEY, packed, sent, shared_out, shuffle_keys, table_of, unpack, unpacked
from rli_spark.zip_directories import watch_zip_directories

_NEW_RECORDS: Final = pa.array([int(change) for change in (*work_rows.NEW, Change.MOVE_IN)], pa.int8())
_PLACED: Final = pa.schema(
    [(SHUFFLE_KEY, pa.int32()), *((name, pa.string()) for name in work_rows.FILE_GROUP), (DATA, pa.binary())]
)

_WRITTEN: Final = pa.schema([("written", pa.binary())])


def write_file_groups(tagged: DataFrame, plan: WritePlan, *, expected: Tally) -> list[FileGroupResult]:
    """Write every file group that tagged rows change; returns the results of the accepted attempts.

    Args:
        tagged: row batches of ``tagged_rows.TAGGED``.
        plan: where new records go, and what each file group costs to write.
        expected: the keys of all tagged rows.

    Raises:
        VoidAttemptError: the tasks have written other keys.
    """
    if not plan.sizes:
        return []
    tasks = min(len(plan.sizes), tasks_for(tagged.sparkSession, int(sum(plan.sizes.values()))))
    key_of = shuffle_keys(tasks)
    keys = {group: key_of[task] for group, task in shared_out(plan.sizes, tasks).items()}
    placing, writing = plan.placing, plan.writing
    placed = map_tables(tagged, lambda tables: _placed(tables, placing, keys), _PLACED)
    arranged = sent(placed, tasks).sortWithinPartitions(*work_rows.FILE_GROUP)
    if is_connect(tagged.sparkSession):
        written = _written_by_arrow(arranged, writing)
    else:
        # Not by way of Arrow, for which Spark would hold the row batches of several file groups at once.
        written = arranged.rdd.mapPartitions(partial(_write_all, writing)).collect()
    require_same("written", expected, sum((tally for _, tally in written), Tally()))
    return [result for result, _ in written]


def _placed(tables: Iterator[pa.Table], placing: RowPlacing, keys: Mapping[FileGroupId, int]) -> Iterator[pa.Table]:
    """Row batches with the shuffle key of their file group; for each move, a row that leaves and one that arrives."""
    for table in tables:
        changes = table.column(work_rows.CHANGE)
        new = pc.is_in(changes, value_set=_NEW_RECORDS)
        here = table.filter(pc.and_(pc.invert(new), pc.is_valid(changes)))
        groups = [
            FileGroupId(*names)
            for names in zip(*(here.column(name).to_pylist() for name in work_rows.FILE_GROUP), strict=True)
        ]
        yield pa.table(
            [pa.array([keys[group] for group in groups], pa.int32()), *here.select(_PLACED.names[1:]).columns],
            schema=_PLACED,
        )
        arrived = list(unpacked([table.filter(new)]))
        if arrived:
            parts = groups_of(placing.place(pa.concat_tables(arrived)))
            yield table_of(((keys[group], *group, packed(part)) for group, part in parts), _PLACED)


def _written_by_arrow(arranged: DataFrame, writing: FileGroupWriting) -> list[tuple[FileGroupResult, Tally]]:
    """What ``_write_all`` gives, in a session of Spark Connect, which has no RDDs."""

    def run(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        for written in _write_all(writing, rows_of(tables)):
            yield pa.table([[pickle.dumps(written)]], schema=_WRITTEN)

    rows = map_tables(arranged, run, _WRITTEN).collect()
    return [pickle.loads(row.written) for row in rows]  # noqa: S301  (of our own tasks)


def _write_all(writing: FileGroupWriting, batches: Iterable[Sequence[Any]]) -> Iterator[tuple[FileGroupResult, Tally]]:
    """Write the file groups of a task; gives the result of each with the keys that it places or removes."""
    watch_zip_directories()
    task = TaskContext.get()
    if task is None:
        raise RuntimeError("file groups are written by Spark tasks only")
    token = f"{task.partitionId()}-{task.stageId()}-{task.taskAttemptId()}"
    named = ((FileGroupId(batch[1], batch[2]), batch[3]) for batch in batches)
    for group, rows in whole_groups(named):
        # A record that moves is counted where it arrives.
        own = rows.filter(pc.not_equal(rows.column(work_rows.CHANGE), int(Change.MOVE_OUT)))
        tally = Tally.of(own.column(work_rows.RECORD_KEY))
        yield writing.write(group, rows, token), tally


def whole_groups(
    batches: Iterable[tuple[FileGroupId, pa.Buffer | bytes]],
) -> Iterator[tuple[FileGroupId, pa.Table]]:
    """Each file group with all its rows, from row batches in the order of their file groups."""
    for group, parts in groupby(batches, key=itemgetter(0)):
        yield group, pa.concat_tables([unpack(content) for _, content in parts])
