"""Look-ups of many keys: ranges of rows are scanned where the keys lie close together.

A get costs a region server, its Thrift server and the client about seven times a row of a scan if the entry is in a
file, and three times if it is in memory. A scan also gives the rows between the keys. So it wins from a density on,
which is found out by a look at few places.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, groupby
from typing import Any, Final

from rli_hbase.keyspace import SHARD_WIDTH
from rli_hbase.rows import Rows, side_by_side

_DENSE: Final = 3
"""At most so many stored rows for each wanted one make a dense range."""

_SHORTEST_RUN: Final = 128
"""Wanted rows of a shard that are worth the three calls of a scanner."""

_ROWS_PER_PROBE: Final = 128
_KEYS_PER_PROBE: Final = 4000
"""So a probe adds a few hundredths to a look-up."""

_MOST_PROBES: Final = 4


def read_sorted(rows: Rows, wanted: Sequence[bytes], column: bytes, batch: int) -> Iterator[Any]:
    """All of the wanted rows that have a cell in the column, in any order; perhaps other rows of the column, too.

    Args:
        rows: where they are.
        wanted: rows that begin with a shard; sorted and distinct.
        column: of the cell.
        batch: how many rows a request reads at most.
    """
    runs = [list(run) for _, run in groupby(wanted, key=_shard_of)]
    long_runs = [run for run in runs if len(run) >= _SHORTEST_RUN]
    # Under a ceiling every row counts, and a scan reads more of them.
    if rows.has_ceiling or not _are_dense(rows, long_runs, column):
        return rows.read(wanted, [column], batch)
    pieces = [run[start : start + batch] for run in long_runs for start in range(0, len(run), batch)]
    rest = list(chain.from_iterable(run for run in runs if len(run) < _SHORTEST_RUN))
    ranges = side_by_side(partial(_read_range, rows, column, batch), pieces)
    return chain(chain.from_iterable(ranges), rows.read(rest, [column], batch))


def _shard_of(row: bytes) -> bytes:
    return row[:SHARD_WIDTH]


def _are_dense(rows: Rows, runs: Sequence[Sequence[bytes]], column: bytes) -> bool:
    """Whether the runs together look dense, by a page from the middle of some of them; false for few keys."""
    probes = min(sum(map(len, runs)) // _KEYS_PER_PROBE, _MOST_PROBES, len(runs))
    some = [runs[number * len(runs) // probes] for number in range(probes)]
    halves = [run[len(run) // 2 :] for run in some]
    pages = list(side_by_side(partial(_probe, rows, column), halves))
    hits = sum(_hits(page, half) for page, half in zip(pages, halves, strict=True))
    return probes > 0 and hits * _DENSE >= sum(map(len, pages))


def _probe(rows: Rows, column: bytes, wanted: Sequence[bytes]) -> list[Any]:
    return next(rows.pages([column], wanted[0], wanted[-1] + b"\0", _ROWS_PER_PROBE), [])


def _read_range(rows: Rows, column: bytes, batch: int, wanted: Sequence[bytes]) -> list[Any]:
    """The rows from the first to the last wanted one; only the wanted ones from where they turn out not to be dense."""
    found: list[Any] = []
    for page in rows.pages([column], wanted[0], wanted[-1] + b"\0", batch):
        found += page
        if _hits(page, wanted) * _DENSE < len(page):
            rest = wanted[bisect_right(wanted, page[-1].row) :]
            return [*found, *rows.read(rest, [column], batch)]
    return found


def _hits(page: Sequence[Any], wanted: Sequence[bytes]) -> int:
    """How many rows of a page are among the wanted ones."""
    if not page:
        return 0
    first, last = bisect_left(wanted, page[0].row), bisect_right(wanted, page[-1].row)
    return len({row.row for row in page}.intersection(wanted[first:last]))
