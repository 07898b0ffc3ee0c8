"""Tagging a frame: where does each record live now?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame

from rli import IndexTransaction, RecordIndex, Table
from rli.commit.readiness import await_synced
from rli.errors import InvalidInputError, SchemaError
from rli.hudi.table_keys import TableKeys
from rli.index.any_index import locate_now
from rli.index.contract import LOOKUP_SECONDS, FileIndex, TableIndex
from rli.index.locators import FileLocator
from rli.index.record.alone.transaction import open_transaction
from rli.model import Scope
from rli.table.table import opened_table
from rli_spark.planning.resources import parallelism_of
from rli_spark.requests.file_probes import shared_slices
from rli_spark.session.arguments import require_frame_and_table
from rli_spark.session.batches import arrow_schema, for_look_ups, map_numbers, map_tables
from rli_spark.session.executors import require_reachable

TAG_COLUMNS: Final = ("_rli_partition_path", "_rli_file_id", "_rli_instant_time")

_KEY: Final = "_rli_record_key"
_PARTITION_PATH: Final = "_rli_wanted_partition_path"


def tag(
    df: DataFrame,
    target: Table | RecordIndex | IndexTransaction,
    *,
    record_key: str = "record_key",
    timeout: float = LOOKUP_SECONDS,
) -> DataFrame:
    """The frame with the location of each record: ``_rli_partition_path``, ``_rli_file_id``, ``_rli_instant_time``.

    All three are null for a record that would be inserted. Every row of the frame gets its tag, repeated keys too.
    Look-ups run in the executors, in batches, when the frame is computed; Spark shows their errors as its own
    ``PythonException``. Of an index without a store (``simple:``, ``global-simple:``), Spark joins the frame with the
    keys in the table's files as they are now.

    Args:
        df: has the table's record-key columns, and its partition columns if record keys are unique in their partition
            only; for an index or a transaction, the column ``record_key``.
        target: a table. Or an index that is used alone, as it is when the frame is computed. Or a transaction on such an
            index, as of its snapshot; then compute the frame before the transaction ends.
        record_key: of an index or a transaction, the text column that holds the keys.
        timeout: seconds; for how long to wait for writers, and to apply their commits: once before the job, and in each
            batch that meets a commit which is in the index in part.

    Raises:
        IndexNotReadyError: the index is missing, or has not seen all commits of the table after that time.
        SchemaError: a record-key column is missing, or the frame has tags already.
        InvalidInputError: the target is something else, or an index whose keys are unique in their partition only.
    """
    require_frame_and_table(df, target, RecordIndex, IndexTransaction)
    taken = [name for name in TAG_COLUMNS if name in df.columns]
    if taken:
        raise SchemaError(f"the frame has these columns already: columns={taken}", remedy="drop them before tagging")
    schema = arrow_schema(df)
    tagged = pa.schema([*schema, *(pa.field(name, pa.string()) for name in TAG_COLUMNS)])
    if isinstance(target, Table):
        definition, index = opened_table(target).refreshed()
        require_reachable(df.sparkSession, index)
        state = await_synced(definition, index, timeout)
        keys = state.snapshot.table_keys
        # Fails here, on no records, if a column is missing.
        keys.record_keys(schema.empty_table())
        _wanted_paths(schema.empty_table(), keys, index)
        if isinstance(index, FileIndex):
            return _joined(df, keys, index.locator_of(state.snapshot))

        def locate(records: pa.Table) -> pa.Table:
            # A commit whose writer died since the frame was tagged is brought into the index here.
            return locate_now(
                definition,
                index,
                keys.record_keys(records),
                timeout=timeout,
                await_synced=partial(await_synced, definition, index),
                partition_paths=_wanted_paths(records, keys, index),
            )

        return map_tables(df, lambda tables: _tagged(tables, locate, tagged), tagged)
    if dict(df.dtypes).get(record_key) != "string":
        raise SchemaError(
            f"a string column of record keys is missing: column={record_key} found={df.columns}",
            remedy="name it with record_key=",
        )
    if isinstance(target, IndexTransaction):
        tasks = open_transaction(target).for_tasks()
        require_reachable(df.sparkSession, tasks.index)
        return map_tables(df, lambda tables: _looked_up(tables, record_key, tasks.tag, tagged), tagged)
    require_reachable(df.sparkSession, target)
    if target.scope is not Scope.GLOBAL:
        raise InvalidInputError(
            f"this index finds a key in several partitions: index={target.url} scope={target.scope}",
            remedy="tag with its table",
        )
    look_up = partial(target.lookup, timeout=timeout)
    return map_tables(df, lambda tables: _looked_up(tables, record_key, look_up, tagged), tagged)


def _looked_up(
    tables: Iterator[pa.Table], record_key: str, look_up: Callable[[pa.ChunkedArray], pa.Table], schema: pa.Schema
) -> Iterator[pa.Table]:
    return _tagged(tables, lambda records: look_up(records.column(record_key)), schema)


def _tagged(
    tables: Iterator[pa.Table], locate: Callable[[pa.Table], pa.Table], schema: pa.Schema
) -> Iterator[pa.Table]:
    for table in for_look_ups(tables):
        yield pa.table([*table.columns, *locate(table).columns[1:]], schema=schema)


def _wanted_paths(table: pa.Table, keys: TableKeys, index: TableIndex) -> pa.Array | None:
    """The partition of each row by its own values, where keys are unique in their partition only."""
    if index.scope is Scope.GLOBAL:
        return None
    return keys.partition_paths(table, index.scope).cast(pa.string())


def _joined(df: DataFrame, keys: TableKeys, locator: FileLocator) -> DataFrame:
    """The frame, joined with the keys that the table's files hold."""
    spark, schema = df.sparkSession, arrow_schema(df)
    on = [_KEY] if locator.scope is Scope.GLOBAL else [_KEY, _PARTITION_PATH]
    slices = locator.candidates(None)
    tasks = max(1, parallelism_of(spark).for_pieces(len(slices)))
    shares = shared_slices(slices, tasks)

    def with_keys(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        for table in tables:
            columns = {_KEY: keys.record_keys(table)}
            if _PARTITION_PATH in on:
                columns[_PARTITION_PATH] = keys.partition_paths(table, locator.scope).cast(pa.string())
            yield pa.table([*table.columns, *columns.values()], schema=keyed)

    def stored_keys(numbers: Iterator[int]) -> Iterator[pa.Table]:
        for number in numbers:
            for found in locator.stored(shares[number]):
                names = [found.column("record_key"), found.column("partition_path")]
                yield pa.table([*names[: len(on)], *found.columns[1:]], schema=stored)

    keyed = pa.schema([*schema, *(pa.field(name, pa.string()) for name in on)])
    stored = pa.schema([pa.field(name, pa.string()) for name in (*on, *TAG_COLUMNS)])
    # Fails here, on no records, if a partition column is missing.
    next(with_keys(iter([schema.empty_table()])))
    frame = map_tables(df, with_keys, keyed)
    tags = map_numbers(spark, tasks, stored_keys, stored)
    # A reference to one of the other columns may be ambiguous.
    return frame.join(tags, on=on, how="left").drop(*on)
