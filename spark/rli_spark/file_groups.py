"""The last stage of every write: work rows go to the task of their file group, which writes it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import DataFrame, Row

from rli.file_group import work_rows
from rli.file_group.work_rows import Change
from rli.file_group.writer import FileGroupResult, FileGroupTarget, WriteContext, write_file_group
from rli.model import FileGroupId
from rli.view.file_slices import FileSlice
from rli.write.placement import Placement
from rli.write.tagging import departures, groups_of, place, require_slice
from rli_spark.batches import map_tables, tasks_for
from rli_spark.row_batches import DATA, ROUTE, packed, routes, sent, shared_out, table_of, unpack, unpacked
from rli_spark.requests import require_same
from rli_spark.tally import Tally
from rli_spark.zip_directories import watch_zip_directories

_NEW_RECORDS: Final = pa.array([int(Change.INSERT), int(Change.MOVE_IN)], pa.int8())
_PLACED: Final = pa.schema(
    [(ROUTE, pa.int32()), *((name, pa.string()) for name in work_rows.FILE_GROUP), (DATA, pa.binary())]
)


def write_file_groups(
    tagged: DataFrame,
    placements: Mapping[str, Placement],
    context: WriteContext,
    slices: Mapping[FileGroupId, FileSlice],
    sizes: Mapping[FileGroupId, float],
    *,
    expected: Tally,
) -> list[FileGroupResult]:
    """Write every file group that tagged rows change; returns the results of the accepted attempts.

    Args:
        tagged: packets of ``profile.TAGGED``.
        placements: where new records go, by partition path.
        context: the write.
        slices: the live slices of those file groups that exist.
        sizes: of every file group that the rows change, about what it takes to write: bytes.
        expected: the keys of all tagged rows.

    Raises:
        VoidAttemptError: the tasks have written other keys.
    """
    if not sizes:
        return []
    tasks = min(len(sizes), tasks_for(tagged.sparkSession, int(sum(sizes.values()))))
    way_to = routes(tasks)
    ways = {group: way_to[task] for group, task in shared_out(sizes, tasks).items()}
    placed = map_tables(tagged, lambda tables: _placed(tables, placements, ways), _PLACED)
    arranged = sent(placed, tasks).sortWithinPartitions(*work_rows.FILE_GROUP)
    # Not by way of Arrow, for which Spark would hold the packets of several file groups at once.
    written = arranged.rdd.mapPartitions(partial(_write_all, context, slices)).collect()
    require_same("written", expected, sum((tally for _, tally in written), Tally()))
    return [result for result, _ in written]


def _placed(
    tables: Iterator[pa.Table], placements: Mapping[str, Placement], ways: Mapping[FileGroupId, int]
) -> Iterator[pa.Table]:
    """Packets with the way to their file group; for each move, a row that leaves and one that arrives."""
    for table in tables:
        changes = table.column(work_rows.CHANGE)
        new = pc.is_in(changes, value_set=_NEW_RECORDS)
        here = table.filter(pc.and_(pc.invert(new), pc.is_valid(changes)))
        groups = [
            FileGroupId(*names)
            for names in zip(*(here.column(name).to_pylist() for name in work_rows.FILE_GROUP), strict=True)
        ]
        yield pa.table(
            [pa.array([ways[group] for group in groups], pa.int32()), *here.select(_PLACED.names[1:]).columns],
            schema=_PLACED,
        )
        arrived = list(unpacked([table.filter(new)]))
        if arrived:
            rows = place(pa.concat_tables(arrived), placements)
            leaving = departures(rows.filter(pc.equal(rows.column(work_rows.CHANGE), int(Change.MOVE_IN))))
            parts = (*groups_of(rows), *groups_of(leaving))
            yield table_of(((ways[group], *group, packed(part)) for group, part in parts), _PLACED)


def _write_all(
    context: WriteContext, slices: Mapping[FileGroupId, FileSlice], packets: Iterable[Row]
) -> Iterator[tuple[FileGroupResult, Tally]]:
    """Write the file groups of a task; gives the result of each with the keys that it places or removes."""
    watch_zip_directories()
    task = TaskContext.get()
    if task is None:
        raise RuntimeError("file groups are written by Spark tasks only")
    token = f"{task.partitionId()}-{task.stageId()}-{task.taskAttemptId()}"
    named = ((FileGroupId(packet[1], packet[2]), packet[3]) for packet in packets)
    for group, rows in whole_groups(named):
        base = slices.get(group)
        adds_only = pc.all(pc.is_in(rows.column(work_rows.CHANGE), value_set=_NEW_RECORDS)).as_py()
        if base is None and not adds_only:
            require_slice(slices, group)
        # A record that moves is counted where it arrives.
        own = rows.filter(pc.not_equal(rows.column(work_rows.CHANGE), int(Change.MOVE_OUT)))
        tally = Tally.of(own.column(work_rows.RECORD_KEY))
        yield write_file_group(context, FileGroupTarget(group, base), rows, token), tally


def whole_groups(
    packets: Iterable[tuple[FileGroupId, pa.Buffer | bytes]],
) -> Iterator[tuple[FileGroupId, pa.Table]]:
    """Each file group with all its rows, from packets in the order of their file groups."""
    for group, parts in groupby(packets, key=itemgetter(0)):
        yield group, pa.concat_tables([unpack(content) for _, content in parts])
