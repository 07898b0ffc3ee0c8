"""Each kind of index against Hudi's index of the same kind: tagging and upserts in Spark, in turns, in one run."""

from __future__ import annotations

import statistics
from dataclasses import replace
from pathlib import Path
from typing import Final

from benchmarks.measuring import Outcome
from benchmarks.peers.competitor import TAG, UPSERT, Competitor
from benchmarks.peers.engines import LMDB, RLI_INDEXES, Rli
from benchmarks.peers.families import FAMILIES
from benchmarks.peers.hudi import Hudi
from benchmarks.peers.rounds import OURS, competing, play
from benchmarks.peers.workload import make_workload
from rli.index.registry import is_kind

_HUDI: Final = "Hudi 1.2.0"

_SAME: Final = {
    LMDB: "RECORD_INDEX",
    "simple": "SIMPLE",
    "global-simple": "GLOBAL_SIMPLE",
    "bloom": "BLOOM",
    "global-bloom": "GLOBAL_BLOOM",
    "bucket": "BUCKET",
}
"""Our kinds, by the names of their engines, and Hudi's. Hudi's consistent buckets need merge-on-read, and its index in memory
lives no longer than a write."""

_GOALS: Final = {TAG: 4.0, UPSERT: 3.0}
"""How many times the speed of Hudi's kind."""


def run(folder: Path, *, quick: bool) -> list[Outcome]:
    """Load, then upsert and delete in turns; all tables are compared with what they must hold."""
    rows, batches = (20_000, 1) if quick else (200_000, 3)
    same = {ours: theirs for ours, theirs in _SAME.items() if ours == LMDB or is_kind(RLI_INDEXES[ours])}
    # Without moves: a record of another partition is another record to half of the kinds.
    warm_up = make_workload(folder, "warm-up", rows // 10, 1, moved_share=0)
    workload = make_workload(folder, "rows", rows, batches, moved_share=0)
    families = {
        OURS: replace(FAMILIES[OURS], engines=dict.fromkeys(same, Rli)),
        _HUDI: replace(FAMILIES[_HUDI], engines=dict.fromkeys(same.values(), Hudi)),
    }
    with competing(folder, families) as competitors:
        play(warm_up, [competitor.with_another_table("warm-up") for competitor in competitors], 0, 1)
        play(workload, competitors, 0, batches)
        wrong = {competitor.name: errors for competitor in competitors if (errors := competitor.errors())}
    if wrong:
        raise RuntimeError(f"tables are wrong: {wrong}")
    by_engine = {competitor.engine: competitor for competitor in competitors}
    about = f"{rows:,} rows in 20 partitions at first; each of {batches} batches updates and inserts 10 %, then deletes 1 %; local[2]"
    return [
        _outcome(operation, by_engine[ours], by_engine[theirs], about)
        for operation in (TAG, UPSERT)
        for ours, theirs in same.items()
    ]


def _outcome(operation: str, ours: Competitor, theirs: Competitor, about: str) -> Outcome:
    taken, baseline = theirs.seconds[operation], ours.seconds[operation]
    return Outcome(
        f"{operation}, {ours.engine}: times as fast",
        theirs.name,
        statistics.median(taken[number] / baseline[number] for number in taken),
        _GOALS[operation],
        "higher",
        f"median of {len(taken)}; {about}",
    )
