"""Indexes in Hudi's metadata table beside stores and beside Hudi's index of the same kind: upserts in Spark, in one run."""

from __future__ import annotations

import statistics
from dataclasses import replace
from pathlib import Path
from typing import Final

from benchmarks.measuring import Outcome
from benchmarks.peers.competitor import TAG, UPSERT, Competitor
from benchmarks.peers.engines import LMDB, REDIS, Rli
from benchmarks.peers.hudi import Hudi
from benchmarks.peers.products import PRODUCTS
from benchmarks.peers.rounds import OURS, competing, upsert_in_groups
from benchmarks.peers.workload import make_workload

_HUDI: Final = "Hudi 1.2.0"

_SAME: Final = {
    "record-index": "RECORD_INDEX",
    "bloom by metadata": "BLOOM by metadata",
    "global-bloom by metadata": "GLOBAL_BLOOM by metadata",
}
"""Our kinds, by the names of their engines, and Hudi's."""

_STORES: Final = (LMDB, REDIS)

_SHARES: Final = (0.0005, 0.005, 0.05)
"""Of the rows, that a batch updates and inserts: 1,000 keys, 1 % and 10 % of a table of a million rows."""


def run(folder: Path, *, quick: bool) -> list[Outcome]:
    """Load, then upsert batches of three sizes in turns; all tables are compared with what they must hold."""
    rows, rounds = (20_000, 1) if quick else (1_000_000, 3)
    batches = rounds * len(_SHARES)
    # Without moves: a record of another partition is another record to ``bloom:``.
    warm_up = make_workload(folder, "warm-up", rows // 20, 1, moved_share=0, deleted_share=0)
    workload = make_workload(folder, "rows", rows, batches, updated_shares=_SHARES, moved_share=0, deleted_share=0)
    products = {
        OURS: replace(PRODUCTS[OURS], engines=dict.fromkeys([*_SAME, *_STORES], Rli)),
        _HUDI: replace(PRODUCTS[_HUDI], engines=dict.fromkeys(_SAME.values(), Hudi)),
    }
    with competing(folder, products) as competitors:
        by_engine = {competitor.engine: competitor for competitor in competitors}
        stores = [by_engine[store] for store in _STORES]
        pairs = [(by_engine[ours], by_engine[theirs]) for ours, theirs in _SAME.items()]
        groups = [*pairs, stores]
        upsert_in_groups(warm_up, [[one.with_another_table("warm-up") for one in group] for group in groups])
        upsert_in_groups(workload, groups)
        wrong = {competitor.name: errors for competitor in competitors if (errors := competitor.errors())}
    if wrong:
        raise RuntimeError(f"tables are wrong: {wrong}")
    return [
        _outcome(operation, ours, theirs, size, rows)
        for operation in (TAG, UPSERT)
        for size in range(len(_SHARES))
        for ours, same in pairs
        for theirs in (same, *stores)
    ]


def _outcome(operation: str, ours: Competitor, theirs: Competitor, size: int, rows: int) -> Outcome:
    """The figure of the batches of a size."""
    numbers = range(size, len(ours.seconds[operation]), len(_SHARES))
    ours_took, theirs_took = (
        statistics.median(one.seconds[operation][number] for number in numbers) for one in (ours, theirs)
    )
    keys = 2 * int(rows * _SHARES[size])
    return Outcome(
        f"{operation} of {keys:,} keys, {ours.engine}: times as fast",
        theirs.name,
        ours.times_as_fast_as(theirs, operation, numbers),
        None,
        "higher",
        f"median of {len(numbers)}; {ours_took:.2f} s against {theirs_took:.2f} s; {rows:,} rows in 20 partitions at first; "
        "half of the keys of a batch are new; local[2]",
    )
