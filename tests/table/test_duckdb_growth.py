"""DuckDB reads the files of a table whose types have grown, as the docs say."""

from __future__ import annotations

from pathlib import Path

import pytest

import rli
from tests.support.growing_rows import WIDE, as_wide, narrow, wide

duckdb = pytest.importorskip("duckdb")


def test_duckdb_reads_grown_types(tmp_path: Path) -> None:
    with rli.create_table(tmp_path / "t", record_key="id", partition_by="city", index="global-simple:") as table:
        table.upsert(narrow(["a", "b"]))
        table.upsert(narrow(["e", "f"], "y"))
        table.upsert(wide(["b", "c"]))
        files = table.scan().files()
    expected = [*as_wide(narrow(["a"])), *wide(["b", "c"]).to_pylist(), *as_wide(narrow(["e", "f"], "y"))]
    for paths in (files, files[::-1]):
        read = duckdb.read_parquet(paths, union_by_name=True).select(*WIDE.names).order("id")
        assert read.to_arrow_table().cast(WIDE).to_pylist() == expected
