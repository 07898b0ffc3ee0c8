"""Staging changes of a transaction on the index alone, from a frame."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame

from rli import IndexTransaction, InvalidInputError, SchemaError, VoidAttemptError
from rli.index.record.alone.transaction import open_transaction
from rli_spark.session.batches import arrow_schema, map_tables
from rli_spark.session.executors import require_reachable
from rli_spark.session.jobs import jobs
from rli_spark.session.running_task import running_task

_LOCATIONS: Final = ("record_key", "partition_path", "file_id")
_PARTS: Final = pa.schema([("task", pa.int32()), ("part", pa.binary())])
"""What a task says of what it staged: its number, and a pickled ``StagedPart``."""


def stage(df: DataFrame, txn: IndexTransaction) -> None:
    """Stage new locations of record keys, from the executors: ``IndexTransaction.stage`` for a frame.

    The frame is computed at once. Of each task one attempt counts, so attempts that are lost or repeated stage nothing twice.

    Args:
        df: text columns ``record_key``, ``partition_path`` and ``file_id`` without nulls; a key occurs once. Other columns
            are passed over.
        txn: an open transaction; commit it afterwards.

    Raises:
        SchemaError: a column is missing, or is no text.
        InvalidKeyError: a value is null, or a key occurs twice.
        SettingsError: the executors cannot reach the index.
    """
    _require_transaction(txn)
    _require_strings(df, _LOCATIONS)
    tasks = open_transaction(txn).for_tasks()
    require_reachable(df.sparkSession, tasks.index)
    _accept(df.select(*_LOCATIONS), tasks.stage, txn)


def stage_deletes(df: DataFrame, txn: IndexTransaction, *, record_key: str = "record_key") -> None:
    """Stage the removal of record keys, from the executors: ``IndexTransaction.stage_deletes`` for a frame.

    Args:
        df: the keys; they may repeat.
        txn: an open transaction; commit it afterwards.
        record_key: the text column that holds the keys.

    Raises:
        SchemaError: the column is missing, or is no text.
        InvalidKeyError: a key is null.
        SettingsError: the executors cannot reach the index.
    """
    _require_transaction(txn)
    _require_strings(df, [record_key])
    tasks = open_transaction(txn).for_tasks()
    require_reachable(df.sparkSession, tasks.index)
    keys = df.select(df[record_key].alias("record_key"))
    _accept(keys, lambda table: tasks.stage_deletes(table.column("record_key")), txn)


def _accept(keyed: DataFrame, stage_part: Callable[[pa.Table], Any], txn: IndexTransaction) -> None:
    # All rows of a key meet in one task, which finds keys that occur twice.
    arranged = keyed.repartition("record_key")
    with jobs(keyed.sparkSession, "stage changes"):
        rows = map_tables(arranged, partial(_staged, stage_part, arrow_schema(keyed)), _PARTS).collect()
    if len({row.task for row in rows}) < len(rows):
        raise VoidAttemptError(
            "tasks that stage changes gave more than one result", remedy="begin a new transaction, and stage again"
        )
    open_transaction(txn).accept(pickle.loads(row.part) for row in rows)  # noqa: S301  (of our own tasks)


def _staged(stage_part: Callable[[pa.Table], Any], schema: pa.Schema, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    rows = pa.concat_tables([schema.empty_table(), *tables])
    if rows.num_rows:
        part = pickle.dumps(stage_part(rows))
        yield pa.table({"task": [running_task().partitionId()], "part": [part]}, schema=_PARTS)


def _require_transaction(txn: object) -> None:
    if not isinstance(txn, IndexTransaction):
        raise InvalidInputError(
            f"changes are staged in a transaction: given={type(txn).__name__}",
            remedy="begin one: with index.begin() as txn",
        )


def _require_strings(df: DataFrame, names: Any) -> None:
    types = dict(df.dtypes)
    for name in names:
        if types.get(name) != "string":
            raise SchemaError(
                f"a string column is missing: column={name} type={types.get(name)} found={df.columns}",
                remedy="rename or cast a column of the frame",
            )
