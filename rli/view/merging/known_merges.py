"""Results of merges, kept in memory for later merges of the same blocks and slices: completed files never change."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rli.byte_cache import ByteCache

_BYTES_OF_BLOCKS: Final = 64 << 20
_BYTES_OF_SLICES: Final = 32 << 20
MOST_RECORDS: Final = 64 << 20
"""Bytes of records of log files that a process keeps."""

_SPARED_SECONDS: Final = 60.0
"""Repeated scans of a table with more log records find those of the same slices again."""

_BYTES_BESIDE: Final = 512
"""Bytes of an entry's key and of its place among the others."""


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes of one block.

    Attributes:
        records: number of the block's records; 0 for a block of deletes.
        rows: the changes, as ``latest_changes.changes`` makes them; positions count from the block's first record.
    """

    records: int
    rows: pa.Table

    @property
    def nbytes(self) -> int:
        """In memory."""
        return int(self.rows.nbytes)


@dataclass(frozen=True, slots=True)
class MergedRows:
    """The records that the merge of one slice gives: the records of the base file without ``gone``, then ``added``.

    Attributes:
        gone: positions of the records of the base file that log files replace or delete, in rising order, shape (n,).
        added: positions among the records of all blocks, in rising order, shape (m,).
        records: number of records of each block.
        has_repeats: as that of the merge.
    """

    gone: NDArray[np.int64]
    added: NDArray[np.int64]
    records: tuple[int, ...]
    has_repeats: bool

    @property
    def nbytes(self) -> int:
        """In memory."""
        return self.gone.nbytes + self.added.nbytes + 8 * len(self.records)

    def rows_of_base(self, positions: NDArray[np.intp]) -> NDArray[np.intp]:
        """Positions in the base file of records that stay, shape (n,).

        Args:
            positions: of the records among those that stay, shape (n,).
        """
        gone_before = np.searchsorted(self.gone - np.arange(len(self.gone)), positions, side="right")
        return np.asarray(positions + gone_before)

    def within(self, places: Sequence[range]) -> MergedRows:
        """The same as if the base file had some of its records alone.

        Args:
            places: positions of these records, in rising order, apart from each other.
        """
        starts = accumulate((len(place) for place in places), initial=0)
        some = [self._gone_in(place) - place.start + start for place, start in zip(places, starts, strict=False)]
        return replace(self, gone=np.concatenate([np.empty(0, np.int64), *some]))

    def _gone_in(self, place: range) -> NDArray[np.int64]:
        return self.gone[np.searchsorted(self.gone, place.start) : np.searchsorted(self.gone, place.stop)]

    def kept(self, start: int, rows: int) -> NDArray[np.bool_] | None:
        """Which records of a part of the base file stay; None if all do.

        Args:
            start: position of its first record.
            rows: number of its records.
        """
        inside = self._gone_in(range(start, start + rows))
        if not len(inside):
            return None
        kept = np.ones(rows, np.bool_)
        kept[inside - start] = False
        return kept


@dataclass(frozen=True, slots=True)
class AddedColumn:
    """A column of the records of log files that the merge of a slice gives.

    Attributes:
        slice: what identifies the slice. A later slice of its file group takes the place of this one.
        values: shape (n,).
    """

    slice: Hashable
    values: pa.ChunkedArray

    @property
    def nbytes(self) -> int:
        """In memory."""
        return int(self.values.nbytes)


def _bytes_of(value: Changes | MergedRows | AddedColumn) -> int:
    return int(value.nbytes) + _BYTES_BESIDE


@dataclass(frozen=True, slots=True)
class KnownMerges:
    """The kept results of merges, at first none.

    Attributes:
        blocks: the changes of each block.
        slices: the records of each slice.
        added: the records of log files that count, in the last slice that was read of each file group, by columns.
    """

    blocks: ByteCache[Changes] = field(default_factory=lambda: ByteCache(_BYTES_OF_BLOCKS, _bytes_of))
    slices: ByteCache[MergedRows] = field(default_factory=lambda: ByteCache(_BYTES_OF_SLICES, _bytes_of))
    added: ByteCache[AddedColumn] = field(default_factory=lambda: ByteCache(MOST_RECORDS, _bytes_of, _SPARED_SECONDS))


OF_PROCESS: Final = KnownMerges()
"""Shared by all tables of this process."""
