"""Cells: keys and encoded records of the metadata table, as HFiles keep them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from rli.hudi.metadata.record_codec import is_own_form, recode

CELLS: Final = pa.schema([pa.field("key", pa.binary(), nullable=False), pa.field("value", pa.binary(), nullable=False)])
"""Keys are ordered bytewise; an empty value stands for a removed record."""

NO_CELLS: Final = pa.RecordBatch.from_pylist([], schema=CELLS)


def concatenated(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """One batch of ``CELLS`` with the rows of all.

    Raises:
        pyarrow.ArrowInvalid: keys or values have 2 GiB or more together.
    """
    if len(batches) == 1:
        return batches[0]
    columns = [pa.concat_arrays([batch[name] for batch in [NO_CELLS, *batches]]) for name in CELLS.names]
    return pa.record_batch(columns, schema=CELLS)


def in_own_form(cells: pa.RecordBatch, schema: str) -> pa.RecordBatch:
    """Cells whose values ``METADATA_SCHEMA`` reads, from cells that another schema wrote.

    Args:
        cells: of ``CELLS``.
        schema: Avro schema that wrote the values.

    Raises:
        CorruptTableError: a value is no record of the metadata table.
    """
    if is_own_form(schema):
        return cells
    encoded = cells["value"].dictionary_encode()
    values = [value and recode(value, schema) for value in encoded.dictionary.to_pylist()]
    return pa.record_batch([cells["key"], pa.array(values, pa.binary()).take(encoded.indices)], schema=CELLS)
