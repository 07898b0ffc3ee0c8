"""Cells of the metadata table: the values are its encoded records."""

from __future__ import annotations

import pyarrow as pa

from rli.hudi.hfile.cells import CELLS
from rli.hudi.metadata.record_codec import is_own_form, recode


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
