"""Commits of another engine that store a key twice in one file group, as inserts of Hudi do."""

from __future__ import annotations

import logging
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.index_kinds import KINDS
from tests.support.tables import records
from tests.support.unshared_commits import commit_to_bring


@pytest.mark.invariant("P57")
def test_key_repeated_in_file_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = KINDS["record-partition"].create(tmp_path, maintenance=False)
    table.upsert(records(("a", "x", 1, 1.0), ("b", "y", 1, 1.0)))
    table.delete(["b"])
    before = {*Path(table.location).rglob("*.parquet")}
    commit_to_bring(table, records(("b", "y", 2, 2.0), ("c", "z", 2, 2.0)))()
    for file in {*Path(table.location).rglob("*.parquet")} - before:
        stored = pq.ParquetFile(file).read()
        pq.write_table(pa.concat_tables([stored, stored]), file)
    with caplog.at_level(logging.WARNING):
        table.sync_index()
    assert "keys=1" in caplog.text
    assert table.deduplicate().records_removed == 2
    assert sorted(table.read()["id"].to_pylist()) == ["a", "b", "c"]
    table.upsert(records(("b", "y", 3, 3.0), ("d", "z", 3, 3.0)))
    table.delete(["b", "c"])
    assert table.verify_index(deep=True).agrees
