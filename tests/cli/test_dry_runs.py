"""``--dry-run`` tells what a command would do, and does nothing."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import rli as library
from tests.cli.conftest import Rli
from tests.support.indexes import record_index


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


def test_services_foretell_themselves(rli: Rli, trips: str) -> None:
    for ts in range(3, 9):
        Path("more.csv").write_text(f"id,city,ts,fare\n007,Bergen,{ts},1\nk3,Oslo,{ts},{ts}\n")
        rli("upsert", trips, "more.csv")
    first = rli("timeline", trips, "--json").json[0]["time"]
    for command in (["clean", "--keep", "2"], ["archive", "--keep", "2"]):
        before = rli("timeline", trips, "--json").json
        told = rli(command[0], trips, *command[1:], "--dry-run", "--json").json
        assert rli("timeline", trips, "--json").json == before
        done = rli(command[0], trips, *command[1:], "--json").json
        assert {**told, "dry_run": False, "instant": None} == {**done, "instant": None}
    assert "no completed commit" in rli("restore", trips, first, "--dry-run", status=2).err


def test_a_restore_foretells_itself(rli: Rli, trips: str) -> None:
    first, second = (row["time"] for row in rli("timeline", trips, "--json").json)
    before = rli("read", trips, "--json").json
    told = rli("restore", trips, first, "--dry-run", "--json").json
    assert (told["undone"], told["instant"], told["dry_run"]) == ([second], None, True)
    assert rli("read", trips, "--json").json == before
    assert "commits to undo: " + second in rli("restore", trips, first, "--dry-run").out
    assert rli("restore", trips, first, "--json").json["undone"] == [second]


def test_a_drop_foretells_itself(rli: Rli, trips: str, tmp_path: Path) -> None:
    (tmp_path / trips / "notes.txt").write_text("mine")
    told = rli("drop", trips, "--dry-run", "--json").json
    assert rli("read", trips, "--json").json
    assert (told["dry_run"], told["left"]) == (True, ["notes.txt"])
    done = rli("drop", trips, "--yes", "--json").json
    assert (done["location"], done["index"], done["left"]) == (told["location"], told["index"], told["left"])
    rli("drop", trips, "--dry-run", status=2)


def test_a_repair_foretells_itself(rli: Rli, trips: str) -> None:
    with library.open_table(trips) as table:
        index = record_index(table)
        index.put(pa.array(["stray"]), index.get(pa.array(["k3"])))
    told = rli("index", "repair", trips, "--dry-run")
    assert "result: index and table differ" in told.out
    rli("index", "verify", trips, status=1)
    assert rli("index", "repair", trips, "--json").json == rli("index", "repair", trips, "--json").json | {
        "dangling": 1,
        "entries": 4,
        "sample": ["stray"],
    }
