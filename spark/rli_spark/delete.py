"""Deleting by key alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame

from rli import CommitResult, RecordIndex, Step, Table
from rli.layout.key_generator import KeyGenerator, require_record_keys
from rli.layout.meta_columns import RECORD_KEY
from rli.table import work_rows
from rli.table.table import pass_over
from rli.table.tagging import current_locations, delete_rows
from rli.table.write_transaction import OnStep, WriteTransaction
from rli_spark.batches import arrow_schema, first_of_each_key, gathered, map_tables, tasks_for
from rli_spark.errors import unwrapped_errors
from rli_spark.file_groups import write_file_groups
from rli_spark.profile import Profile
from rli_spark.tasks import SparkTasks

_ASSUMED_BYTES_PER_KEY: Final = 64
_KEYS: Final = pa.schema([(work_rows.RECORD_KEY, pa.string())])


def delete(df: DataFrame, table: Table, *, on_step: OnStep = pass_over) -> CommitResult:
    """Remove records by their keys alone; keys that the table does not hold are counted as unchanged.

    Args:
        df: has the table's record-key columns, or the column ``_hoodie_record_key`` with whole record keys; other
            columns do not matter.
        table: the table.
        on_step: called on the driver after each step of the write.

    Raises:
        As ``Table.delete``.
    """
    definition, index = table.refreshed(), table.index
    key_generator = definition.key_generator
    if RECORD_KEY not in df.columns:
        key_generator.record_keys(arrow_schema(df).empty_table())
    with ExitStack() as cached, unwrapped_errors():
        write = WriteTransaction.begin(definition, index, SparkTasks(df.sparkSession), on_step)
        try:
            schema = write.snapshot.schema or pa.schema([])
            given = map_tables(df, lambda tables: _keys(tables, key_generator), _KEYS).persist()
            cached.callback(given.unpersist)
            tasks = tasks_for(df.sparkSession, given.count() * _ASSUMED_BYTES_PER_KEY)
            sorted_keys = given.repartition(tasks, *_KEYS.names).sortWithinPartitions(*_KEYS.names)
            keys = map_tables(
                sorted_keys, lambda tables: first_of_each_key(tables, work_rows.RECORD_KEY), _KEYS
            ).persist()
            cached.callback(keys.unpersist)
            snapshot = write.sequence
            rows = map_tables(
                keys, lambda tables: _delete_rows(tables, index, snapshot, schema), work_rows.work_schema(schema)
            ).persist()
            cached.callback(rows.unpersist)
            profile = Profile.of(rows)
            on_step(Step.TAGGED)
            wanted = keys.count()
            slices = profile.slices(write.snapshot.slices)
            results = write_file_groups(rows, write.context(schema), slices, min(tasks, len(profile.origins)))
            on_step(Step.WRITTEN)
        except BaseException:
            write.abort()
            raise
        return write.commit(results, schema, "DELETE", unchanged=wanted - profile.rows)


def _keys(tables: Iterator[pa.Table], key_generator: KeyGenerator) -> Iterator[pa.Table]:
    for table in tables:
        if RECORD_KEY in table.column_names:
            keys = table.column(RECORD_KEY)
            require_record_keys(keys)
        else:
            keys = key_generator.record_keys(table)
        yield pa.table([keys], schema=_KEYS)


def _delete_rows(
    tables: Iterator[pa.Table], index: RecordIndex, snapshot: int, schema: pa.Schema
) -> Iterator[pa.Table]:
    for table in gathered(tables):
        keys = table.column(work_rows.RECORD_KEY).combine_chunks()
        yield delete_rows(keys, current_locations(index, keys, snapshot), schema)
