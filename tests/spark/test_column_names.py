"""Frames with names of columns that a table, or a reference to a column in Spark, cannot hold."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

import rli
import rli_spark
from tests.support.spark import small_writes

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

FRAMES = [
    ("select 'a' id, 'x' city, 1L ts, 1 `a.b`", r"column='a\.b'.*rename it, for example to 'a_b'"),
    ("select 'a' id, 'x' city, 1L ts, 1 `a``b`", "column='a`b'"),
    ("select 'a' id, 'x' city, 1L ts, named_struct('a.b', 1) s", r"column='s\.a\.b'"),
    ("select 'a' id, 'x' city, 1L ts, named_struct('x', 1, 'X', 2) s", r"column=s\.X other=s\.x"),
    ("select 'a' id, 'x' city, 1L ts, 1 TS", "column=TS other=ts"),
]


@pytest.mark.parametrize("small", [0, 1 << 20], ids=["tasks", "driver"])
@pytest.mark.parametrize(("query", "named"), FRAMES)
def test_unfit_names_are_refused(spark: SparkSession, table: rli.Table, query: str, named: str, small: int) -> None:
    with small_writes(spark, small):
        for write in (rli_spark.upsert, rli_spark.insert):
            with pytest.raises(rli.SchemaError, match=named):
                write(spark.sql(query), table)
    assert not table.timeline()


@pytest.mark.parametrize("kind", ["lmdb", "simple"])
def test_other_columns_have_any_name(spark: SparkSession, table: rli.Table, kind: str) -> None:
    """Deletes, tags and look-ups use the key columns alone."""
    if kind == "simple":
        table.migrate_index("global-simple:")
    rli_spark.upsert(spark.sql("select 'a' id, 'x' city, 1L ts"), table)
    frame = spark.sql("select 'a' id, 1 `a.b`, 2 `A.b`, 3 `c``d`")
    tagged = rli_spark.tag(frame, table)
    assert tagged.columns[:4] == ["id", "a.b", "A.b", "c`d"]
    assert [tuple(row)[:5] for row in tagged.collect()] == [("a", 1, 2, 3, "x")]
    assert [row.id for row in rli_spark.read(spark, table, keys=frame).collect()] == ["a"]
    assert rli_spark.delete(frame, table).deleted == 1
