"""Tables of 20 million rows in files of about 100 MB: rli on LMDB and Redis beside Hudi, Delta Lake, Iceberg and Paimon.

The others run as their users run them: copy-on-write, and merge-on-read or with deletion vectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from typing import Final

import rli
from benchmarks.measuring import Outcome, Unit, seconds
from benchmarks.parquet_files import live_files, rewrite
from benchmarks.peers.competitor import LOAD, OPERATIONS, UPSERT, Competitor
from benchmarks.peers.engines import LMDB, REDIS
from benchmarks.peers.products import PRODUCTS, Product
from benchmarks.peers.rounds import OURS, competing, play, warm_up
from benchmarks.peers.workload import Workload, make_workload

_ENGINES: Final = {
    OURS: (LMDB, REDIS),
    "Hudi 1.2.0": ("RECORD_INDEX", "RECORD_INDEX merge-on-read"),
    "Delta Lake 3.3.2": ("MERGE", "MERGE with deletion vectors"),
    "Iceberg 1.10.0": ("MERGE", "MERGE merge-on-read"),
    "Paimon 0.9.0": ("INSERT", "INSERT with deletion vectors"),
}

HEAPS: Final = {OURS: "4g", "Hudi 1.2.0": "8g", "Delta Lake 3.3.2": "4g", "Iceberg 1.10.0": "4g", "Paimon 0.9.0": "4g"}
"""With 4 GiB, the load of 20 million rows fails in Hudi."""

_OPTIONS: Final = {"Hudi 1.2.0": {"hoodie.metadata.record.index.min.filegroup.count": "20"}}
"""By product: what a large table needs. Hudi sorts the entries of a file group of its record index in memory."""

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
"""What each peer leaves out, by product."""


def run(folder: Path, *, quick: bool) -> list[Outcome]:
    """Load, upsert, delete and look up; all tables are compared with what they must hold.

    A smaller table of a tenth of the rows is played in turns, and loaded three times in alternating order: a single load tells
    little. The larger table is played by one product after the other: no machine of this kind has memory for all their heaps
    once they hold 20 million rows.
    """
    rows = 20_000 if quick else 20_000_000
    products = {
        product: replace(PRODUCTS[product], engines={name: PRODUCTS[product].engines[name] for name in names})
        for product, names in _ENGINES.items()
    }
    first, smaller, larger = (
        make_workload(folder, f"rows-{count}", count, 1) for count in (rows // 100, rows // 10, rows)
    )
    with competing(folder, products, HEAPS) as made:
        competitors = with_options(made)
        warm_up(first, competitors)
        few = [competitor.with_another_table("smaller") for competitor in competitors]
        play(smaller, few, 0, 1, loads=3)
        outcomes = list(_outcomes(few, _errors(few), smaller))
    played, errors, limit = list[Competitor](), dict[str, str](), 0.0
    for name, product in products.items():
        with _alone(folder / name.replace(" ", "-"), name, product) as competitors:
            warm_up(first, competitors)
            play(larger, competitors, 0, 1)
            played += competitors
            errors |= _errors(competitors)
            if name == OURS:
                limit = _seconds_of_rewriting(folder / OURS / "tables-0" / LMDB)
    return [
        *_outcomes(played, errors, larger),
        *outcomes,
        Outcome(
            f"upsert of {larger.rows:,} rows: share of the physical limit",
            "pyarrow reading and writing the same files",
            limit / played[0].seconds[UPSERT][0],
            _SHARE_OF_LIMIT,
            "higher",
            "the base files of the table on LMDB, as many at once as there are cores",
            Unit.SHARE,
        ),
    ]


@contextmanager
def _alone(folder: Path, name: str, product: Product) -> Iterator[list[Competitor]]:
    """The engines of a product that play the larger table, in a folder that is removed afterwards."""
    chosen = {engine: made for engine, made in product.engines.items() if f"{name}, {engine}" not in _IN_SMALLER_ALONE}
    if not chosen:
        yield []
        return
    folder.mkdir()
    with competing(folder, {name: replace(product, engines=chosen)}, HEAPS) as made:
        yield with_options(made)
    rmtree(folder)


def with_options(competitors: Sequence[Competitor]) -> list[Competitor]:
    """The same competitors, with the options that large tables need."""
    return [replace(one, options={**one.options, **_OPTIONS.get(one.product, {})}) for one in competitors]


def _errors(competitors: Sequence[Competitor]) -> dict[str, str]:
    """What is wrong with the table of each, by name; raises ``RuntimeError`` if one of ours is."""
    errors = {competitor.name: competitor.errors() for competitor in competitors}
    if any(errors[competitor.name] for competitor in competitors if competitor.product == OURS):
        raise RuntimeError(f"tables are wrong: {errors}")
    return errors


def _outcomes(competitors: Sequence[Competitor], errors: Mapping[str, str], workload: Workload) -> Iterator[Outcome]:
    """The figures of a table, and what was wrong with those of the peers."""
    ours = [competitor for competitor in competitors if competitor.product == OURS]
    others = [competitor for competitor in competitors if competitor.product != OURS]
    for operation in OPERATIONS:
        for our in ours:
            for other in others:
                if not other.seconds[operation]:
                    # It failed, or does not show when it knows where records go.
                    continue
                yield Outcome(
                    f"{workload.rows:,} rows, {our.engine}, {operation}: times as fast",
                    other.name,
                    our.times_as_fast_as(other, operation),
                    _GOALS.get((operation, other.name)) if our.engine == LMDB else None,
                    "higher",
                    f"median of {len(other.seconds[operation])}; {workload.rows:,} rows in 20 partitions at first; the batch "
                    "updates and inserts 10 %, moves 1 %, then deletes 1 %; local[2]; the peer "
                    f"{_NOT_DONE[other.product]}{errors[other.name]}",
                )


def _seconds_of_rewriting(table_folder: Path) -> float:
    """What pyarrow takes to read all current base files of a table and to write them again."""
    with rli.open_table(table_folder) as table:
        files = live_files(table)
    return seconds(lambda: rewrite(files, table_folder.with_name("rewritten")))
