"""Keeps the figures of whole runs, one file for each, and shows their trend: ``python -m benchmarks.history [NAME [RESULTS]]``.

With a name, such as ``0.2.0``, the results of the last whole run (``bench-results/results.json``) are kept under that name. In any case
``docs/benchmark-history.md`` is written anew from all kept runs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, Final

from benchmarks.measuring import Outcome, Unit

_REPOSITORY: Final = Path(__file__).resolve().parents[1]
KEPT: Final = _REPOSITORY / "benchmarks" / "runs"
PAGE: Final = _REPOSITORY / "docs" / "benchmark-history.md"
_RESULTS: Final = _REPOSITORY / "bench-results" / "results.json"
_FIELDS: Final = ("name", "baseline", "ratio", "goal", "better", "unit", "load")
_NONE: Final = "\N{EN DASH}"

_INTRODUCTION: Final = """\
# History of the benchmarks

The figures with a goal of whole runs of `make bench`, the newest on the right. `benchmarks/runs` keeps all figures of each run in a file;
`make bench-history NAME=0.2.0` keeps those of the last run, and writes this page anew. A release keeps its run under its version.

The last column is the newest figure divided by the one before. Each figure is a ratio of two ways of doing the same work in one run
([benchmarks](benchmarks.md)), so figures of different machines compare, as far as a busy machine slows both ways alike. "load" is the
load average of the machine, over the minute in which the benchmark began or ended, whichever was greater: the benchmark's own
processes count, one to three on an idle machine. The runs of November 2026 are read from their charts: their loads were not noted.
"""


@dataclass(frozen=True, slots=True)
class Run:
    """A whole run.

    Attributes:
        name: the version, or the date.
        date: as ``2026-11-22``.
        outcomes: its figures.
    """

    name: str
    date: str
    outcomes: tuple[Outcome, ...]

    @classmethod
    def read(cls, path: Path) -> Run:
        """A run that was kept."""
        kept = json.loads(path.read_text("utf-8"))
        return cls(path.stem, kept["date"], tuple(map(_outcome_of, kept["figures"])))

    @property
    def title(self) -> str:
        """Its name, and its date unless the name has it."""
        return self.name if self.name.startswith(self.date) else f"{self.name} ({self.date})"

    def of(self, shown: Outcome) -> Outcome | None:
        """Its figure of what another run measured, too."""
        return next((found for found in self.outcomes if _key(found) == _key(shown)), None)


def kept_runs(folder: Path = KEPT) -> list[Run]:
    """All kept runs, the oldest first."""
    return sorted(map(Run.read, folder.glob("*.json")), key=lambda run: (run.date, run.name))


def keep(name: str, results: Path, folder: Path = KEPT) -> Path:
    """Keep the results of a whole run under a name; returns its file."""
    measured: Mapping[str, Sequence[Mapping[str, Any]]] = json.loads(results.read_text("utf-8"))
    figures = [
        {field: outcome.get(field) for field in _FIELDS} for outcomes in measured.values() for outcome in outcomes
    ]
    date = datetime.fromtimestamp(results.stat().st_mtime, UTC).date().isoformat()
    path = folder / f"{name}.json"
    path.write_text(json.dumps({"date": date, "figures": figures}, indent=1) + "\n", "utf-8")
    return path


def page_of(runs: Sequence[Run]) -> str:
    """The page that shows some runs."""
    return f"{_INTRODUCTION}\n" + "\n".join(_table_of(runs)) + "\n"


def _table_of(runs: Sequence[Run]) -> Iterator[str]:
    headings = ["measured", "against", "goal", *(run.title for run in runs), "change"]
    yield f"| {' | '.join(headings)} |"
    yield "|---" * len(headings) + "|"
    # In the order of the newest run that has them.
    shown: dict[tuple[str, str], Outcome] = {}
    for outcome in chain.from_iterable(run.outcomes for run in reversed(runs)):
        if outcome.goal is not None:
            shown.setdefault(_key(outcome), outcome)
    for outcome in shown.values():
        found = [run.of(outcome) for run in runs]
        cells = [_NONE if one is None else _cell(one) for one in found]
        yield f"| {' | '.join([outcome.name, outcome.baseline, outcome.target, *cells, _change(found)])} |"


def _change(found: Sequence[Outcome | None]) -> str:
    """What became of the figure from the last run but one that has it to the newest one."""
    if len(found) < 2 or (newest := found[-1]) is None or (before := found[-2]) is None:
        return _NONE
    return f"{newest.ratio / before.ratio:.2f} \N{MULTIPLICATION SIGN}"


def _cell(outcome: Outcome) -> str:
    return outcome.figure if outcome.load is None else f"{outcome.figure} (load {outcome.load:.1f})"


def _key(outcome: Outcome) -> tuple[str, str]:
    return outcome.name, outcome.baseline


def _outcome_of(kept: Mapping[str, Any]) -> Outcome:
    return Outcome(**{**kept, "unit": Unit(kept["unit"])}, details="")


def main(arguments: Sequence[str]) -> None:
    """Keep a run if it is named, and write the page."""
    if arguments:
        name, *results = arguments
        print(f"kept: {keep(name, Path(results[0]) if results else _RESULTS)}")
    PAGE.write_text(page_of(kept_runs()), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
