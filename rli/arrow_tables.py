"""What users give as records, as an Arrow table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from rli.errors import InvalidInputError

_TAKEN: Final = "give a pyarrow.Table, record batches or their reader, or a data frame"


def as_arrow_table(records: Any) -> pa.Table:
    """Records as an Arrow table; raises ``InvalidInputError`` for what Arrow makes none of."""
    table = _as_table(records)
    for position, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type) and pa.types.is_string_view(field.type.value_type):
            chunks = [decoded(chunk) for chunk in table.column(position).chunks]
            table = table.set_column(position, field.name, pa.chunked_array(chunks, pa.string()))
    return table


def decoded(array: pa.DictionaryArray) -> pa.Array:
    """The values of a dictionary array; those of views, which Arrow does not decode, as texts."""
    if pa.types.is_string_view(array.type.value_type):
        array = pa.DictionaryArray.from_arrays(array.indices, array.dictionary.cast(pa.string()))
    return array.dictionary_decode()


def _as_table(records: Any) -> pa.Table:
    if isinstance(records, pa.Table):
        return records
    try:
        if isinstance(records, pa.RecordBatchReader):
            return records.read_all()
        if type(records).__module__.partition(".")[0] == "pandas":
            # Row labels are no column, whatever a filter or a sort has made of them.
            return pa.Table.from_pandas(records, preserve_index=False)
        if hasattr(records, "__arrow_c_stream__") or isinstance(records, pa.RecordBatch):
            return pa.table(records)
        if isinstance(records, Sequence) and records and all(isinstance(part, pa.RecordBatch) for part in records):
            return pa.Table.from_batches(records)
    except (pa.ArrowException, AttributeError, TypeError) as error:
        raise InvalidInputError(
            f"the records are not a table: type={type(records).__name__} ({error})", remedy=_TAKEN
        ) from error
    if hasattr(type(records), "collect") and hasattr(type(records), "columns"):
        raise InvalidInputError(
            f"the records are a plan of a data frame, not computed yet: type={type(records).__name__}",
            remedy="collect it, or, for a frame of Spark, call the function of rli_spark",
        )
    raise InvalidInputError(f"the records are not a table: type={type(records).__name__}", remedy=_TAKEN)
