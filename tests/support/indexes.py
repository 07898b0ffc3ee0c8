"""The index of a table, as the kind that it is."""

from __future__ import annotations

from rli import Table
from rli.index.record.table.index import RecordTableIndex
from rli.table.table import opened_table


def record_index(table: Table) -> RecordTableIndex:
    """The record index of a table."""
    index = opened_table(table).index
    assert isinstance(index, RecordTableIndex)
    return index
