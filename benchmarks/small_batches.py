"""A stream of small batches into a merge-on-read table, beside a copy-on-write table and other engines that compact inline.

Other engines get fewer batches: beside them, each figure is that of a batch.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.keys import uuid_keys
from benchmarks.measuring import Outcome, processor_seconds, written_bytes
from benchmarks.peers.competitor import Competitor
from benchmarks.peers.products import PRODUCTS
from benchmarks.peers.rounds import competing, noting_failure
from benchmarks.stream import OF_COPY_ON_WRITE, SMALL_BATCH, StreamCost, compared_streams, costs_by_type
from benchmarks.table_types import batch_of, first_records
from tests.support.orders import OrderError

_ENGINES: Final = {"Hudi 1.2.0": "RECORD_INDEX merge-on-read", "Paimon 0.9.0": "INSERT"}
_OPTIONS: Final = {
    # As its users set it for such a stream; the others do it by themselves.
    "Hudi 1.2.0": {"hoodie.compact.inline": "true", "hoodie.clean.automatic": "true"},
}
_WARM_UP: Final = 2
"""Batches that do not count."""


def run(folder: Path, *, quick: bool) -> list[Outcome]:
    """500 batches into 200,000 records by rli, and 20 by each of the others, of which Hudi compacts four times."""
    records, batches, of_others = (20_000, 20, 6) if quick else (200_000, 500, 20)
    keys = uuid_keys(records, seed=0)
    of_stream = [batch_of(keys, SMALL_BATCH, number) for number in range(max(batches, of_others + _WARM_UP))]
    ours, rewriting = costs_by_type(folder, keys, of_stream[:batches])
    products = {
        name: replace(PRODUCTS[name], engines={engine: PRODUCTS[name].engines[engine]})
        for name, engine in _ENGINES.items()
    }
    of_rli = (
        f"{batches} batches of {SMALL_BATCH} random keys into {records:,} records of ten columns, compactions included"
    )
    outcomes = compared_streams(OF_COPY_ON_WRITE, ours, rewriting, of_rli)
    with competing(folder, products) as competitors:
        for other in competitors:
            about = (
                f"batches of {SMALL_BATCH} random keys into {records:,} records of ten columns, compactions included; "
                f"{batches} by rli in Python, {of_others} by the other engine in a warm Spark, figures of a batch"
            )
            with noting_failure(other):
                theirs = _played(other, folder / "batches", first_records(keys), of_stream[: of_others + _WARM_UP])
                outcomes += compared_streams(other.name, ours.of_each(batches), theirs.of_each(of_others), about)
    return outcomes


def _played(other: Competitor, folder: Path, first: pa.Table, batches: Sequence[pa.Table]) -> StreamCost:
    """What the batches behind the first ones cost another engine."""
    folder.mkdir(exist_ok=True)
    files = [folder / f"{number}.parquet" for number in range(len(batches) + 1)]
    for path, rows in zip(files, [first, *batches], strict=True):
        pq.write_table(rows, path)
    order, number = other.process.order, other.process.number
    options = _OPTIONS.get(other.product, {})
    order("load", table=other.table, engine=other.engine, options=options, source=str(files[0]))
    for path in files[1 : _WARM_UP + 1]:
        order("upsert", table=other.table, source=str(path))
    before, processor, began = written_bytes(number), processor_seconds(number), time.monotonic()
    for path in files[_WARM_UP + 1 :]:
        order("upsert", table=other.table, source=str(path))
    cost = StreamCost(time.monotonic() - began, processor_seconds(number) - processor, written_bytes(number) - before)
    changed = batches[-1]["id"].to_pylist()
    _, found = order("look_up", table=other.table, keys=changed)
    if found != len(changed):
        raise OrderError(f"{other.name} has lost records: found={found} of={len(changed)}")
    return cost
