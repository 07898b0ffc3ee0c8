"""Tagging a frame: where does each record live now?"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame

from rli import Table
from rli.errors import SchemaError
from rli.write.engine import LOOKUP_SECONDS, TableDefinition, TableIndex, await_synced
from rli_spark.batches import arrow_schema, for_look_ups, map_tables
from rli_spark.executors import require_reachable

TAG_COLUMNS: Final = ("_rli_partition_path", "_rli_file_id", "_rli_instant_time")


def tag(df: DataFrame, table: Table, *, timeout: float = LOOKUP_SECONDS) -> DataFrame:
    """The frame with the location of each record: ``_rli_partition_path``, ``_rli_file_id``, ``_rli_instant_time``.

    All three are null for a record that would be inserted. Every row of the frame gets its tag, repeated keys too.
    Look-ups run in the executors, in batches, when the frame is computed.

    Args:
        df: has the table's record-key columns.
        table: the table.
        timeout: seconds; for how long to wait for writers, and to apply their commits: once before the job, and in each
            batch that meets a commit which is in the index in part.

    Raises:
        IndexNotReadyError: the index is missing, or has not seen all commits of the table after that time.
        SchemaError: a record-key column is missing, or the frame has tags already.
    """
    taken = [name for name in TAG_COLUMNS if name in df.columns]
    if taken:
        raise SchemaError(f"the frame has these columns already: columns={taken}; drop them before tagging")
    definition, index = table.definition.reloaded(), table.index
    require_reachable(df.sparkSession, index)
    await_synced(definition, index, timeout)
    schema = arrow_schema(df)
    definition.key_generator.record_keys(schema.empty_table())
    tagged = pa.schema([*schema, *(pa.field(name, pa.string()) for name in TAG_COLUMNS)])
    return map_tables(df, lambda tables: _tagged(tables, definition, index, tagged, timeout), tagged)


def _tagged(
    tables: Iterator[pa.Table], definition: TableDefinition, index: TableIndex, schema: pa.Schema, timeout: float
) -> Iterator[pa.Table]:
    key_generator = definition.key_generator
    for table in for_look_ups(tables):
        keys = key_generator.record_keys(table)
        # A commit whose writer died since the frame was tagged is brought into the index here.
        locations = index.locate_now(definition, keys, timeout, partial(await_synced, definition, index))
        yield pa.table([*table.columns, *locations.columns[1:]], schema=schema)
