"""What the benchmarks found: on the terminal, as JSON and as charts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.chart import write_chart
from benchmarks.measuring import Outcome


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
        write_chart(outcomes, folder / f"{name}.svg", name.replace("_", " "))
    goals = [outcome for outcomes in results.values() for outcome in outcomes if outcome.goal is not None]
    write_chart(goals, folder / "goals.svg", "Measured against its baseline")


def clear(folder: Path, names: Sequence[str]) -> None:
    """Remove what an earlier run of benchmarks left: beside new charts it would be taken for theirs."""
    for file in ("results.json", *(f"{name}.svg" for name in (*names, "goals"))):
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
