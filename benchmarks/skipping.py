"""A filter that keeps 1 % of many files, beside the full scan of the same files."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import rli
from benchmarks.measuring import Outcome, race

_FILES_AT_A_TIME: Final = 1_000
_SHARE: Final = 100
_PARTITIONS: Final = ("files", "column_stats", "partition_stats")


def run(folder: Path, *, quick: bool) -> list[Outcome]:
    """Measure a table whose files are ordered by a column that is no partition column."""
    files, rows = (500, 1_000) if quick else (5_000, 5_000)
    table = _table(folder / "table", files, rows)
    table.metadata.enable(list(_PARTITIONS))
    start, count = files * rows // 2, files * rows // _SHARE
    within = f"at >= {start} and at < {start + count}"
    expression = (pc.field("at") >= start) & (pc.field("at") < start + count)
    records = table.read(filters=within).num_rows
    if records != count:
        raise ValueError(f"the filter lost records: expected={count} found={records}")
    pair = race(lambda: table.read(filters=within), lambda: _passing(table, expression), rounds=3)
    details = f"{files:,} files of {rows:,} records, {files // _SHARE} are kept, records fetched"
    return [Outcome("read of 1 % of the files", "full scan", 1 / pair.time_ratio, 20.0, "higher", details)]


def _passing(table: rli.Table, expression: pc.Expression) -> pa.Table:
    """The records of all files that pass, file by file."""
    batches = table.scan().to_batches()
    return pa.concat_tables([pa.Table.from_batches([batch]).filter(expression) for batch in batches])


def _table(path: Path, files: int, rows: int) -> rli.Table:
    table = rli.create_table(path, record_key="id", partition_by="part", index="simple:")
    for first in range(0, files, _FILES_AT_A_TIME):
        at = np.arange(first * rows, min(files, first + _FILES_AT_A_TIME) * rows)
        columns = {"id": pa.array(at).cast(pa.string()), "part": pa.array(at // rows), "at": at, "fare": at * 0.25}
        table.insert(pa.table(columns))
    return table
