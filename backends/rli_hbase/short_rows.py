"""Entries whose key is part of the row key: a row, and in it a cell, for each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rli.store import EncodedKeys, Entries
from rli_hbase.dense_reads import read_sorted
from rli_hbase.entries import EntryRows, Item, from_cells
from rli_hbase.keyspace import SHARD_WIDTH, behind, short_rows
from rli_hbase.rows import side_by_side
from rli_hbase.thrift import BatchMutation, Mutation

_SOUGHT_TOGETHER: Final = 64
"""Prefixes whose first pages are in memory at a time."""


class ShortRows(EntryRows):
    """Entries of keys of at most ``MAX_SHORT_WIDTH`` bytes."""

    @property
    def batch(self) -> int:
        return self._table.client.settings.batch

    def get(self, keys: EncodedKeys) -> Entries:
        column = self._table.columns.entry
        rows = short_rows(keys)
        # The answer keeps no place for absent rows and repeats repeated ones, so it is matched by key.
        found = read_sorted(self._table.rows, sorted(set(rows)), column, self.batch)
        cells = {row.row: row.columns[column].value for row in found}
        return from_cells(map(cells.get, rows))

    def find(self, prefixes: EncodedKeys) -> Iterator[list[Item]]:
        rows = short_rows(prefixes)
        for start in range(0, len(rows), _SOUGHT_TOGETHER):
            for first, others in side_by_side(self._first_page, rows[start : start + _SOUGHT_TOGETHER]):
                yield first
                yield from others

    def _first_page(self, row: bytes) -> tuple[list[Item], Iterator[list[Item]]]:
        pages = self.scan(row, behind(row), self.batch)
        return next(pages, []), pages

    def mutations(self, keys: EncodedKeys, cells: list[bytes]) -> list[BatchMutation]:
        column = self._table.columns.entry
        return [
            BatchMutation(row=row, mutations=[Mutation(column=column, value=cell)])
            for row, cell in zip(short_rows(keys), cells, strict=True)
        ]

    def scan(self, start: bytes, stop: bytes | None, batch_size: int) -> Iterator[list[Item]]:
        column = self._table.columns.entry
        for page in self._table.rows.pages([column], start, stop, min(batch_size, self.batch)):
            yield [(row.row[:SHARD_WIDTH], row.row[SHARD_WIDTH:], row.columns[column].value) for row in page]
