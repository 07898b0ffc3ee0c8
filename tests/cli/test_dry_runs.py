"""``--dry-run`` tells what a command would do, and does nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Rli


def counts(told: dict[str, object]) -> dict[str, object]:
    names = ("inserted", "updated", "moved", "deleted", "unchanged", "duplicates", "files_created", "files_rewritten")
    return {name: told[name] for name in names}


@pytest.mark.parametrize(
    "command",
    [
        ["upsert", "trips", "day3.csv"],
        ["insert", "trips", "day3.csv"],
        ["delete", "trips", "007", "nobody"],
        ["delete", "trips", "--file", "day3.csv"],
    ],
)
def test_json_foretells_the_command(rli: Rli, trips: str, tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "day3.csv").write_text("id,city,ts,fare\n007,Oslo,5,1\nk2,Bergen,5,2\nk9,Rome,5,3\nk9,Rome,6,3\n")
    before = rli("timeline", trips, "--json").json, rli("read", trips, "--json").json
    told = rli(*command, "--dry-run", "--json")
    assert told.json["dry_run"]
    assert told.json["instant"] is None
    assert told.err == ""
    assert (rli("timeline", trips, "--json").json, rli("read", trips, "--json").json) == before
    assert counts(told.json) == counts(rli(*command, "--json").json)


def test_a_dry_run_names_the_files(rli: Rli, trips: str, tmp_path: Path) -> None:
    shown = rli("delete", trips, "007", "--dry-run").out
    assert "commit: none, this was a dry run\nrecords: 1 deleted\nfiles: 0 to create, 1 to rewrite\n" in shown
    path = shown.partition("to rewrite: ")[2].strip()
    assert (tmp_path / trips / path).is_file()


def test_a_dry_run_takes_one_file(rli: Rli, trips: str) -> None:
    assert "give one file" in rli("upsert", trips, "day1.jsonl", "day2.csv", "--dry-run", status=2).err


def test_a_dry_run_needs_no_spark(rli: Rli, trips: str) -> None:
    refused = rli("upsert", trips, "day2.csv", "--dry-run", "--engine", "spark", status=2).err
    assert "leave --engine out" in refused
