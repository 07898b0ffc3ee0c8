"""Hudi and hudi-rs read a table of rli whose types have grown."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

import rli
from tests.support.growing_rows import WIDE, as_wide, narrow, wide
from tests.support.histories import Layout
from tests.support.hudi import HudiEngine, HudiError
from tests.support.hudi_options import NEWEST, newest_only, with_hudi, write_options
from tests.support.hudi_rs import read_with_hudi_rs
from tests.support.meta_columns import without_meta_columns

pytestmark = [pytest.mark.hudi, pytest.mark.spark, pytest.mark.slow]

EXPECTED: Final = [*as_wide(narrow(["a"])), *wide(["b", "c"]).to_pylist(), *as_wide(narrow(["e", "f"], "y"))]
NESTED_NUMBERS: Final = ["point", "points", "named", "wholes"]
VECTORIZED: Final = {"spark.sql.parquet.enableVectorizedReader": "true"}
PLAIN: Final = {"spark.sql.parquet.enableVectorizedReader": "false"}


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


@with_hudi(NEWEST, in_soak=("1.0.2", "0.15.0"))
def test_hudi_reads_types_that_have_grown(engine: HudiEngine, grown: rli.Table) -> None:
    assert _rows(grown.read()) == EXPECTED
    # Spark's vectorized reader, as Hudi calls it, refuses numbers inside of lists, maps and structs that have grown.
    # Hudi itself turns that reader off in a session that has read some other tables.
    with pytest.raises(HudiError, match="Nested types with type changes"):
        engine.read(grown.location, settings=VECTORIZED)
    assert _rows(engine.read(grown.location, settings=PLAIN)) == EXPECTED


@pytest.mark.soak
@newest_only
def test_hudi_reads_grown_columns_vectorized(engine: HudiEngine, tmp_path: Path) -> None:
    table = rli.create_table(tmp_path / "t", record_key="id", partition_by="city", index=f"lmdb://{tmp_path / 'index'}")
    table.upsert(narrow(["a"]).drop_columns(NESTED_NUMBERS))
    table.upsert(wide(["c"], "z").drop_columns(NESTED_NUMBERS))
    written = table.read()
    read = without_meta_columns(engine.read(table.location, settings=VECTORIZED))
    theirs = read.select(written.column_names).cast(written.schema)
    assert theirs.sort_by("id").to_pylist() == written.sort_by("id").to_pylist()


def test_hudi_rs_reads_grown_types(grown: rli.Table) -> None:
    assert _rows(read_with_hudi_rs(grown.location)) == EXPECTED


def _options(engine: HudiEngine) -> dict[str, str]:
    return {**write_options(engine, Layout(("id",), ("city",))), "hoodie.table.name": "t"}


def _listless(records: pa.Table) -> pa.Table:
    """Without lists: Hudi's writer refuses nulls in them unless Spark is started with an option for them."""
    return records.drop_columns(["points", "wholes"])


def _listless_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name not in {"points", "wholes"}} for row in rows]


def _seen(records: pa.Table) -> list[dict[str, Any]]:
    """Rows by key, with the entries of maps by theirs."""
    rows = without_meta_columns(records).sort_by("id").to_pylist()
    return [{**row, "named": sorted(row["named"], key=lambda entry: entry[0])} for row in rows]


@pytest.mark.soak
@newest_only
def test_hudi_writes_into_a_grown_table(engine: HudiEngine, tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = rli.create_table(path, record_key="id", partition_by="city", ordering="ts", index="global-simple:")
    for batch in (narrow(["a", "b"]), narrow(["e", "f"], "y"), wide(["b", "c"])):
        table.upsert(_listless(batch))
    # Hudi merges the narrow file of y, and the file of x, which rli has brought into the new types.
    engine.write(path, _listless(pa.concat_tables([wide(["e", "g"], "y", ts=5), wide(["a"], ts=5)])), _options(engine))
    expected = [*wide(["a"], ts=5).to_pylist(), *wide(["b", "c"]).to_pylist(), *wide(["e"], "y", ts=5).to_pylist()]
    expected += [*as_wide(narrow(["f"], "y")), *wide(["g"], "y", ts=5).to_pylist()]
    assert _seen(table.read()) == _listless_rows(expected) == _seen(engine.read(path, settings=PLAIN))
    assert table.verify_index().agrees
    assert table.upsert(_listless(narrow(["h"], "y")), missing="null").inserted == 1
    expected += as_wide(narrow(["h"], "y"))
    assert _seen(table.read()) == _listless_rows(expected) == _seen(engine.read(path, settings=PLAIN))


@newest_only
def test_rli_writes_into_hudi_grown_table(engine: HudiEngine, tmp_path: Path) -> None:
    path = tmp_path / "t"
    engine.write(path, _listless(narrow(["a", "b"])), _options(engine), mode="overwrite")
    for batch in (narrow(["e", "f"], "y"), wide(["b", "c"])):
        engine.write(path, _listless(batch), _options(engine))
    table = rli.open_table(path)
    assert _seen(table.read()) == _listless_rows(EXPECTED) == _seen(engine.read(path, settings=PLAIN))
    table.bootstrap_index(f"lmdb://{tmp_path / 'index'}")
    # A file that has the old types is brought into the new ones.
    assert table.upsert(_listless(wide(["e"], "y", ts=5))).updated == 1
    expected = [*EXPECTED[:3], *wide(["e"], "y", ts=5).to_pylist(), *as_wide(narrow(["f"], "y"))]
    assert _seen(table.read()) == _listless_rows(expected) == _seen(engine.read(path, settings=PLAIN))
