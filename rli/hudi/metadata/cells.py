"""Cells of the metadata table: the values are its encoded records."""

from __future__ import annotations

import pyarrow as pa

from rli.hudi.hfile.cells import CELLS
from rli.hudi.metadata.record_codec import is_own_form, recode
from rli.hudi.metadata.schema import METADATA_SCHEMA_TEXT


def in_own_form(cells: pa.RecordBatch, schema: str) -> pa.RecordBatch:
    """Cells whose values ``METADATA_SCHEMA`` reads, from cells that another schema wrote.

    Args:
        cells: of ``CELLS``.
        schema: Avro schema that wrote the values.

    Raises:
        CorruptTableError: a value is no record of the metadata table.
    """
    return cells if is_own_form(schema) else _recoded(cells, schema, METADATA_SCHEMA_TEXT)


def in_form(cells: pa.RecordBatch, schema: str) -> pa.RecordBatch:
    """Cells in the form of ``METADATA_SCHEMA``, written anew with another schema.

    Args:
        cells: of ``CELLS``.
        schema: Avro schema to write the values with.

    Raises:
        CorruptTableError: a value is no record of the metadata table.
    """
    return cells if is_own_form(schema) else _recoded(cells, METADATA_SCHEMA_TEXT, schema)


def _recoded(cells: pa.RecordBatch, written_by: str, schema: str) -> pa.RecordBatch:
    encoded = cells["value"].dictionary_encode()
    values = [value and recode(value, written_by, schema) for value in encoded.dictionary.to_pylist()]
    return pa.record_batch([cells["key"], pa.array(values, pa.binary()).take(encoded.indices)], schema=CELLS)
