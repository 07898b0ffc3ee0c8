"""Entries in rows of many, of an index whose keys are found by how they begin: the row is the beginning, the rest a column's name.

A look-up gets the rows of many beginnings by one request, which gives whole rows, however large they are. So one key in
``SAMPLED`` is in a family of its own, which is asked first: it tells of each row about how large it is. Large rows are then read in
pieces.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any, Final

from rli.store import EncodedKeys, Entries
from rli_hbase.entries import EntryRows, Item, from_cells
from rli_hbase.keyspace import ENTRIES, LONG, SHARD_WIDTH, behind, is_sampled, shard_row
from rli_hbase.table import IndexTable
from rli_hbase.thrift import BatchMutation, Mutation

_ROWS_OF_A_GET: Final = 32
"""Each is asked for the columns of all."""

_ROWS_AT_ONCE: Final = 128
"""In a request for whole rows."""

_MOST_SAMPLED: Final = 4
"""Keys in the sample of a row that is got as a whole: it has about a thousand then, hardly ever three thousand."""

_ITEMS: Final = 16_384
"""Entries that are given at a time."""


class PrefixRows(EntryRows):
    """Entries of keys of any width."""

    def __init__(self, table: IndexTable, width: int) -> None:
        super().__init__(table)
        self._width = width
        # The stamp is as long in each family.
        self._behind_stamp = len(table.columns.entry)

    @property
    def batch(self) -> int:
        return self._table.client.settings.batch

    def get(self, keys: EncodedKeys) -> Entries:
        places = self._places(keys)
        wanted, cells = list(dict.fromkeys(places)), dict[tuple[bytes, bytes], bytes]()
        for start in range(0, len(wanted), _ROWS_OF_A_GET):
            rows, columns = zip(*wanted[start : start + _ROWS_OF_A_GET], strict=True)
            found = self._table.rows.read(list(dict.fromkeys(rows)), list(dict.fromkeys(columns)), _ROWS_OF_A_GET)
            cells |= {(row.row, column): cell.value for row in found for column, cell in row.columns.items()}
        return from_cells(map(cells.get, places))

    def mutations(self, keys: EncodedKeys, cells: list[bytes]) -> list[BatchMutation]:
        return [
            BatchMutation(row=row, mutations=[Mutation(column=column, value=cell)])
            for (row, column), cell in zip(self._places(keys), cells, strict=True)
        ]

    def scan(self, start: bytes, stop: bytes | None, batch_size: int) -> Iterator[list[Item]]:
        for family in (ENTRIES, LONG):
            for items in self._pages(family, start, stop):
                for first in range(0, len(items), batch_size):
                    yield items[first : first + batch_size]

    def find(self, prefixes: EncodedKeys) -> Iterator[list[Item]]:
        sought = [
            (shard_row(shard), prefix)
            for shard, prefix in zip(prefixes.shards.tolist(), prefixes.to_bytes(), strict=True)
        ]
        if prefixes.width < self._width:
            for shard, prefix in sought:
                yield from self.scan(shard + prefix, behind(shard + prefix), _ITEMS)
            return
        rows, wanted = list(dict.fromkeys(shard + prefix[: self._width] for shard, prefix in sought)), set(sought)
        for start in range(0, len(rows), self.batch):
            for items in self._of_rows(rows[start : start + self.batch]):
                yield [item for item in items if (item[0], item[1][: prefixes.width]) in wanted]

    def _of_rows(self, rows: list[bytes]) -> Iterator[list[Item]]:
        """All entries of some rows."""
        sampled = list(self._table.rows.read(rows, [LONG], self.batch))
        yield from _portions(map(self._items, sampled))
        large = {row.row for row in sampled if len(row.columns) > _MOST_SAMPLED}
        small = [row for row in rows if row not in large]
        yield from _portions(map(self._items, self._table.rows.read(small, [ENTRIES], _ROWS_AT_ONCE)))
        for row in sorted(large):
            yield from self._pages(ENTRIES, row, row + b"\0")

    def _pages(self, family: bytes, start: bytes, stop: bytes | None) -> Iterator[list[Item]]:
        for page in self._table.rows.wide_pages(family, start, stop):
            yield list(chain.from_iterable(map(self._items, page)))

    def _items(self, row: Any) -> list[Item]:
        """The entries of a row as HBase gives it, without those of other generations."""
        shard, begin = row.row[:SHARD_WIDTH], row.row[SHARD_WIDTH:]
        own = (self._table.columns.entry, self._table.columns.long_prefix)
        return [
            (shard, begin + column[self._behind_stamp :], cell.value)
            for column, cell in row.columns.items()
            if column.startswith(own)
        ]

    def _places(self, keys: EncodedKeys) -> list[tuple[bytes, bytes]]:
        """Row and column of each key."""
        columns, width = self._table.columns, self._width
        return [
            (
                shard_row(shard) + key[:width],
                (columns.long_prefix if is_sampled(key[width:]) else columns.entry) + key[width:],
            )
            for shard, key in zip(keys.shards.tolist(), keys.to_bytes(), strict=True)
        ]


def _portions(found: Iterable[list[Item]]) -> Iterator[list[Item]]:
    items = chain.from_iterable(found)
    while portion := list(islice(items, _ITEMS)):
        yield portion
