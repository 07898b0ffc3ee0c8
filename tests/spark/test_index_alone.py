"""The index alone from Spark: frames are tagged and staged in the executors, and nothing is staged twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.errors import PythonException

import rli_spark
from rli import ConflictError, InvalidInputError, InvalidKeyError, SchemaError
from rli.index.record.alone import staging
from rli.index.record.alone.transaction import open_transaction
from rli.index.record.stored_index import StoredIndex
from rli.model import FileGroupId
from tests.support.locations import commit_places, leftover_chunks, locations, places_of
from tests.support.stored_indexes import create_index

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

A, B = FileGroupId("p", "a-0"), FileGroupId("q", "b-0")
COLUMNS = "record_key string, partition_path string, file_id string"


@pytest.fixture
def index(tmp_path: Path) -> Iterator[StoredIndex]:
    with create_index(f"lmdb://{tmp_path}/index", shards=2) as index:
        yield index


def frame(spark: SparkSession, places: dict[str, FileGroupId]) -> DataFrame:
    return spark.createDataFrame([(key, *place) for key, place in places.items()], COLUMNS)


def test_batch_is_tagged_staged_and_committed(spark: SparkSession, index: StoredIndex) -> None:
    commit_places(index, {"k1": A, "k2": A, "gone": A})
    batch = spark.createDataFrame([("k1",), ("new",), ("k1",)], "id string")
    with index.begin() as txn:
        tagged = {row.id: row["_rli_file_id"] for row in rli_spark.tag(batch, txn, record_key="id").collect()}
        assert tagged == {"k1": "a-0", "new": None}
        rli_spark.stage(frame(spark, {"k1": B, "new": B}), txn)
        rli_spark.stage_deletes(spark.createDataFrame([("gone",), ("gone",)], "record_key string"), txn)
        txn.stage(locations({"local": A}))
        assert places_of(index, ["new"]) == {}
        txn.prepare({"delta.version": "3"})
        committed = txn.commit()
    assert (committed.placed, committed.deleted) == (3, 1)
    assert places_of(index, ["k1", "k2", "new", "gone", "local"]) == {"k1": B, "k2": A, "new": B, "local": A}
    assert leftover_chunks(index) == []
    by_index = rli_spark.tag(frame(spark, {"new": A}).drop("file_id"), index).collect()
    assert [row["_rli_partition_path"] for row in by_index] == ["q"]


def test_repeated_attempts_stage_once(spark: SparkSession, index: StoredIndex) -> None:
    """An action that Spark runs again leaves chunks of both runs; the transaction names those of one."""
    places = {f"k{number}": A for number in range(50)}
    with index.begin() as txn:
        tasks = open_transaction(txn).for_tasks()
        abandoned = [tasks.stage(locations({"k1": B, "never": B})), tasks.stage(locations({"k2": B}))]
        rli_spark.stage(frame(spark, places), txn)
        assert len(staging.names_of(index.store, txn.id)) > len(abandoned)
        assert txn.commit().placed == 50
    assert places_of(index, [*places, "never"]) == places
    assert leftover_chunks(index) == []


@pytest.mark.one_spark
def test_a_transaction_of_spark_heeds_others(spark: SparkSession, index: StoredIndex) -> None:
    batch = frame(spark, {"k1": A, "k2": A})
    with index.begin() as txn:
        rli_spark.stage(batch, txn)
        commit_places(index, {"other": B})
        commit_places(index, {"k2": B})
        with pytest.raises(PythonException, match="ConflictError: 1 record keys were changed"):
            rli_spark.tag(batch, txn).collect()
        with pytest.raises(ConflictError) as raised:
            txn.commit()
    assert raised.value.keys == ("k2",)
    assert leftover_chunks(index) == []
    with index.begin() as txn:
        rli_spark.stage(batch, txn)
        commit_places(index, {"other": A})
        txn.commit()
    assert places_of(index, ["k1", "k2"]) == {"k1": A, "k2": A}


@pytest.mark.one_spark
def test_unstageable_frames_are_refused(spark: SparkSession, index: StoredIndex) -> None:
    batch = frame(spark, {"k1": A})
    with index.begin() as txn:
        with pytest.raises(InvalidKeyError, match="key=k1"):
            rli_spark.stage(batch.union(batch), txn)
        with pytest.raises(InvalidKeyError, match="file_id"):
            rli_spark.stage(spark.createDataFrame([("k1", "p", None)], COLUMNS), txn)
        with pytest.raises(SchemaError, match="column=file_id"):
            rli_spark.stage(batch.drop("file_id"), txn)
        with pytest.raises(SchemaError, match="record_key="):
            rli_spark.tag(batch, txn, record_key="id")
        with pytest.raises(InvalidInputError, match=r"index\.begin"):
            rli_spark.stage(batch, index)  # type: ignore[arg-type]
        with pytest.raises(InvalidInputError, match="the table is a path"):
            rli_spark.tag(batch, "redis://host")  # type: ignore[arg-type]
        rli_spark.stage(batch.limit(0), txn)
        assert txn.commit().sequence is None
    assert leftover_chunks(index) == []


def test_tasks_are_of_one_transaction(index: StoredIndex) -> None:
    with index.begin() as txn:
        open_transaction(txn).accept([open_transaction(txn).for_tasks().stage(locations({"k": A}))])
        txn.stage_deletes(pa.array(["k"]))
        txn.commit()
    assert places_of(index, ["k"]) == {}
