"""Tagged rows as Spark keeps them: row batches, of which the driver reads the headings alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (the name that everybody knows)

from rli.file_group import work_rows
from rli.file_group.work_rows import Change
from rli.file_group.write_context import FileGroupResult
from rli.model import FileGroupId
from rli.write.engine.contract import TaggedRows
from rli.write.engine.workload import WorkloadProfile
from rli.write.engine.write_plan import WritePlan
from rli.write.rows.by_file_group import groups_of
from rli.write.rows.late_moves import LateMoves
from rli.write.rows.tagging import TaggedBatch
from rli.write.rows.tally import Tally, require_same
from rli_spark.planning.execution_plan import ExecutionPlan, Place, Stage
from rli_spark.rows.file_groups import write_file_groups
from rli_spark.rows.headings import HEADINGS, KIND, Kind, count_headings, counts_of, headings_of, tally_heading
from rli_spark.rows.lots import BYTES_PER_LOT, IN_LOTS, LOT, Lots, whole_lots
from rli_spark.rows.row_batches import DATA, packed, table_of, unpack, unpacked
from rli_spark.session.batches import keep, map_tables
from rli_spark.session.jobs import jobs

TAGGED: Final = pa.schema([*HEADINGS, (DATA, pa.binary())])
"""Row batches of work rows, all of one kind, with their headings; and headings without rows."""


@dataclass(frozen=True, slots=True)
class SparkRows(TaggedRows):
    """Row batches of ``TAGGED``, kept by Spark.

    Attributes:
        frame: the row batches.
        kept: gives back what Spark keeps.
        execution: decides how many tasks work.
        bytes_per_row: an estimate.
        profile: counts of the rows.
        read: the keys that the tasks have read; of those that occur more than once, each occurrence.
        staying: the keys of rows that the last stage may write as they are.
        moving: the keys of records that move out of a file group, as far as late ones are not left out yet.
        distinct: how many rows were tagged, one for each key.
    """

    frame: DataFrame
    kept: ExitStack
    execution: ExecutionPlan
    bytes_per_row: float
    profile: WorkloadProfile
    read: Tally
    staying: Tally
    moving: Tally
    distinct: int

    @classmethod
    def of(
        cls, frame: DataFrame, kept: ExitStack, execution: ExecutionPlan, bytes_per_row: float, sums: int = 1
    ) -> SparkRows:
        """Compute the row batches and count what is in them.

        Args:
            frame: the row batches.
            kept: gives back what Spark keeps.
            execution: decides how many tasks work.
            bytes_per_row: an estimate.
            sums: how many tasks add the headings up.
        """
        rows = keep(frame, kept)
        headings = headings_of(rows, sums)
        tallies = headings.tallies
        staying = tallies[Kind.STAYING] + tallies[Kind.ARRIVING]
        read, moving, distinct = (tallies[kind] for kind in (Kind.READ, Kind.LEAVING, Kind.DISTINCT))
        return cls(rows, kept, execution, bytes_per_row, headings.profile, read, staying, moving, distinct.keys)

    def without_late_moves(self, late: LateMoves) -> TaggedRows:
        sizes = [file_slice.size for file_slice in late.slices.values()]
        size = int(sum(self.profile.leaving.values()) * self.bytes_per_row)
        return self.resolved(late, self.execution.resolve(size, Place.TASKS, sizes).tasks)

    def resolved(self, late: LateMoves, tasks: int) -> SparkRows:
        """The rows less those moves that came too late, compared by at most so many tasks."""
        row_bytes = {group: count * self.bytes_per_row for group, count in self.profile.leaving.items()}
        lots = Lots.of(row_bytes, row_bytes, tasks)
        by_origin = map_tables(self._of_kinds(Kind.LEAVING), lambda tables: _by_origin(tables, lots), IN_LOTS)
        with jobs(self.frame.sparkSession, Stage.RESOLVE):
            in_time = map_tables(lots.arranged(by_origin), lambda tables: _in_time(tables, late), TAGGED)
            arriving = SparkRows.of(in_time, self.kept, self.execution, self.bytes_per_row)
        require_same("compared", self.moving, arriving.read)
        return replace(
            self,
            frame=self.frame.unionByName(arriving.frame),
            profile=replace(self.profile, arriving=arriving.profile.arriving),
            staying=self.staying + arriving.staying,
            moving=Tally(),
        )

    def keys_of_moves(self, most: int) -> list[str]:
        with jobs(self.frame.sparkSession, "name records that move"):
            some = self._of_kinds(Kind.ARRIVING).select(DATA).take(1)
        return [key for (content,) in some for key in unpack(content).column(work_rows.RECORD_KEY)[:most].to_pylist()]

    def write(self, plan: WritePlan) -> Iterable[FileGroupResult]:
        return self.written(plan, self.execution.write(plan.sizes.values(), Place.TASKS).tasks)

    def written(self, plan: WritePlan, tasks: int) -> Iterable[FileGroupResult]:
        """The results of all file groups that the rows change, written by at most so many tasks."""
        with jobs(self.frame.sparkSession, Stage.WRITE):
            batches = self._of_kinds(Kind.STAYING, Kind.ARRIVING).select(DATA)
            return write_file_groups(batches, plan, self._row_bytes(plan), tasks, expected=self.staying)

    def _row_bytes(self, plan: WritePlan) -> Mapping[FileGroupId, float]:
        """How many bytes of rows each file group of a plan gets, those of leaving records among them."""
        slices, leaving = plan.writing.slices, self.profile.leaving
        return {
            group: size - (slices[group].size if group in slices else 0) + leaving.get(group, 0) * self.bytes_per_row
            for group, size in plan.sizes.items()
        }

    def _of_kinds(self, *kinds: Kind) -> DataFrame:
        return self.frame.where(F.col(KIND).isin([int(kind) for kind in kinds]))


def tagged_batches(tagged: TaggedBatch, read: Tally, sums: int = 1, distinct: int = 0) -> Iterator[pa.Table]:
    """Work rows as row batches of ``TAGGED``, with headings.

    Args:
        tagged: the work rows; those that move have not been compared with what is stored.
        read: the keys that the task has read.
        sums: how many tasks add the headings up.
        distinct: how many rows were tagged, one for each key.
    """
    leaves = pc.equal(tagged.rows.column(work_rows.CHANGE), int(Change.MOVE_IN))
    leaving = pc.sum(leaves).as_py() or 0
    if leaving in {0, tagged.rows.num_rows}:
        parts = {Kind.LEAVING if leaving else Kind.STAYING: tagged.rows}
    else:
        parts = {Kind.STAYING: tagged.rows.filter(pc.invert(leaves)), Kind.LEAVING: tagged.rows.filter(leaves)}
    counted = [(Kind.LEFT_OUT, Tally(tagged.left_out)), (Kind.DISTINCT, Tally(distinct))]
    yield _headings([(Kind.READ, read), *counted])
    yield from _row_batches(parts, sums)


def arriving_batches(moves: pa.Table, read: Tally) -> Iterator[pa.Table]:
    """Work rows of moves that are in time as row batches of ``TAGGED``, with headings.

    Args:
        moves: the work rows.
        read: the keys of those that were compared with what is stored.
    """
    yield _headings([(Kind.READ, read)])
    yield from _row_batches({Kind.ARRIVING: moves}, 1)


def _headings(tallies: Iterable[tuple[Kind, Tally]]) -> pa.Table:
    return table_of([(*tally_heading(kind, tally), None) for kind, tally in tallies], TAGGED)


def _row_batches(parts: dict[Kind, pa.Table], sums: int) -> Iterator[pa.Table]:
    counts = pa.concat_tables([counts_of(kind, rows) for kind, rows in parts.items()])
    yield table_of([(*heading, None) for heading in count_headings(counts, sums)], TAGGED)
    for kind, rows in parts.items():
        step = max(1, BYTES_PER_LOT * rows.num_rows // max(rows.nbytes, 1))
        for start in range(0, rows.num_rows, step):
            part = rows.slice(start, step)
            tally = Tally.of(part.column(work_rows.RECORD_KEY))
            yield table_of([(*tally_heading(kind, tally), packed(part))], TAGGED)


def _by_origin(tables: Iterator[pa.Table], lots: Lots) -> Iterator[pa.Table]:
    """Row batches of records that move, by the lot of the file group that they leave."""
    for rows in unpacked(tables):
        yield lots.in_lots(rows, work_rows.PRIOR_FILE_GROUP)


def _in_time(tables: Iterator[pa.Table], late: LateMoves) -> Iterator[pa.Table]:
    """Row batches of records that move, less those that came too late."""
    named = (
        (lot.as_py(), content.as_buffer())
        for table in tables
        for lot, content in zip(table.column(LOT), table.column(DATA), strict=True)
    )
    for _, rows in whole_lots(named):
        arriving = [late.without(*moves) for moves in groups_of(rows, work_rows.PRIOR_FILE_GROUP)]
        yield from arriving_batches(pa.concat_tables(arriving), Tally.of(rows.column(work_rows.RECORD_KEY)))
