"""Statistics of fields of structures, which Hudi keeps if a job lists them: ours are the same or absent, and lose no record."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from rli import Table, open_table
from rli.hudi.metadata.statistic_values import StatisticsVersion
from rli.hudi.metadata.views import column_statistics
from rli.metadata_table.base_file_records import base_file_records
from rli.metadata_table.indexed_columns import IndexedColumns
from rli.storage import Storage
from tests.support.histories import Layout
from tests.support.hudi import HudiEngine
from tests.support.hudi_options import newest_only, table_options
from tests.support.metadata_tables import metadata_reader

pytestmark = [pytest.mark.hudi, pytest.mark.spark, pytest.mark.slow, pytest.mark.soak, pytest.mark.invariant("P52")]

_STRUCTURE: Final = pa.struct(
    [
        ("a", pa.int64()),
        ("b", pa.struct([("c", pa.string()), ("d", pa.float64())])),
        ("l", pa.list_(pa.int64())),
    ]
)
_SCHEMA: Final = pa.schema([("id", pa.string()), ("city", pa.string()), ("ts", pa.int64()), ("s", _STRUCTURE)])
_LISTED: Final = ("s.a", "s.b.c", "s.b.d", "s.l.list.element")
_WRITING: Final = {
    **table_options(Layout(partition_by=("city",), hive_style=False)),
    "hoodie.datasource.write.operation": "upsert",
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.partition.stats.enable": "true",
    "hoodie.metadata.index.column.stats.column.list": ",".join(_LISTED),
}


def _record(key: str, city: str, number: int | None) -> dict[str, Any]:
    inner = None if number is None else {"a": number, "b": {"c": f"{number:03}", "d": float(number)}, "l": [number]}
    return {"id": key, "city": city, "ts": number or 0, "s": inner}


@newest_only
def test_fields_of_structures_lose_no_record(engine: HudiEngine, tmp_path: Path) -> None:
    path = tmp_path / "t"
    rows = {row["id"]: row for row in (_record("a", "x", 1), _record("b", "x", 5), _record("c", "y", None))}
    engine.write(path, _table_of(rows), _WRITING)
    _require_statistics_of_hudi(path)
    open_table(path).index.bootstrap(f"lmdb://{tmp_path}/index")
    table = open_table(path)
    _require_right(engine, table, rows)

    changed = {row["id"]: row for row in (_record("a", "x", 90), _record("d", "y", 70))}
    table.upsert(_table_of(changed))
    rows |= changed
    _require_right(engine, table, rows)

    changed = {row["id"]: row for row in (_record("d", "y", 2), _record("e", "x", 99))}
    engine.write(path, _table_of({key: row | {"ts": 200} for key, row in changed.items()}), _WRITING)
    table.sync_index()
    _require_right(engine, table, rows | changed)
    table.close()


def _table_of(rows: dict[str, dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist([*rows.values()], _SCHEMA)


def _require_statistics_of_hudi(path: Path) -> None:
    """Of the files that Hudi has written, ours are the same. None are of floating-point numbers, nor of elements of lists."""
    files = [(file.parent.name, file.name) for file in path.glob("*/*.parquet")]
    of_hudi = column_statistics(metadata_reader(path), _LISTED, files)
    for file in files:
        columns = IndexedColumns(_LISTED, StatisticsVersion.V2)
        ours = base_file_records(Storage(str(path)), "/".join(file), columns).statistics
        assert ours.keys() == {"s.a", "s.b.c"}
        for column, mine in ours.items():
            theirs = of_hudi[file][column]
            assert (mine.value_count, mine.null_count, mine.value_type) == (
                theirs.value_count,
                theirs.null_count,
                theirs.value_type,
            )
            # Of nulls alone Hudi stores zeros.
            is_null = mine.null_count == mine.value_count
            assert is_null or (mine.minimum, mine.maximum) == (theirs.minimum, theirs.maximum)


def _require_right(engine: HudiEngine, table: Table, rows: dict[str, dict[str, Any]]) -> None:
    """The metadata table is, and Hudi finds by each field what is there, with the metadata table and without it."""
    assert table.metadata.verify() == ()
    numbers = {key: row["s"]["a"] for key, row in rows.items() if row["s"] is not None}
    for where in ("s.a > 60", "s.b.c > '060'", "s.b.d > 60.0"):
        expected = sorted(key for key, number in numbers.items() if number > 60)
        for enabled in ("true", "false"):
            options = {"hoodie.metadata.enable": enabled, "hoodie.enable.data.skipping": "true"}
            found = engine.read(table.location, options, where)["id"].to_pylist()
            assert sorted(found) == expected, (where, enabled)
        assert sorted(table.read(filters=where)["id"].to_pylist()) == expected, where
