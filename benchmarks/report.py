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
from benchmarks.measuring import Outcome
from benchmarks.panels import write_panels

_PEERS: Final = "peers"
_OVERVIEW: Final = "overview"
_OPERATIONS: Final = ("upsert", "delete", "look up", "tag")
_WELL_KNOWN: Final = ("Hudi 1.2.0, RECORD_INDEX", "Delta Lake", "Iceberg")
"""What the names of the peers begin with that newcomers compare rli with."""


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
        if name != _PEERS:
            write_chart(outcomes, folder / f"{name}.svg", name.replace("_", " "))
    goals = [outcome for outcomes in results.values() for outcome in outcomes if outcome.goal is not None]
    write_chart(goals, folder / "goals.svg", "Measured against its baseline")
    if _PEERS in results:
        write_peers(results[_PEERS], folder / f"{_PEERS}.svg")
        write_overview(results[_PEERS], folder / f"{_OVERVIEW}.svg")


def write_peers(peers: Sequence[Outcome], path: Path) -> None:
    """Draw all figures of the benchmark ``peers``.

    Args:
        peers: the figures.
        path: of the chart.
    """
    write_panels(
        peers,
        path,
        "Speed of rli, in Spark on one machine, as a multiple of each peer's speed",
        "3.0: rli takes a third of the peer's time. Blue: rli is faster; amber: the peer is. Dashed line: equal speed. "
        "Each panel has a scale of its own.",
    )


def write_overview(peers: Sequence[Outcome], path: Path) -> None:
    """Draw what newcomers ask first: four operations beside three engines that they know.

    Args:
        peers: figures of the benchmark ``peers``.
        path: of the chart.
    """
    write_chart(
        list(_overview(peers)),
        path,
        "How many times as fast rli is, in Spark on one machine",
        "times the speed of the engine that is named; a dashed line is 1: as fast; each panel has a scale of its own",
    )


def _overview(peers: Sequence[Outcome]) -> Iterator[Outcome]:
    for operation in _OPERATIONS:
        for outcome in peers:
            if outcome.name == f"{operation}: times as fast" and outcome.baseline.startswith(_WELL_KNOWN):
                yield replace(outcome, name=operation, goal=None)


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
    table = Table("measured", "against", "figure", "goal", "", title=f"{name}: ratios, measured in this run")
    for outcome in outcomes:
        verdict = "[green]reached[/]" if outcome.reached else "[red]missed[/]"
        reached = "" if outcome.goal is None else verdict
        table.add_row(outcome.name, outcome.baseline, outcome.figure, outcome.target, reached)
    return table
