"""rli overwrite."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Rli


def test_all_files_are_one_commit(rli: Rli, trips: str, tmp_path: Path) -> None:
    first = rli("read", trips, "--json").json[0]
    paths = []
    for number in range(2):
        path = tmp_path / f"{number}.jsonl"
        path.write_text(f'{{"id": "n{number}", "city": "{first["city"]}", "ts": 1, "fare": 1.0}}\n')
        paths.append(str(path))
    told = rli("overwrite", trips, *paths, "--dry-run", "--json").json
    done = rli("overwrite", trips, *paths, "--json").json
    assert (told["inserted"], told["deleted"]) == (done["inserted"], done["deleted"])
    here = [row["id"] for row in rli("read", trips, "--json").json if row["city"] == first["city"]]
    assert sorted(here) == ["n0", "n1"]
    dropped = rli("overwrite", trips, "--drop", "--partition", first["city"], "--json").json
    assert dropped["deleted"] == 2
    assert "no such partitions" in rli("overwrite", trips, "--drop", "--partition", first["city"], status=2).err
    again = rli("overwrite", trips, "--drop", "--partition", first["city"], "--missing-ok", "--json").json
    assert again["deleted"] == 0


def test_files_or_partitions_to_drop(rli: Rli, trips: str, tmp_path: Path) -> None:
    path = tmp_path / "n.jsonl"
    path.write_text('{"id": "n", "city": "Rome", "ts": 1, "fare": 1.0}\n')
    before = rli("timeline", trips, "--json").json
    assert "either files or" in rli("overwrite", trips, status=2).err
    assert "either files or" in rli("overwrite", trips, "--drop", status=2).err
    assert "either files or" in rli("overwrite", trips, str(path), "--drop", "--partition", "x", status=2).err
    assert "either files or" in rli("overwrite", trips, str(path), "--missing-ok", status=2).err
    assert rli("timeline", trips, "--json").json == before


@pytest.mark.spark
@pytest.mark.one_spark
@pytest.mark.slow
def test_spark_overwrites_and_drops(rli: Rli, trips: str, tmp_path: Path) -> None:
    (tmp_path / "bergen.jsonl").write_text('{"id": "n1", "city": "Bergen", "ts": 1, "fare": 1.0}\n')
    commands = [
        ["overwrite", trips, "bergen.jsonl", "--engine", "spark", "--json"],
        ["overwrite", trips, "--drop", "--partition", "Bergen", "--missing-ok", "--engine", "spark", "--json"],
    ]
    # Sessions of their own, in a process without the session of other tests.
    script = f"from rli.cli.app import app\nfor command in {commands}:\n    app(command, standalone_mode=False)"
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    written, dropped = map(json.loads, done.stdout.splitlines())
    assert (written["inserted"], written["deleted"], dropped["deleted"]) == (1, 2, 1)
    assert [row["id"] for row in rli("read", trips, "--json").json] == ["k3"]
