"""How fast this machine is at what an index does: measured once, in a few seconds, by the code that does it."""

from __future__ import annotations

import io
import json
import os
import platform
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import TypeAdapter, ValidationError

from rli.errors import IndexExistsError
from rli.hudi.bloom_filter import BloomFilter, HashedKeys
from rli.hudi.hfile.reader import HFileReader
from rli.hudi.hfile.writer import write_hfile
from rli.hudi.metadata.record_index import location_cells
from rli.hudi.metadata.records import RecordLocation
from rli.index.contract import LOOKUP_SECONDS
from rli.index.record.opening import create_index, open_as_it_is
from rli.index.record.stored_index import StoredIndex, stored_index
from rli.index_urls import IndexUrl
from rli.model import Phase
from rli.table.catalog import create_table
from rli.table.table import Table, opened_table
from rli.urls import without_secrets

VERSION: Final = 2
"""Of the measurements: rates of another version are measured again."""

LMDB: Final = "lmdb"
MEMORY: Final = "memory"

_ROUNDS: Final = 3
_ROWS: Final = 40_000
_FILES: Final = 24
_BATCH: Final = 20_000
_WIDE: Final = 200


@dataclass(frozen=True, slots=True)
class StoreRates:
    """Seconds that a store takes.

    Attributes:
        lookup, lookup_key: of a look-up, and of each key in it.
        commit, put_key: of a commit's changes, and of each key in them.
    """

    lookup: float
    lookup_key: float
    commit: float
    put_key: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """Seconds that this machine takes.

    Attributes:
        version: of the measurements.
        machine: that was measured.
        open_file: to open a base file and to read its footer.
        key_row, key_byte: to read a stored record key and to compare it with a batch, with each byte of its text.
        join_key: to look a key of a batch up among those found.
        filter_row: to read the bloom filter of a file, for each record of the file.
        test_key: to test a hashed key against a bloom filter.
        hash_key: to hash a key for filters; for a bucket it takes less.
        hfile_block: to read the block of an HFile with one key.
        hfile_cell: to read a cell of an HFile, with all others.
        put_cell: to write a cell of an HFile.
        commit: of a commit, whatever it writes.
        write_file, write_row, write_byte: to rewrite a base file, with each of its records and bytes.
        cores: that write files side by side.
        stores: rates by store; ``lmdb``, ``memory``, and URLs that were given, without passwords.
    """

    version: Literal[2]
    machine: str
    open_file: float
    key_row: float
    key_byte: float
    join_key: float
    filter_row: float
    test_key: float
    hash_key: float
    hfile_block: float
    hfile_cell: float
    put_cell: float
    commit: float
    write_file: float
    write_row: float
    write_byte: float
    cores: int
    stores: Mapping[str, StoreRates] = field(default_factory=dict)


_STORED: Final = TypeAdapter(Calibration)


def calibration(*stores: str, cache: Path | None = None, again: bool = False) -> Calibration:
    """The rates of this machine and of some stores; they are measured where the user's cache does not have them.

    Args:
        stores: URLs, at which an index may be made and dropped again; where there is one, only look-ups are measured.
        cache: file that keeps the rates; by default in the user's cache folder.
        again: measure although the cache has them.

    Raises:
        StoreUnavailableError: a store does not answer.
        SettingsError: a URL names no store.
    """
    path = cache if cache is not None else _default_cache()
    known = None if again else cached(path)
    found = _measured(path.parent) if known is None else known
    missing = [url for url in stores if without_secrets(url) not in found.stores]
    measured = {without_secrets(url): _store_rates(url) for url in missing}
    if known is None or measured:
        found = replace(found, stores={**found.stores, **measured})
        _keep(path, found)
    return found


# The cache ----------------------------------------------------------------------------------------------------------


def _default_cache() -> Path:
    folder = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(folder).expanduser() / "rli" / f"calibration-{platform.node() or 'machine'}.json"


def cached(path: Path) -> Calibration | None:
    """The rates that a file keeps; None if there is none, or of another version or machine."""
    with suppress(OSError, ValidationError):
        found = _STORED.validate_json(path.read_bytes())
        if found.machine == _machine():
            return found
    return None


