"""Tagged rows as Spark keeps them: row batches, of which the driver reads the headings alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (the name that everybody knows)

from rli.write.engine import (
    Change,
    FileGroupId,
    FileGroupResult,
    LateMoves,
    TaggedBatch,
    TaggedRows,
    Tally,
    WorkloadProfile,
    WritePlan,
    groups_of,
    partitions_of,
    require_same,
    work_rows,
)
from rli_spark.batches import keep, map_tables, tasks_for
from rli_spark.errors import unwrapped_errors
from rli_spark.file_groups import whole_groups, write_file_groups
from rli_spark.row_batches import DATA, HASHES, ROWS, packed, table_of, unpack

TAGGED: Final = pa.schema(
    [
        (work_rows.CHANGE, pa.int8()),
        (work_rows.PARTITION_PATH, pa.string()),
        (work_rows.FILE_ID, pa.string()),
        (ROWS, pa.int64()),
        (HASHES, pa.int64()),
        (DATA, pa.binary()),
    ]
)
"""Row batches of tagged rows: what they do; the file group where their records are stored, or the partition that gains
them; the tally of their keys. Without a change they hold no rows, and tell of keys alone."""

_READ: Final = "read"
_LEFT_OUT: Final = "left out"

RowBatch = tuple[int | None, str | None, str | None, int, int, bytes | None]


@dataclass(frozen=True, slots=True)
class SparkRows(TaggedRows):
    """Row batches of ``TAGGED``, kept by Spark.

    Attributes:
        frame: the row batches.
        kept: gives back what Spark keeps.
        bytes_per_row: an estimate.
        profile: counts of the rows.
        read: the keys that the tasks have read; of those that occur more than once, each occurrence.
        staying: the keys of rows that the last stage may write as they are.
        moving: the keys of records that move out of a file group, as far as late ones are not left out yet.
    """

    frame: DataFrame
    kept: ExitStack
    bytes_per_row: float
    profile: WorkloadProfile
    read: Tally
    staying: Tally
    moving: Tally

    @classmethod
    def of(cls, frame: DataFrame, kept: ExitStack, bytes_per_row: float) -> SparkRows:
        """Compute the row batches and count what is in them."""
        rows = keep(frame, kept)
        read = staying = moving = Tally()
        counts = _Counts()
        for change, partition_path, file_id, count, hashes in rows.drop(DATA).collect():
            tally = Tally(count, hashes)
            if change is None and partition_path == _READ:
                read += tally
            elif change is None:
                counts.left_out += count
            elif change == Change.MOVE_IN and file_id is not None:
                counts.leaving[FileGroupId(partition_path, file_id)] += count
                moving += tally
            else:
                staying += tally
                counts.add(change, partition_path, file_id, count)
        return cls(rows, kept, bytes_per_row, counts.profile, read, staying, moving)

    def without_late_moves(self, late: LateMoves) -> TaggedRows:
        moves = F.col(work_rows.CHANGE) == int(Change.MOVE_IN)
        leaving = self.profile.leaving
        tasks = min(len(leaving), tasks_for(self.frame.sparkSession, int(sum(leaving.values()) * self.bytes_per_row)))
        by_origin = self.frame.where(moves).repartition(tasks, *work_rows.FILE_GROUP)
        arranged = by_origin.sortWithinPartitions(*work_rows.FILE_GROUP)
        with unwrapped_errors():
            in_time = map_tables(arranged, lambda batches: _in_time(batches, late), TAGGED)
            arriving = SparkRows.of(in_time, self.kept, self.bytes_per_row)
        require_same("compared", self.moving, arriving.read)
        return replace(
            self,
            frame=self.frame.where(~moves).unionByName(arriving.frame),
            profile=replace(self.profile, arriving=arriving.profile.arriving),
            staying=self.staying + arriving.staying,
            moving=Tally(),
        )

    def keys_of_moves(self, most: int) -> list[str]:
        moves = self.frame.where(F.col(work_rows.CHANGE) == int(Change.MOVE_IN))
        with unwrapped_errors():
            some = moves.select(DATA).take(1)
        return [key for (content,) in some for key in unpack(content).column(work_rows.RECORD_KEY)[:most].to_pylist()]

    def write(self, plan: WritePlan) -> Iterable[FileGroupResult]:
        with unwrapped_errors():
            return write_file_groups(self.frame, plan, expected=self.staying)


@dataclass(slots=True)
class _Counts:
    inserted: Counter[str] = field(default_factory=Counter)
    changed: Counter[FileGroupId] = field(default_factory=Counter)
    leaving: Counter[FileGroupId] = field(default_factory=Counter)
    arriving: Counter[str] = field(default_factory=Counter)
    left_out: int = 0

    def add(self, change: int, partition_path: str, file_id: str | None, count: int) -> None:
        if file_id is not None:
            self.changed[FileGroupId(partition_path, file_id)] += count
        elif change == Change.MOVE_IN:
            self.arriving[partition_path] += count
        else:
            self.inserted[partition_path] += count

    @property
    def profile(self) -> WorkloadProfile:
        return WorkloadProfile(self.inserted, self.changed, self.leaving, self.arriving, self.left_out)


def tagged_batches(tagged: TaggedBatch) -> pa.Table:
    """Work rows as row batches of ``TAGGED``, and a heading that tells how many keys were left out."""
    changes = tagged.rows.column(work_rows.CHANGE)
    batches: list[RowBatch] = [(None, _LEFT_OUT, None, tagged.left_out, 0, None)] if tagged.left_out else []
    present = pc.unique(changes).to_pylist()
    for number in present:
        change = Change(number)
        rows = tagged.rows if len(present) == 1 else tagged.rows.filter(pc.equal(changes, number))
        if change in work_rows.NEW:
            batches.extend(_row_batch(change, path, None, part) for path, part in partitions_of(rows))
        else:
            columns = work_rows.PRIOR_FILE_GROUP if change is Change.MOVE_IN else work_rows.FILE_GROUP
            batches.extend(_row_batch(change, *group, part) for group, part in groups_of(rows, columns))
    return table_of(batches, TAGGED)


def arriving_batches(moves: pa.Table) -> pa.Table:
    """Work rows of moves that are in time as row batches of ``TAGGED``, by the partition that gains them."""
    parts = partitions_of(moves)
    return table_of((_row_batch(Change.MOVE_IN, path, None, part) for path, part in parts), TAGGED)


def heading_of_read(tally: Tally) -> pa.Table:
    """A row batch without rows, which tells of the keys that a task has read."""
    return table_of([(None, _READ, None, tally.keys, tally.hashes, None)], TAGGED)


def _row_batch(change: Change, partition_path: str, file_id: str | None, rows: pa.Table) -> RowBatch:
    """Rows that all do the same to one file group, or that one partition gains."""
    tally = Tally.of(rows.column(work_rows.RECORD_KEY))
    return int(change), partition_path, file_id, tally.keys, tally.hashes, packed(rows)


def _in_time(batches: Iterator[pa.Table], late: LateMoves) -> Iterator[pa.Table]:
    """Row batches of records that move, by the partition that gains them, less those that came too late."""
    arriving, read = list[pa.Table](), Tally()
    columns = (*work_rows.FILE_GROUP, DATA)
    named = (
        (FileGroupId(partition_path.as_py(), file_id.as_py()), content.as_buffer())
        for table in batches
        for partition_path, file_id, content in zip(*(table.column(name) for name in columns), strict=True)
    )
    for group, rows in whole_groups(named):
        read += Tally.of(rows.column(work_rows.RECORD_KEY))
        arriving.append(late.without(group, rows))
    if arriving:
        yield heading_of_read(read)
        yield arriving_batches(pa.concat_tables(arriving))
