from __future__ import annotations

import pyarrow as pa
import pytest

from rli.hudi.key_generator import KeyGenerator
from rli.hudi.partition_values import partition_values
from rli.hudi.properties import new_table_properties

ROWS = pa.table({"id": ["a", "b"], "city": ["Oslo", "Rome"], "year": pa.array([2023, 2024], pa.int32())})


@pytest.mark.parametrize("hive_style", [True, False])
def test_a_path_tells_its_columns_values(hive_style: bool) -> None:  # noqa: FBT001
    properties = new_table_properties(
        "t", record_key_fields=("id",), partition_fields=("city", "year"), hive_style=hive_style
    )
    generator = KeyGenerator(("id",), ("city", "year"), hive_style, url_encode=False)
    path = generator.partition_paths(ROWS).to_pylist()[0]
    found = partition_values(properties, ROWS.schema, path)
    assert {name: value.as_py() for name, value in found.items()} == {"city": "Oslo", "year": 2023}


def test_possibly_formatted_time_yields_no_values() -> None:
    properties = new_table_properties("t", record_key_fields=("id",), partition_fields=("city", "year"))
    timed = properties.changed({"hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS"})
    assert partition_values(timed, ROWS.schema, "1970/2024") == {}
