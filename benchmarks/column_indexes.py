"""Indexes on columns in plain Python: look-ups of values beside full scans, what a commit pays for them, and how fast they are built.

``python -m benchmarks.column_indexes FOLDER [ROWS]`` measures build and look-ups of larger tables, of 20 million records by default.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import redis
from pyspark.sql import DataFrame

import rli
from benchmarks.keys import uuid_keys
from benchmarks.measuring import Outcome, Unit, processor_seconds, race
from benchmarks.sessions import spark_session
from rli.table.table import opened_table
from rli.view.snapshot import Snapshot
from tests.support.docker import running_service
from tests.support.indexes import record_index
from tests.support.redis import running_redis
from tests.support.services import HBASE_PORT
from tests.support.spark import HUDI_SETTINGS
from tests.support.spark_packages import HUDI_BUNDLE, jar_of
from tests.support.tables import turn_into_version_9

_PARTITIONS: Final = 50
_HOURS: Final = 24
_SECONDS: Final = 3_600
_VALUES: Final = 100
_BUILT_A_SECOND: Final = 1_000_000
_UPKEEP: Final = 1.15
_LOOK_UP_SECONDS: Final = 0.005
_LOOK_UPS: Final = 40
_WARMING_LOOK_UPS: Final = 300
"""A server that has just started compiles the code that it runs."""

_READING: Final = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}
_FETCHED: Final = ("id", "part", "email", "amount", "name", "city", "count")

_INDEXES: Final[dict[str, dict[str, Any]]] = {
    "secondary, in LMDB": {"on": "email"},
    "column_stats": {"on": "amount", "using": "column_stats"},
    "bloom_filters": {"on": "email", "using": "bloom_filters"},
    "hour(at)": {"on": "at", "expression": "hour(at)"},
}


def run(folder: Path, *, quick: bool) -> list[Outcome]:
    """Measure a table of two million records in 50 files; commits change a hundredth of it."""
    rows = 20_000 if quick else 2_000_000
    keys = uuid_keys(rows, seed=7)
    with ExitStack() as stack:
        plain = stack.enter_context(_table(folder / "plain", keys))
        indexed = stack.enter_context(_table(folder / "indexed", keys))
        built = _built(indexed, rows)
        looked_up = [*_look_ups(indexed, plain, rows), _keys_of_values("LMDB", indexed, rows)]
        looked_up += [] if quick else _beside_hudi(folder / "version-9", indexed, keys)
        skipped = _skipped_hours(folder / "hours", rows)
        return [built, *looked_up, *_in_servers(folder, keys), skipped, *_upkeep(folder, keys)]


def measure(folder: Path, rows: int) -> Iterator[Outcome]:
    """The build and the look-ups in LMDB, the latter beside Hudi, too.

    Args:
        folder: of the tables.
        rows: of each table.
    """
    keys = uuid_keys(rows, seed=7)
    with _table(folder / "indexed", keys) as indexed:
        yield _built(indexed, rows)
        yield _keys_of_values("LMDB", indexed, rows)
        yield from _look_ups(indexed, indexed, rows)
        yield from _beside_hudi(folder / "version-9", indexed, keys)


def _built(table: rli.Table, rows: int) -> Outcome:
    began, started = time.process_time(), time.perf_counter()
    table.create_index("by_email", on="email")
    taken, waited = time.process_time() - began, time.perf_counter() - started
    return Outcome(
        "records a second of processor time, build of a secondary index in LMDB",
        "1,000,000",
        rows / taken / _BUILT_A_SECOND,
        1.0,
        "higher",
        f"{rows:,} records in {taken:.1f} s, {waited:.1f} s by the clock",
    )


def _look_ups(indexed: rli.Table, plain: rli.Table, rows: int) -> list[Outcome]:
    chosen = np.random.default_rng(3).choice(rows, _VALUES, replace=False)
    values = [_email(number) for number in chosen.tolist()]
    found = partial(indexed.get, where={"email": values})
    scanned = partial(_scanned, plain, values)
    if found().num_rows != _VALUES or scanned().num_rows != _VALUES:
        raise AssertionError("the values were not found")
    pair = race(found, scanned, rounds=3)
    return [
        Outcome(
            f"records of {_VALUES} values, secondary index in LMDB",
            "full scan",
            1 / pair.time_ratio,
            100.0,
            "higher",
            f"{1_000 * min(pair.ours):.0f} ms against {1_000 * min(pair.baseline):.0f} ms",
        )
    ]


def _beside_hudi(folder: Path, indexed: rli.Table, keys: pa.Array) -> list[Outcome]:
    """The same records in a table of version 9, where Hudi reads the index that rli has made in the metadata table."""
    with _table(folder, keys, is_version_9=True) as shared:
        shared.create_index("by_email", on="email")
        with _hudi(folder) as records:
            tables = {"LMDB": indexed, "the metadata table": shared}
            return [
                _beside_records_of_hudi(f"secondary index in {home}", table, records, count, len(keys))
                for count in (1, _VALUES)
                for home, table in tables.items()
            ]


@contextmanager
def _hudi(folder: Path) -> Iterator[DataFrame]:
    """A table as Hudi reads it in Spark, with its metadata table."""
    settings = {**HUDI_SETTINGS, "spark.driver.extraClassPath": str(jar_of(HUDI_BUNDLE.format(version="1.2.0")))}
    spark = spark_session(settings)
    try:
        yield spark.read.format("hudi").options(**_READING).load(str(folder))
    finally:
        spark.stop()


def _beside_records_of_hudi(name: str, table: rli.Table, records: DataFrame, count: int, rows: int) -> Outcome:
    """The processor time of both, that of Spark's process included."""
    chosen = np.random.default_rng(count).choice(rows, count, replace=False)
    values = [_email(number) for number in chosen.tolist()]
    within = ", ".join(f"'{value}'" for value in values)

    def found() -> None:
        _require(table.get(where={"email": values}, columns=list(_FETCHED)).num_rows, count)

    def found_by_hudi() -> None:
        # PySpark 4 calls this toArrow.
        batches = records.where(f"email in ({within})").select(*_FETCHED)._collect_as_arrow()  # noqa: SLF001
        _require(sum(batch.num_rows for batch in batches), count)

    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(7):
        for work, seconds in zip((found, found_by_hudi), taken, strict=True):
            before = processor_seconds(os.getpid())
            work()
            seconds.append(processor_seconds(os.getpid()) - before)
    # Both learn in the first rounds.
    ours, theirs = (statistics.median(seconds[2:]) for seconds in taken)
    return Outcome(
        f"processor time for the records of {count} values, {name}",
        "Hudi 1.2.0 with its secondary index",
        theirs / ours,
        10.0,
        "higher",
        f"{ours:.3f} s against {theirs:.3f} s",
    )


