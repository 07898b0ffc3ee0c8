"""Runs the benchmarks: ``python -m benchmarks [--quick] [NAME …]``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from benchmarks.chart import write_chart
from benchmarks.measuring import Outcome

NAMES: Final = (
    "lmdb_lookup",
    "index_size",
    "redis_store",
    "upsert_memory",
    "spark_tag",
    "spark_stores",
    "peers",
)
_RESULTS: Final = Path("bench-results")


def main() -> int:
    """Run the chosen benchmarks, print their ratios, and write them as JSON and as charts; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(NAMES)}; all by default")
    parser.add_argument("--quick", action="store_true", help="less data: shows that they run, not what holds")
    parser.add_argument("--output", type=Path, default=_RESULTS, help="folder for the results (default: %(default)s)")
    chosen = parser.parse_args()
    unknown = set(chosen.names) - set(NAMES)
    if unknown:
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    console = Console()
    results, failed = _run_all(chosen.names or NAMES, chosen.quick, console)
    _save(results, chosen.output)
    for name, outcomes in results.items():
        console.print(_table(name, outcomes))
    console.print(f"written: {chosen.output}/results.json and charts")
    return 1 if failed else 0


def _run_all(names: Sequence[str], quick: bool, console: Console) -> tuple[dict[str, list[Outcome]], list[str]]:
    """The figures of each benchmark, and the names of those that failed; each runs in a process of its own."""
    results: dict[str, list[Outcome]] = {}
    failed: list[str] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=len(names))
        for name in names:
            progress.update(task, description=name)
            with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as process:
                try:
                    results[name] = process.submit(_run, name, quick).result()
                except Exception as error:  # noqa: BLE001  (whatever went wrong is told, and the others go on)
                    failed.append(name)
                    progress.console.print(f"[red]failed:[/] {name}: {escape(str(error))}")
            progress.advance(task)
    return results, failed


def _run(name: str, quick: bool) -> list[Outcome]:
    with TemporaryDirectory() as folder:
        outcomes: list[Outcome] = import_module(f"benchmarks.{name}").run(Path(folder), quick=quick)
        return outcomes


def _save(results: Mapping[str, list[Outcome]], folder: Path) -> None:
    """Write all figures as JSON, a chart of each benchmark, and one of all that have a goal."""
    folder.mkdir(parents=True, exist_ok=True)
    listed = {
        name: [{**asdict(outcome), "reached": outcome.reached} for outcome in outcomes]
        for name, outcomes in results.items()
    }
    (folder / "results.json").write_text(json.dumps(listed, indent=1))
    for name, outcomes in results.items():
        write_chart(outcomes, folder / f"{name}.svg", name.replace("_", " "))
    goals = [outcome for outcomes in results.values() for outcome in outcomes if outcome.goal is not None]
    write_chart(goals, folder / "goals.svg", "Measured against its baseline")


def _table(name: str, outcomes: Sequence[Outcome]) -> Table:
    table = Table("measured", "against", "figure", "goal", "", title=f"{name}: ratios, measured in this run")
    for outcome in outcomes:
        goal = reached = ""
        if outcome.goal is not None:
            goal = f"{'≥' if outcome.better == 'higher' else '≤'} {outcome.goal:g}"
            reached = "[green]reached[/]" if outcome.reached else "[red]missed[/]"
        table.add_row(outcome.name, outcome.baseline, f"{outcome.ratio:.2f}", goal, reached)
    return table


if __name__ == "__main__":
    sys.exit(main())
