"""A last commit that a power cut has torn is rolled back by the next write; no other commit ever is."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rli import CorruptTableError, IndexNotReadyError, Table, create_table
from tests.support.tables import check_stored, records, rows_of


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Two commits, of which the last updates ``a``, moves ``m``, deletes nothing and brings ``c``."""
    table = create_table(tmp_path / "t", record_key="id", partition_by="city", ordering="ts")
    table.upsert(records(("a", "x", 1, 1.0), ("m", "x", 1, 1.0)))
    table.upsert(records(("a", "x", 2, 2.0), ("m", "y", 2, 2.0), ("c", "z", 2, 2.0)))
    return table


def last(table: Table) -> str:
    return table.timeline()[-1].time


def content_of(table: Table) -> Path:
    return Path(table.location, f".hoodie/{last(table)}.commit")


def base_files(table: Table) -> list[Path]:
    return sorted(Path(table.location).glob(f"*/*_{last(table)}.parquet"))


def empty(table: Table) -> None:
    content_of(table).write_bytes(b"")


def empty_without_base_files(table: Table) -> None:
    for path in base_files(table):
        path.unlink()
    empty(table)


@pytest.mark.parametrize("tear", [empty, empty_without_base_files])
def test_the_next_write_rolls_a_torn_commit_back(table: Table, tear: Callable[[Table], None]) -> None:
    torn = last(table)
    tear(table)
    table.upsert(records(("c", "y", 3, 3.0)))
    assert [(row["id"], row["city"], row["ts"]) for row in rows_of(table)] == [
        ("a", "x", 1),
        ("c", "y", 3),
        ("m", "x", 1),
    ]
    assert torn in table.snapshot().timeline.undone
    check_stored(table)


def test_several_torn_commits_are_rolled_back(table: Table) -> None:
    for path in Path(table.location, ".hoodie").glob("*.commit"):
        path.write_bytes(b"")
    assert table.read().num_rows == 0
    table.upsert(records(("n", "x", 1, 1.0)))
    assert [row["id"] for row in rows_of(table)] == ["n"]
    check_stored(table)


def test_a_commit_that_nothing_tells_of_asks_for_a_bootstrap(table: Table) -> None:
    content_of(table).write_bytes(b"")
    for journal in Path(table.location, ".hoodie/.rli/journal", last(table)).iterdir():
        journal.write_bytes(b"")
    with pytest.raises(IndexNotReadyError, match=r"power cut.*rli index bootstrap"):
        table.upsert(records(("c", "y", 3, 3.0)))


def test_an_empty_commit_of_another_engine_is_left_alone(table: Table) -> None:
    content = Path(table.location, ".hoodie/20990101000000000.commit")
    content.write_bytes(b"")
    assert {row["id"] for row in rows_of(table)} == {"a", "c", "m"}
    with pytest.raises(CorruptTableError, match=f"another engine is empty.*{content.name}.*write again later"):
        table.upsert(records(("n", "x", 1, 1.0)))
    assert content.exists()
    content.unlink()
    table.upsert(records(("n", "x", 1, 1.0)))
    assert {row["id"] for row in rows_of(table)} == {"a", "c", "m", "n"}
    check_stored(table)


def test_an_empty_commit_before_others_is_an_error(table: Table) -> None:
    first = Path(table.location, f".hoodie/{table.timeline()[0].time}.commit")
    first.write_bytes(b"")
    with pytest.raises(CorruptTableError, match=f"{first.name}; restore the file"):
        table.read()
    shutil.rmtree(table.location)
