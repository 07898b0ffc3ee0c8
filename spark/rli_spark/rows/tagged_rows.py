"""Tagged rows as Spark's tasks keep them: in files, of which the driver reads the headings alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from rli.coordination.requests import RequestFolder
from rli.file_group import work_rows
from rli.file_group.work_rows import Change
from rli.file_group.write_context import FileGroupResult
from rli.model import FileGroupId
from rli.storage import Storage
from rli.tasks import InThreads
from rli.write.engine.contract import TaggedRows
from rli.write.engine.workload import WorkloadProfile
from rli.write.engine.write_plan import WritePlan
from rli.write.rows.by_file_group import groups_of
from rli.write.rows.late_moves import LateMoves
from rli.write.rows.tagging import TaggedBatch
from rli.write.rows.tally import Tally, require_same
from rli_spark.planning.execution_plan import ExecutionPlan, Place, Stage
from rli_spark.rows.file_groups import write_file_groups
from rli_spark.rows.headings import (
    HEADINGS,
    Headings,
    Kind,
    count_headings,
    counts_of,
    file_heading,
    headings_of,
    tally_heading,
)
from rli_spark.rows.lots import IN_LOTS, LOT, Lots, whole_lots
from rli_spark.rows.row_batches import DATA, table_of
from rli_spark.rows.row_files import RowFile, RowFiles, write_rows
from rli_spark.session.batches import map_tables
from rli_spark.session.connect import rows_of
from rli_spark.session.jobs import jobs


@dataclass(frozen=True, slots=True)
class SparkRows(TaggedRows):
    """Work rows in files.

    Attributes:
        spark: the session.
        folder: of the attempt.
        execution: decides how many tasks work.
        bytes_per_row: an estimate.
        profile: counts of the rows.
        read: the keys that the tasks have read; of those that occur more than once, each occurrence.
        ready: the files whose rows the last stage may write as they are.
        moving: the files of records that move out of a file group; late ones are not left out yet.
        arriving: those of ``ready`` whose records move.
        distinct: how many rows were tagged, one for each key.
    """

    spark: SparkSession
    folder: RequestFolder
    execution: ExecutionPlan
    bytes_per_row: float
    profile: WorkloadProfile
    read: Tally
    ready: tuple[RowFile, ...]
    moving: tuple[RowFile, ...]
    arriving: tuple[RowFile, ...]
    distinct: int

    @classmethod
    def of(
        cls,
        spark: SparkSession,
        folder: RequestFolder,
        execution: ExecutionPlan,
        bytes_per_row: float,
        headings: Headings,
    ) -> SparkRows:
        """The rows that headings tell of; the other arguments are the attributes."""
        tallies, files = headings.tallies, headings.files
        arriving, ready = tuple(files[Kind.ARRIVING]), (*files[Kind.STAYING], *files[Kind.ARRIVING])
        read, distinct = tallies[Kind.READ], tallies[Kind.DISTINCT].keys
        moving = tuple(files[Kind.LEAVING])
        return cls(spark, folder, execution, bytes_per_row, headings.profile, read, ready, moving, arriving, distinct)

    def without_late_moves(self, late: LateMoves) -> TaggedRows:
        sizes = [file_slice.size for file_slice in late.slices.values()]
        decided = self.execution.resolve(sum(file.size for file in self.moving), Place.TASKS, sizes)
        return self._resolved_by_driver(late) if decided.by_driver else self.resolved(late, decided.tasks)

    def resolved(self, late: LateMoves, tasks: int) -> SparkRows:
        """The rows less those moves that came too late, compared by at most so many tasks."""
        row_bytes = {group: count * self.bytes_per_row for group, count in self.profile.leaving.items()}
        lots = Lots.of(row_bytes, row_bytes, tasks)
        storage, path = self.folder.storage, self.folder.path
        by_origin = self._kept(self.moving).mapped(lambda tables: _by_origin(tables, lots), IN_LOTS, tasks)
        in_time = map_tables(lots.arranged(by_origin), lambda tables: _in_time(tables, late, storage, path), HEADINGS)
        with jobs(self.spark, Stage.RESOLVE):
            return self._with_arriving(headings_of(in_time, 1))

    def _resolved_by_driver(self, late: LateMoves) -> SparkRows:
        storage, path = self.folder.storage, self.folder.path
        moving = pa.concat_tables(self._kept(self.moving).rows())
        by_origin = groups_of(moving, work_rows.PRIOR_FILE_GROUP)
        in_time = pa.concat_tables(InThreads().run(lambda moves: late.without(*moves), by_origin))
        read = Tally.of(moving.column(work_rows.RECORD_KEY))
        return self._with_arriving(Headings.summed(rows_of(arriving_headings(storage, path, in_time, read))))

    def _with_arriving(self, headings: Headings) -> SparkRows:
        require_same("compared", Tally.total(file.tally for file in self.moving), headings.tallies[Kind.READ])
        arriving = tuple(headings.files[Kind.ARRIVING])
        profile = replace(self.profile, arriving=headings.profile.arriving)
        return replace(self, profile=profile, ready=(*self.ready, *arriving), moving=(), arriving=arriving)

    def keys_of_moves(self, most: int) -> list[str]:
        some = self._kept(self.arriving[:1]).rows()
        return [key for rows in some for key in rows.column(work_rows.RECORD_KEY).to_pylist()][:most]

    def write(self, plan: WritePlan) -> Iterable[FileGroupResult]:
        return self.written(plan, self.execution.write(plan.sizes.values(), Place.TASKS).tasks)

    def written(self, plan: WritePlan, tasks: int) -> Iterable[FileGroupResult]:
        """The results of all file groups that the rows change, written by at most so many tasks."""
        with jobs(self.spark, Stage.WRITE):
            return write_file_groups(self._kept(self.ready), plan, self._row_bytes(plan), tasks)

    def _row_bytes(self, plan: WritePlan) -> Mapping[FileGroupId, float]:
        """How many bytes of rows each file group of a plan gets, those of leaving records among them."""
        slices, leaving = plan.writing.slices, self.profile.leaving
        return {
            group: size - (slices[group].size if group in slices else 0) + leaving.get(group, 0) * self.bytes_per_row
            for group, size in plan.sizes.items()
        }

    def _kept(self, files: tuple[RowFile, ...]) -> RowFiles:
        """Some files; raises ``LeaseLostError`` if another writer took this process for dead, and removed them."""
        self.folder.require_kept()
        return RowFiles(self.spark, self.folder.storage, files)


def tagged_headings(
    storage: Storage, folder: str, tagged: TaggedBatch, read: Tally, *, sums: int = 1, distinct: int = 0
) -> Iterator[pa.Table]:
    """Write work rows to files, one of each kind, and give their headings.

    Args:
        storage: of the table.
        folder: of the attempt.
        tagged: the work rows; those that move have not been compared with what is stored.
        read: the keys that the task has read.
        sums: how many tasks add the headings up.
        distinct: how many rows were tagged, one for each key.

    Yields:
        Tables of ``HEADINGS``.
    """
    leaves = pc.equal(tagged.rows.column(work_rows.CHANGE), int(Change.MOVE_IN))
    leaving = pc.sum(leaves).as_py() or 0
    if leaving in {0, tagged.rows.num_rows}:
        parts = {Kind.LEAVING if leaving else Kind.STAYING: tagged.rows}
    else:
        parts = {Kind.STAYING: tagged.rows.filter(pc.invert(leaves)), Kind.LEAVING: tagged.rows.filter(leaves)}
    counted = [(Kind.LEFT_OUT, Tally(tagged.left_out)), (Kind.DISTINCT, Tally(distinct))]
    yield _tallies([(Kind.READ, read), *counted])
    yield _written(storage, folder, parts, sums)


def arriving_headings(storage: Storage, folder: str, moves: pa.Table, read: Tally) -> Iterator[pa.Table]:
    """Write work rows of moves that are in time to a file, and give its headings.

    Args:
        storage: of the table.
        folder: of the attempt.
        moves: the work rows.
        read: the keys of those that were compared with what is stored.

    Yields:
        Tables of ``HEADINGS``.
    """
    yield _tallies([(Kind.READ, read)])
    yield _written(storage, folder, {Kind.ARRIVING: moves}, 1)


def _tallies(tallies: Iterable[tuple[Kind, Tally]]) -> pa.Table:
    return table_of([tally_heading(kind, tally) for kind, tally in tallies], HEADINGS)


def _written(storage: Storage, folder: str, parts: dict[Kind, pa.Table], sums: int) -> pa.Table:
    counts = pa.concat_tables([counts_of(kind, rows) for kind, rows in parts.items()])
    files = {kind: write_rows(storage, folder, rows) for kind, rows in parts.items() if rows.num_rows}
    told = [*count_headings(counts, sums), *(file_heading(kind, file) for kind, file in files.items())]
    return table_of(told, HEADINGS)


def _by_origin(tables: Iterator[pa.Table], lots: Lots) -> Iterator[pa.Table]:
    """Row batches of records that move, by the lot of the file group that they leave."""
    for rows in tables:
        yield lots.in_lots(rows, work_rows.PRIOR_FILE_GROUP)


def _in_time(tables: Iterator[pa.Table], late: LateMoves, storage: Storage, folder: str) -> Iterator[pa.Table]:
    """The headings of records that move, less those that came too late."""
    named = (
        (lot.as_py(), content.as_buffer())
        for table in tables
        for lot, content in zip(table.column(LOT), table.column(DATA), strict=True)
    )
    for _, rows in whole_lots(named):
        arriving = [late.without(*moves) for moves in groups_of(rows, work_rows.PRIOR_FILE_GROUP)]
        read = Tally.of(rows.column(work_rows.RECORD_KEY))
        yield from arriving_headings(storage, folder, pa.concat_tables(arriving), read)
