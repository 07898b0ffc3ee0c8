"""Which columns of base files get a dictionary, and how Parquet names them."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq

from rli.hudi.dictionaries import columns_with_dictionary

NESTED = pa.schema(
    [
        ("points", pa.list_(pa.struct([("x", pa.int64()), ("names", pa.list_(pa.string()))]))),
        ("by name", pa.map_(pa.string(), pa.struct([("size", pa.int32())]))),
        ("part", pa.struct([("numbers", pa.list_(pa.int8())), ("text", pa.string())])),
        ("with.dot", pa.large_list(pa.string())),
    ]
)


def test_nested_columns_have_parquet_names() -> None:
    sink = io.BytesIO()
    pq.write_table(NESTED.empty_table(), sink)
    schema = pq.ParquetFile(sink).schema
    assert columns_with_dictionary(NESTED.empty_table()) == [schema.column(i).path for i in range(len(schema.names))]


def test_nearly_distinct_columns_get_no_dictionary() -> None:
    rows = pa.table(
        {
            "key": [f"key-{number}" for number in range(2_000)],
            "city": ["Rome", "Oslo"] * 1_000,
            "nothing": pa.nulls(2_000, pa.string()),
        }
    )
    assert columns_with_dictionary(rows) == ["city", "nothing"]
    assert columns_with_dictionary(rows, distinct=["city"]) == ["nothing"]
