"""Guards what the benchmarks promise: ratios of their small form, with room for a busy machine, and no times."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Final

import pytest

from tests.support.spark import REPOSITORY

# At least half of what they reach on an idle machine; sizes do not depend on the machine.
FLOORS: Final[Mapping[str, Mapping[str, float]]] = {
    "lmdb_store": {"LMDB look-ups, keys to entries": 0.5, "LMDB bulk load": 0.5},
    "redis_store": {"Redis look-ups": 0.3, "Redis sparse look-ups": 0.3, "Redis bulk load": 0.8},
    "parquet_files": {"table.read": 0.4},
}
CEILINGS: Final[Mapping[str, Mapping[str, float]]] = {
    "index_size": {"LMDB bytes an entry, loaded at once": 30, "LMDB bytes an entry, grown by commits": 50},
    "redis_store": {"Redis bytes an entry": 30, "Redis memory": 0.3, "Redis server CPU of a look-up": 1.6},
    "upsert_memory": {"upsert's peak memory, 8 times larger table": 1.5},
}


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, float]]:
    """The figures of each benchmark, by name."""
    names = sorted({*FLOORS, *CEILINGS})
    command = [sys.executable, "-m", "benchmarks", "--quick", "--json", *names]
    output = tmp_path_factory.mktemp("results")
    run = subprocess.run(
        [*command, "--output", str(output)], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert {file.name for file in output.iterdir()} == {
        "results.json",
        "goals.svg",
        *(f"{name}.svg" for name in names),
    }
    results = json.loads(run.stdout)
    return {name: {outcome["name"]: outcome["ratio"] for outcome in results[name]} for name in names}


@pytest.mark.docker
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_no_figure_falls_below_its_floor(figures: dict[str, dict[str, float]]) -> None:
    too_slow = {
        name: (figures[benchmark][name], floor)
        for benchmark, floors in FLOORS.items()
        for name, floor in floors.items()
        if figures[benchmark][name] < floor
    }
    too_large = {
        name: (figures[benchmark][name], ceiling)
        for benchmark, ceilings in CEILINGS.items()
        for name, ceiling in ceilings.items()
        if figures[benchmark][name] > ceiling
    }
    assert not too_slow
    assert not too_large
