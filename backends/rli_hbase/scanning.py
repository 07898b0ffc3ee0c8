"""Reading rows in order, a page at a time.

A scanner lives on one Thrift server and is forgotten after a while, so each page opens one of its own: any page can be
repeated, on any server, and a reader may take as long as it likes between two of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from rli_hbase.client import Client
from rli_hbase.errors import ANSWERS
from rli_hbase.thrift import TScan

PIECES: Final = 128
"""In which a page reads rows that may have any number of cells."""

_CELLS_OF_PIECE: Final = 128
_CELLS_OF_PAGE: Final = 16_384
"""A megabyte or two."""


def read_rows(thrift: Any, table: bytes, scan: TScan, limit: int) -> list[Any]:
    """The first rows of a scan, at most ``limit``; fewer only where there are no more."""
    scanner = thrift.scannerOpenWithScan(table, scan, {})
    try:
        rows: list[Any] = thrift.scannerGetList(scanner, limit)
    finally:
        with suppress(*ANSWERS):
            thrift.scannerClose(scanner)
    return rows


def read_pages(
    client: Client, columns: Sequence[bytes], start: bytes, stop: bytes | None, limit: int
) -> Iterator[list[Any]]:
    """All rows from ``start`` to before ``stop`` (None: to the end) that have a cell in the columns or families."""
    is_last = False
    while not is_last:
        scan = TScan(startRow=start, stopRow=stop, columns=columns, caching=limit)
        page = client.call(partial(_read_page, client.table, scan, limit))
        is_last = len(page) < limit
        if page:
            yield page
            start = page[-1].row + b"\0"


def read_wide_pages(client: Client, family: bytes, start: bytes, stop: bytes | None) -> Iterator[list[Any]]:
    """All rows from ``start`` to before ``stop`` (None: to the end), in pieces: each row may have any number of cells in the family."""
    is_last = False
    while not is_last:
        scan = TScan(startRow=start, stopRow=stop, columns=[family], caching=PIECES, batchSize=_CELLS_OF_PIECE)
        page = client.call(partial(_read_page, client.table, scan, PIECES))
        is_last = len(page) < PIECES
        if page:
            yield page
            last = page[-1]
            if len(last.columns) == _CELLS_OF_PIECE:
                yield from _read_rest(client, family, last.row, max(last.columns))
            start = last.row + b"\0"


def _read_rest(client: Client, family: bytes, row: bytes, column: bytes) -> Iterator[list[Any]]:
    """The cells of a row behind a column of the family, in pieces."""
    is_last = False
    while not is_last:
        qualifier = column.removeprefix(family + b":").replace(b"'", b"''")
        scan = TScan(
            startRow=row,
            stopRow=row + b"\0",
            columns=[family],
            caching=1,
            batchSize=_CELLS_OF_PAGE,
            filterString=b"ColumnRangeFilter('%s', false, '', false)" % qualifier,
        )
        page = client.call(partial(_read_page, client.table, scan, 1))
        is_last = not page or len(page[0].columns) < _CELLS_OF_PAGE
        if page:
            yield page
            column = max(page[0].columns)


def _read_page(table: bytes, scan: TScan, limit: int, thrift: Any) -> list[Any]:
    return read_rows(thrift, table, scan, limit)
