"""Writing and reading HFiles of the record index, beside a plain file of the same bytes.

Cells alone, and entries from record keys to files and back: groups by hash, the order of the keys, locations.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from benchmarks.keys import uuid_keys
from benchmarks.measuring import Outcome, race
from rli.hudi.hfile.blocks import Codec
from rli.hudi.hfile.cells import CELLS
from rli.hudi.hfile.key_order import order_of
from rli.hudi.hfile.reader import HFileReader
from rli.hudi.hfile.writer import write_hfile
from rli.hudi.metadata.groups import groups_of
from rli.hudi.metadata.record_index import LOCATED, located_keys, location_cells
from rli.hudi.metadata.records import RecordLocation

_VALUES: Final = 8
"""Different values of a file: one of each file group that a commit wrote."""

_GROUPS: Final = 10
"""File groups of the record index."""

_FILE: Final = "0b6e8a52-4a4f-4d6f-9b0e-0f9d7a3a6c11-{number}"


def run(folder: Path, *, quick: bool) -> list[Outcome]:
    """Measure both directions without compression, and with gzip, as Hudi writes."""
    count = 100_000 if quick else 1_000_000
    cells = _cells(count)
    alone = [outcome for codec in (Codec.NONE, Codec.GZIP) for outcome in _measured(folder, cells, codec)]
    return [*alone, *_entries(folder, count)]


def _measured(folder: Path, cells: pa.RecordBatch, codec: Codec) -> list[Outcome]:
    path = folder / f"{codec.name}.hfile"
    write = partial(_write, path, cells, codec)
    write()
    names = (f"HFile {done}, compression {codec.name.lower()}" for done in ("written", "read"))
    return _both(names, write, lambda: [*_read(path)], [path], cells.num_rows)


def _entries(folder: Path, count: int) -> list[Outcome]:
    """Entries of one commit in all file groups of the index."""
    keys = uuid_keys(count, seed=6)
    locations = [RecordLocation("eu", _FILE.format(number=number), "20260101000000000") for number in range(_VALUES)]
    chosen = np.random.default_rng(6).integers(0, _VALUES, count)
    paths = [folder / f"{number}.hfile" for number in range(_GROUPS)]

    def write() -> None:
        groups = groups_of(keys, _GROUPS)
        for number, path in enumerate(paths):
            rows = np.flatnonzero(groups == number)
            own = keys.take(pa.array(rows))
            order = order_of(own)
            _write(path, location_cells(own.take(pa.array(order)), locations, chosen[rows[order]]), Codec.GZIP)

    def read() -> pa.Table:
        return pa.Table.from_batches((located_keys(cells) for path in paths for cells in _read(path)), schema=LOCATED)

    write()
    if read().num_rows != count:
        raise ValueError("entries are lost")
    names = (f"entries of a record index {done}" for done in ("written", "read"))
    return _both(names, write, read, paths, count)


def _both(
    names: Iterable[str], write: Callable[[], object], read: Callable[[], object], paths: Sequence[Path], count: int
) -> list[Outcome]:
    """Both directions, beside plain files of the same bytes."""
    contents = [path.read_bytes() for path in paths]
    plain = [path.with_suffix(".bin") for path in paths]

    def write_plain() -> None:
        for path, content in zip(plain, contents, strict=True):
            path.write_bytes(content)

    works = ((write, write_plain), (read, lambda: [path.read_bytes() for path in plain]))
    return [_outcome(name, ours, baseline, count) for name, (ours, baseline) in zip(names, works, strict=True)]


def _outcome(name: str, ours: Callable[[], object], baseline: Callable[[], object], count: int) -> Outcome:
    used: list[float] = []

    def watched() -> None:
        started = time.process_time()
        ours()
        used.append(time.process_time() - started)

    pair = race(watched, baseline)
    rate = f"{count / min(used) / 1e6:.1f} million a second of processor time"
    details = f"{rate}, {count:,} cells, keys are UUIDs"
    return Outcome(name, "plain file of the same bytes", pair.time_ratio, None, "lower", details)


def _cells(count: int) -> pa.RecordBatch:
    keys = uuid_keys(count, seed=5).cast(pa.binary())
    random = np.random.default_rng(5)
    values = pa.array([random.bytes(20) for _ in range(_VALUES)], pa.binary())
    return pa.record_batch([keys.sort(), values.take(pa.array(random.integers(0, _VALUES, count)))], schema=CELLS)


def _write(path: Path, cells: pa.RecordBatch, codec: Codec) -> None:
    with path.open("wb") as file:
        write_hfile(file, [cells], None, compression=codec)


def _read(path: Path) -> Iterator[pa.RecordBatch]:
    with path.open("rb") as file:
        yield from HFileReader(file, path.stat().st_size).cells()
