"""The values of a column as a single Arrow array."""

from __future__ import annotations

import pyarrow as pa


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """The values of a column in one array; those of a single chunk are not copied, as ``combine_chunks`` would."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
