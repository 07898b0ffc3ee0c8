"""Ties between records of one key: rows of a frame have no order, so their content decides, always in the same way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rli.write.engine import Keying, key_hashes, mixed

_CONTENT: Final = "_rli_content"

_NULL: Final = np.uint64(0x6E756C6C)
"""Stands for a null among the words of a column."""

_WIDTHS: Final = {32: pa.int32(), 64: pa.int64()}
"""By their bits: numbers that hold times."""


@dataclass(frozen=True, slots=True)
class Tied(Keying):
    """Keys rows that have no order.

    Attributes:
        keying: of rows that have one.
    """

    keying: Keying
    has_records: ClassVar[bool] = True

    def keyed(self, rows: pa.Table) -> pa.Table:
        return self.keying.keyed(rows)

    def distinct(self, keyed: pa.Table) -> pa.Table:
        distinct = self.keying.distinct(keyed)
        if distinct is keyed:
            return keyed
        # Of equals their order decides, so rows are sorted first, to make ties deterministic.
        deciding = keyed.select(self.keying.order).append_column(_CONTENT, pa.array(content_hashes(keyed)))
        order = pc.sort_indices(deciding, [(name, "ascending") for name in deciding.column_names])
        return self.keying.distinct(keyed.take(order))


def content_hashes(rows: pa.Table) -> NDArray[np.uint64]:
    """A hash of all values of each row (shape (n,)); no protection against chosen values."""
    hashes = np.zeros(rows.num_rows, np.uint64)
    for column in rows.columns:
        hashes = mixed(hashes, _words_of(column.combine_chunks()))
    return hashes


def _words_of(values: pa.Array) -> NDArray[np.uint64]:
    """A number for each value of a column, equal where the values are."""
    kind = values.type
    known = values.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_temporal(kind) and kind.bit_width in _WIDTHS:
        values = values.view(_WIDTHS[kind.bit_width])
        kind = values.type
    if pa.types.is_floating(kind):
        words = pc.fill_null(values.cast(pa.float64()), 0.0).to_numpy().view(np.uint64)
    elif pa.types.is_integer(kind):
        words = pc.fill_null(values, 0).to_numpy().astype(np.int64).view(np.uint64)
    else:
        words = key_hashes(_texts_of(values))[1]
    return np.where(known, words, _NULL)


def _texts_of(values: pa.Array) -> pa.Array:
    """A text for each value of a column, equal where the values are."""
    kind = values.type
    if pa.types.is_binary(kind):
        values = values.view(pa.string())
    elif pa.types.is_nested(kind):
        values = pa.array([repr(value) for value in values.to_pylist()], pa.string())
    elif not pa.types.is_string(kind):
        values = values.cast(pa.string())
    return pc.fill_null(values, "")
