"""Indexes on columns, made and used by Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import rli
import rli_spark
from tests.support.tables import turn_into_version_9

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]


def test_records_are_read_by_values(spark: SparkSession, tmp_path: Path) -> None:
    table = rli.create_table(tmp_path / "t", record_key="id", partition_by="city")
    turn_into_version_9(table)
    names = ["a@b", "$\\", "", None, "a@b"]
    rows = {"id": list("abcde"), "city": list("vwxyz"), "email": names, "n": pa.array([1, 2, 3, None, 5], pa.int8())}
    table.upsert(pa.table(rows))
    assert rli_spark.create_index(spark, table, "by_email", on="email").state is rli.ColumnIndexState.VALID
    values = spark.createDataFrame(
        [("a@b", 1), ("$\\", 2), (None, 300), ("nobody", 3), ("a@b", 1)], "email string, n long"
    )
    found = rli_spark.read(spark, table, ["id"], keys=values, on="email")
    assert sorted(row.id for row in found.collect()) == ["a", "b", "e"]
    assert len(found.inputFiles()) == 3
    filtered = rli_spark.read(spark, table, filters="n > 1", keys=values, on="email")
    assert sorted(row.id for row in filtered.collect()) == ["b", "e"]
    assert filtered.columns == table.read().column_names
    assert sorted(row.id for row in rli_spark.read(spark, table, keys=values, on="n").collect()) == ["a", "b", "c"]
    with pytest.raises(rli.SchemaError, match="nowhere"):
        rli_spark.read(spark, table, keys=values, on="nowhere")
    with pytest.raises(rli.InvalidInputError, match="frame"):
        rli_spark.read(spark, table, on="email")
    # Nobody asks an index that is being built, or that was lost.
    table.create_index("by_n", on="n", wait=False)
    table.metadata.disable(["secondary_index_by_email"])
    states = {"by_email": rli.ColumnIndexState.INVALID, "by_n": rli.ColumnIndexState.BUILDING}
    assert {index.name: index.state for index in table.indexes() if index.name in states} == states
    for on in ("email", "n"):
        joined = rli_spark.read(spark, table).join(values.select(on).distinct(), on)
        asked = rli_spark.read(spark, table, keys=values, on=on)
        assert sorted(row.id for row in asked.collect()) == sorted(row.id for row in joined.collect()) != []
