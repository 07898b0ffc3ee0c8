"""The bootstrap of an index over a table that holds keys more than once: it says so, or leaves the newest record of each."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from rli import InvalidInputError, RepeatedKeyError, Table, create_table, open_table
from rli.cli.app import app
from rli.model import OnRepeatedKey, TableType
from rli.write.operations.deduplicate import Deduplicated
from tests.support.rows import sorted_rows
from tests.support.table_types import of_both_types
from tests.support.unshared_commits import write_at_once


def records(*rows: tuple[str, str, int]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(("id", "city", "ts"), row, strict=True)) for row in rows])


def table_with_repeats(folder: Path, table_type: TableType = TableType.COPY_ON_WRITE) -> Table:
    """Keys in two partitions: k with another ordering value in each, n in one alone, e with equal ones."""
    made = create_table(
        folder / "t", record_key="id", partition_by="city", ordering="ts", index="simple:", table_type=table_type
    )
    made.upsert(records(("k", "Rome", 5), ("n", "Rome", -1), ("e", "Rome", 1), ("a", "Rome", 1)))
    made.upsert(records(("k", "Oslo", 3), ("n", "Oslo", 0), ("e", "Oslo", 1)))
    return made


LEFT = (("a", "Rome", 1), ("e", "Oslo", 1), ("k", "Rome", 5), ("n", "Oslo", 0))


@of_both_types
@pytest.mark.parametrize("index", ["lmdb://{}/i", "lmdb://{}/i?ttl=30d", "memory:", "record-index:", "global-bloom:"])
def test_the_newest_record_stays(tmp_path: Path, index: str, table_type: TableType) -> None:
    table = table_with_repeats(tmp_path, table_type)
    before = sorted_rows(table.read())
    with pytest.raises(RepeatedKeyError, match=r"deduplicate|--on-duplicate newest"):
        table.bootstrap_index(index.format(tmp_path))
    assert sorted_rows(table.read()) == before
    told = list[Deduplicated]()
    assert table.bootstrap_index(on_duplicate="newest", on_deduplicated=told.append) == len(LEFT)
    assert [(done.keys, done.records_removed) for done in told] == [(3, 3)]
    assert sorted_rows(table.read()) == sorted_rows(records(*LEFT))
    assert table.verify_index(deep=True).agrees


def test_removed_records_stay_away(tmp_path: Path) -> None:
    table = table_with_repeats(tmp_path)
    table.bootstrap_index(f"lmdb://{tmp_path}/i", on_duplicate=OnRepeatedKey.NEWEST)
    assert table.delete(["k"]).deleted == 1
    assert table.upsert(records(("n", "Rome", 9))).moved == 1
    assert table.upsert(records(("e", "Rome", 0))).unchanged == 1
    left = [("a", "Rome", 1), ("e", "Oslo", 1), ("n", "Rome", 9)]
    assert sorted_rows(table.read()) == sorted_rows(records(*left))
    assert table.insert(records(("k", "Bari", 1))).inserted == 1
    assert sorted_rows(table.get(["k", "e"])) == sorted_rows(records(("e", "Oslo", 1), ("k", "Bari", 1)))
    assert table.bootstrap_index(on_duplicate="newest") == 4
    assert table.verify_index(deep=True).agrees


def test_repeats_within_a_partition(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = create_table(tmp_path / "t", record_key="id", partition_by="city", ordering="ts", index="simple:")
    table.upsert(records(("k", "Rome", 1), ("k", "Oslo", 1)))
    write_at_once(table, records(("n", "Bari", 1)), records(("n", "Bari", 2)))
    with caplog.at_level(logging.WARNING):
        assert table.bootstrap_index(f"lmdb://{tmp_path}/i?scope=partition", on_duplicate="newest") == 3
    assert "removed surplus records" in caplog.text
    assert "keys=1 records=1" in caplog.text
    assert sorted_rows(table.read()) == sorted_rows(records(("k", "Rome", 1), ("k", "Oslo", 1), ("n", "Bari", 2)))
    assert table.verify_index().agrees


def test_tables_without_repeats_keep_files(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", record_key="id", ordering="ts")
    table.upsert(records(("k", "Rome", 1)))
    instants = [entry.time for entry in table.history()]
    assert table.bootstrap_index(on_duplicate="newest") == 1
    assert [entry.time for entry in table.history()] == instants
    with pytest.raises(InvalidInputError, match=r"on_duplicate='oldest'"):
        table.bootstrap_index(on_duplicate="oldest")


def test_a_rollback_brings_repeats_back(tmp_path: Path) -> None:
    table = table_with_repeats(tmp_path)
    before = sorted_rows(table.read())
    told = list[Deduplicated]()
    table.bootstrap_index(f"lmdb://{tmp_path}/i", on_duplicate="newest", on_deduplicated=told.append)
    assert told[0].instant is not None
    table.rollback(told[0].instant)
    assert sorted_rows(table.read()) == before
    assert table.deduplicate().keys == 3
    assert table.verify_index().agrees


def test_the_command_tells_what_goes(tmp_path: Path) -> None:
    table = table_with_repeats(tmp_path)
    bootstrap = ["index", "bootstrap", table.location, "--index", f"lmdb://{tmp_path}/i"]
    refused = CliRunner().invoke(app, bootstrap)
    assert (refused.exit_code, "--on-duplicate newest" in refused.output) == (2, True)
    assert "'k' in" in refused.output
    done = CliRunner().invoke(app, [*bootstrap, "--on-duplicate", "newest"])
    assert "records removed: 3" in done.output
    assert "key k: stays in Rome" in done.output
    again = CliRunner().invoke(app, [*bootstrap, "--on-duplicate", "newest", "--json"])
    assert set(json.loads(again.output)) == {"entries", "url"}
    with open_table(table.location) as opened:
        assert sorted_rows(opened.read()) == sorted_rows(records(*LEFT))
