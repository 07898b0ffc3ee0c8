from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

import rli as library
from tests.cli.conftest import Rli
from tests.support.tables import records


@pytest.fixture
def instants(tmp_path: Path, rli: Rli) -> list[str]:  # noqa: ARG001  (it changes into the folder)
    table = library.create_table("t", record_key="id", partition_by="city", ordering="ts", index="global-simple:")
    first = table.upsert(records(("a", "x", 1, 1.0), ("b", "x", 1, 1.0))).instant
    second = table.upsert(records(("a", "y", 2, 2.0))).instant
    return [first or "", second or ""]


def test_changes_are_printed(rli: Rli, instants: list[str]) -> None:
    done = rli("changes", "t", "--since", instants[0], "--images", "both", "--json")
    assert [(row["_change_type"], row["city"], row["_commit_instant"]) for row in done.json] == [
        ("update_before", "x", instants[1]),
        ("update_after", "y", instants[1]),
    ]
    assert f"--since {instants[1]}" in done.err


def test_ranges_columns_and_filters_choose(rli: Rli, instants: list[str]) -> None:
    done = rli("changes", "t", "--until", instants[0], "--where", "id = 'b'", "--columns", "id", "--json")
    assert [(row["id"], row["_change_type"]) for row in done.json] == [("b", "insert")]
    assert rli("changes", "t", "--since", instants[1], "--json").json == []


def test_changes_go_to_a_file(rli: Rli, instants: list[str]) -> None:
    assert rli("changes", "t", "--output", "c.parquet", "--json").json == {"output": "c.parquet", "records": 3}
    assert pq.read_table("c.parquet")["_commit_instant"].to_pylist() == [instants[0], instants[0], instants[1]]


def test_shortened_output_names_no_position(rli: Rli, instants: list[str]) -> None:
    assert instants[1] not in rli("changes", "t", "--limit", "1").err


def test_ranges_that_are_gone_say_so(rli: Rli, instants: list[str]) -> None:
    rli("rollback", "t", "last")
    failed = rli("changes", "t", "--since", instants[1], "--json", status=2)
    assert failed.json["error"]["code"] == "InstantNotFoundError"
    assert "load the table again" in failed.json["error"]["remedy"]
