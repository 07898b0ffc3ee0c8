"""Runs the benchmarks: ``python -m benchmarks [--quick | --large] [NAME …]``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from rich.console import Console

from benchmarks.measuring import Outcome
from benchmarks.report import as_json, clear, print_tables, save
from benchmarks.runner import LARGE, NAMES, run_all

_RESULTS: Final = Path("bench-results")


def main() -> int:
    """Run the chosen benchmarks, print their ratios, and write them as JSON and as charts.

    Returns the exit status: 1 if a benchmark failed. A goal that was missed is a result, not a failure.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    known = (*dict.fromkeys((*NAMES, *LARGE)),)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(known)}")
    parser.add_argument(
        "--large", action="store_true", help=f"{', '.join(LARGE)}: tables of 20 million rows, some hours"
    )
    parser.add_argument("--quick", action="store_true", help="smoke test with less data; figures are not meaningful")
    parser.add_argument("--output", type=Path, default=_RESULTS, help="folder for the results (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    chosen = parser.parse_args()
    unknown = set(chosen.names) - set(known)
    if unknown:
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    notes = Console(stderr=True)
    names = chosen.names or (LARGE if chosen.large else NAMES)
    results: dict[str, list[Outcome]] = {}
    clear(chosen.output, known)
    for name, outcomes in run_all(names, notes, quick=chosen.quick):
        results[name] = outcomes
        # What was measured is kept when the rest is stopped.
        save(results, chosen.output)
    if chosen.json:
        sys.stdout.write(as_json(results) + "\n")
    else:
        print_tables(results)
    if results:
        notes.print(f"written: {chosen.output}/results.json and charts")
    return 1 if results.keys() != set(names) else 0


if __name__ == "__main__":
    sys.exit(main())
