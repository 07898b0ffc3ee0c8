"""What ``rli doctor`` finds in a metadata table whose files are damaged."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from rli import Table, create_table, open_table
from rli.findings import Finding, Verdict
from rli.metadata_table.findings import metadata_findings
from rli.table.table import opened_table
from tests.support.tables import records, turn_into_version_9

PARTITIONS = ["files", "column_stats", "record_index"]
PLACES = [0.01, 0.2, 4500, 4090]
"""Shares of a file, and bytes before its end: the trailer of an HFile begins 4,096 bytes before that."""


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A table with base files and log files in its metadata table."""
    return _made(tmp_path, 9)


def _made(folder: Path, version: int) -> Table:
    table = create_table(folder / "t", record_key="id", partition_by="city", ordering="ts", maintenance=False)
    if version == 9:
        turn_into_version_9(table)
    table.upsert(records(("a", "Oslo", 1, 1)))
    table.metadata.enable(PARTITIONS)
    table.upsert(records(("b", "Rome", 2, 2)))
    return table


def _found(table: Table) -> list[Finding]:
    return [*metadata_findings(opened_table(table).snapshot())]


def _files(table: Table, partition: str, pattern: str) -> list[Path]:
    folder = Path(table.location) / ".hoodie/metadata" / partition
    return sorted(path for path in folder.glob(pattern) if path.stat().st_size > 1000)


@pytest.mark.parametrize("pattern", ["*.hfile", ".*.log.*"])
def test_damaged_files_are_found(table: Table, pattern: str) -> None:
    """Wherever bytes of a small file are overwritten, the finding is a problem that names the file."""
    (found,) = _found(table)
    assert found.verdict is Verdict.OK
    for partition, place in product(PARTITIONS, PLACES):
        file = _files(table, partition, pattern)[0]
        content = bytearray(file.read_bytes())
        start = int(place * len(content)) if place < 1 else len(content) - int(place)
        file.write_bytes(content[:start] + b"\xa5" * 40 + content[start + 40 :])
        problems = [found for found in _found(table) if found.verdict is Verdict.PROBLEM]
        assert [file.name in found.detail and partition in found.detail for found in problems] == [True]
        assert table.read(columns=["id"]).num_rows == 2
        file.write_bytes(content)


def test_short_files_are_found(table: Table) -> None:
    (file, *_) = _files(table, "column_stats", "*.hfile")
    content = file.read_bytes()
    for left in (content[:-1], content[: len(content) // 2], b""):
        file.write_bytes(left)
        assert [found.verdict for found in _found(table)] == [Verdict.PROBLEM]


@pytest.mark.parametrize("version", [6, 9])
def test_lost_first_base_file_breaks_nothing(version: int, tmp_path: Path) -> None:
    """The files that a build has listed are in its base file alone: later log files tell nothing of them."""
    table = _made(tmp_path, version)
    for file in _files(table, "files", "*.hfile"):
        file.unlink()
    assert [found.verdict for found in _found(table)] == [Verdict.PROBLEM]
    assert sorted(open_table(table.location).read(columns=["id"])["id"].to_pylist()) == ["a", "b"]


@pytest.mark.parametrize("version", [6, 8])
def test_another_version_is_found(table: Table, version: int) -> None:
    """Hudi opens the metadata table as a table, and takes it for one of its version."""
    properties = Path(table.location, ".hoodie/metadata/.hoodie/hoodie.properties")
    of_table = "hoodie.table.version=9"
    assert of_table in properties.read_text()
    properties.write_text(properties.read_text().replace(of_table, f"hoodie.table.version={version}"))
    (found,) = _found(table)
    assert found.verdict is Verdict.PROBLEM
    assert f"table_version=9 metadata_table_version={version}" in found.detail
    table.metadata.disable()
    table.metadata.enable(PARTITIONS)
    assert [found.verdict for found in _found(table)] == [Verdict.OK]


def test_lost_properties_are_found(table: Table) -> None:
    Path(table.location, ".hoodie/metadata/.hoodie/hoodie.properties").unlink()
    (found,) = _found(table)
    assert found.verdict is Verdict.PROBLEM
    assert ".hoodie/metadata/.hoodie/hoodie.properties" in found.detail


def test_commits_left_out_are_found(table: Table) -> None:
    """As another engine leaves one out; files and their names are sound."""
    timeline = Path(table.location, ".hoodie/metadata/.hoodie/timeline")
    last = max(file.name for file in timeline.glob("*_*.deltacommit"))
    for file in timeline.glob(f"{last.split('_')[0]}*"):
        file.unlink()
    found = _found(table)
    assert {one.verdict for one in found} == {Verdict.PROBLEM}
    assert ["left a commit out" in one.detail for one in found] == [True] * len(PARTITIONS)
