"""A filter that keeps 1 % of many files, beside the full scan of the same files, and beside Hudi's data skipping.

``python -m benchmarks.skipping FOLDER`` measures the table that a former run has left in a folder, or makes it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

import rli
from benchmarks.measuring import Outcome, race
from benchmarks.sessions import spark_session
from tests.support.spark import HUDI_SETTINGS
from tests.support.spark_packages import HUDI_BUNDLE, jar_of

_FILES_AT_A_TIME: Final = 1_000
_SHARE: Final = 100
_PARTITIONS: Final = ("files", "column_stats", "partition_stats")
_READING: Final = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}


def run(folder: Path, *, quick: bool) -> list[Outcome]:
    """Measure a table whose files are ordered by a column that is no partition column; in the quick form, without Hudi."""
    files, rows = (500, 1_000) if quick else (5_000, 5_000)
    return measure(folder / "table", files, rows, beside_hudi=not quick)


def measure(path: Path, files: int, rows: int, *, beside_hudi: bool) -> list[Outcome]:
    """Measure the table at a path, which is made if it is not there."""
    table = rli.open_table(path) if path.exists() else _table(path, files, rows)
    table.metadata.enable(list(_PARTITIONS))
    start, count = files * rows // 2, files * rows // _SHARE
    within = f"at >= {start} and at < {start + count}"
    expression = (pc.field("at") >= start) & (pc.field("at") < start + count)

    def read() -> None:
        _require(table.read(filters=within), count)

    details = f"{files:,} files of {rows:,} records, {files // _SHARE} are kept, records fetched"
    pair = race(read, lambda: _require(_passing(table, expression), count), rounds=3)
    outcomes = [Outcome("read of 1 % of the files", "full scan", pair.speed_ratio, 20.0, "higher", details)]
    if beside_hudi:
        with _hudi(path) as records:
            pair = race(read, lambda: _require(_fetched(records.where(within)), count), rounds=5)
        name = "Hudi 1.2.0 with data skipping"
        outcomes.append(Outcome("read of 1 % of the files", name, pair.speed_ratio, 3.0, "higher", details))
    return outcomes


@contextmanager
def _hudi(path: Path) -> Iterator[DataFrame]:
    """The table as Hudi reads it in Spark, with its metadata table."""
    settings = {**HUDI_SETTINGS, "spark.driver.extraClassPath": str(jar_of(HUDI_BUNDLE.format(version="1.2.0")))}
    spark = spark_session(settings)
    try:
        yield spark.read.format("hudi").options(**_READING).load(str(path)).select("id", "part", "at", "fare")
    finally:
        spark.stop()


def _fetched(records: DataFrame) -> pa.Table:
    # PySpark 4 calls this toArrow.
    return pa.Table.from_batches(records._collect_as_arrow())  # noqa: SLF001


def _require(records: pa.Table, count: int) -> None:
    if records.num_rows != count:
        raise ValueError(f"the filter lost records: expected={count} found={records.num_rows}")


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


if __name__ == "__main__":
    for outcome in measure(Path(sys.argv[1]), 5_000, 5_000, beside_hudi=True):
        print(f"{outcome.name} beside {outcome.baseline}: {outcome.figure} ({outcome.details})", flush=True)