def _keep(path: Path, found: Calibration) -> None:
    # A folder that cannot be written costs a few seconds at the next call, and nothing else.
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps(asdict(found), indent=1), "utf-8")
        draft.replace(path)


def _machine() -> str:
    return f"{platform.node()} {platform.machine()} {os.cpu_count()} cores"


# Measuring ----------------------------------------------------------------------------------------------------------


def _measured(cache: Path) -> Calibration:
    """The rates of this machine, measured beside the cache if that can be written."""
    with suppress(OSError):
        cache.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="rli-", dir=cache if os.access(cache, os.W_OK) else None) as name:
        folder = Path(name)
        short = _table(folder / "short", [f"{number:012}" for number in range(_ROWS)])
        long = _table(folder / "long", [f"{number:048}" for number in range(_ROWS)])
        wide = _table(folder / "wide", [f"{number:012}" for number in range(_ROWS)], width=_WIDE)
        files = _table(folder / "files", [f"{number:012}" for number in range(_FILES)], partitions=_FILES)
        tiny = _table(folder / "tiny", ["0"])
        one = pa.array(["absent"])
        open_file = _locating(files, one) / _FILES
        of_short, of_long = (max(0.0, _locating(table, one) - open_file) for table in (short, long))
        key_byte = max(0.0, of_long - of_short) / _ROWS / 36
        many = pa.array([f"{number:048}" for number in np.random.default_rng(0).permutation(_ROWS)])
        commit, write_file = _rewriting(tiny, "0")
        _, of_rows = _rewriting(short, "000000000001")
        _, of_bytes = _rewriting(wide, "000000000001")
        sizes = [table.info().bytes for table in (short, wide)]
        write_byte = max(0.0, of_bytes - of_rows) / max(1, sizes[1] - sizes[0])
        filter_row, hash_key, test_key = _filter_rates(many)
        hfile_block, hfile_cell, put_cell = _hfile_rates(many)
        return Calibration(
            version=VERSION,
            machine=_machine(),
            open_file=open_file,
            key_row=max(0.0, of_short / _ROWS - 12 * key_byte),
            key_byte=key_byte,
            join_key=max(0.0, _locating(long, many) - of_long) / _ROWS,
            filter_row=filter_row,
            test_key=test_key,
            hash_key=hash_key,
            hfile_block=hfile_block,
            hfile_cell=hfile_cell,
            put_cell=put_cell,
            commit=commit,
            write_file=write_file,
            write_row=max(0.0, of_rows - write_file - sizes[0] * write_byte) / _ROWS,
            write_byte=write_byte,
            cores=min(pa.cpu_count(), 8),
            stores={LMDB: _store_rates(f"lmdb://{folder}/index"), MEMORY: _store_rates(f"memory:{folder.name}")},
        )


def _table(folder: Path, keys: list[str], *, partitions: int = 1, width: int = 0) -> Table:
    """A table with some keys, a file in each partition."""
    table = create_table(folder, record_key="id", partition_by="part", index="simple:", ordering="ts")
    table.upsert(_records(keys, partitions=partitions, width=width))
    return table


def _records(keys: list[str], *, partitions: int = 1, width: int = 0, ts: int = 0) -> pa.Table:
    count = len(keys)
    random = np.random.default_rng(0)
    payload = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(width or 1), count, [None, pa.py_buffer(random.bytes(count * (width or 1)))]
    )
    return pa.table(
        {
            "id": pa.array(keys, pa.string()),
            "part": pa.array([f"{number % partitions}" for number in range(count)]),
            "ts": pa.array(np.full(count, ts)),
            "value": pa.array(random.random(count)),
            "payload": payload.cast(pa.binary()),
        }
    )


def _best(work: Callable[[], object]) -> float:
    """Seconds of some work, waiting included: the best of some rounds."""
    return min(_timed(work, time.perf_counter) for _ in range(_ROUNDS))


def _computing(work: Callable[[], object]) -> float:
    """Seconds of some work that waits for nothing: a busy machine takes longer, but no more of its processor."""
    return min(_best(work), *(_timed(work, time.process_time) for _ in range(_ROUNDS)))


def _timed(work: Callable[[], object], clock: Callable[[], float]) -> float:
    started = clock()
    work()
    return clock() - started


