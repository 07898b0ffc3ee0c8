"""The page on the history of the benchmarks shows what was kept of each run."""

from __future__ import annotations

from pathlib import Path

from benchmarks.history import PAGE, Run, keep, kept_runs, page_of
from benchmarks.measuring import Outcome
from benchmarks.report import as_json


def test_page_shows_all_kept_runs() -> None:
    assert PAGE.read_text("utf-8") == page_of(kept_runs())


def test_next_release_adds_a_column(tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    for name, ratio in (("0.1.0", 2.0), ("0.2.0", 3.0)):
        outcome = Outcome("upsert", "Delta", ratio, 2.0, "higher", "details", load=4.0)
        results.write_text(as_json({"peers": [outcome]}))
        assert Run.read(keep(name, results, tmp_path)).outcomes[0].load == 4.0
    results.unlink()
    runs = kept_runs(tmp_path)
    assert [run.name for run in runs] == ["0.1.0", "0.2.0"]
    cells = page_of(runs).splitlines()[-1].replace("\N{MULTIPLICATION SIGN}", "times").strip("| ").split(" | ")
    assert cells[2:] == ["≥ 2.00 times", "2.00 times (load 4.0)", "3.00 times (load 4.0)", "1.50 times"]
