"""Each kind of index against Hudi's index of the same kind: tagging and upserts in Spark, in turns, in one run."""

from __future__ import annotations

import statistics
from dataclasses import replace
from pathlib import Path
from typing import Final

from benchmarks.measuring import Outcome
from benchmarks.peers.competitor import TAG, UPSERT, Competitor
from benchmarks.peers.engines import LMDB, Rli
from benchmarks.peers.hudi import CONSISTENT_HASHING, Hudi
from benchmarks.peers.products import PRODUCTS
from benchmarks.peers.rounds import OURS, competing, upsert_in_groups
from benchmarks.peers.workload import make_workload

_HUDI: Final = "Hudi 1.2.0"

_SAME: Final = {
    LMDB: "RECORD_INDEX",
    "simple": "SIMPLE",
    "global-simple": "GLOBAL_SIMPLE",
    "bloom": "BLOOM",
    "global-bloom": "GLOBAL_BLOOM",
    "bucket": "BUCKET",
    "consistent-bucket": CONSISTENT_HASHING,
}
"""Our kinds, by the names of their engines, and Hudi's. Hudi's index in memory lives no longer than a write."""

_GOALS: Final = {TAG: 3.0, UPSERT: 4.0}
"""How many times the speed of Hudi's kind."""

_REMARKS: Final = {CONSISTENT_HASHING: "; merge-on-read: Hudi writes log files, and rewrites no base file"}


def run(folder: Path, *, quick: bool) -> list[Outcome]:
    """Load, then upsert in turns; all tables are compared with what they must hold."""
    rows, batches = (20_000, 1) if quick else (200_000, 4)
    # Without moves: a record of another partition is another record to half of the kinds.
    warm_up = make_workload(folder, "warm-up", rows // 10, 1, moved_share=0, deleted_share=0)
    workload = make_workload(folder, "rows", rows, batches, moved_share=0, deleted_share=0)
    products = {
        OURS: replace(PRODUCTS[OURS], engines=dict.fromkeys(_SAME, Rli)),
        _HUDI: replace(PRODUCTS[_HUDI], engines=dict.fromkeys(_SAME.values(), Hudi)),
    }
    with competing(folder, products) as competitors:
        by_engine = {competitor.engine: competitor for competitor in competitors}
        pairs = [(by_engine[ours], by_engine[theirs]) for ours, theirs in _SAME.items()]
        upsert_in_groups(
            warm_up, [(a.with_another_table("warm-up"), b.with_another_table("warm-up")) for a, b in pairs]
        )
        upsert_in_groups(workload, pairs)
        wrong = {competitor.name: errors for competitor in competitors if (errors := competitor.errors())}
    if wrong:
        raise RuntimeError(f"tables are wrong: {wrong}")
    about = f"{rows:,} rows in 20 partitions at first; each of {batches} batches updates and inserts 10 %; local[2]"
    return [_outcome(operation, ours, theirs, about) for operation in (TAG, UPSERT) for ours, theirs in pairs]


def _outcome(operation: str, ours: Competitor, theirs: Competitor, about: str) -> Outcome:
    ours_took, theirs_took = (statistics.median(one.seconds[operation].values()) for one in (ours, theirs))
    return Outcome(
        f"{operation}, {ours.engine}: times as fast",
        theirs.name,
        ours.times_as_fast_as(theirs, operation),
        _GOALS[operation],
        "higher",
        f"median of {len(theirs.seconds[operation])}; {ours_took:.2f} s against {theirs_took:.2f} s; {about}"
        f"{_REMARKS.get(theirs.engine, '')}",
    )
