"""Runs the benchmarks: ``python -m benchmarks [--quick] [NAME …]``."""

from __future__ import annotations

import argparse
import importlib
import json
import tempfile
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.chart import write_chart
from benchmarks.measuring import Outcome

NAMES = ("lmdb_lookup", "index_size", "redis_store", "upsert_memory", "spark_tag", "spark_stores")
RESULTS = Path("bench-results")


def main() -> None:
    """Run the chosen benchmarks, print their ratios, and write them as JSON and as a chart."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(NAMES)}; all by default")
    parser.add_argument("--quick", action="store_true", help="less data: shows that they run, not what holds")
    chosen = parser.parse_args()
    unknown = set(chosen.names) - set(NAMES)
    if unknown:
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    console = Console()
    outcomes: list[Outcome] = []
    for name in chosen.names or NAMES:
        with tempfile.TemporaryDirectory() as folder, console.status(f"running {name}"):
            outcomes += importlib.import_module(f"benchmarks.{name}").run(Path(folder), quick=chosen.quick)
    RESULTS.mkdir(exist_ok=True)
    listed = [{**asdict(outcome), "reached": outcome.reached} for outcome in outcomes]
    (RESULTS / "results.json").write_text(json.dumps(listed, indent=1))
    write_chart(outcomes, RESULTS / "results.svg")
    console.print(_table(outcomes))
    console.print(f"written: {RESULTS / 'results.json'}, {RESULTS / 'results.svg'}")


def _table(outcomes: list[Outcome]) -> Table:
    table = Table("measured", "against", "figure", "goal", "", title="Ratios, measured in this run")
    for outcome in outcomes:
        sign = "≥" if outcome.better == "higher" else "≤"
        reached = "[green]reached[/]" if outcome.reached else "[red]missed[/]"
        table.add_row(outcome.name, outcome.baseline, f"{outcome.ratio:.2f}", f"{sign} {outcome.goal:g}", reached)
    return table


if __name__ == "__main__":
    main()
