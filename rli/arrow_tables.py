"""What users give as records, as an Arrow table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from rli.errors import InvalidInputError

_NO_TABLE: Final = (
    "the records are not a table: type={}{}; give a pyarrow.Table, record batches or their reader, or a data frame"
)


def as_arrow_table(records: Any) -> pa.Table:
    """Records as an Arrow table; raises ``InvalidInputError`` for what Arrow makes none of."""
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
        raise InvalidInputError(_NO_TABLE.format(type(records).__name__, f" ({error})")) from error
    raise InvalidInputError(_NO_TABLE.format(type(records).__name__, ""))
