"""A stream that upserts each micro-batch exactly once, whatever dies, and beside other writers of the table.

Run it in an empty folder: python stream_upserts.py (needs record-level-index[spark])
"""

import json
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import rli
import rli_spark

SCHEMA = "id string, city string, ts long, fare double"


def write_batch(batch: DataFrame, number: int) -> None:
    """Upsert a micro-batch. Spark repeats it with the same number if it does not know that it succeeded."""
    # The checkpoint keeps the query's id. A new checkpoint counts from 0 again, and has a new id.
    query = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    rli_spark.upsert(batch, rli.open_table("trips"), transaction=(query, number))


def run(spark: SparkSession) -> None:
    """Write all files of the folder `incoming` that no earlier run has written."""
    events = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json("incoming")
    writer = events.writeStream.foreachBatch(write_batch).option("checkpointLocation", "checkpoint")
    writer.trigger(availableNow=True).start().awaitTermination()


def receive(name: str, *trips: dict[str, object]) -> None:
    """Put a file into the folder that the stream reads."""
    folder = Path("incoming")
    folder.mkdir(exist_ok=True)
    draft = folder / f".{name}"
    draft.write_text("\n".join(map(json.dumps, trips)))
    draft.rename(folder / f"{name}.json")


def main() -> None:
    """Write two files, delete a record beside the stream, and write a third file."""
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    table = rli.create_table("trips", record_key="id", partition_by="city", ordering="ts")
    receive("1", {"id": "a", "city": "Rome", "ts": 1, "fare": 9.5}, {"id": "b", "city": "Oslo", "ts": 1, "fare": 4.0})
    receive("2", {"id": "b", "city": "Bern", "ts": 2, "fare": 8.0})
    run(spark)
    table.delete(["a"])
    receive("3", {"id": "c", "city": "Rome", "ts": 3, "fare": 7.5})
    run(spark)
    print(table.read().select(["id", "city", "fare"]).sort_by("id").to_pylist())
    spark.stop()


if __name__ == "__main__":
    main()
