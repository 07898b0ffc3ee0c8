"""Cells: keys and their values, as HFiles keep them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

CELLS: Final = pa.schema([pa.field("key", pa.binary(), nullable=False), pa.field("value", pa.binary(), nullable=False)])
"""Keys are ordered bytewise; an empty value stands for a removed record."""

# Not from lists: that would import pandas with this module.
NO_CELLS: Final = pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in CELLS], schema=CELLS)


def concatenated(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """One batch of ``CELLS`` with the rows of all.

    Raises:
        pyarrow.ArrowInvalid: keys or values have 2 GiB or more together.
    """
    if len(batches) == 1:
        return batches[0]
    columns = [pa.concat_arrays([batch[name] for batch in [NO_CELLS, *batches]]) for name in CELLS.names]
    return pa.record_batch(columns, schema=CELLS)


def removals(keys: pa.Array) -> pa.RecordBatch:
    """Cells that remove the records of some keys: array of strings or of their bytes."""
    nothing = pa.repeat(pa.scalar(b"", pa.binary()), len(keys))
    return pa.record_batch([keys.cast(pa.binary()), nothing], schema=CELLS)
