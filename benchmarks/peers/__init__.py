"""Other ways of upserting by key in Spark, on the same rows and the same Spark as rli, in turns with it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from benchmarks.measuring import Outcome
from benchmarks.peers.competitor import OPERATIONS, TAG, UPSERT, Competitor
from benchmarks.peers.engines import LMDB, Rli
from benchmarks.peers.hudi import BY_METADATA, CONSISTENT_HASHING, Hudi
from benchmarks.peers.products import PRODUCTS
from benchmarks.peers.rounds import competing, play, warm_up
from benchmarks.peers.workload import make_stream, make_workload

_RIVAL: Final = ("Hudi 1.2.0", "RECORD_INDEX")
_GOALS: Final = {TAG: 3.0, UPSERT: 5.0}
"""Against the rival: how many times its speed."""

_OF_HUDI: Final = {
    index: Hudi for index in PRODUCTS["Hudi 1.2.0"].engines if index not in {CONSISTENT_HASHING, *BY_METADATA}
}
_ALL: Final = {
    **PRODUCTS,
    "rli": replace(PRODUCTS["rli"], engines={LMDB: Rli}),
    "Hudi 1.2.0": replace(PRODUCTS["Hudi 1.2.0"], engines=_OF_HUDI),
}
_FEW: Final = {
    "rli": _ALL["rli"],
    "Hudi 1.2.0": replace(PRODUCTS["Hudi 1.2.0"], engines={"RECORD_INDEX": Hudi}),
}
"""For the quick form: rli and its rival."""


def run(folder: Path, *, quick: bool) -> list[Outcome]:
    """Load, tag, upsert, delete and look up with every engine; each figure is an engine's time over that of rli."""
    rows, batches = 200_000, 5
    first, synthetic = make_workload(folder, "warm-up", rows // 10, 1), make_workload(folder, "rows", rows, batches)
    stream = make_stream(folder, *((2, 20_000) if quick else (3, None)))
    with competing(folder, _FEW if quick else _ALL) as competitors:
        ours, *others = competitors
        rival = next(other for other in others if (other.product, other.engine) == _RIVAL)
        # The quick form plays the real stream alone, whose figures have floors.
        if not quick:
            warm_up(first, competitors)
            # Of the engines without a goal one batch tells enough.
            play(synthetic, competitors, 0, 1)
            play(synthetic, [ours, rival], 1, batches)
        our_stream, rival_stream = (competitor.with_another_table("stream") for competitor in (ours, rival))
        play(stream, [our_stream, rival_stream], 0, len(stream.batches))
        errors = {competitor.name: competitor.errors() for competitor in competitors}
        wrong = our_stream.errors() + rival_stream.errors()
    if errors[ours.name] or wrong:
        raise RuntimeError(f"the tables are wrong: rli={errors[ours.name]!r} after the real stream={wrong!r}")
    about = (
        f"{rows:,} rows in 20 partitions at first; each batch updates and inserts 10 %, moves 1 % and then deletes 1 %; "
        "rli's index in LMDB; local[2]"
    )
    about_stream = f"flight routes, {stream.rows:,} at first, batches of a month; rli's index in LMDB; local[2]"
    return [
        *(
            _outcome(f"{operation}: times as fast", operation, ours, other, f"{about}{errors[other.name]}")
            for operation in OPERATIONS
            for other in others
            if other.seconds[operation]
        ),
        *(
            _outcome(f"real stream, {operation}: times as fast", operation, our_stream, rival_stream, about_stream)
            for operation in OPERATIONS
            if rival_stream.seconds[operation]
        ),
    ]


def _outcome(name: str, operation: str, ours: Competitor, other: Competitor, about: str) -> Outcome:
    is_rival = (other.product, other.engine) == _RIVAL
    return Outcome(
        name,
        other.name,
        ours.times_as_fast_as(other, operation),
        _GOALS.get(operation) if is_rival else None,
        "higher",
        f"median of {len(other.seconds[operation])}; {about}",
    )
