"""Tables as Hudi reads them, without its meta columns."""

from __future__ import annotations

import pyarrow as pa

from rli.hudi.meta_columns import META_COLUMNS


def without_meta_columns(table: pa.Table) -> pa.Table:
    """The records alone."""
    present = [name for name in META_COLUMNS if name in table.column_names]
    return table.drop_columns(present)
