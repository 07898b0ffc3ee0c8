"""What people see on a terminal: a table for instants and look-ups, ten lines for a table, a question before a loss."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import rli as library
from tests.cli.conftest import Rli

_STYLE = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands take their output for a terminal of 120 columns."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")


def lines(text: str) -> list[str]:
    return [_STYLE.sub("", line).rstrip() for line in text.splitlines()]


@pytest.mark.usefixtures("terminal")
def test_timeline_shows_author_and_duration(rli: Rli, trips: str) -> None:
    rli("rollback", trips, "last")
    names, upserted, undone = lines(rli("timeline", trips).out)
    assert names.split() == ["instant", "what", "records", "files", "size", "took", "by"]
    assert re.fullmatch(r"\d{17}  upsert +2 inserted +2  \d+\.\d KiB  \d+\.\d s +\S+@\S+", upserted)
    assert re.match(r"\d{17}  rollback of \d{17}", undone)


@pytest.mark.usefixtures("terminal")
def test_wide_terminal_shows_lookup_rows(rli: Rli, trips: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = lines(rli("lookup", trips, "007", "nobody").out)
    assert [line.split()[:2] for line in found] == [
        ["record_key", "partition_path"],
        ["007", "Bergen"],
        ["nobody", "-"],
    ]
    monkeypatch.setenv("COLUMNS", "60")
    narrow = lines(rli("lookup", trips, "007").out)
    assert all(len(line) <= 60 for line in narrow)
    assert any(line.startswith("007 ") for line in narrow)


def test_info_describes_table_in_ten_lines(rli: Rli, trips: str, tmp_path: Path) -> None:
    shown = rli("info", trips).out.splitlines()
    assert len(shown) == 10
    assert shown[0] == f"table: {tmp_path}/trips (name=trips, format: Hudi 6, rli 1)"
    assert shown[1] == "columns: id string, city string, ts int64, fare double"
    assert re.fullmatch(r"size: 2 files in 2 partitions, \d+\.\d KiB", shown[5])
    assert shown[-1] == "health: no problem found"
    found = rli("info", trips, "--json").json
    assert (found["files"], found["commits"], found["index"]["entries"]) == (2, 2, 3)
    assert found["settings"]["on_partition_change"] == "move"
    rli("index", "drop", trips)
    ill = rli("info", trips, "--json", status=1).json
    assert ill["index"] is None
    assert "run: rli index bootstrap TABLE" in ill["problems"][0]
    assert rli("info", "nowhere", status=2).err.startswith("error: there is no table here")


def test_report_wording_fits_small_counts(rli: Rli, trips: str) -> None:
    rli("index", "drop", trips)
    assert "1 problem, 0 warnings" in rli("doctor", trips, status=1).out
    rli("index", "bootstrap", trips)
    assert "bytes per entry: fixed part of the store" in rli("index", "stats", trips).out


def test_standalone_index_is_managed_by_url(rli: Rli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"lmdb://{tmp_path}/alone"
    with library.create_index(url) as index, index.begin() as transaction:
        transaction.stage(pa.table({"record_key": ["a", "b"], "partition_path": ["p", "p"], "file_id": ["f", "g"]}))
        transaction.commit()
    assert rli("index", "stats", url, "--json").json["entries"] == 2
    checked = rli("index", "verify", url, "--json").json
    assert (checked["entries"], checked["unknown_file_groups"], checked["unknown_commits"]) == (2, 0, 0)
    refused = rli("index", "drop", url, status=2).err
    assert f"Drop the index {url} with its 2 entries? [y/N]" in refused
    assert "the index was not dropped; confirm with y, or give --yes" in refused
    assert "two URLs" in rli("index", "stats", url, "--index", url, status=2).err
    monkeypatch.setattr("sys.stdin", None)
    assert rli("index", "drop", url, "--yes").out == f"dropped: {url}\n"
    assert "there is no index" in rli("index", "stats", url, status=2).err


def test_orphaned_index_is_dropped_by_url(rli: Rli, tmp_path: Path) -> None:
    url = f"lmdb://{tmp_path}/idx"
    rli("create", "t", "--record-key", "id", "--index", url)
    shutil.rmtree("t")
    assert "there is an index already" in rli("create", "t", "--record-key", "id", "--index", url, status=2).err
    rli("index", "drop", url)
    rli("create", "t", "--record-key", "id", "--index", url)


def test_drop_confirms_and_reports(rli: Rli, trips: str, tmp_path: Path) -> None:
    refused = rli("drop", trips, status=2).err
    assert "Remove the table trips and its index, for good? [y/N]" in refused
    assert "nothing was removed; confirm with y, or give --yes" in refused
    (tmp_path / trips / "README").write_text("mine")
    dropped = rli("drop", trips, "--yes", "--json").json
    assert dropped["index"] == f"lmdb://{tmp_path}/trips/.hoodie/.rli/index"
    assert dropped["left"] == ["README"]
    assert [path.name for path in (tmp_path / trips).rglob("*")] == ["README"]
    assert rli("drop", trips, "--yes", status=2).err.startswith("error: there is no table here")
