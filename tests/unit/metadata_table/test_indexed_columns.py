from __future__ import annotations

import pyarrow as pa
import pytest

from rli.errors import SchemaError, UnsupportedTableError
from rli.hudi.metadata.index_definitions import IndexDefinition
from rli.hudi.metadata.statistic_values import StatisticsVersion
from rli.metadata_table.indexed_columns import IndexedColumns, names_of_columns

META = ("_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_record_key")
SCHEMA = pa.schema([(f"c{number}", pa.list_(pa.int64()) if number == 1 else pa.int64()) for number in range(40)])


def _definition(version: str) -> IndexDefinition:
    return IndexDefinition("column_stats", "column_stats", columns=("b", "a"), version=version)


def test_definition_lists_the_columns() -> None:
    found = IndexedColumns.of({"column_stats": _definition("V2")}, SCHEMA)
    assert found == IndexedColumns(("b", "a"), StatisticsVersion.V2)


def test_default_is_that_of_hudi() -> None:
    plain = [f"c{number}" for number in range(32) if number != 1]
    assert IndexedColumns.of({}, SCHEMA) == IndexedColumns((*META, *plain), StatisticsVersion.V1)


def test_fields_of_structures_are_chosen() -> None:
    schema = pa.schema([("s", pa.struct([("a", pa.int64()), ("d", pa.float64()), ("l", pa.list_(pa.int64()))]))])
    assert names_of_columns(schema) == META
    assert names_of_columns(schema, ["s.a"]) == (*META, "s.a")
    for unfit in ("s", "s.d", "s.l", "s.none"):
        with pytest.raises(SchemaError, match=f"column={unfit}"):
            names_of_columns(schema, [unfit])


def test_later_forms_are_refused() -> None:
    with pytest.raises(UnsupportedTableError, match="V3"):
        IndexedColumns.of({"column_stats": _definition("V3")}, SCHEMA)
