"""The last change of each key in log files: the changes are folded among themselves, before they meet the base file.

A change is a row of six columns:

- ``KEY``: the record key;
- ``ORDERING``: the ordering value in comparable form;
- ``ALWAYS``: whether the change is a delete that wins over all changes before it, regardless of ordering values;
- ``OF_RECORDS``: whether the change comes from a block of records, and not from a block of deletes;
- ``POSITION``: of its record; ``NO_RECORD`` for a delete;
- ``BASE_ROW``: position of the key's record in the base file; ``UNKNOWN`` if the block does not tell it.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rli.arrow_arrays import one_array
from rli.hudi.log_file.base_rows import UNKNOWN
from rli.view.merging.ordering import ranks

KEY: Final = "key"
ORDERING: Final = "ordering"
ALWAYS: Final = "always"
OF_RECORDS: Final = "of_records"
POSITION: Final = "position"
BASE_ROW: Final = "base_row"

NO_RECORD: Final = -1
"""Position of a delete."""

_FEW_CHANGES: Final = 262_144
"""Fewer changes than this wait for more before they are folded."""

_MOST_ROWS_PER_CHANGE: Final = 16
"""Of a base file: for fewer of its rows, positions are codes as they are, and each code takes eight bytes; for more, they are numbered."""


def changes(
    keys: pa.Array, ordering: pa.Array, always: NDArray[np.bool_], positions: NDArray[np.int64], *, of_records: bool
) -> pa.Table:
    """Changes in their order, of one block; each array of shape (n,)."""
    columns = [keys, ordering, pa.array(always), pa.repeat(pa.scalar(of_records), len(keys)), pa.array(positions)]
    return pa.table(columns, names=[KEY, ORDERING, ALWAYS, OF_RECORDS, POSITION])


def with_base_rows(some: pa.Table, rows: NDArray[np.int64] | None) -> pa.Table:
    """Changes with positions in the base file, shape (n,); None if they are not known."""
    found = pa.repeat(pa.scalar(UNKNOWN), some.num_rows) if rows is None else pa.array(rows)
    return some.append_column(BASE_ROW, found)


class LatestChanges:
    """Folds changes as they come; memory is bounded by the distinct keys and the waiting changes, with 128 bytes more for each of both.

    Args:
        ordering: type of the comparable ordering values; ``pa.null()`` if the last change of a key always counts.
    """

    def __init__(self, ordering: pa.DataType) -> None:
        self._is_ordered = not pa.types.is_null(ordering)
        flags = [(ALWAYS, pa.bool_()), (OF_RECORDS, pa.bool_())]
        places = [(POSITION, pa.int64()), (BASE_ROW, pa.int64())]
        self._folded = pa.schema([(KEY, pa.string()), (ORDERING, ordering), *flags, *places]).empty_table()
        self._pending: list[pa.Table] = []
        self._waiting = 0

    def add(self, some: pa.Table) -> None:
        """Take changes, as ``changes`` makes them, that come after all before."""
        self._pending.append(some)
        self._waiting += some.num_rows
        if self._waiting > max(_FEW_CHANGES, self._folded.num_rows):
            self.folded()

    def folded(self) -> pa.Table:
        """The last change of each key, in any order."""
        if self._pending:
            every = pa.concat_tables([self._folded, *self._pending]).combine_chunks()
            self._folded = every.take(pa.array(self._last(every))).combine_chunks()
            self._pending, self._waiting = [], 0
        return self._folded

    def _last(self, every: pa.Table) -> NDArray[np.intp]:
        """Rows of the changes that count."""
        codes = _codes(every)
        rows = np.arange(len(codes))
        if not self._is_ordered:
            return _last_rows(codes, rows)
        always = every[ALWAYS].to_numpy()
        ranked = ranks(one_array(every[ORDERING]))
        if always.any():
            rows = rows[_counting(codes, always, every[OF_RECORDS].to_numpy())]
        elif (ranked[1:] >= ranked[:-1]).all():
            # As it is where no record is late.
            return _last_rows(codes, rows)
        order = np.lexsort((ranked[rows], ~always[rows], codes[rows]))
        rows = rows[order]
        return rows[np.flatnonzero(np.append(np.diff(codes[rows]) != 0, True))] if len(rows) else rows


def _codes(every: pa.Table) -> NDArray[np.intp]:
    """A number for each change: equal for changes of one key, and for no others. Positions in the base file serve as well as keys."""
    base_rows = every[BASE_ROW].to_numpy()
    if (base_rows == UNKNOWN).any():
        return np.asarray(one_array(every[KEY]).dictionary_encode().indices.to_numpy())
    if base_rows.max(initial=0) < _MOST_ROWS_PER_CHANGE * len(base_rows):
        return base_rows
    return np.unique(base_rows, return_inverse=True)[1]


def _counting(codes: NDArray[np.intp], always: NDArray[np.bool_], of_records: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which changes count beside the deletes that always win, shape (n,).

    No change of a key counts before the last such delete. This delete counts until a record of the key follows, with any ordering
    value; other deletes in between change nothing.
    """
    rows, keys = np.arange(len(codes)), codes.max(initial=-1) + 1
    deleted = np.full(keys, -1)
    deleted[codes[always]] = rows[always]
    again = np.flatnonzero(of_records & (rows > deleted[codes]))[::-1]
    reborn = np.full(keys, len(codes))
    # Of equal codes, the last assignment counts.
    reborn[codes[again]] = again
    is_deleted = deleted[codes] >= 0
    return ~is_deleted | (rows == deleted[codes]) | (rows >= reborn[codes])


def _last_rows(codes: NDArray[np.intp], rows: NDArray[np.intp]) -> NDArray[np.intp]:
    """The last row of each code, in the order of the codes."""
    last = np.full(codes.max(initial=-1) + 1, -1, np.intp)
    # Of equal codes, the last assignment counts.
    last[codes] = rows
    return last[last >= 0]
