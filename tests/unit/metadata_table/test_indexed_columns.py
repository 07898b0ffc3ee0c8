from __future__ import annotations

import pyarrow as pa
import pytest

from rli.errors import UnsupportedTableError
from rli.hudi.metadata.index_definitions import IndexDefinition
from rli.hudi.metadata.statistic_values import StatisticsVersion
from rli.metadata_table.indexed_columns import IndexedColumns

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


def test_later_forms_are_refused() -> None:
    with pytest.raises(UnsupportedTableError, match="V3"):
        IndexedColumns.of({"column_stats": _definition("V3")}, SCHEMA)
