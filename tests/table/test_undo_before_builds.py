"""Undoing commits that partitions of the metadata table were built over: these have no deltacommit to take back."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from rli import Table, create_table
from rli.view.paths import JOURNAL
from tests.support.soak import in_ci
from tests.support.tables import records, turn_into_version_8, turn_into_version_9

VERSIONS: dict[int, Callable[[Table], object]] = {6: lambda _: None, 8: turn_into_version_8, 9: turn_into_version_9}

VALUES: list[tuple[str, str | float]] = [
    *(("id", key) for key in "abcz"),
    *(("v", value) for value in (1.0, 2.0)),
    *(("name", f"name {number}") for number in (1, 2)),
]
"""Some of them are gone after an undo."""


def _created(folder: Path, version: int, table_type: str = "copy_on_write") -> Table:
    table = create_table(
        folder / "t", record_key="id", partition_by="city", ordering="ts", maintenance=False, table_type=table_type
    )
    VERSIONS[version](table)
    return table


def _rows(*rows: tuple[str, str, int, float]) -> pa.Table:
    return records(*rows).append_column("name", pa.array([f"name {value:g}" for *_, value in rows]))


def _require_whole_answers(table: Table) -> None:
    everything = table.read()
    for column, value in VALUES:
        expected = everything.filter(pc.equal(everything[column], value)).sort_by("id").to_pylist()
        assert table.read(filters=f"{column} = {value!r}").sort_by("id").to_pylist() == expected
    assert table.get(everything["id"].to_pylist()).num_rows == everything.num_rows
    assert table.metadata.verify() == ()


@pytest.mark.invariant("P52")
@pytest.mark.parametrize(
    ("version", "table_type", "has_journals"),
    in_ci(
        [
            (6, "copy_on_write", True),
            (6, "merge_on_read", False),
            (9, "merge_on_read", True),
            (9, "copy_on_write", False),
        ],
        of=[*product(VERSIONS, ["copy_on_write", "merge_on_read"], [True, False])],
    ),
)
def test_restores_cross_builds(tmp_path: Path, version: int, table_type: str, *, has_journals: bool) -> None:
    table = _created(tmp_path, version, table_type)
    first = table.upsert(_rows(("a", "x", 1, 1.0), ("z", "y", 1, 1.0))).instant
    assert first is not None
    table.upsert(_rows(("a", "y", 2, 2.0), ("b", "y", 2, 2.0)))
    table.metadata.enable(["files", "column_stats", "record_index"])
    if version == 9:
        table.create_index("by_name", on="name")
    table.upsert(_rows(("c", "y", 2, 3.0)))
    if not has_journals:
        shutil.rmtree(Path(table.location, JOURNAL))
        table.bootstrap_index()
    table.restore(first)
    assert sorted(table.read()["id"].to_pylist()) == ["a", "z"]
    _require_whole_answers(table)
    assert table.insert(_rows(("b", "y", 3, 2.0))).inserted == 1
    _require_whole_answers(table)


@pytest.mark.parametrize("version", VERSIONS)
def test_keys_return_in_record_index(tmp_path: Path, version: int) -> None:
    table = _created(tmp_path, version)
    table.upsert(_rows(("a", "x", 1, 1.0)))
    table.upsert(_rows(("a", "y", 2, 2.0), ("b", "y", 2, 2.0)))
    table.index.migrate("record-index:")
    table.rollback("last")
    assert table.insert(_rows(("b", "y", 3, 2.0))).inserted == 1
    assert table.verify_index().agrees
    _require_whole_answers(table)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "partitions",
    in_ci(
        [["files", "column_stats", "record_index"]],
        of=[["files"], ["files", "column_stats"], ["files", "column_stats", "record_index"]],
    ),
)
def test_writes_follow_dropped_partitions(tmp_path: Path, version: int, partitions: list[str]) -> None:
    """A drop removes no file, so lists of files do not change: no commit is missing there."""
    table = _created(tmp_path, version)
    table.metadata.enable(partitions)
    table.upsert(_rows(("a", "x", 1, 1.0), ("z", "y", 1, 1.0)))
    table.drop_partitions(["x"])
    table.upsert(_rows(("b", "y", 2, 2.0)))
    table.archive(keep_commits=1)
    _require_whole_answers(table)
