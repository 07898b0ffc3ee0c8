"""Batched reads and writes of a table's rows, under the ceiling if there is one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from typing import Any, Final, TypeVar

from rli_hbase.ceiling import Ceiling
from rli_hbase.client import Client
from rli_hbase.scanning import PIECES, read_pages, read_wide_pages
from rli_hbase.thrift import BatchMutation

T = TypeVar("T")
Result = TypeVar("Result")

BYTES_PER_REQUEST: Final = 1 << 20
"""About how many bytes one request sends, so that no server holds more for it; one row may have more."""

_CONNECTIONS: Final = 4
"""How many requests a call that reads makes at a time. Writes side by side gained nothing, and overload small servers."""


class Rows:
    """The rows of one table.

    Attributes:
        client: how it is reached.
    """

    def __init__(self, client: Client, ceiling: Ceiling | None) -> None:
        self.client = client
        self._ceiling = ceiling

    @property
    def has_ceiling(self) -> bool:
        """Whether the rows of all processes together are limited."""
        return self._ceiling is not None

    def read(self, rows: Sequence[bytes], columns: Sequence[bytes], batch: int) -> Iterator[Any]:
        """The rows, in any order, that have a cell in the columns or families."""
        yield from chain.from_iterable(self._each(partial(self._read, columns), _batches(rows, batch, len)))

    def read_before(self, rows: Sequence[bytes], columns: Sequence[bytes], time: int, batch: int) -> Iterator[Any]:
        """The same, of cells whose timestamp is below ``time``."""
        yield from chain.from_iterable(
            self._each(partial(self._read_before, columns, time), _batches(rows, batch, len))
        )

    def write(self, rows: Sequence[BatchMutation], timestamp: int, batch: int) -> None:
        """Write cells, or deletes of what is not younger, with one timestamp; what is younger stays before them."""
        for some in _batches(rows, batch, _bytes_of):
            self._answer(partial(self._write, timestamp), some)

    def pages(self, columns: Sequence[bytes], start: bytes, stop: bytes | None, limit: int) -> Iterator[list[Any]]:
        """All rows from ``start`` to before ``stop`` that have a cell in the columns or families."""
        yield from self._in_turn(read_pages(self.client, columns, start, stop, limit), limit)

    def wide_pages(self, family: bytes, start: bytes, stop: bytes | None) -> Iterator[list[Any]]:
        """The same of a family, where a row may have any number of cells: each is given in pieces."""
        yield from self._in_turn(read_wide_pages(self.client, family, start, stop), PIECES)

    def _in_turn(self, pages: Iterator[list[Any]], limit: int) -> Iterator[list[Any]]:
        self._wait_for_turn(limit)
        for page in pages:
            yield page
            self._wait_for_turn(limit)

    def _each(self, request: Callable[[Sequence[T], Any], Result], batches: Iterable[Sequence[T]]) -> Iterator[Result]:
        """The answers to the requests for some batches, in order; some are made side by side."""
        return side_by_side(partial(self._answer, request), list(batches))

    def _answer(self, request: Callable[[Sequence[T], Any], Result], some: Sequence[T]) -> Result:
        self._wait_for_turn(len(some))
        return self.client.call(partial(request, some))

    def _wait_for_turn(self, rows: int) -> None:
        if self._ceiling is not None:
            self._ceiling.wait_for_turn(rows)

    def _read(self, columns: Sequence[bytes], rows: Sequence[bytes], thrift: Any) -> list[Any]:
        found: list[Any] = thrift.getRowsWithColumns(self.client.table, rows, columns, {})
        return found

    def _read_before(self, columns: Sequence[bytes], time: int, rows: Sequence[bytes], thrift: Any) -> list[Any]:
        found: list[Any] = thrift.getRowsWithColumnsTs(self.client.table, rows, columns, time, {})
        return found

    def _write(self, timestamp: int, rows: Sequence[BatchMutation], thrift: Any) -> None:
        thrift.mutateRowsTs(self.client.table, rows, timestamp, {})


def side_by_side(work: Callable[[T], Result], items: Sequence[T]) -> Iterator[Result]:
    """The result of ``work`` for each item, in order; some run at the same time."""
    if len(items) < 2:
        yield from map(work, items)
        return
    with ThreadPoolExecutor(min(len(items), _CONNECTIONS)) as threads:
        yield from threads.map(work, items)


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
