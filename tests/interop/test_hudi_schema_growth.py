"""Hudi and hudi-rs read a table of rli whose types have grown."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

import rli
from tests.support.growing_rows import WIDE, as_wide, narrow, wide
from tests.support.hudi import HudiEngine, HudiError
from tests.support.hudi_rs import read_with_hudi_rs
from tests.support.meta_columns import without_meta_columns

pytestmark = [pytest.mark.hudi, pytest.mark.spark, pytest.mark.slow]

EXPECTED: Final = [*as_wide(narrow(["a"])), *wide(["b", "c"]).to_pylist(), *as_wide(narrow(["e", "f"], "y"))]
NESTED_NUMBERS: Final = ["point", "points", "named", "wholes"]
VECTORIZED: Final = "spark.sql.parquet.enableVectorizedReader"


def _rows(records: pa.Table) -> list[dict[str, Any]]:
    rows = without_meta_columns(records).select(WIDE.names).cast(WIDE).sort_by("id").to_pylist()
    return [{**row, "named": sorted(row["named"], key=lambda entry: entry[0])} for row in rows]


@pytest.fixture
def grown(tmp_path: Path) -> rli.Table:
    """Partition x has wide files, y narrow ones."""
    table = rli.create_table(
        tmp_path / "t", record_key="id", partition_by="city", ordering="ts", index=f"lmdb://{tmp_path / 'index'}"
    )
    table.upsert(narrow(["a", "b"]))
    table.upsert(narrow(["e", "f"], "y"))
    table.upsert(wide(["b", "c"]))
    return table


def test_hudi_reads_types_that_have_grown(engine: HudiEngine, grown: rli.Table) -> None:
    assert _rows(grown.read()) == EXPECTED
    # Spark's vectorized reader, as Hudi calls it, refuses numbers inside of lists, maps and structs that have grown.
    # Hudi itself turns that reader off in a session that has read some other tables.
    engine.sql(f"set {VECTORIZED}=true")
    with pytest.raises(HudiError, match="Nested types with type changes"):
        engine.read(grown.location)
    engine.sql(f"set {VECTORIZED}=false")
    try:
        assert _rows(engine.read(grown.location)) == EXPECTED
    finally:
        engine.sql(f"set {VECTORIZED}=true")


def test_hudi_reads_grown_columns_vectorized(engine: HudiEngine, tmp_path: Path) -> None:
    table = rli.create_table(tmp_path / "t", record_key="id", partition_by="city", index=f"lmdb://{tmp_path / 'index'}")
    table.upsert(narrow(["a"]).drop_columns(NESTED_NUMBERS))
    table.upsert(wide(["c"], "z").drop_columns(NESTED_NUMBERS))
    written = table.read()
    engine.sql(f"set {VECTORIZED}=true")
    theirs = without_meta_columns(engine.read(table.location)).select(written.column_names).cast(written.schema)
    assert theirs.sort_by("id").to_pylist() == written.sort_by("id").to_pylist()


def test_hudi_rs_reads_types_that_have_grown(grown: rli.Table) -> None:
    assert _rows(read_with_hudi_rs(grown.location)) == EXPECTED
