"""Results of merges, kept in memory for later merges of the same blocks and slices: completed files never change."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from threading import Lock
from typing import Final, Generic, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_BYTES_OF_BLOCKS: Final = 64 << 20
_BYTES_OF_SLICES: Final = 32 << 20
_BYTES_BESIDE: Final = 512
"""Bytes of an entry's key and of its place among the others."""

Value = TypeVar("Value", bound="Changes | MergedRows")


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
    """

    gone: NDArray[np.int64]
    added: NDArray[np.int64]
    records: tuple[int, ...]

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

    def kept(self, start: int, rows: int) -> NDArray[np.bool_] | None:
        """Which records of a part of the base file stay; None if all do.

        Args:
            start: position of its first record.
            rows: number of its records.
        """
        inside = self.gone[np.searchsorted(self.gone, start) : np.searchsorted(self.gone, start + rows)]
        if not len(inside):
            return None
        kept = np.ones(rows, np.bool_)
        kept[inside - start] = False
        return kept


class Remembered(Generic[Value]):
    """The values that were asked for last, up to an amount of memory. Threads may use it at the same time.

    Args:
        most_bytes: of the values, at most.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._kept: OrderedDict[Hashable, Value] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def get(self, key: Hashable) -> Value | None:
        """A value; None if it is not kept."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def keep(self, key: Hashable, value: Value) -> None:
        """Keep a value, unless it alone is too large. The values that were unused for the longest time make room."""
        size = value.nbytes + _BYTES_BESIDE
        with self._lock:
            if key in self._kept or size > self._most_bytes:
                return
            self._kept[key] = value
            self._bytes += size
            while self._bytes > self._most_bytes:
                _, forgotten = self._kept.popitem(last=False)
                self._bytes -= forgotten.nbytes + _BYTES_BESIDE


@dataclass(frozen=True, slots=True)
class KnownMerges:
    """The kept results of merges, at first none.

    Attributes:
        blocks: the changes of each block.
        slices: the records of each slice.
    """

    blocks: Remembered[Changes] = field(default_factory=lambda: Remembered(_BYTES_OF_BLOCKS))
    slices: Remembered[MergedRows] = field(default_factory=lambda: Remembered(_BYTES_OF_SLICES))


OF_PROCESS: Final = KnownMerges()
"""Shared by all tables of this process."""
