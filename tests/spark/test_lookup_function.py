"""``rli_lookup`` in SQL gives what ``Table.lookup`` gives, a batch of keys at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row, SparkSession

import rli
import rli_spark
from rli_spark.sources.functions import LookUp
from tests.support.tables import records

pytestmark = pytest.mark.spark


def located(spark: SparkSession, table: rli.Table, keys: str) -> list[dict[str, Any]]:
    rli_spark.register_functions(spark)
    frame = spark.sql(f"SELECT * FROM rli_lookup('{table.location}', TABLE({keys}))")  # noqa: S608  (of this test)
    return sorted((row.asDict() for row in frame.collect()), key=lambda row: row["record_key"])


def test_sql_looks_record_keys_up(spark: SparkSession, table: rli.Table) -> None:
    table.upsert(records(*((f"k{n:02}", f"c{n % 3}", 1, float(n)) for n in range(20))))
    table.delete(["k01"])
    keys = [f"k{n:02}" for n in range(30)]
    spark.createDataFrame([(key,) for key in keys], "wanted string").repartition(3).createOrReplaceTempView("wanted")
    assert located(spark, table, "SELECT wanted FROM wanted") == table.lookup(keys).to_pylist()
    assert located(spark, table, "SELECT wanted FROM wanted WHERE wanted = ''") == []


def test_sql_looks_key_columns_up(spark: SparkSession, tmp_path: Path) -> None:
    table = rli.create_table(str(tmp_path / "pairs"), record_key=["id", "part"])
    rows = pa.table({"id": [1, 2], "part": ["x", "y"]})
    table.upsert(rows)
    found = located(spark, table, "SELECT part, CAST(id AS BIGINT) AS id FROM VALUES (1, 'x'), (3, 'y') AS v(id, part)")
    assert found == table.lookup(pa.table({"id": [1, 3], "part": ["x", "y"]})).to_pylist()


@pytest.mark.one_spark
def test_keys_are_looked_up_together(table: rli.Table) -> None:
    table.upsert(records(("a", "x", 1, 1.0)))
    task = LookUp()
    assert [found for key in ("a", "b", "a") for found in task.eval(table.location, Row(id=key))] == []
    assert [found[0] for found in task.terminate()] == ["a", "b", "a"]
    assert list(LookUp().terminate()) == []


@pytest.mark.one_spark
def test_one_table_for_all_keys(table: rli.Table) -> None:
    task = LookUp()
    list(task.eval(table.location, Row(id="a")))
    with pytest.raises(rli.InvalidInputError, match="the path is not the same"):
        list(task.eval("another", Row(id="a")))
