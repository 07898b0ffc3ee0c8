"""Records of a few keys: ``Table.get`` against DuckDB on the same Parquet files, Delta, Hudi, and a filtered read.

``python -m benchmarks.point_reads FOLDER [RECORDS]`` builds a larger table, of 20 million records by default.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.sql import functions as sql

import rli
from benchmarks.keys import uuid_keys
from benchmarks.measuring import Outcome, race
from benchmarks.peers.hudi import Hudi
from benchmarks.sessions import spark_session
from tests.support.spark import HUDI_SETTINGS
from tests.support.spark_packages import HUDI_BUNDLE, jar_of

_PARTITIONS: Final = 20
_MOST_IN_PARTITION: Final = 1_000_000
_SAMPLE: Final = 5_000
"""Keys of each partition to choose from."""

_COLUMNS: Final = ["id", "fare", "rider"]
_ROUNDS: Final = 9

_HUDI: Final = "Hudi 1.2.0 with its record index"
_HUDI_OPTIONS: Final = {
    "hoodie.datasource.write.precombine.field": "fare",
    # Each task reads a file, whose records are of one partition.
    "hoodie.bulkinsert.sort.mode": "NONE",
}

Reader = Callable[[pa.Array], pa.Table]


def run(folder: Path, *, quick: bool) -> list[Outcome]:
    """Measure records fetched by 1 and by 1,000 random keys; in the quick form, without Hudi."""
    keys = fill(folder, 200_000 if quick else 2_000_000)
    if quick:
        return measure(folder, keys, {})
    with _hudi(folder) as by_hudi:
        return measure(folder, keys, {_HUDI: by_hudi})


def measure(folder: Path, keys: pa.Array, others: Mapping[str, Reader]) -> list[Outcome]:
    """Measure the table of a folder, and the same in Delta, with keys of it; ``others`` read the same records."""
    with rli.open_table(folder / "table") as table:
        files = table.scan().files()
        records = sum(pq.read_metadata(file).num_rows for file in files)
        about = f"{records:,} records with UUID keys in {len(files)} base files, {len(_COLUMNS)} columns fetched"
        peers: dict[str, Reader] = {
            "DuckDB on the same files": partial(_by_duckdb, _connected(), files),
            "Delta (deltalake)": partial(_by_dataset, _delta(folder)),
            **others,
            "table.read with a filter": partial(_by_dataset, table),
        }
        return [
            _raced(table, peer, read, keys, count=count, about=about)
            for count in (1, 1_000)
            for peer, read in peers.items()
        ]


def _raced(table: rli.Table, peer: str, read: Reader, keys: pa.Array, *, count: int, about: str) -> Outcome:
    batches = _batches(keys, count)
    asked = next(batches)
    ours = table.get(asked, _COLUMNS)
    theirs = read(asked)
    if ours.sort_by("id") != theirs.select(_COLUMNS).cast(ours.schema).sort_by("id"):
        raise RuntimeError(f"others fetched other records: peer={peer} keys={count}")
    pair = race(lambda: table.get(next(batches), _COLUMNS), lambda: read(next(batches)), _ROUNDS)
    ours_ms, theirs_ms = (1_000 * float(np.median(seconds)) for seconds in (pair.ours, pair.baseline))
    return Outcome(
        f"{count:,} {'key' if count == 1 else 'keys'} beside {peer}",
        peer,
        pair.speed_ratio,
        None,
        "higher",
        f"{about}; {ours_ms:,.1f} ms against {theirs_ms:,.1f} ms",
    )


def fill(folder: Path, records: int) -> pa.Array:
    """Write the table and its copy in Delta, a partition with each commit; returns some of the keys."""
    from deltalake import write_deltalake  # noqa: PLC0415  (a tool of the benchmarks alone)

    sample: list[pa.Array] = []
    partitions = max(_PARTITIONS, records // _MOST_IN_PARTITION)
    with rli.create_table(
        folder / "table",
        record_key="id",
        partition_by="part",
        index=f"lmdb://{folder}/index",
        durability="os",
        maintenance=False,
    ) as table:
        for part in range(partitions):
            rows = _rows(records // partitions, part)
            table.upsert(rows)
            write_deltalake(folder / "delta", rows, partition_by=["part"], mode="append")
            chosen = np.random.default_rng(part).choice(rows.num_rows, min(rows.num_rows, _SAMPLE), replace=False)
            sample.append(rows["id"].combine_chunks().take(pa.array(chosen)))
    return pa.concat_arrays(sample)


def _rows(count: int, part: int) -> pa.Table:
    rng = np.random.default_rng(part)
    return pa.table(
        {
            "id": uuid_keys(count, seed=1_000 + part),
            "part": pa.repeat(f"day-{part}", count),
            "fare": rng.random(count),
            "rider": pa.array(rng.integers(0, count, count)).cast(pa.string()),
            "note": uuid_keys(count, seed=2_000 + part),
        }
    )


def _batches(keys: pa.Array, count: int) -> Iterator[pa.Array]:
    """Random keys, other ones each time."""
    rng = np.random.default_rng(count)
    while True:
        yield keys.take(pa.array(rng.choice(len(keys), count, replace=False)))


def _connected() -> Any:
    import duckdb  # noqa: PLC0415  (a tool of the benchmarks alone)

    connection = duckdb.connect()
    connection.execute("SET parquet_metadata_cache = true")
    return connection


def _by_duckdb(connection: Any, files: list[str], keys: pa.Array) -> pa.Table:
    test = "id = $keys[1]" if len(keys) == 1 else "id IN (SELECT unnest($keys))"
    query = f"SELECT {', '.join(_COLUMNS)} FROM read_parquet($files) WHERE {test}"  # noqa: S608  (of constants)
    return connection.sql(query, params={"files": files, "keys": keys.to_pylist()}).to_arrow_table()


def _delta(folder: Path) -> Any:
    from deltalake import DeltaTable  # noqa: PLC0415  (a tool of the benchmarks alone)

    return DeltaTable(folder / "delta").to_pyarrow_dataset()


@contextmanager
def _hudi(folder: Path) -> Iterator[Reader]:
    """The same records in a table of Hudi with a record index, read by a query of Spark."""
    settings = {**HUDI_SETTINGS, "spark.driver.extraClassPath": str(jar_of(HUDI_BUNDLE.format(version="1.2.0")))}
    spark = spark_session(settings)
    try:
        table = Hudi(spark, folder / "hudi", "RECORD_INDEX", _HUDI_OPTIONS)
        if not table.folder.exists():
            table.load(spark.read.parquet(str(folder / "delta")))
        yield partial(_by_hudi, table)
    finally:
        spark.stop()


def _by_hudi(table: Hudi, keys: pa.Array) -> pa.Table:
    rows = table.read().where(sql.col("id").isin(*keys.to_pylist())).select(*_COLUMNS).collect()
    return pa.table({name: [row[name] for row in rows] for name in _COLUMNS})


def _by_dataset(source: Any, keys: pa.Array) -> pa.Table:
    wanted = ds.field("id") == keys[0] if len(keys) == 1 else ds.field("id").isin(keys)
    if isinstance(source, rli.Table):
        return source.read(_COLUMNS, wanted)
    return source.to_table(columns=_COLUMNS, filter=wanted)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    chosen = fill(folder, int(sys.argv[2]) if len(sys.argv) > 2 else 20_000_000)
    with _hudi(folder) as reader:
        for outcome in measure(folder, chosen, {_HUDI: reader}):
            print(f"{outcome.name}: {outcome.figure} ({outcome.details})", flush=True)
