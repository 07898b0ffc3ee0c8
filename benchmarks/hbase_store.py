"""An index in HBase against plain rows in the same server, through the same Thrift gateway."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import happybase
import numpy as np
import pyarrow as pa

from benchmarks.keys import half_known, uuid_keys
from benchmarks.measuring import Outcome, Unit, race
from rli.codec import entries as codec
from rli.index.record.stored_index import StoredIndex
from tests.support.docker import running_service
from tests.support.services import HBASE_PORT
from tests.support.stored_indexes import create_index

_BATCH = 65_536
_PLAIN_BATCH = 1_000
_COLUMN = b"f:e"
_VALUE = b"12345678"


def run(folder: Path, *, quick: bool) -> list[Outcome]:
    """Measure look-ups, half of them hits, and writes."""
    _ = folder
    entries, looked_up = (50_000, 20_000) if quick else (500_000, 2 * _BATCH)
    keys = uuid_keys(entries, seed=1)
    wanted = half_known(keys, looked_up, seed=2)
    changed = keys.slice(0, looked_up)
    sequences = count(1)

    def put(index: StoredIndex, some: pa.Array) -> None:
        index.put(some, codec.pack(next(sequences), np.zeros(len(some), dtype=np.uint64)))

    with (
        running_service("hbase", ports=[HBASE_PORT], environment={"HBASE_HEAP": "2g"}) as service,
        create_index(f"hbase://{service.address(HBASE_PORT)}/?table=ours") as index,
    ):
        plain = _plain_table(service.host, service.ports[HBASE_PORT])
        put(index, keys)
        _put_plain(plain, keys.to_pylist())
        texts, changed_texts = wanted.to_pylist(), changed.to_pylist()
        look_up = race(lambda: index.get(wanted), lambda: _get_plain(plain, texts), rounds=3)
        write = race(lambda: put(index, changed), lambda: _put_plain(plain, changed_texts), rounds=3)
    about = f"{entries:,} UUID keys, {looked_up:,} at once; ours includes encoding and sharding"
    return [
        Outcome("HBase look-ups", "raw rows() of plain rows", look_up.speed_ratio, None, "higher", about, Unit.SHARE),
        Outcome("HBase writes", "raw batches of plain rows", write.speed_ratio, None, "higher", about, Unit.SHARE),
    ]


def _plain_table(host: str, port: int) -> happybase.Table:
    connection = happybase.Connection(host, port)
    connection.create_table("plain", {"f": {}})
    return connection.table("plain")


def _put_plain(table: happybase.Table, keys: list[str]) -> None:
    with table.batch(batch_size=_PLAIN_BATCH) as batch:
        for key in keys:
            batch.put(key.encode(), {_COLUMN: _VALUE})


def _get_plain(table: happybase.Table, keys: list[str]) -> None:
    for start in range(0, len(keys), _PLAIN_BATCH):
        table.rows([key.encode() for key in keys[start : start + _PLAIN_BATCH]], columns=[_COLUMN])
