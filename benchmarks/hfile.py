"""Writing and reading HFiles of the record index, beside a plain file of the same bytes."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.keys import uuid_keys
from benchmarks.measuring import Outcome, Pair, race
from rli.hudi.hfile.blocks import Codec
from rli.hudi.hfile.cells import CELLS
from rli.hudi.hfile.reader import HFileReader
from rli.hudi.hfile.writer import write_hfile

_VALUES = 8
"""Different values of a file: one of each file group that a commit wrote."""


def run(folder: Path, *, quick: bool) -> list[Outcome]:
    """Measure both directions without compression, and with gzip, as Hudi writes."""
    cells = _record_index(100_000 if quick else 1_000_000)
    return [outcome for codec in (Codec.NONE, Codec.GZIP) for outcome in _measured(folder, cells, codec)]


def _measured(folder: Path, cells: pa.RecordBatch, codec: Codec) -> list[Outcome]:
    path, plain = folder / f"{codec.name}.hfile", folder / f"{codec.name}.bin"
    _write(path, cells, codec)
    content = path.read_bytes()
    written = race(partial(_write, path, cells, codec), partial(plain.write_bytes, content))
    read = race(partial(_read, path), plain.read_bytes)
    return [_outcome("written", codec, written, cells.num_rows), _outcome("read", codec, read, cells.num_rows)]


def _record_index(count: int) -> pa.RecordBatch:
    keys = uuid_keys(count, seed=5).cast(pa.binary())
    random = np.random.default_rng(5)
    values = pa.array([random.bytes(20) for _ in range(_VALUES)], pa.binary())
    return pa.record_batch([keys.sort(), values.take(pa.array(random.integers(0, _VALUES, count)))], schema=CELLS)


def _write(path: Path, cells: pa.RecordBatch, codec: Codec) -> None:
    with path.open("wb") as file:
        write_hfile(file, [cells], None, compression=codec)


def _read(path: Path) -> None:
    with path.open("rb") as file:
        for _ in HFileReader(file, path.stat().st_size).cells():
            pass


def _outcome(done: str, codec: Codec, pair: Pair, count: int) -> Outcome:
    details = f"{count / min(pair.ours) / 1e6:.1f} million cells a second, {count:,} cells, keys are UUIDs"
    name = f"HFile {done}, compression {codec.name.lower()}"
    return Outcome(name, "plain file of the same bytes", pair.time_ratio, None, "lower", details)
