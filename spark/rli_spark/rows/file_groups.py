"""The last stage of every write: work rows go to the task of their file group, which writes it."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from rli.file_group import work_rows
from rli.file_group.work_rows import Change
from rli.file_group.write_context import FileGroupResult
from rli.model import FileGroupId
from rli.view.file_slices import FileSlice
from rli.write.engine.write_plan import FileGroupWriting, RowPlacing, WritePlan
from rli.write.rows.by_file_group import groups_of
from rli.write.rows.tally import Tally, require_same
from rli_spark.rows.lots import IN_LOTS, LOT, Lots, whole_lots
from rli_spark.rows.row_batches import DATA
from rli_spark.rows.row_files import RowFiles
from rli_spark.session.batches import map_tables
from rli_spark.session.connect import is_connect, rows_of
from rli_spark.session.one_daemon import in_workers_of_frames
from rli_spark.session.running_task import FILE_GROUP_TOKENS, begin_task

Item = TypeVar("Item")
Result = TypeVar("Result")

_NEW_RECORDS: Final = pa.array([int(change) for change in (*work_rows.NEW, Change.MOVE_IN)], pa.int8())

_SMALL: Final = 8 * 1024 * 1024
"""Bytes of a file group and its rows."""

_WRITERS: Final = 4
"""Small file groups that a task writes at a time: most of their time goes into waiting for the storage."""

_WRITTEN: Final = pa.schema([("written", pa.binary())])


@dataclass(frozen=True, slots=True)
class LotWriting:
    """Writes the file groups of lots. Picklable; each task gets all of it, and unpickles the slices of its own lots alone.

    Attributes:
        writing: without slices.
        slices: of each lot: the live slices of its file groups, pickled.
    """

    writing: FileGroupWriting
    slices: tuple[bytes, ...]

    @classmethod
    def of(cls, writing: FileGroupWriting, lots: Lots) -> LotWriting:
        """The same writing for lots."""
        parts = [dict[FileGroupId, FileSlice]() for _ in lots.shuffle_keys]
        groups = list(writing.slices)
        for group, number in zip(groups, lots.lots_of(groups).tolist(), strict=True):
            parts[number][group] = writing.slices[group]
        return cls(replace(writing, slices={}), tuple(map(pickle.dumps, parts)))

    def of_lot(self, number: int) -> FileGroupWriting:
        """Writes the file groups of one lot."""
        return replace(self.writing, slices=pickle.loads(self.slices[number]))  # noqa: S301  (of our own driver)


def write_file_groups(
    rows: RowFiles, plan: WritePlan, row_bytes: Mapping[FileGroupId, float], tasks: int
) -> list[FileGroupResult]:
    """Write every file group that tagged rows change; returns the results of the accepted attempts.

    Args:
        rows: all tagged rows.
        plan: where new records go, and what each file group costs to write.
        row_bytes: each of those file groups → about how many bytes of rows it gets.
        tasks: at most so many read, and at most so many write.

    Raises:
        VoidAttemptError: the tasks have written other keys than are in the files.
        CorruptTableError: a file is damaged.
    """
    if not plan.sizes or not rows.files:
        # Where all moves came too late, the plan has the file groups that they would have left.
        return []
    placing, writing = plan.placing, plan.writing
    lots = Lots.of(plan.sizes, row_bytes, tasks)
    placed = rows.mapped(lambda tables: _placed(tables, placing, lots), IN_LOTS, tasks)
    arranged = lots.arranged(placed).select(LOT, DATA)
    lot_writing = LotWriting.of(writing, lots)
    if is_connect(rows.spark):
        written = _written_by_arrow(arranged, lot_writing)
    else:
        # Not by way of Arrow, for which Spark would hold the row batches of several lots at once.
        written = in_workers_of_frames(arranged.rdd.mapPartitions(partial(_write_all, lot_writing))).collect()
    require_same("written", rows.tally, Tally.total(tally for _, tally in written))
    return [result for result, _ in written]


def _placed(tables: Iterator[pa.Table], placing: RowPlacing, lots: Lots) -> Iterator[pa.Table]:
    """Row batches by lot; for each move, a row that leaves and one that arrives."""
    for rows in tables:
        new = pc.is_in(rows.column(work_rows.CHANGE), value_set=_NEW_RECORDS)
        count = pc.sum(new).as_py()
        if count < rows.num_rows:
            yield lots.in_lots(rows.filter(pc.invert(new)) if count else rows)
        if count:
            yield lots.in_lots(placing.place(rows.filter(new) if count < rows.num_rows else rows))


def _written_by_arrow(arranged: DataFrame, writing: LotWriting) -> list[tuple[FileGroupResult, Tally]]:
    """What ``_write_all`` gives, in a session of Spark Connect, which has no RDDs."""

    def run(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        for written in _write_all(writing, rows_of(tables)):
            yield pa.table([[pickle.dumps(written)]], schema=_WRITTEN)

    rows = map_tables(arranged, run, _WRITTEN).collect()
    return [pickle.loads(row.written) for row in rows]  # noqa: S301  (of our own tasks)


def _write_all(lots: LotWriting, batches: Iterable[Sequence[Any]]) -> Iterator[tuple[FileGroupResult, Tally]]:
    """Write the file groups of a task; gives the result of each with the keys that it places or removes."""
    begin_task()
    for lot, rows in whole_lots((number, content) for number, content in batches):
        writing = lots.of_lot(lot)
        write = partial(_write_one, writing)
        groups = groups_of(rows)
        targets = [(FILE_GROUP_TOKENS.next(), *named) for named in groups]
        if len(groups) > 1 and all(_is_small(writing, *named) for named in groups):
            yield from _side_by_side(write, targets)
        else:
            yield from map(write, targets)


def _write_one(writing: FileGroupWriting, target: tuple[str, FileGroupId, pa.Table]) -> tuple[FileGroupResult, Tally]:
    token, group, rows = target
    # A record that moves is counted where it arrives.
    own = rows.filter(pc.not_equal(rows.column(work_rows.CHANGE), int(Change.MOVE_OUT)))
    return writing.write(group, rows, token), Tally.of(own.column(work_rows.RECORD_KEY))


def _is_small(writing: FileGroupWriting, group: FileGroupId, rows: pa.Table) -> bool:
    stored = writing.slices.get(group)
    return (0 if stored is None else stored.size) + rows.nbytes <= _SMALL


def _side_by_side(function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """The results of a few items at a time; where one raises, those that are not begun are left out."""
    with ThreadPoolExecutor(_WRITERS) as threads:
        try:
            yield from threads.map(function, items)
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
