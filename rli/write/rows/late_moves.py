"""Records that move to another partition, and lose against what is stored where they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from rli.errors import PartitionChangeError
from rli.file_group import work_rows
from rli.file_group.merge import is_late
from rli.file_group.writer import read_stored
from rli.model import FileGroupId
from rli.storage import Storage
from rli.view.file_slices import FileSlice


@dataclass(frozen=True, slots=True)
class LateMoves:
    """Leaves out moving records that are older than the record that is stored in their old partition. Picklable.

    Attributes:
        storage: of the table.
        slices: the live slice of each file group that records leave.
        ordering: the ordering field; None in a table without one, where no record is late.
        kept: columns of which moving records bring their stored values along.
    """

    storage: Storage
    slices: Mapping[FileGroupId, FileSlice]
    ordering: pa.Field | None
    kept: tuple[pa.Field, ...] = ()

    def without(self, group: FileGroupId, moves: pa.Table) -> pa.Table:
        """The moves of one file group that are in time, in their order."""
        if self.ordering is None and not self.kept:
            return moves
        schema = pa.schema([*self.kept, *([self.ordering] if self.ordering else [])])
        keys = moves.column(work_rows.RECORD_KEY).combine_chunks()
        stored = read_stored(self.storage, self.slices[group], schema, keys)
        for field in self.kept:
            position = moves.schema.get_field_index(field.name)
            moves = moves.set_column(position, moves.schema.field(position), stored.column(field.name))
        if self.ordering is None:
            return moves
        name = self.ordering.name
        late = is_late(moves.column(name).combine_chunks(), stored.column(name).combine_chunks())
        return moves.filter(pa.array(~late)) if late.any() else moves


def require_no_moves(count: int, sample: Sequence[str]) -> None:
    """Raise ``PartitionChangeError`` if there are arriving records, given their number and some of their keys."""
    if count:
        raise PartitionChangeError(
            f"{count} records have another partition value than their stored versions: keys={list(sample)}; "
            'correct them, or upsert with on_partition_change="move" or on_partition_change="keep"'
        )
