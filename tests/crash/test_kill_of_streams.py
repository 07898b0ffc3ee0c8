"""The driver of a stream dies at any step of a micro-batch: the stream that goes on writes each batch exactly once (P26)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from pyspark.errors import StreamingQueryException

import rli_spark
from rli import Step, Table, create_table, open_table
from rli.write.operations.upsert import upsert as upsert_frame
from rli_spark.streams import batch_writer
from tests.crash.writes import die
from tests.support.children import was_killed
from tests.support.soak import EVERY_POINT, in_ci
from tests.support.spark_drivers import Door, door_of, joined_session
from tests.support.tables import check_stored, records, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.one_spark, pytest.mark.invariant("P26")]

SCHEMA: Final = "id string, city string, ts long, v double"
BEFORE, AFTER = "before the write", "after the write"
FEW: Final = [Step.TAGGED, Step.PUBLISHED]
STEPS: Final = [BEFORE, *(step for step in Step if step is not Step.FILE_GROUP_WRITTEN), AFTER]
BATCHES: Final = [
    [("a", "x", 1, 1.0), ("b", "x", 1, 1.0), ("c", "y", 1, 1.0)],
    [("a", "y", 1, 2.0), ("b", "x", 1, 2.0), ("d", "y", 1, 2.0)],
    [("c", "x", 1, 3.0), ("e", "z", 1, 3.0)],
]
KILLED: Final = 1
"""The batch whose driver dies."""

Rows = dict[str, tuple[str, float]]


ROCKSDB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def state_stream(door: Door, folder: Path, step: str | None) -> None:
    """As ``stream``, by ``write_stream``: the locations of keys are in Spark's state, which goes back with the batch."""
    spark = joined_session(door)
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
    write: Callable[..., Any] = upsert_frame
    number = 0

    def die_at(reached: Step) -> None:
        if reached == step and number == KILLED:
            die()

    def upsert(*arguments: Any, **options: Any) -> Any:
        nonlocal number
        number = arguments[-1].caller.transaction.number
        if step == BEFORE and number == KILLED:
            die()
        result = write(*arguments[:-1], replace(arguments[-1], on_step=die_at), **options)
        if step == AFTER and number == KILLED:
            die()
        return result

    batch_writer.write_upsert = upsert  # type: ignore[attr-defined]
    events = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder / "incoming"))
    place = str(folder / "checkpoint")
    writer = rli_spark.write_stream(events, open_table(folder / "table"), checkpoint=place, tag_by="state")
    writer.trigger(availableNow=True).start().awaitTermination()


def stream(door: Door, folder: Path, step: str | None) -> None:
    """A child's work: it drives the stream to its end, or dies at a step of one batch."""
    spark = joined_session(door)

    def die_at(reached: str, number: int) -> None:
        if reached == step and number == KILLED:
            die()

    def write_batch(batch: DataFrame, number: int) -> None:
        query = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        assert query is not None
        die_at(BEFORE, number)
        table = open_table(folder / "table")
        rli_spark.upsert(batch, table, transaction=(query, number), on_step=lambda reached: die_at(reached, number))
        die_at(AFTER, number)

    events = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder / "incoming"))
    writer = events.writeStream.foreachBatch(write_batch).option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()


def await_end_of_streams(spark: SparkSession) -> None:
    """The JVM outlives a driver; a stream in it ends when it finds that its driver has gone."""
    for query in spark.streams.active:
        with pytest.raises(StreamingQueryException):
            query.awaitTermination()


@pytest.mark.parametrize("step", STEPS if EVERY_POINT else FEW)
def test_stream_writes_batch_exactly_once(spark: SparkSession, tmp_path: Path, step: str) -> None:
    # Without an ordering column the later write wins, so a batch that is written again shows.
    table = create_table(tmp_path / "table", record_key="id", partition_by="city")
    check_exactly_once(spark, tmp_path, table, stream, step)


@pytest.mark.invariant("P38")
@pytest.mark.parametrize("step", in_ci([Step.WRITTEN], of=STEPS))
def test_state_tagged_stream_writes_exactly_once(spark: SparkSession, tmp_path: Path, step: str) -> None:
    table = create_table(tmp_path / "table", record_key="id", partition_by="city", index="global-simple:")
    check_exactly_once(spark, tmp_path, table, state_stream, step)


def check_exactly_once(
    spark: SparkSession, tmp_path: Path, table: Table, stream: Callable[[Door, Path, str | None], None], step: str
) -> None:
    """Let a stream's driver die at a step, let others write, and let the stream go on."""
    (tmp_path / "incoming").mkdir()
    for number, batch in enumerate(BATCHES):
        lines = [json.dumps(dict(zip(("id", "city", "ts", "v"), row, strict=True))) for row in batch]
        path = tmp_path / "incoming" / f"{number}.json"
        path.write_text("\n".join(lines))
        # The stream takes the oldest file first.
        os.utime(path, (1_700_000_000 + 60 * number,) * 2)
    door = door_of(spark)
    assert was_killed(stream, door, tmp_path, step)
    await_end_of_streams(spark)

    took_effect = "d" in state_of(table)
    assert took_effect == is_published(step)
    # Other writers, which a batch that is written twice would undo.
    table.delete(["a", "d"])
    table.upsert(records(("b", "z", 1, 9.0), ("other", "x", 1, 9.0)))

    assert not was_killed(stream, door, tmp_path, None)
    expected: Rows = {"b": ("z", 9.0), "other": ("x", 9.0)}
    if not took_effect:
        expected |= {key: (city, value) for key, city, _, value in BATCHES[KILLED]}
    expected |= {key: (city, value) for key, city, _, value in BATCHES[2]}
    assert state_of(table) == expected
    check_stored(table)


def is_published(step: str) -> bool:
    return step == AFTER or (step != BEFORE and list(Step).index(Step(step)) >= list(Step).index(Step.PUBLISHED))


def state_of(table: Table) -> Rows:
    return {row["id"]: (row["city"], row["v"]) for row in rows_of(open_table(table.location))}
