"""Deleting by key alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame

from rli import CommitResult, RecordIndex, Step, Table
from rli.layout.key_generator import KeyGenerator, require_record_keys
from rli.layout.meta_columns import RECORD_KEY
from rli.table.file_groups import work_rows
from rli.table.file_groups.tagging import current_locations, delete_rows
from rli.table.table import pass_over
from rli.table.writing.conflicts import ReadSet, SomeKeys, newer_keys, sum_of
from rli.table.writing.retries import write_until_committed
from rli.table.writing.write_transaction import OnStep, PreparedWrite, WriteTransaction
from rli_spark.batches import arrow_schema, first_of_each_key, gathered, map_tables, tasks_for
from rli_spark.errors import unwrapped_errors
from rli_spark.file_groups import write_file_groups
from rli_spark.profile import Profile
from rli_spark.tasks import SparkTasks

_ASSUMED_BYTES_PER_KEY: Final = 64
_KEYS: Final = pa.schema([(work_rows.RECORD_KEY, pa.string())])
_NEWER: Final = pa.schema([("count_of_keys", pa.int64()), ("sample", pa.list_(pa.string()))])


def delete(df: DataFrame, table: Table, *, attempts: int | None = None, on_step: OnStep = pass_over) -> CommitResult:
    """Remove records by their keys alone; keys that the table does not hold are counted as unchanged.

    The frame is computed once, however often the write is tried.

    Args:
        df: has the table's record-key columns, or the column ``_hoodie_record_key`` with whole record keys; other
            columns do not matter.
        table: the table.
        attempts: as for ``Table.upsert``.
        on_step: as for ``upsert``.

    Raises:
        As ``Table.delete``.
    """
    most = table.attempts(attempts)
    definition, index = table.refreshed(), table.index
    key_generator = definition.key_generator
    if RECORD_KEY not in df.columns:
        key_generator.record_keys(arrow_schema(df).empty_table())
    with ExitStack() as cached:
        with unwrapped_errors():
            tasks, keys = _distinct_keys(df, key_generator, cached)
            wanted = keys.count()
        return write_until_committed(
            partial(WriteTransaction.begin, definition, index, SparkTasks(df.sparkSession), on_step),
            partial(_write_deletes, keys, wanted, tasks),
            most,
        )


def _distinct_keys(df: DataFrame, key_generator: KeyGenerator, cached: ExitStack) -> tuple[int, DataFrame]:
    """How many tasks the keys call for, and the keys."""
    given = map_tables(df, lambda tables: _keys(tables, key_generator), _KEYS).persist()
    cached.callback(given.unpersist)
    tasks = tasks_for(df.sparkSession, given.count() * _ASSUMED_BYTES_PER_KEY)
    sorted_keys = given.repartition(tasks, *_KEYS.names).sortWithinPartitions(*_KEYS.names)
    keys = map_tables(sorted_keys, lambda tables: first_of_each_key(tables, work_rows.RECORD_KEY), _KEYS).persist()
    cached.callback(keys.unpersist)
    return tasks, keys


def _write_deletes(keys: DataFrame, wanted: int, tasks: int, write: WriteTransaction) -> PreparedWrite:
    index, snapshot = write.index, write.sequence
    schema = write.snapshot.schema or pa.schema([])
    with unwrapped_errors():
        rows = map_tables(
            keys, lambda tables: _delete_rows(tables, index, snapshot, schema), work_rows.work_schema(schema)
        ).persist()
        try:
            profile = Profile.of(rows)
            write.on_step(Step.TAGGED)
            slices = profile.slices(write.snapshot.slices)
            results = write_file_groups(rows, write.context(schema), slices, min(tasks, len(profile.origins)))
        finally:
            rows.unpersist()
        write.on_step(Step.WRITTEN)
    read = ReadSet(profile.origins, partial(_newer_keys, keys, index, snapshot))
    return PreparedWrite(results, schema, "DELETE", wanted - profile.rows, read)


def _newer_keys(keys: DataFrame, index: RecordIndex, snapshot: int) -> SomeKeys:
    """Which of the keys were changed after a commit sequence."""

    def look(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        for table in gathered(tables):
            found = newer_keys(index, snapshot, table.column(work_rows.RECORD_KEY).combine_chunks())
            yield pa.table([[found.count], [list(found.sample)]], schema=_NEWER)

    with unwrapped_errors():
        rows = map_tables(keys, look, _NEWER).collect()
    return sum_of(SomeKeys(row.count_of_keys, tuple(row.sample)) for row in rows)


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