def _locating(table: Table, keys: pa.Array) -> float:
    """Seconds to locate some keys, in the folder ``0`` of the table and all others."""
    opened = opened_table(table)
    definition, index = opened.definition, opened.index
    paths = sorted({group.partition_path for group in index.sync(definition).snapshot.slices})
    wanted = pa.concat_arrays([pa.repeat(pa.scalar(path), len(keys)) for path in paths])
    sought = pa.concat_arrays([keys] * len(paths))
    return _computing(lambda: index.sync(definition).locator().locate(sought, wanted))


def _rewriting(table: Table, key: str) -> tuple[float, float]:
    """Seconds of an update of one record: of the commit, and of its file."""
    found = [table.upsert(_records([key], ts=number + 1)).seconds for number in range(_ROUNDS)]
    around = (Phase.BEGIN, Phase.LEASE, Phase.PUBLISH, Phase.APPLY)
    commit = min(sum(seconds.get(phase, 0.0) for phase in around) for seconds in found)
    return commit, min(seconds.get(Phase.WRITE, 0.0) for seconds in found)


def _filter_rates(keys: pa.Array) -> tuple[float, float, float]:
    """Seconds to read a filter, for each of its keys, to hash a key, and to test a hashed one that is not in the filter."""
    count = len(keys)
    bloom = BloomFilter.create(count)
    bloom.add(keys)
    footer = {name.encode(): text.encode() for name, text in bloom.to_footer().items()}
    reading = _computing(lambda: BloomFilter.from_footer(footer, "calibration"))
    hashing = _computing(lambda: HashedKeys(keys))
    hashed, places = HashedKeys(pc.binary_join_element_wise("absent", keys, "")), np.arange(count)
    testing = _computing(lambda: hashed.claimed_by(bloom, places))
    return reading / count, hashing / count, testing / count


def _hfile_rates(keys: pa.Array) -> tuple[float, float, float]:
    """Seconds to read the block of one key, to read a cell together with all others, and to write a cell."""
    ordered, count = keys.sort(), len(keys)
    cells = location_cells(ordered, [RecordLocation("0", f"{UUID(int=0)}-0", "20260101000000000")])
    file = io.BytesIO()
    writing = _computing(lambda: write_hfile(file, [cells], None))
    reader = HFileReader(file, file.tell())
    apart = cells["key"].take(pa.array(np.arange(0, count, count // _FILES)))
    in_blocks = _computing(lambda: reader.lookup(apart))
    return in_blocks / len(apart), _computing(lambda: list(reader.cells())) / count, writing / count


def _store_rates(url: str) -> StoreRates:
    """The rates of a store, by an index that is dropped again; of an index that is there, look-ups alone."""
    try:
        index = stored_index(create_index(IndexUrl.parse(url).store))
    except IndexExistsError:
        with open_as_it_is(url) as held:
            lookup, lookup_key = _lookup_rates(held)
        # A put costs a store about as much as a look-up.
        return StoreRates(lookup, lookup_key, 2 * lookup, lookup_key)
    try:
        one, many = (_committing(index, count) for count in (1, _BATCH))
        lookup, lookup_key = _lookup_rates(index)
        return StoreRates(lookup, lookup_key, one, max(0.0, many - one) / _BATCH)
    finally:
        index.drop()


def _lookup_rates(index: StoredIndex) -> tuple[float, float]:
    one, many = (_best(partial(_look_up, index, count)) for count in (1, _BATCH))
    return one, max(0.0, many - one) / _BATCH


def _look_up(index: StoredIndex, count: int) -> None:
    keys = pa.array([f"{number:012}" for number in range(count)])
    # With partition scope, a write looks each key up in one partition.
    index.located(keys, LOOKUP_SECONDS, partition_paths=pa.repeat(pa.scalar("0"), count))


def _committing(index: StoredIndex, count: int) -> float:
    rounds = iter(range(_ROUNDS))

    def commit() -> None:
        start = next(rounds) * count
        keys = [f"{number:012}" for number in range(start, start + count)]
        with index.begin() as transaction:
            paths, groups = pa.repeat(pa.scalar("0"), count), pa.repeat(pa.scalar("group"), count)
            transaction.stage(pa.table({"record_key": keys, "partition_path": paths, "file_id": groups}))
            transaction.commit()

    return _best(commit)
