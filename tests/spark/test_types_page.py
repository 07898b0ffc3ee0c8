"""Spark reads each line of the page of types."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row, SparkSession

import rli
import rli_spark
from rli_spark.session.batches import spark_schema
from tests.support.types_page import held_types

pytestmark = pytest.mark.spark

_ROWS = 4


def _plain(value: Any) -> Any:
    if isinstance(value, Row):
        return {name: _plain(part) for name, part in value.asDict().items()}
    if isinstance(value, dict):
        return [(key, _plain(part)) for key, part in sorted(value.items())]
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    if isinstance(value, bytearray):
        return bytes(value)
    return [_plain(part) for part in value] if isinstance(value, list) else value


def _padded(values: list[Any]) -> list[Any]:
    return [*values, *[None] * (_ROWS - len(values))]


def test_spark_reads_every_type(spark: SparkSession, table: rli.Table) -> None:
    lines = held_types()
    columns = {
        f"c{number}": pa.concat_arrays([line.column(), pa.nulls(_ROWS - len(line.values) - 1, line.column().type)])
        for number, line in enumerate(lines)
    }
    keys = {"id": [f"k{row}" for row in range(_ROWS)], "city": ["x"] * _ROWS, "ts": [1] * _ROWS}
    table.upsert(pa.table({**keys, **columns}))
    frame = rli_spark.read(spark, table)
    assert frame.schema == spark_schema(pa.schema(table.schema or []))
    rows = sorted(frame.collect(), key=lambda row: row["id"])
    found = {line.text: [_plain(row[f"c{number}"]) for row in rows] for number, line in enumerate(lines)}
    assert found == {line.text: _padded(line.returned) for line in lines}
