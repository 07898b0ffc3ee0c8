"""Merge-on-read tables that Hudi wrote: their records, their past states, and their log files as they change."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import rli
from rli import Query, Table
from rli.hudi.log_file.delete_block import delete_block, deletes
from rli.table.table import opened_table
from tests.support.metadata_tables import unpack_metadata_table

BASE = {f"k{number:02}": (number, "0") for number in range(18)}
# After each commit of Hudi, what its own reader gave.
STATES = [
    BASE,
    (first := {**{key: row for key, row in BASE.items() if key != "k03"}, "k00": (40, "1")}),
    (second := {key: row for key, row in first.items() if key != "k04"}),
    (third := {**second, "k07": (50, "3"), "n1": (60, "3"), "n2": (61, "3")}),
    {**third, "k04": (70, "4"), "k12": (100, "4")},
]


@pytest.fixture(params=["v9_logs", "v6_logs"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    return rli.open_table(unpack_metadata_table(request.param, tmp_path))


def rows(table: Table, as_of: str | None = None, query: Query = Query.SNAPSHOT) -> dict[str, tuple[int, str]]:
    found = table.read(as_of=as_of, query=query).to_pylist()
    return {row["id"]: (row["ts"], row["v"]) for row in found}


def logs(table: Table) -> list[str]:
    return [log.path for found in opened_table(table).snapshot().slices.values() for log in found.logs]


def test_each_state_has_hudis_records(table: Table) -> None:
    assert [rows(table, entry.time) for entry in table.history()] == STATES
    assert rows(table) == STATES[-1]


def test_base_files_alone_are_older(table: Table) -> None:
    added = {"n1": (60, "3"), "n2": (61, "3")}
    assert rows(table, query=Query.READ_OPTIMIZED) == {**BASE, **added}
    with pytest.raises(rli.InvalidInputError, match="no such query"):
        table.read(query="fast")


def test_a_missing_log_is_an_error(table: Table) -> None:
    path = logs(table)[-1]
    Path(table.location, path).unlink()
    with pytest.raises(rli.CorruptTableError, match=f"file={path}"):
        table.read()


def test_list_may_be_older_than_logs(tmp_path: Path) -> None:
    """In table version 6 others append to log files, and the metadata table may have a smaller size of the file."""
    table = rli.open_table(unpack_metadata_table("v6_logs", tmp_path))
    log = Path(table.location, next(path for path in logs(table) if path.startswith("a/")))
    removed = delete_block(table.history()[-1].time, deletes(pa.array(["k15"]), "a"))
    log.write_bytes(log.read_bytes() + removed)
    assert rows(table) == {key: row for key, row in STATES[-1].items() if key != "k15"}
