"""Writing and reading blocks of log files: cells beside a plain file of the same bytes, Avro records beside fastavro."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import fastavro
import numpy as np
import pyarrow as pa

from benchmarks.keys import uuid_keys
from benchmarks.measuring import Outcome, race
from rli.hudi.avro_schema import to_avro
from rli.hudi.hfile.cells import CELLS
from rli.hudi.log_file.avro_block import avro_block, avro_records
from rli.hudi.log_file.delete_block import delete_block, deletes
from rli.hudi.log_file.delete_records import deleted_records
from rli.hudi.log_file.hfile_block import hfile_blocks, hfile_of
from rli.hudi.log_file.reader import LogBlock, LogFileReader

_INSTANT: Final = "20250102030405006"
_PLAIN: Final = "plain file of the same bytes"
_SINGLE: Final = "fastavro, record by record"
_SINGLE_ROUNDS: Final = 3


def run(folder: Path, *, quick: bool) -> list[Outcome]:
    """Measure writing and reading of a million cells, deletes and records; fastavro gets a tenth of the records."""
    count = 20_000 if quick else 1_000_000
    keys = uuid_keys(count, seed=7)
    cells = pa.record_batch([keys.cast(pa.binary()).sort(), pa.repeat(pa.scalar(b"v" * 20), count)], schema=CELLS)
    deleted = deletes(keys, "record_index")
    return [
        *_beside_plain(
            folder, "HFile block", count, lambda: next(hfile_blocks(_INSTANT, cells, [count], "{}")), _read_cells
        ),
        *_beside_plain(folder, "delete block", count, lambda: delete_block(_INSTANT, deleted, "{}"), _read_deletes),
        *_beside_single_records(_records(keys.slice(0, count // 10))),
    ]


def _beside_plain(
    folder: Path, name: str, count: int, encode: Callable[[], bytes], read: Callable[[LogBlock], None]
) -> list[Outcome]:
    path, plain, content = folder / f"{name}.log", folder / f"{name}.bin", encode()
    written = race(lambda: path.write_bytes(encode()), lambda: plain.write_bytes(content))
    found = race(lambda: _each(path, read), plain.read_bytes)
    return [
        _outcome(f"{name} {done}", _PLAIN, pair.time_ratio, count, min(pair.ours))
        for done, pair in (("written", written), ("read", found))
    ]


def _each(path: Path, read: Callable[[LogBlock], None]) -> None:
    with path.open("rb") as file:
        for block in LogFileReader(file, path.stat().st_size).blocks():
            read(block)


def _read_cells(block: LogBlock) -> None:
    for _ in hfile_of(block).cells():
        pass


def _read_deletes(block: LogBlock) -> None:
    for _ in deleted_records(block):
        pass


def _records(keys: pa.Array) -> pa.RecordBatch:
    """Records of ten columns, of all plain types."""
    random, count = np.random.default_rng(7), len(keys)
    cities = pa.array(["Rome", "Oslo", "Bern", "Paris"]).take(pa.array(random.integers(0, 4, count)))
    notes = pa.array(["x" * size for size in range(30)]).take(
        pa.array(random.integers(0, 30, count), mask=random.random(count) < 0.3)
    )
    return pa.record_batch({
        "id": keys,
        "city": cities,
        "ts": pa.array(random.integers(0, 2**40, count)),
        "amount": pa.array(random.random(count)),
        "number": pa.array(random.integers(-1000, 1000, count), pa.int32()),
        "moment": pa.array(random.integers(0, 2**50, count)).view(pa.timestamp("us", tz="UTC")),
        "day": pa.array(random.integers(0, 20_000, count), pa.int32()).view(pa.date32()),
        "is_new": pa.array(random.random(count) < 0.5),
        "price": pa.array(random.integers(0, 10**6, count)).cast(pa.decimal128(19, 0)),
        "note": notes,
    })  # fmt: skip


def _beside_single_records(records: pa.RecordBatch) -> list[Outcome]:
    schema = to_avro(records.schema, "table")
    encode = partial(avro_block, _INSTANT, [records], schema)
    (block,) = _blocks(encode())
    parsed: Any = fastavro.parse_schema(json.loads(schema))
    rows = records.to_pylist()
    written = race(encode, lambda: _write_single(rows, parsed), _SINGLE_ROUNDS)
    found = race(lambda: list(avro_records(block)), lambda: _read_single(block.content(), parsed), _SINGLE_ROUNDS)
    return [
        _outcome(f"Avro block {done}", _SINGLE, pair.time_ratio, records.num_rows, min(pair.ours))
        for done, pair in (("written", written), ("read", found))
    ]


def _blocks(content: bytes) -> list[LogBlock]:
    return list(LogFileReader(io.BytesIO(content), len(content)).blocks())


def _write_single(rows: list[dict[str, Any]], schema: Any) -> None:
    for row in rows:
        fastavro.schemaless_writer(io.BytesIO(), schema, row)


def _read_single(content: bytes, schema: Any) -> None:
    place = 8
    while place < len(content):
        (size,) = struct.unpack_from(">i", content, place)
        fastavro.schemaless_reader(io.BytesIO(content[place + 4 : place + 4 + size]), schema, None)
        place += 4 + size


def _outcome(name: str, baseline: str, ratio: float, count: int, seconds: float) -> Outcome:
    details = f"{count / seconds / 1e6:.1f} million a second, {count:,} of them"
    return Outcome(name, baseline, ratio, None, "lower", details)
