from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import run_command


@dataclass(frozen=True)
class Outcome:
    """What a command left: its exit status and what it printed."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Rli = Callable[..., Outcome]


@pytest.fixture
def rli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rli:
    """Runs a command in an empty folder; ``status`` is the exit status that it must have, None for any."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, status: int | None = 0) -> Outcome:
        ended = run_command(arguments)
        outcome = Outcome(ended.status, ended.out, ended.err)
        assert status in {None, outcome.status}, f"{arguments}\n{outcome}\n{ended.error!r}"
        return outcome

    return run


@pytest.fixture
def trips(rli: Rli, tmp_path: Path) -> str:
    """A table of two commits: 007 and k2 come, then 007 moves from Oslo to Bergen and k3 comes."""
    (tmp_path / "day1.jsonl").write_text(
        '{"id":"007","city":"Oslo","ts":1,"fare":10.5}\n{"id":"k2","city":"Bergen","ts":1,"fare":3}\n'
    )
    (tmp_path / "day2.csv").write_text("id,city,ts,fare\n007,Bergen,2,11\nk3,Oslo,2,7.5\n")
    rli("create", "trips", "--record-key", "id", "--partition-by", "city", "--ordering", "ts")
    rli("upsert", "trips", "day1.jsonl", "day2.csv")
    return "trips"
