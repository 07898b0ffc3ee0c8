"""A Spark job on each store: two hundred thousand rows upserted into a table of a million."""

from __future__ import annotations

import os
import shutil
import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import rli
import rli_spark
from benchmarks.keys import half_known, uuid_keys
from benchmarks.measuring import Outcome, kibibytes, process_status, seconds
from benchmarks.sessions import spark_session
from tests.support.docker import running_service
from tests.support.hbase import create_table, flush, hbase_url
from tests.support.redis import running_redis
from tests.support.services import HBASE_PORT

_PARTITIONS = 20
_MEBIBYTE = 1 << 20
_HBASE_TABLE = "bench"
_ROUNDS = 3
"""Batches that count; each has other unknown keys."""


@dataclass(frozen=True, slots=True)
class _Store:
    """A store that is empty.

    Attributes:
        url: of an index in it.
        settle: brings entries to where those of a large index are.
    """

    url: str
    settle: Callable[[], object] = lambda: None


@dataclass(frozen=True, slots=True)
class _Run:
    """What one store needed.

    Attributes:
        bootstrap_seconds, tag_seconds, upsert_seconds: of the three jobs.
        worker_bytes: peak resident memory of the largest Python worker, meanwhile.
        index_bytes: what the index costs the store; None where the store cannot tell.
    """

    bootstrap_seconds: float
    tag_seconds: float
    upsert_seconds: float
    worker_bytes: int
    index_bytes: int | None


def run(folder: Path, *, quick: bool) -> list[Outcome]:
    """Bootstrap, tag and upsert on LMDB, Redis and HBase; the embedded store is the baseline of the others."""
    entries, batch = (50_000, 10_000) if quick else (1_000_000, 200_000)
    spark = spark_session()
    keys = uuid_keys(entries, seed=6)
    path = folder / "table"
    _write(folder / "load.parquet", keys)
    with rli.create_table(path, record_key="id", partition_by="part", index=f"lmdb://{folder / 'first'}") as table:
        rli_spark.upsert(spark.read.parquet(str(folder / "load.parquet")), table)
    for number in range(_ROUNDS + 1):
        _write(folder / f"batch-{number}.parquet", half_known(keys, batch, seed=7 + number))
    runs: dict[str, _Run] = {}
    # The first run warms Spark up and does not count.
    for name in ("LMDB", "LMDB", "Redis", "HBase"):
        with TemporaryDirectory(dir=folder) as own, _store(name, Path(own)) as store:
            shutil.copytree(path, Path(own, "table"))
            runs[name] = _run(spark, Path(own, "table"), folder, store)
    about = f"{batch:,} rows, half of them known, into {entries:,}; local[2]"
    return [outcome for name in ("Redis", "HBase") for outcome in _outcomes(name, runs[name], runs["LMDB"], about)]


def _run(spark: SparkSession, path: Path, folder: Path, store: _Store) -> _Run:
    with rli.open_table(path, index=store.url) as table:
        _forget_peaks()
        bootstrap = seconds(lambda: rli_spark.bootstrap_index(spark, table))
        store.settle()
        tags, upserts = list[float](), list[float]()
        for number in range(_ROUNDS + 1):
            rows = spark.read.parquet(str(folder / f"batch-{number}.parquet"))
            tags.append(seconds(partial(_tag, rows, table)))
            upserts.append(seconds(partial(rli_spark.upsert, rows, table)))
        # Servers that have just started compile the code that they run: the first round does not count.
        tag, upsert = (statistics.median(taken[1:]) for taken in (tags, upserts))
        return _Run(bootstrap, tag, upsert, _largest_worker(), table.index.stats().bytes)


def _tag(rows: DataFrame, table: rli.Table) -> None:
    rli_spark.tag(rows, table).write.format("noop").mode("overwrite").save()


def _outcomes(name: str, found: _Run, baseline: _Run, about: str) -> Iterator[Outcome]:
    size = "" if found.index_bytes is None else f", index {found.index_bytes // _MEBIBYTE} MiB"
    memory = f"largest Python worker {found.worker_bytes // _MEBIBYTE} MiB{size}; {about}"
    for work, ours, theirs, goal in (
        ("bootstrap", found.bootstrap_seconds, baseline.bootstrap_seconds, 30.0),
        ("tag", found.tag_seconds, baseline.tag_seconds, 5.0),
        ("upsert", found.upsert_seconds, baseline.upsert_seconds, 2.0),
    ):
        yield Outcome(f"Spark {work} on {name}", "the same on LMDB", ours / theirs, goal, "lower", memory)


@contextmanager
def _store(name: str, folder: Path) -> Iterator[_Store]:
    if name == "LMDB":
        yield _Store(f"lmdb://{folder / 'index'}")
    elif name == "Redis":
        with running_redis() as address:
            yield _Store(f"redis://{address}/0")
    else:
        with running_service("hbase", ports=[HBASE_PORT], environment={"HBASE_HEAP": "2g"}) as service:
            create_table(service, _HBASE_TABLE)
            yield _Store(hbase_url(service, _HBASE_TABLE), partial(flush, service, _HBASE_TABLE))


def _write(path: Path, keys: pa.Array) -> None:
    # A known key comes with any partition, so that some records move.
    parts = pa.array([f"p{n % _PARTITIONS}" for n in range(len(keys))])
    pq.write_table(pa.table({"id": keys, "part": parts, "value": pa.array(range(len(keys)))}), path)


def _forget_peaks() -> None:
    """Reset the workers' peaks (proc(5), ``clear_refs``)."""
    for worker in _workers():
        (worker / "clear_refs").write_text("5")


def _largest_worker() -> int:
    """Peak resident bytes of the Python workers that are running."""
    return max(kibibytes(process_status(worker)["VmHWM"]) for worker in _workers())


def _workers() -> list[Path]:
    """The folders in /proc of the Python workers that this process' Spark has running."""
    parents: dict[int, int] = {}
    workers: list[Path] = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parents[int(process.name)] = int(process_status(process)["PPid"])
            if b"rli_spark.daemon" in (process / "cmdline").read_bytes().split(b"\0"):
                workers.append(process)
    return [worker for worker in workers if _descends(int(worker.name), parents)]


def _descends(process: int, parents: dict[int, int]) -> bool:
    """Whether a process was started by this one or by one that it started."""
    while process in parents and process != os.getpid():
        process = parents[process]
    return process == os.getpid()
