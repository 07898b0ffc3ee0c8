"""Tables of 20 million rows in files of about 100 MB: rli on LMDB and Redis beside Hudi, Delta Lake, Iceberg and Paimon.

The others run as their users run them: copy-on-write, and merge-on-read or with deletion vectors.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import rli
from benchmarks.measuring import Outcome, Unit, seconds
from benchmarks.parquet_files import live_files, rewrite
from benchmarks.peers.competitor import LOAD, OPERATIONS, UPSERT, Competitor
from benchmarks.peers.engines import LMDB, REDIS
from benchmarks.peers.families import FAMILIES
from benchmarks.peers.rounds import OURS, competing, play, warm_up
from benchmarks.peers.workload import Workload, make_workload

_ENGINES: Final = {
    OURS: (LMDB, REDIS),
    "Hudi 1.2.0": ("RECORD_INDEX", "RECORD_INDEX merge-on-read"),
    "Delta Lake 3.3.2": ("MERGE", "MERGE with deletion vectors"),
    "Iceberg 1.10.0": ("MERGE", "MERGE merge-on-read"),
    "Paimon 0.9.0": ("INSERT", "INSERT with deletion vectors"),
}

_HEAPS: Final = {OURS: "4g", "Hudi 1.2.0": "8g", "Delta Lake 3.3.2": "4g", "Iceberg 1.10.0": "4g", "Paimon 0.9.0": "4g"}
"""With 4 GiB, the load of 20 million rows fails in Hudi."""

_OPTIONS: Final = {"Hudi 1.2.0": {"hoodie.metadata.record.index.min.filegroup.count": "20"}}
"""By family: what a large table needs. Hudi sorts the entries of a file group of its record index in memory."""

_IN_SMALLER_ALONE: Final = frozenset(
    {"Hudi 1.2.0, RECORD_INDEX merge-on-read", "Paimon 0.9.0, INSERT", "Paimon 0.9.0, INSERT with deletion vectors"}
)
"""Left out of the larger table, so that a run takes less than 90 minutes."""

_GOALS: Final = {
    (LOAD, "Delta Lake 3.3.2, MERGE"): 0.9,
    (UPSERT, "Hudi 1.2.0, RECORD_INDEX"): 6.0,
    (UPSERT, "Delta Lake 3.3.2, MERGE"): 2.0,
    (UPSERT, "Delta Lake 3.3.2, MERGE with deletion vectors"): 1.5,
}
"""How many times the speed of the peer rli on LMDB is to reach."""

_SHARE_OF_LIMIT: Final = 0.5

_NOT_DONE: Final = {
    "Hudi 1.2.0": "its clean and its statistics of columns are off",
    "Delta Lake 3.3.2": "has no index, no check of key uniqueness, no clean",
    "Iceberg 1.10.0": "has no index, no check of key uniqueness, no clean",
    "Paimon 0.9.0": "keeps no index between writes, compares no ordering values",
}
"""What each peer leaves out, by family."""


def run(folder: Path, *, quick: bool) -> list[Outcome]:
    """Load, upsert, delete and look up in turns; all tables are compared with what they must hold.

    A smaller table of a tenth of the rows is loaded three times in alternating order: a single load tells little.
    """
    rows = 20_000 if quick else 20_000_000
    families = {
        family: replace(FAMILIES[family], engines={name: FAMILIES[family].engines[name] for name in names})
        for family, names in _ENGINES.items()
    }
    smaller, larger = (make_workload(folder, f"rows-{count}", count, 1) for count in (rows // 10, rows))
    with competing(folder, families, _HEAPS) as made:
        competitors = [replace(one, options={**one.options, **_OPTIONS.get(one.family, {})}) for one in made]
        warm_up(make_workload(folder, "warm-up", rows // 100, 1), competitors)
        few = [competitor.with_another_table("smaller") for competitor in competitors]
        play(smaller, few, 0, 1, loads=3)
        competitors = [competitor for competitor in competitors if competitor.name not in _IN_SMALLER_ALONE]
        play(larger, competitors, 0, 1)
        outcomes = [*_outcomes(competitors, larger), *_outcomes(few, smaller)]
        limit = _seconds_of_rewriting(folder / "tables-0" / LMDB)
    return [
        *outcomes,
        Outcome(
            f"upsert of {larger.rows:,} rows: share of the physical limit",
            "pyarrow reading and writing the same files",
            limit / competitors[0].seconds[UPSERT][0],
            _SHARE_OF_LIMIT,
            "higher",
            "the base files of the table on LMDB, as many at once as there are cores",
            Unit.SHARE,
        ),
    ]


def _outcomes(competitors: list[Competitor], workload: Workload) -> Iterator[Outcome]:
    """The figures of a table, and what was wrong with those of the peers; raises ``RuntimeError`` if one of ours is."""
    ours = [competitor for competitor in competitors if competitor.family == OURS]
    others = [competitor for competitor in competitors if competitor.family != OURS]
    errors = {competitor.name: competitor.errors() for competitor in competitors}
    if any(errors[our.name] for our in ours):
        raise RuntimeError(f"tables are wrong: {errors}")
    for operation in OPERATIONS:
        for our in ours:
            for other in others:
                taken, baseline = other.seconds[operation], our.seconds[operation]
                if not taken:
                    # It failed, or does not show when it knows where records go.
                    continue
                yield Outcome(
                    f"{workload.rows:,} rows, {our.engine}, {operation}: times as fast",
                    other.name,
                    statistics.median(taken[number] / baseline[number] for number in taken),
                    _GOALS.get((operation, other.name)) if our.engine == LMDB else None,
                    "higher",
                    f"median of {len(taken)}; {workload.rows:,} rows in 20 partitions at first; the batch updates and inserts "
                    f"10 %, moves 1 %, then deletes 1 %; local[2]; the peer {_NOT_DONE[other.family]}{errors[other.name]}",
                )


def _seconds_of_rewriting(table_folder: Path) -> float:
    """What pyarrow takes to read all current base files of a table and to write them again."""
    with rli.open_table(table_folder) as table:
        files = live_files(table)
    return seconds(lambda: rewrite(files, table_folder.with_name("rewritten")))
