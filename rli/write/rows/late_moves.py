"""Records that move to another partition, and lose against the stored record where they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from rli.errors import PartitionChangeError
from rli.file_group import work_rows
from rli.file_group.conditions import Condition
from rli.file_group.merge import is_late
from rli.file_group.writer import read_stored
from rli.model import FileGroupId
from rli.view.file_slices import FileSlice
from rli.view.slice_reader import SliceReader


@dataclass(frozen=True, slots=True)
class LateMoves:
    """Leaves out moving records that are older than the record that is stored in their old partition. Picklable.

    Attributes:
        opener: opens file slices of the table.
        slices: the live slice of each file group that records leave.
        ordering: the ordering field; None in a table without one, where no record is late.
        kept: columns of which moving records bring their stored values along.
        when: the caller's condition; None where there is none.
        target: the stored columns that it reads.
    """

    opener: Callable[[FileSlice], SliceReader]
    slices: Mapping[FileGroupId, FileSlice]
    ordering: pa.Field | None
    kept: tuple[pa.Field, ...] = ()
    when: Condition | None = None
    target: tuple[pa.Field, ...] = ()

    def without(self, group: FileGroupId, moves: pa.Table) -> pa.Table:
        """The moves of one file group that are in time, in their order."""
        if self.ordering is None and not self.kept and self.when is None:
            return moves
        fields = [*self.kept, *([self.ordering] if self.ordering else []), *self.target]
        schema = pa.schema({field.name: field.type for field in fields})
        keys = moves.column(work_rows.RECORD_KEY).combine_chunks()
        stored = read_stored(self.opener, self.slices[group], schema, keys)
        passing = None if self.when is None else self.when.passes(moves, stored)
        for field in self.kept:
            position = moves.schema.get_field_index(field.name)
            moves = moves.set_column(position, moves.schema.field(position), stored.column(field.name))
        late = np.zeros(moves.num_rows, dtype=bool) if passing is None else ~passing
        if self.ordering is not None:
            name = self.ordering.name
            late |= is_late(moves.column(name).combine_chunks(), stored.column(name).combine_chunks())
        return moves.filter(pa.array(~late)) if late.any() else moves


def require_no_moves(count: int, sample: Sequence[str]) -> None:
    """Raise ``PartitionChangeError`` if there are arriving records, given their number and some of their keys."""
    if count:
        raise PartitionChangeError(
            f"{count} records have another partition value than their stored versions: keys={list(sample)}",
            remedy='correct them, or write with on_partition_change="move" or on_partition_change="keep"',
        )
