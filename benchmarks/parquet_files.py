"""Loads, reads and upserts of a table in plain Python: pyarrow on the same Parquet files, deltalake and pyiceberg."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from numpy.typing import NDArray

import rli
from benchmarks.changing import TURN, turns_of, with_turn
from benchmarks.keys import uuid_keys
from benchmarks.measuring import Outcome, Unit, race
from benchmarks.raw_lmdb import RawLmdb, encoded

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog

Item = TypeVar("Item")

_PARTITIONS = 8
_GOAL_OF_LOADS, _GOAL_OF_UPSERTS = 0.4, 0.5

_ROUNDS: Final = 5
_ROUNDS_OF_ICEBERG: Final = 3
"""Fewer than of the others: an upsert of 100,000 of a million rows takes pyiceberg half a minute."""

_DELTA_LOAD: Final = "deltalake.write_deltalake of the same rows"
_ICEBERG_TABLE: Final = "peers.table"


def run(folder: Path, *, quick: bool) -> list[Outcome]:
    """Measure loads, reading a whole table, and an upsert that rewrites every file of it."""
    # In the quick form, only the figures without other products have floors.
    records, rounds = (100_000, 1) if quick else (1_000_000, _ROUNDS)
    keys = uuid_keys(records, seed=8)
    parts = pa.array([f"p{n % _PARTITIONS}" for n in range(records)])
    rows = with_turn(pa.table({"id": keys, "part": parts, "value": pa.array(np.arange(records)), "note": keys}))
    about = f"{records:,} records of five columns in {_PARTITIONS} base files"
    with rli.create_table(
        folder / "table", record_key="id", partition_by="part", index=f"lmdb://{folder / 'index'}"
    ) as table:
        table.upsert(rows)
        files = live_files(table)
        loads = _loads(folder, rows, files, about, rounds=rounds)
        reading = race(table.read, lambda: ds.dataset(files).to_table(columns=rows.column_names))
        read = Outcome(
            "table.read", "pyarrow reading the same files", reading.speed_ratio, None, "higher", about, Unit.SHARE
        )
        return [*loads, read, *_upserts(folder, table, files, rows, about, rounds=rounds)]


def _loads(folder: Path, rows: pa.Table, files: list[Path], about: str, *, rounds: int) -> list[Outcome]:
    """Loads of new tables; those that deltalake and pyiceberg load last stay, for the upserts."""
    loading = race(
        lambda: _load(folder / "loaded", rows),
        lambda: _load_delta(folder / "delta", rows),
        rounds,
        reset=partial(_clear, folder, "loaded", "delta"),
    )
    contents = [pq.read_table(file) for file in files]
    writing = race(
        lambda: _write_files(folder / "written", contents),
        lambda: _load_delta(folder / "delta", rows),
        rounds,
        reset=partial(_clear, folder, "written", "delta"),
    )
    keys, entries = encoded(rows["id"].combine_chunks()), np.arange(len(rows), dtype=np.uint64)
    writing_both = race(
        lambda: _write_files_and_entries(folder, contents, keys, entries),
        lambda: _load_delta(folder / "delta", rows),
        rounds,
        reset=partial(_clear, folder, "written", "raw", "delta"),
    )
    loading_iceberg = race(
        lambda: _load(folder / "loaded", rows),
        lambda: _load_iceberg(folder / "iceberg", rows),
        rounds,
        reset=partial(_clear, folder, "loaded", "iceberg"),
    )
    about_ours = (
        f"{about}; ours includes the index in LMDB, meta columns, bloom filters, journal, and waits for the disk"
    )
    return [
        Outcome("load of a new table", _DELTA_LOAD, loading.speed_ratio, _GOAL_OF_LOADS, "higher", about_ours),
        Outcome(
            "pyarrow writing our files again, no faster than which a load can be",
            _DELTA_LOAD,
            writing.speed_ratio,
            None,
            "higher",
            f"{about}; with meta columns, from memory, on as many threads as there are cores; no index, no waiting for the disk",
        ),
        Outcome(
            "pyarrow writing our files again, then LMDB's putmulti of their sorted keys",
            _DELTA_LOAD,
            writing_both.speed_ratio,
            None,
            "higher",
            f"{about}; as above; an index counts behind the commit alone, so nothing of it is written beside the files",
        ),
        Outcome(
            "load of a new table",
            "pyiceberg's Table.append of the same rows",
            loading_iceberg.speed_ratio,
            None,
            "higher",
            f"{about_ours}; pyiceberg's catalog is in SQLite",
        ),
    ]


def _upserts(
    folder: Path, table: rli.Table, files: list[Path], rows: pa.Table, about: str, *, rounds: int
) -> list[Outcome]:
    # Chosen at random, so that some are in each file.
    some = np.random.default_rng(8).choice(len(rows), len(rows) // 10, replace=False)
    changed = turns_of(rows.drop_columns(TURN).take(pa.array(some)))

    def upsert() -> None:
        table.upsert(next(changed))

    rewriting = race(upsert, lambda: rewrite(files, folder / "rewritten"))
    merging = race(upsert, lambda: _merge_delta(folder / "delta", next(changed)), rounds)
    upserting_iceberg = race(
        upsert, lambda: _upsert_iceberg(folder / "iceberg", next(changed)), min(rounds, _ROUNDS_OF_ICEBERG)
    )
    return [
        Outcome(
            "table.upsert of a tenth of the keys",
            "pyarrow reading and writing the same files",
            rewriting.speed_ratio,
            _GOAL_OF_UPSERTS,
            "higher",
            f"{about}; ours includes look-ups, merge, bloom filters, journal, commit and index",
            Unit.SHARE,
        ),
        Outcome(
            "upsert of a tenth of the keys",
            "deltalake's DeltaTable.merge of the same rows",
            merging.speed_ratio,
            None,
            "higher",
            about,
        ),
        Outcome(
            "upsert of a tenth of the keys",
            "pyiceberg's Table.upsert of the same rows",
            upserting_iceberg.speed_ratio,
            None,
            "higher",
            f"{about}; median of {min(rounds, _ROUNDS_OF_ICEBERG)}; pyiceberg compares each row with the stored row in Python",
        ),
    ]


def _clear(folder: Path, *names: str) -> None:
    for name in names:
        rmtree(folder / name, ignore_errors=True)


def _load(path: Path, rows: pa.Table) -> None:
    with rli.create_table(path, record_key="id", partition_by="part") as table:
        table.upsert(rows)


def _write_files_and_entries(
    folder: Path, contents: Sequence[pa.Table], keys: NDArray[np.void], entries: NDArray[np.uint64]
) -> None:
    _write_files(folder / "written", contents)
    with RawLmdb(folder / "raw") as raw:
        raw.load(keys, entries)


def _load_delta(path: Path, rows: pa.Table) -> None:
    from deltalake import WriterProperties, write_deltalake  # noqa: PLC0415  (a tool of the benchmarks alone)

    # As rli compresses its base files.
    write_deltalake(path, rows, partition_by=["part"], writer_properties=WriterProperties(compression="ZSTD"))


def _merge_delta(path: Path, rows: pa.Table) -> None:
    from deltalake import DeltaTable, WriterProperties  # noqa: PLC0415  (a tool of the benchmarks alone)

    properties = WriterProperties(compression="ZSTD")
    merger = DeltaTable(path).merge(
        rows, "stored.id = new.id", source_alias="new", target_alias="stored", writer_properties=properties
    )
    merger.when_matched_update_all().when_not_matched_insert_all().execute()


@contextmanager
def _iceberg_catalog(path: Path) -> Iterator[SqlCatalog]:
    from pyiceberg.catalog.sql import SqlCatalog  # noqa: PLC0415  (a tool of the benchmarks alone)

    with closing(SqlCatalog("peers", uri=f"sqlite:///{path}/catalog.db", warehouse=f"file://{path}")) as catalog:
        yield catalog


def _load_iceberg(path: Path, rows: pa.Table) -> None:
    path.mkdir()
    with _iceberg_catalog(path) as catalog:
        catalog.create_namespace("peers")
        # Its files are compressed with zstd unless a property says otherwise.
        table = catalog.create_table(_ICEBERG_TABLE, rows.schema)
        with table.update_spec() as spec:
            spec.add_identity("part")
        table.append(rows)


def _upsert_iceberg(path: Path, rows: pa.Table) -> None:
    with _iceberg_catalog(path) as catalog:
        catalog.load_table(_ICEBERG_TABLE).upsert(rows, join_cols=["id"])


def live_files(table: rli.Table) -> list[Path]:
    """The base files that are the table now, none of which an upsert removes."""
    return [Path(file) for file in table.scan().files()]


def rewrite(files: list[Path], folder: Path) -> None:
    """Read and write the files, as many at once as there are cores."""
    _write_files(folder, files, pq.read_table)


def _write_files(
    folder: Path, contents: Sequence[Item], read: Callable[[Item], pa.Table] = lambda table: table
) -> None:
    folder.mkdir(exist_ok=True)

    def write(numbered: tuple[int, Item]) -> None:
        number, content = numbered
        pq.write_table(read(content), folder / f"{number}.parquet", compression="zstd")

    with ThreadPoolExecutor(pa.cpu_count()) as threads:
        for _ in threads.map(write, enumerate(contents)):
            pass
