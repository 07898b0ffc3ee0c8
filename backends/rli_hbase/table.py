"""The table of an open index: batched reads and writes of its rows, under the ceiling if there is one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from rli_hbase.ceiling import Ceiling
from rli_hbase.client import Client
from rli_hbase.generation import require_generation
from rli_hbase.layout import Columns
from rli_hbase.scanning import read_pages
from rli_hbase.thrift import BatchMutation


class IndexTable:
    """One generation of an index.

    Attributes:
        client: how it is reached.
        generation: what tells it from every other index.
        columns: where its cells are.
    """

    def __init__(self, client: Client, generation: bytes) -> None:
        self.client = client
        self.generation = generation
        self.columns = Columns.of(generation)
        ops_per_second = client.settings.ops_per_second
        self._ceiling = None if ops_per_second is None else Ceiling(client, self.columns.control, ops_per_second)

    def require_present(self) -> None:
        """Raise ``IndexNotFoundError`` if the index was dropped, so that nothing read or written until now counts."""
        require_generation(self.client, self.generation)

    def read(self, rows: Sequence[bytes], column: bytes, batch: int) -> Iterator[Any]:
        """The rows, in any order, that have a cell in the column or family."""
        for start in range(0, len(rows), batch):
            some = rows[start : start + batch]
            self._wait_for_turn(len(some))
            yield from self.client.call(partial(self._read, some, column))

    def write(self, rows: Sequence[BatchMutation], sequence: int, batch: int) -> None:
        """Write cells with a commit sequence as their timestamp; of a cell's versions HBase gives the greatest."""
        for start in range(0, len(rows), batch):
            some = rows[start : start + batch]
            self._wait_for_turn(len(some))
            self.client.call(partial(self._write, some, sequence))

    def pages(self, column: bytes, start: bytes, stop: bytes | None, limit: int) -> Iterator[list[Any]]:
        """All rows from ``start`` to before ``stop`` that have a cell in the column or family."""
        pages = read_pages(self.client, column, start, stop, limit)
        self._wait_for_turn(limit)
        for page in pages:
            yield page
            self._wait_for_turn(limit)

    def _wait_for_turn(self, rows: int) -> None:
        if self._ceiling is not None:
            self._ceiling.wait_for_turn(rows)

    def _read(self, rows: Sequence[bytes], column: bytes, thrift: Any) -> list[Any]:
        found: list[Any] = thrift.getRowsWithColumns(self.client.table, rows, [column], {})
        return found

    def _write(self, rows: Sequence[BatchMutation], sequence: int, thrift: Any) -> None:
        thrift.mutateRowsTs(self.client.table, rows, sequence, {})
