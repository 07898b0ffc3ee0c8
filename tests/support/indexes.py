"""The index of a table, as the kind that it is."""

from __future__ import annotations

from rli import Table
from rli.index.record.table.index import RecordTableIndex


def record_index(table: Table) -> RecordTableIndex:
    """The record index of a table."""
    assert isinstance(table.index, RecordTableIndex)
    return table.index
