"""How tagged rows become base files: where new records go, and how a task writes a file group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rli.file_group import work_rows
from rli.file_group.work_rows import Change
from rli.file_group.write_context import FileGroupResult, FileGroupTarget, WriteContext
from rli.file_group.writer import TOGETHER_BYTES, write_file_groups
from rli.index.placing import Placement
from rli.locations import named_groups
from rli.model import FileGroupId
from rli.view.file_slices import FileSlice
from rli.write.rows.by_file_group import place
from rli.write.rows.removals import departures

_MOST_TOGETHER: Final = 64
"""File groups of a lot: beyond that, little is gained."""


_LOTS_PER_WRITER: Final = 4


@dataclass(frozen=True, slots=True)
class RowPlacing:
    """Gives new and moving rows their file group. Picklable; a repetition gives each row the same one.

    Attributes:
        placements: partition path → where its new records go.
        replaced: file groups that are replaced as a whole: no row removes a record from them.
    """

    placements: Mapping[str, Placement]
    replaced: frozenset[FileGroupId] = frozenset()

    def place(self, new: pa.Table) -> pa.Table:
        """Rows of new and moving records with their file group, and for each move the row that leaves the old one."""
        if not new.num_rows:
            return new
        placed = place(new, self.placements)
        moves = pc.equal(placed.column(work_rows.CHANGE), int(Change.MOVE_IN))
        if self.replaced:
            moves = pc.and_not(moves, pa.array(self._is_from_replaced(placed)))
        return pa.concat_tables([placed, departures(placed.filter(moves))]) if pc.any(moves).as_py() else placed

    def _is_from_replaced(self, rows: pa.Table) -> NDArray[np.bool_]:
        prior = named_groups(*(rows.column(name).combine_chunks() for name in work_rows.PRIOR_FILE_GROUP))
        return np.array([group in self.replaced for group in prior.groups], np.bool_)[prior.codes]


@dataclass(frozen=True, slots=True)
class FileGroupWriting:
    """Writes file groups: a task of a write. Picklable.

    Attributes:
        context: of the write.
        slices: the live slices of those file groups that exist.
    """

    context: WriteContext
    slices: Mapping[FileGroupId, FileSlice]

    def write(self, group: FileGroupId, rows: pa.Table, token: str) -> FileGroupResult:
        """Merge all work rows of a file group into its next base file; see ``write_file_groups``.

        Args:
            group: the file group.
            rows: its work rows, one for a key.
            token: tells this attempt from all others for the same file group: three numbers, ``1-2-3``.
        """
        return self.write_lot([group], rows, [rows.num_rows], [token])[0]

    def write_lot(
        self, groups: Sequence[FileGroupId], rows: pa.Table, counts: Sequence[int], tokens: Sequence[str]
    ) -> list[FileGroupResult]:
        """Write several file groups, in less time than one after the other; see ``write_file_groups``.

        Args:
            groups: the file groups, at best those of a lot (``WritePlan.lots``).
            rows: the work rows of all of them; those of one file group follow those of the one before.
            counts: how many each has.
            tokens: of each, as for ``write``.
        """
        targets = [
            FileGroupTarget(group, self.slices.get(group), token) for group, token in zip(groups, tokens, strict=True)
        ]
        return write_file_groups(self.context, targets, rows, counts)


@dataclass(frozen=True, slots=True)
class WritePlan:
    """How tagged rows become base files.

    Attributes:
        placing: where new records go.
        writing: what each task does.
        sizes: every file group that the rows change → about how many bytes it takes to write.
    """

    placing: RowPlacing
    writing: FileGroupWriting
    sizes: Mapping[FileGroupId, float]

    def lots(self, groups: Sequence[FileGroupId], writers: int) -> list[range]:
        """Which of some file groups to write together, by their positions: small ones that follow each other.

        Args:
            groups: the file groups.
            writers: lots that are written at a time; each gets some, so that all end at about the same time.
        """
        most = min(_MOST_TOGETHER, -(-len(groups) // (writers * _LOTS_PER_WRITER)))
        lots: list[range] = []
        size = 0.0
        for number, group in enumerate(groups):
            size += self.sizes[group]
            if not lots or size > TOGETHER_BYTES or len(lots[-1]) >= most:
                lots.append(range(number, number))
                size = self.sizes[group]
            lots[-1] = range(lots[-1].start, number + 1)
        return lots
