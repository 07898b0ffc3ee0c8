"""The index of a table, as the kind that it is."""

from __future__ import annotations

from rli import Table
from rli.index.record.entries.limits import IndexLimits
from rli.index.record.table.index import RecordTableIndex
from rli.table.table import opened_table


def record_index(table: Table) -> RecordTableIndex:
    """The record index of a table."""
    index = opened_table(table).index
    assert isinstance(index, RecordTableIndex)
    return index


EAGER_PURGES = IndexLimits(least_tombstones=1, entries_per_tombstone=1_000_000)
"""Every clean removes tombstones, however few there are."""


def limit_index(table: Table, limits: IndexLimits) -> None:
    """Give the record index of an open table other limits."""
    index = record_index(table)
    opened_table(table)._index = RecordTableIndex(index.store, index.settings, limits)  # noqa: SLF001
