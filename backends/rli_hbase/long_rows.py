"""Entries whose key is too wide for a row key: the row is a digest of the key, the whole key is a column's name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from rli.store import EncodedKeys, Entries
from rli_hbase.entries import EntryRows, Item, from_cells
from rli_hbase.keyspace import LONG, SHARD_WIDTH, end_of_shard, long_rows, shard_row
from rli_hbase.thrift import BatchMutation, Mutation

_ROWS_PER_REQUEST: Final = 16


class LongRows(EntryRows):
    """Entries of keys wider than ``MAX_SHORT_WIDTH`` bytes. Keys with one digest share a row and nothing else."""

    @property
    def batch(self) -> int:
        return min(_ROWS_PER_REQUEST, self._table.client.settings.batch)

    def get(self, keys: EncodedKeys) -> Entries:
        rows = long_rows(keys)
        # Whole rows, not single columns: keys with one digest share a row, and the key itself decides below.
        found = self._table.rows.read(list(dict.fromkeys(rows)), [LONG], self.batch)
        cells = {(row.row, column): cell.value for row in found for column, cell in row.columns.items()}
        return from_cells(map(cells.get, zip(rows, self._columns(keys), strict=True)))

    def mutations(self, keys: EncodedKeys, cells: list[bytes]) -> list[BatchMutation]:
        return [
            BatchMutation(row=row, mutations=[Mutation(column=column, value=cell)])
            for row, column, cell in zip(long_rows(keys), self._columns(keys), cells, strict=True)
        ]

    def scan(self, start: bytes, stop: bytes | None, batch_size: int) -> Iterator[list[Item]]:
        prefix = self._table.columns.long_prefix
        for page in self._table.rows.pages([LONG], start, stop, min(batch_size, self.batch)):
            found = [
                (row.row[:SHARD_WIDTH], column.removeprefix(prefix), cell.value)
                for row in page
                for column, cell in row.columns.items()
                if column.startswith(prefix)
            ]
            for first in range(0, len(found), batch_size):
                yield found[first : first + batch_size]

    def find(self, prefixes: EncodedKeys) -> Iterator[list[Item]]:
        # Rows are in the order of digests. Most indexes have none: one look instead of one for each shard.
        if next(self.scan(b"", None, self.batch), None) is None:
            return
        for shard in np.unique(prefixes.shards).tolist():
            sought = set(prefixes.take(prefixes.shards == shard).to_bytes())
            for found in self.scan(shard_row(shard), end_of_shard(shard), self._table.client.settings.batch):
                yield [item for item in found if item[1][: prefixes.width] in sought]

    def _columns(self, keys: EncodedKeys) -> list[bytes]:
        prefix = self._table.columns.long_prefix
        return [prefix + key for key in keys.to_bytes()]
