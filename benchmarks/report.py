"""What the benchmarks found: on the terminal, as JSON and as charts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from benchmarks.chart import write_chart
from benchmarks.first_run import JOB
from benchmarks.measuring import Outcome
from benchmarks.panels import write_panels

_PEERS: Final = "peers"
_LARGE: Final = "large_tables"
_FIRST_RUN: Final = "first_run"
_OVERVIEW: Final = "overview"
_OPERATIONS: Final = ("upsert", "delete", "look up")
_WORKLOAD: Final = "20,000,000 rows, LMDB"
_WELL_KNOWN: Final = ("Hudi 1.2.0, RECORD_INDEX", "Delta Lake 3.3.2, MERGE", "Iceberg 1.10.0, MERGE")
"""The peers that newcomers compare rli with, as they are without settings."""

_TIMES_AS_FAST: Final = ": times as fast"


def as_json(results: Mapping[str, list[Outcome]]) -> str:
    """The figures by benchmark."""
    listed = {
        name: [{**asdict(outcome), "reached": outcome.reached} for outcome in outcomes]
        for name, outcomes in results.items()
    }
    return json.dumps(listed, indent=1)


def save(results: Mapping[str, list[Outcome]], folder: Path) -> None:
    """Write all figures as JSON, a chart of each benchmark, and one of all that have a goal."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(as_json(results))
    for name, outcomes in results.items():
        if name not in {_PEERS, _LARGE}:
            write_chart(outcomes, folder / f"{name}.svg", name.replace("_", " "))
    goals = [outcome for outcomes in results.values() for outcome in outcomes if outcome.goal is not None]
    write_chart(goals, folder / "goals.svg", "Measured against its baseline")
    if _PEERS in results:
        write_peers(results[_PEERS], folder / f"{_PEERS}.svg")
    if _LARGE in results:
        write_peers(results[_LARGE], folder / f"{_LARGE}.svg")
        write_overview(results[_LARGE], results.get(_FIRST_RUN, ()), folder / f"{_OVERVIEW}.svg")


def write_peers(outcomes: Sequence[Outcome], path: Path) -> None:
    """Draw how many times as fast as other engines rli is.

    Args:
        outcomes: figures of the benchmark ``peers`` or ``large_tables``.
        path: of the chart.
    """
    write_panels(
        [outcome for outcome in outcomes if outcome.name.endswith(_TIMES_AS_FAST)],
        path,
        "Speed of rli, in Spark on one machine, as a multiple of each peer's speed",
        "3.0: rli takes a third of the peer's time. Blue: rli is faster; amber: the peer is. Dashed line: equal speed. "
        "Each panel has a scale of its own.",
    )


def write_overview(large: Sequence[Outcome], first_run: Sequence[Outcome], path: Path) -> None:
    """Draw what newcomers ask first: three operations, and a job of one load, beside three engines that they know.

    Args:
        large: figures of the benchmark ``large_tables``.
        first_run: figures of the benchmark of this name.
        path: of the chart.
    """
    write_chart(
        list(_overview(large, first_run)),
        path,
        "How many times as fast rli is, in Spark on one machine",
        "tables of 20 million rows; the first run is a job that loads 600,000; a dashed line is 1: as fast; each panel has its scale",
    )


def _overview(large: Sequence[Outcome], first_run: Sequence[Outcome]) -> Iterator[Outcome]:
    for operation in _OPERATIONS:
        for outcome in large:
            if outcome.name == f"{_WORKLOAD}, {operation}{_TIMES_AS_FAST}" and outcome.baseline in _WELL_KNOWN:
                yield replace(outcome, name=operation, goal=None)
    for outcome in first_run:
        if outcome.name == f"{JOB}{_TIMES_AS_FAST}":
            yield replace(outcome, name=JOB)


def clear(folder: Path, names: Sequence[str]) -> None:
    """Remove what an earlier run of benchmarks left: beside new charts it would be taken for theirs."""
    for file in ("results.json", *(f"{name}.svg" for name in (*names, "goals", _OVERVIEW))):
        (folder / file).unlink(missing_ok=True)


def print_tables(results: Mapping[str, list[Outcome]]) -> None:
    """Print the figures of each benchmark."""
    console = Console()
    for name, outcomes in results.items():
        console.print(_table(name, outcomes))


def _table(name: str, outcomes: Sequence[Outcome]) -> Table:
    table = Table("measured", "against", "figure", "goal", "", "load", title=f"{name}: ratios, measured in this run")
    for outcome in outcomes:
        verdict = "[green]reached[/]" if outcome.reached else "[red]missed[/]"
        reached = "" if outcome.goal is None else verdict
        load = "" if outcome.load is None else f"{outcome.load:.1f}"
        table.add_row(outcome.name, outcome.baseline, outcome.figure, outcome.target, reached, load)
    return table
