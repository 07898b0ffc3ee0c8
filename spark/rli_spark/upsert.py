"""Upserting a frame.

The driver plans and commits; executors form keys, look them up, merge and write. What runs in executors may run more
than once: nothing that it does is visible before the driver publishes the results that it accepted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.accumulators import Accumulator
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  (the name that everybody knows)
from pyspark.sql.types import ArrayType, DataType, MapType, StructType
from pyspark.storagelevel import StorageLevel

from rli import CommitResult, OnPartitionChange, Step, Table
from rli.layout.file_names import new_file_id
from rli.layout.file_slices import FileSlice
from rli.layout.key_generator import KeyGenerator
from rli.layout.meta_columns import META_COLUMNS
from rli.layout.schema import conform, written_schema
from rli.layout.support import require_writable
from rli.model import FileGroupId
from rli.storage import Storage
from rli.table.file_groups import work_rows
from rli.table.file_groups.placement import Placement, file_groups_of, plan_placements
from rli.table.file_groups.tagging import (
    KEY_COLUMNS,
    current_locations,
    departures,
    late_arrivals,
    place,
    require_no_moves,
    require_slice,
    to_work_rows,
    with_keys,
)
from rli.table.file_groups.work_rows import Change
from rli.table.state.definition import TableDefinition
from rli.table.table import pass_over
from rli.table.writing.conflicts import ReadSet
from rli.table.writing.retries import write_until_committed
from rli.table.writing.write_transaction import OnStep, PreparedWrite, WriteTransaction
from rli_spark.batches import arrow_schema, first_of_each_key, gathered, map_tables, tasks_for
from rli_spark.errors import unwrapped_errors
from rli_spark.file_groups import whole_groups, write_file_groups
from rli_spark.profile import Profile
from rli_spark.tasks import SparkTasks

_TIE_BREAKER: Final = "_rli_tie_breaker"


@dataclass(frozen=True, slots=True)
class _Batch:
    """The records of an upsert with their keys, computed once for all attempts to write them.

    Attributes:
        keyed: the records, behind their key and the partition path that their own values name.
        schema: of the records.
        tasks: how many tasks their size calls for.
        bytes_per_record: of a record in Arrow.
    """

    keyed: DataFrame
    schema: pa.Schema
    tasks: int
    bytes_per_record: float

    @classmethod
    def of(cls, data: DataFrame, table: TableDefinition, cached: ExitStack) -> _Batch:
        """The records behind their keys, computed and measured."""
        ordering, key_generator = table.properties.ordering_field, table.key_generator
        schema = written_schema(arrow_schema(data))
        keyed_schema = pa.schema([*(pa.field(name, pa.string()) for name in KEY_COLUMNS), *schema])
        size = data.sparkSession.sparkContext.accumulator(0)
        with unwrapped_errors():
            keyed = map_tables(data, lambda tables: _keyed(tables, key_generator, ordering, size), keyed_schema)
            records = _kept(keyed, cached).count()
        return cls(keyed, schema, tasks_for(data.sparkSession, size.value), size.value / max(records, 1))


def upsert(
    df: DataFrame,
    table: Table,
    *,
    on_partition_change: OnPartitionChange | str | None = None,
    attempts: int | None = None,
    on_step: OnStep = pass_over,
) -> CommitResult:
    """Insert records with new keys, update those with known keys, move those whose partition changed.

    Of several records with one key the one with the greatest ordering value counts. Among equals one is chosen by
    its content, always the same one, because rows of a frame have no order.

    The frame is computed once, and its records are kept by Spark until the write has ended: a further attempt writes
    the same records, whatever the frame would give by then.

    Args:
        df: the records.
        table: the table; its index must be reachable from the executors.
        on_partition_change: "move", "keep" or "fail"; by default what the table's settings say.
        attempts: as for ``Table.upsert``.
        on_step: called on the driver after each step of the write; the steps begin anew with each attempt.

    Raises:
        As ``Table.upsert``.
    """
    on_change, most = table.partition_change(on_partition_change), table.attempts(attempts)
    definition, index = table.refreshed(), table.index
    data = df.drop(*META_COLUMNS)
    incoming = arrow_schema(data)
    require_writable(definition.properties)
    # Fails here, on no records, if a column is missing or of a wrong type.
    with_keys(incoming.empty_table(), definition.key_generator, definition.properties.ordering_field)
    with ExitStack() as cached:
        batch = _Batch.of(data, definition, cached)
        return write_until_committed(
            partial(WriteTransaction.begin, definition, index, SparkTasks(df.sparkSession), on_step),
            partial(_write_records, batch, on_change),
            most,
        )


def _write_records(batch: _Batch, on_change: OnPartitionChange, write: WriteTransaction) -> PreparedWrite:
    with ExitStack() as cached, unwrapped_errors():
        schema = write.schema_with(batch.schema)
        rows = _kept(_tagged(batch, write, schema, on_change), cached)
        tagged = profile = Profile.of(rows)
        write.on_step(Step.TAGGED)
        if profile.arriving:
            rows = _in_time(rows, write, schema, profile, cached)
            profile = Profile.of(rows)
            _require_allowed(rows, profile, on_change)
        placements = _plan(write, profile, batch.bytes_per_record)
        write.on_step(Step.RESOLVED)
        results = write_file_groups(
            _placed(rows, schema, placements),
            write.context(schema),
            profile.slices(write.snapshot.slices),
            min(batch.tasks, len(profile.origins) + len(list(file_groups_of(placements)))),
        )
        write.on_step(Step.WRITTEN)
        return PreparedWrite(results, schema, "UPSERT", tagged.rows - profile.rows, ReadSet(tagged.origins))


def _kept(frame: DataFrame, cached: ExitStack) -> DataFrame:
    """A frame that is computed once, as long as Spark keeps its blocks; it may be computed again without harm."""
    frame.persist(StorageLevel.MEMORY_AND_DISK)
    cached.callback(frame.unpersist)
    return frame


def _keyed(
    tables: Iterator[pa.Table], key_generator: KeyGenerator, ordering: str | None, size: Accumulator[int]
) -> Iterator[pa.Table]:
    for table in tables:
        keyed = with_keys(table, key_generator, ordering)
        # Only an estimate: a task that runs again counts again.
        size.add(keyed.nbytes)
        yield keyed


def _tagged(batch: _Batch, write: WriteTransaction, schema: pa.Schema, on_change: OnPartitionChange) -> DataFrame:
    """Work rows of the newest record of each key."""
    ordering = write.table.properties.ordering_field
    newest_first = [F.col(work_rows.RECORD_KEY), *([F.col(_quoted(ordering)).desc()] if ordering else [])]
    arranged = (
        batch.keyed.withColumn(_TIE_BREAKER, F.xxhash64(*_hashable(batch.keyed)))
        .repartition(batch.tasks, F.col(work_rows.RECORD_KEY))
        .sortWithinPartitions(*newest_first, F.col(_TIE_BREAKER))
        .drop(_TIE_BREAKER)
    )
    index, snapshot = write.index, write.sequence
    keyed_schema = pa.schema([*(pa.field(name, pa.string()) for name in KEY_COLUMNS), *schema])

    def work_rows_of(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        for keyed in gathered(first_of_each_key(tables, work_rows.RECORD_KEY)):
            keys = keyed.column(work_rows.RECORD_KEY).combine_chunks()
            yield to_work_rows(conform(keyed, keyed_schema), current_locations(index, keys, snapshot), on_change)

    return map_tables(arranged, work_rows_of, work_rows.work_schema(schema))


def _in_time(
    rows: DataFrame, write: WriteTransaction, schema: pa.Schema, profile: Profile, cached: ExitStack
) -> DataFrame:
    """The rows less those that move although what is stored is newer."""
    ordering = write.table.properties.ordering_field
    if ordering is None:
        return rows
    storage, field = write.table.storage, schema.field(ordering)
    slices = {group: require_slice(write.snapshot.slices, group) for group in profile.origins}
    moves = F.col(work_rows.CHANGE) == int(Change.ARRIVE)
    by_origin = list(work_rows.PRIOR_FILE_GROUP)
    tasks = min(len(slices), tasks_for(rows.sparkSession, 0))
    arriving = rows.where(moves).repartition(tasks, *by_origin).sortWithinPartitions(*by_origin)
    in_time = map_tables(
        arriving, lambda tables: _arriving_in_time(tables, storage, slices, field), work_rows.work_schema(schema)
    )
    return rows.where(~moves).unionByName(_kept(in_time, cached))


def _arriving_in_time(
    tables: Iterator[pa.Table], storage: Storage, slices: Mapping[FileGroupId, FileSlice], ordering: pa.Field
) -> Iterator[pa.Table]:
    for group, rows in whole_groups(tables, work_rows.PRIOR_FILE_GROUP):
        yield rows.filter(pc.invert(late_arrivals(storage, slices[group], ordering, rows.combine_chunks())))


def _require_allowed(rows: DataFrame, profile: Profile, on_change: OnPartitionChange) -> None:
    if on_change is OnPartitionChange.FAIL and profile.arriving:
        arriving = rows.where(F.col(work_rows.CHANGE) == int(Change.ARRIVE)).select(work_rows.RECORD_KEY)
        require_no_moves(profile.arriving, [row[0] for row in arriving.take(5)])


def _plan(write: WriteTransaction, profile: Profile, estimate: float) -> dict[str, Placement]:
    live = write.snapshot.slices.values()
    return plan_placements(
        profile.new_records,
        write.bytes_per_record(estimate),
        [file_slice for file_slice in live if file_slice.group.partition_path in profile.new_records],
        write.table.require_settings(),
        new_file_id,
    )


def _placed(rows: DataFrame, schema: pa.Schema, placements: Mapping[str, Placement]) -> DataFrame:
    """The rows with the file groups that they change; for each move, a row that leaves and one that arrives."""

    def place_all(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        for table in tables:
            changes = table.column(work_rows.CHANGE)
            updates = pc.equal(changes, int(Change.UPDATE))
            new = table.filter(pc.invert(updates))
            yield table.filter(updates)
            if new.num_rows:
                yield place(new, placements)
                yield departures(new.filter(pc.equal(new.column(work_rows.CHANGE), int(Change.ARRIVE))))

    return map_tables(rows, place_all, work_rows.work_schema(schema))


def _hashable(frame: DataFrame) -> list[Column]:
    return [F.col(_quoted(field.name)) for field in frame.schema if not _holds_map(field.dataType)]


def _holds_map(kind: DataType) -> bool:
    if isinstance(kind, ArrayType):
        return _holds_map(kind.elementType)
    if isinstance(kind, StructType):
        return any(_holds_map(field.dataType) for field in kind)
    return isinstance(kind, MapType)


def _quoted(column: str) -> str:
    return f"`{column.replace('`', '``')}`"
