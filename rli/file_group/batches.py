"""Coalesces small tables; faster look-ups and row groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa


def coalesce_tables(tables: Iterable[pa.Table], rows: int, size: int) -> Iterator[pa.Table]:
    """The same rows in the same order, each table with so many rows or bytes at least, but for the last one.

    Args:
        tables: of one schema.
        rows: from so many on a table is given.
        size: so is one from so many bytes on.
    """
    pending: list[pa.Table] = []
    held_rows = held_bytes = 0
    for table in tables:
        pending.append(table)
        held_rows += table.num_rows
        held_bytes += table.nbytes
        if held_rows >= rows or held_bytes >= size:
            yield pa.concat_tables(pending).combine_chunks()
            pending, held_rows, held_bytes = [], 0, 0
    if held_rows:
        yield pa.concat_tables(pending).combine_chunks()
