"""Batched reads and writes of a table's rows, under the ceiling if there is one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from rli_hbase.ceiling import Ceiling
from rli_hbase.client import Client
from rli_hbase.scanning import read_pages
from rli_hbase.thrift import BatchMutation

T = TypeVar("T")

BYTES_PER_REQUEST: Final = 1 << 20
"""About how many bytes one request sends, so that no server holds more for it; one row may have more."""


class Rows:
    """The rows of one table.

    Attributes:
        client: how it is reached.
    """

    def __init__(self, client: Client, ceiling: Ceiling | None) -> None:
        self.client = client
        self._ceiling = ceiling

    def read(self, rows: Sequence[bytes], columns: Sequence[bytes], batch: int) -> Iterator[Any]:
        """The rows, in any order, that have a cell in the columns or families."""
        for some in self._batches(rows, batch, len):
            yield from self.client.call(partial(self._read, some, columns))

    def read_before(self, rows: Sequence[bytes], columns: Sequence[bytes], time: int, batch: int) -> Iterator[Any]:
        """The same, of cells whose timestamp is below ``time``."""
        for some in self._batches(rows, batch, len):
            yield from self.client.call(partial(self._read_before, some, columns, time))

    def write(self, rows: Sequence[BatchMutation], timestamp: int, batch: int) -> None:
        """Write cells, or deletes of what is not younger, with one timestamp; what is younger stays before them."""
        for some in self._batches(rows, batch, _bytes_of):
            self.client.call(partial(self._write, some, timestamp))

    def pages(self, columns: Sequence[bytes], start: bytes, stop: bytes | None, limit: int) -> Iterator[list[Any]]:
        """All rows from ``start`` to before ``stop`` that have a cell in the columns or families."""
        pages = read_pages(self.client, columns, start, stop, limit)
        self._wait_for_turn(limit)
        for page in pages:
            yield page
            self._wait_for_turn(limit)

    def _batches(self, rows: Sequence[T], batch: int, size: Callable[[T], int]) -> Iterator[Sequence[T]]:
        for some in _batches(rows, batch, size):
            self._wait_for_turn(len(some))
            yield some

    def _wait_for_turn(self, rows: int) -> None:
        if self._ceiling is not None:
            self._ceiling.wait_for_turn(rows)

    def _read(self, rows: Sequence[bytes], columns: Sequence[bytes], thrift: Any) -> list[Any]:
        found: list[Any] = thrift.getRowsWithColumns(self.client.table, rows, columns, {})
        return found

    def _read_before(self, rows: Sequence[bytes], columns: Sequence[bytes], time: int, thrift: Any) -> list[Any]:
        found: list[Any] = thrift.getRowsWithColumnsTs(self.client.table, rows, columns, time, {})
        return found

    def _write(self, rows: Sequence[BatchMutation], timestamp: int, thrift: Any) -> None:
        thrift.mutateRowsTs(self.client.table, rows, timestamp, {})


def _batches(rows: Sequence[T], batch: int, size: Callable[[T], int]) -> Iterator[Sequence[T]]:
    """The rows, at most ``batch`` at a time and as many as suit a request."""
    start, room = 0, BYTES_PER_REQUEST
    for end, row in enumerate(rows):
        room -= size(row)
        if end > start and (room < 0 or end - start == batch):
            yield rows[start:end]
            start, room = end, BYTES_PER_REQUEST - size(row)
    if rows:
        yield rows[start:]


def _bytes_of(row: BatchMutation) -> int:
    return len(row.row) + sum(len(change.column) + len(change.value or b"") for change in row.mutations)