def _require(found: int, count: int) -> None:
    if found != count:
        raise AssertionError(f"the values were not found: expected={count} found={found}")


def _in_servers(folder: Path, keys: pa.Array) -> list[Outcome]:
    """The same index in servers; of HBase with a quarter of the records, because its loads take longest."""
    some = keys.slice(0, len(keys) // 4)
    with (
        running_redis() as address,
        _table(folder / "redis", keys, index=f"redis://{address}/0") as table,
        redis.Redis.from_url(f"redis://{address}/0") as server,
    ):
        table.create_index("by_email", on="email")
        of_redis = _keys_of_values("Redis", table, len(keys), server)
    with (
        running_service("hbase", ports=[HBASE_PORT], environment={"HBASE_HEAP": "2g"}) as service,
        _table(folder / "hbase", some, index=f"hbase://{service.address(HBASE_PORT)}/?table=bench") as table,
    ):
        table.create_index("by_email", on="email")
        return [of_redis, _keys_of_values("HBase", table, len(some))]


def _keys_of_values(store: str, table: rli.Table, rows: int, server: redis.Redis | None = None) -> Outcome:
    """How long a service waits for the record keys of some values, the state of table and index included."""
    index, generator = record_index(table), np.random.default_rng(5)
    snapshot = Snapshot.now(opened_table(table).definition)
    waits, before, on_server = list[float](), 0.0, 0.0
    for number in range(-_WARMING_LOOK_UPS, _LOOK_UPS):
        values = pa.array([_email(each) for each in generator.choice(rows, _VALUES, replace=False).tolist()])
        if number == 0:
            before, on_server = time.process_time(), _server_seconds(server)
        began = time.perf_counter()
        found = index.keys_with("by_email", "email", snapshot, values, rows)
        waits.append(time.perf_counter() - began)
        if found is None or len(found) != _VALUES:
            raise AssertionError("the values were not found")
    client, on_server = time.process_time() - before, _server_seconds(server) - on_server
    waited = statistics.median(waits[-_LOOK_UPS:])
    of_server = f", {1_000 * on_server / _LOOK_UPS:.1f} of the server" if server else ""
    return Outcome(
        f"record keys of {_VALUES} values, secondary index in {store}",
        "5 ms",
        waited / _LOOK_UP_SECONDS,
        1.0,
        "lower",
        f"{1_000 * waited:.1f} ms; {1_000 * client / _LOOK_UPS:.1f} ms of processor time{of_server}; {rows:,} records",
    )


def _server_seconds(server: redis.Redis | None) -> float:
    """Processor time that the server has taken so far."""
    if server is None:
        return 0.0
    used: dict[str, Any] = server.info("cpu")
    return float(used["used_cpu_user"]) + float(used["used_cpu_sys"])


def _scanned(table: rli.Table, values: list[str]) -> pa.Table:
    """Reads all records, and tests them here: no footer is asked."""
    records = table.read()
    return records.filter(pc.is_in(records["email"], value_set=pa.array(values)))


def _skipped_hours(folder: Path, rows: int) -> Outcome:
    """Each file has records of one hour of many days, so the range of the column tells nothing."""
    hours = np.arange(rows) % _HOURS
    days = np.arange(rows) // _HOURS % 300
    given = {
        "id": uuid_keys(rows, seed=9),
        "hour_of_day": pa.array(hours).cast(pa.string()),
        "ts": _moments(days * _HOURS * _SECONDS + hours * _SECONDS),
    }
    with rli.create_table(folder, record_key="id", partition_by="hour_of_day", ordering="ts") as table:
        table.upsert(pa.table(given))
        table.create_index("by_hour", on="ts", expression="hour(ts)")
        files = table.scan(filters="hour(ts) = 7").explain().files
    left_out = files.pruned[rli.PruningStep.EXPRESSION_INDEX]
    return Outcome(
        "files that an index on hour(ts) skips, for one hour",
        "all files",
        left_out / files.total,
        0.9,
        "higher",
        f"{left_out} of {files.total}; the range of the column skips none",
        Unit.SHARE,
    )


def _upkeep(folder: Path, keys: pa.Array) -> list[Outcome]:
    """The processor time of a commit with one index and without, each in a table of its own.

    Of an index in the metadata table, both tables have the metadata table with its list of files.
    """
    outcomes = []
    for name, given in _INDEXES.items():
        place = folder / name.replace(" ", "-").replace("(", "-").replace(")", "").replace(",", "")
        metadata = ["files"] if "LMDB" not in name else "none"
        with _table(place / "with", keys, metadata) as indexed, _table(place / "without", keys, metadata) as plain:
            indexed.create_index("measured", **given)
            ratio, details = _commits(indexed, plain, keys)
        outcomes.append(
            Outcome(f"commit of 1 % of the records, {name}", "without the index", ratio, _UPKEEP, "lower", details)
        )
    return outcomes


def _commits(indexed: rli.Table, plain: rli.Table, keys: pa.Array, rounds: int = 4) -> tuple[float, str]:
    taken: dict[str, list[float]] = {"with": [], "without": []}
    for number in range(rounds):
        chosen = np.random.default_rng(number).choice(len(keys), len(keys) // 100, replace=False)
        batch = _rows(keys, chosen, number + 1)
        for name, table in (("with", indexed), ("without", plain)):
            taken[name].append(_processor_time(partial(table.upsert, batch)))
    first, second = (min(times[1:]) for times in taken.values())
    return first / second, f"{first:.2f} s against {second:.2f} s of processor time"


def _processor_time(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def _table(
    folder: Path,
    keys: pa.Array,
    metadata: Sequence[str] | str = "none",
    index: str | None = None,
    *,
    is_version_9: bool = False,
) -> rli.Table:
    """A table with a record for each key, its index in LMDB unless a URL is given."""
    table = rli.create_table(
        folder,
        record_key="id",
        partition_by="part",
        ordering="ts",
        index=index or f"lmdb://{folder}-index",
        maintenance=False,
        metadata=metadata,
        name="benchmark",
    )
    if is_version_9:
        turn_into_version_9(table)
    table.upsert(_rows(keys, np.arange(len(keys)), 0))
    return table


def _rows(keys: pa.Array, chosen: np.ndarray, ts: int) -> pa.Table:
    """Records of nine columns: half of the changed records get another address."""
    changed = np.where(chosen % 2 == 0, chosen, chosen + ts * len(keys))
    return pa.table(
        {
            "id": keys.take(pa.array(chosen)),
            "part": pa.array(chosen % _PARTITIONS).cast(pa.string()),
            "ts": pa.array(np.full(len(chosen), ts)),
            "at": _moments(chosen % (_HOURS * _SECONDS)),
            "email": pa.array([_email(number) for number in changed.tolist()]),
            "amount": pa.array(chosen * 0.25),
            "name": pa.array([f"name {number}" for number in (chosen % 9_973).tolist()]),
            "city": pa.array([f"city {number}" for number in (chosen % 101).tolist()]),
            "count": pa.array(chosen % 1_000),
        }
    )


def _moments(seconds: np.ndarray) -> pa.Array:
    return pa.array(seconds * 1_000_000).cast(pa.timestamp("us", "UTC"))


def _email(number: int) -> str:
    return f"user-{number}@example.org"


if __name__ == "__main__":
    for outcome in measure(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 20_000_000):
        sys.stdout.write(f"{outcome.name} against {outcome.baseline}: {outcome.figure} ({outcome.details})\n")
        sys.stdout.flush()
