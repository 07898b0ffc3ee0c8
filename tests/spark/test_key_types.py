"""In Spark, too, one value has one key, in whatever type it arrives."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import rli
import rli_spark
from tests.support.index_kinds import KINDS
from tests.support.soak import in_ci
from tests.support.spark import small_writes

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

TASKS, DRIVER = 0, 1 << 22
"""Bytes of a write that the driver does."""
FEW = [("bucket", TASKS), ("record", DRIVER)]
COARSE = "id decimal(9,1), city decimal(3,1), ts long, v long"


def filled(table: rli.Table) -> rli.Table:
    """Two records, whose keys and partitions have two decimals."""
    values = pa.array([Decimal("1.00"), Decimal("2.50")], pa.decimal128(10, 2))
    table.upsert(pa.table({"id": values, "city": values, "ts": [1, 1], "v": [1, 1]}))
    return table


def coarse(spark: SparkSession, v: int, key: str = "1.0") -> DataFrame:
    return spark.createDataFrame([(Decimal(key), Decimal(key), v, v)], COARSE)


def stored(table: rli.Table) -> list[tuple[str, str, int]]:
    rows = table.read(columns=["_hoodie_record_key", "_hoodie_partition_path", "v"]).to_pylist()
    return sorted((row["_hoodie_record_key"], row["_hoodie_partition_path"], row["v"]) for row in rows)


@pytest.mark.parametrize(("kind", "limit"), in_ci(FEW, of=[*product(KINDS, (TASKS, DRIVER))]))
def test_one_value_has_one_key(spark: SparkSession, kind: str, limit: int, tmp_path: Path) -> None:
    table = filled(KINDS[kind].create(tmp_path))
    with small_writes(spark, limit):
        assert rli_spark.upsert(coarse(spark, 2), table).updated == 1
        assert rli_spark.insert(coarse(spark, 3), table).unchanged == 1
        assert stored(table) == [("1.00", "1.00", 2), ("2.50", "2.50", 1)]
        (tagged,) = rli_spark.tag(coarse(spark, 3), table).collect()
        assert tagged["_rli_partition_path"] == "1.00"
        assert [row["v"] for row in rli_spark.read(spark, table, keys=coarse(spark, 9)).collect()] == [2]
        assert rli_spark.delete(coarse(spark, 9).select("id"), table).deleted == 1
    assert stored(table) == [("2.50", "2.50", 1)]
    assert table.verify_index().agrees


@pytest.mark.parametrize("tag_by", in_ci(["state"], of=["index", "state"]))
def test_streams_fit_keys(spark: SparkSession, tag_by: str, tmp_path: Path) -> None:
    provider = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", provider)
    table = filled(KINDS["global-simple"].create(tmp_path))
    coarse(spark, 2).write.parquet(str(tmp_path / "source"))
    stream = spark.readStream.schema(COARSE).parquet(str(tmp_path / "source"))
    writer = rli_spark.write_stream(stream, table, checkpoint=str(tmp_path / "checkpoint"), tag_by=tag_by)
    writer.trigger(availableNow=True).start().awaitTermination()
    assert stored(table) == [("1.00", "1.00", 2), ("2.50", "2.50", 1)]


@pytest.mark.parametrize(
    "write", [rli_spark.upsert, rli_spark.insert, rli_spark.delete], ids=["upsert", "insert", "delete"]
)
def test_a_changing_key_is_refused(spark: SparkSession, write: Callable[..., rli.CommitResult], tmp_path: Path) -> None:
    table = filled(KINDS["record"].create(tmp_path))
    frame = spark.createDataFrame([(Decimal("1.005"), Decimal(1), 2, 2)], COARSE.replace("(9,1)", "(9,3)"))
    with pytest.raises(rli.InvalidKeyError, match=r"would change in its column: column=id .*value=Decimal\('1.005'\)"):
        write(frame, table)
    assert stored(table) == [("1.00", "1.00", 1), ("2.50", "2.50", 1)]


def test_ambiguous_keys_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    table = rli.create_table(tmp_path / "t", record_key=["a", "b"], index="global-simple:")
    frame = spark.createDataFrame([("1,b:2", "3", 1)], "a string, b string, v long")
    for use in (rli_spark.upsert, rli_spark.insert, rli_spark.delete):
        with pytest.raises(rli.InvalidKeyError, match="would not be told apart from another one: column=a row=0"):
            use(frame, table)
    assert table.timeline() == ()
