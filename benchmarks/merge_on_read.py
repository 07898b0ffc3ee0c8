"""Upserts and deletes of 1 % random keys in Spark: a merge-on-read table by rli beside its copy-on-write table and other engines.

``python -m benchmarks.merge_on_read FOLDER [ROWS]`` measures another size.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from shutil import rmtree
from statistics import median
from typing import Final, NamedTuple

from benchmarks.large_tables import HEAPS, with_options
from benchmarks.measuring import Outcome, Unit, processor_seconds
from benchmarks.peers.competitor import DELETE, UPSERT, Competitor
from benchmarks.peers.engines import LMDB, LMDB_MERGE_ON_READ
from benchmarks.peers.products import PRODUCTS
from benchmarks.peers.rounds import OURS, competing, noting_failure, warm_up
from benchmarks.peers.workload import Batch, Workload, make_workload

_ENGINES: Final = {
    OURS: (LMDB_MERGE_ON_READ, LMDB),
    "Delta Lake 3.3.2": ("MERGE with deletion vectors",),
    "Iceberg 1.10.0": ("MERGE merge-on-read",),
    "Hudi 1.2.0": ("RECORD_INDEX merge-on-read",),
}

_GOALS: Final = {
    f"{OURS}, {LMDB}": 5.0,
    "Delta Lake 3.3.2, MERGE with deletion vectors": 3.0,
    "Iceberg 1.10.0, MERGE merge-on-read": 2.0,
    "Hudi 1.2.0, RECORD_INDEX merge-on-read": 8.0,
}
"""How many times its speed the merge-on-read table of rli is to reach."""

_SHARE: Final = 0.01
_BATCHES: Final = 3


class Cost(NamedTuple):
    """What an operation cost an engine.

    Attributes:
        seconds: from its begin to its end.
        processor: seconds of processor time, of Spark and its workers.
        written: bytes of new files of the table.
    """

    seconds: float
    processor: float
    written: float


@dataclass(slots=True)
class Played:
    """An engine that plays the batches.

    Attributes:
        competitor: the engine.
        folder: of its table.
        loaded: what the load cost; None before it.
        costs: of each batch, by operation.
        errors: what is wrong with the table in the end; empty if it is right.
    """

    competitor: Competitor
    folder: Path
    loaded: Cost | None = None
    costs: dict[str, list[Cost]] = field(default_factory=lambda: {UPSERT: [], DELETE: []})
    errors: str = ""

    def load(self, workload: Workload) -> None:
        """Make the table."""
        self.loaded = self._cost(lambda: self.competitor.load(workload))

    def play(self, number: int, batch: Batch) -> None:
        """Upsert and delete, unless the engine has failed."""
        if self.competitor.has_failed:
            return
        with noting_failure(self.competitor):
            self.costs[UPSERT].append(self._cost(lambda: self.competitor.upsert(number, batch)))
            self.costs[DELETE].append(self._cost(lambda: self.competitor.delete(number, batch)))

    def median(self, operation: str) -> Cost:
        """The cost of an operation: medians of the batches.

        Where Spark ends idle workers, the processor time of an operation is too small by theirs.
        """
        return Cost(*map(median, zip(*self.costs[operation], strict=True)))

    def amplification(self, operation: str) -> float:
        """Bytes written for each byte of the records that an operation changes, as the table holds them at first."""
        assert self.loaded is not None
        return self.median(operation).written / (self.loaded.written * _SHARE)

    def _cost(self, operation: Callable[[], None]) -> Cost:
        number, sizes = self.competitor.process.number, _sizes(self.folder)
        began, before = time.monotonic(), processor_seconds(number)
        operation()
        taken, processor = time.monotonic() - began, processor_seconds(number) - before
        written = sum(max(0, size - sizes.get(path, 0)) for path, size in _sizes(self.folder).items())
        sys.stderr.write(f"of which processor time {processor:.1f} s; {written:,} bytes written\n")
        return Cost(taken, processor, float(written))


def run(folder: Path, *, quick: bool) -> list[Outcome]:
    """Load, then upsert and delete three times; all tables are compared with what they must hold."""
    return measure(folder, 20_000 if quick else 20_000_000)


def measure(folder: Path, rows: int) -> list[Outcome]:
    """The same with tables of so many rows.

    Args:
        folder: of the tables.
        rows: of each table.
    """
    first, workload = _workload(folder, max(rows // 100, 10_000), 1), _workload(folder, rows, _BATCHES)
    ours, *others = [one for product in _ENGINES for one in _played(folder, product, first, workload)]
    if ours.errors:
        raise RuntimeError(f"the table is wrong: {ours.errors}")
    return [
        outcome
        for operation in (UPSERT, DELETE)
        for other in others
        if len(other.costs[operation]) == _BATCHES
        for outcome in _outcomes(operation, ours, other, rows)
    ]


def _workload(folder: Path, rows: int, batches: int) -> Workload:
    return make_workload(
        folder,
        f"rows-{rows}",
        rows,
        batches,
        updated_shares=(_SHARE,),
        moved_share=0,
        deleted_share=_SHARE,
        inserts=False,
    )


def _played(folder: Path, name: str, first: Workload, workload: Workload) -> list[Played]:
    """The engines of a product, in a folder that is removed afterwards: all products together need too much memory."""
    product = replace(PRODUCTS[name], engines={engine: PRODUCTS[name].engines[engine] for engine in _ENGINES[name]})
    own = folder / name.replace(" ", "-")
    own.mkdir()
    with competing(own, {name: product}, HEAPS) as made:
        competitors = with_options(made)
        warm_up(first, competitors)
        played = [Played(one, own / "tables-0" / one.table) for one in competitors]
        for one in played:
            one.load(workload)
        for number, batch in enumerate(workload.batches):
            for one in played:
                one.play(number, batch)
        for one in played:
            one.errors = one.competitor.errors()
    rmtree(own)
    return played


def _outcomes(operation: str, ours: Played, other: Played, rows: int) -> Iterator[Outcome]:
    mine, theirs = ours.median(operation), other.median(operation)
    name = other.competitor.name
    about = (
        f"{rows:,} rows in 20 partitions, {operation} of {_SHARE:.0%} random keys in Spark, local[2]; medians of "
        f"{_BATCHES} batches{other.errors}"
    )
    for what, taken, taken_by_other in (
        ("", mine.seconds, theirs.seconds),
        (", processor time", mine.processor, theirs.processor),
    ):
        yield Outcome(
            f"{operation}{what}: times as fast",
            name,
            taken_by_other / taken,
            _GOALS[name],
            "higher",
            f"{about}; {taken:.1f} s against {taken_by_other:.1f} s",
        )
    yield Outcome(
        f"{operation}: bytes written",
        name,
        mine.written / theirs.written,
        None,
        "lower",
        f"{about}; {ours.amplification(operation):.2f} against {other.amplification(operation):.2f} bytes for each changed "
        "byte, those of an index outside of the table left out",
        Unit.SHARE,
    )


def _sizes(folder: Path) -> dict[Path, int]:
    """The bytes of each file below a folder."""
    return {path: path.stat().st_size for path in folder.rglob("*") if path.is_file()}


if __name__ == "__main__":
    for outcome in measure(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 20_000_000):
        sys.stdout.write(f"{outcome.name} against {outcome.baseline}: {outcome.figure} ({outcome.details})\n")
