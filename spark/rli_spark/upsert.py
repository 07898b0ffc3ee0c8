"""Upserting a frame.

The driver plans and commits; executors form keys, look them up, merge and write. What runs in executors may run more
than once: nothing that it does is visible before the driver publishes the results that it accepted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  (the name that everybody knows)
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from rli import CommitResult, OnPartitionChange, Step, Table
from rli.commit.conflicts import ReadSet
from rli.commit.requests import request_folder
from rli.commit.shared_records import shared_records
from rli.commit.write_transaction import OnStep, PreparedWrite, WriteTransaction
from rli.file_group import work_rows
from rli.file_group.work_rows import Change
from rli.hudi.file_names import new_file_id
from rli.hudi.key_generator import KeyGenerator
from rli.hudi.meta_columns import META_COLUMNS
from rli.hudi.schema import conform, written_schema
from rli.hudi.table_features import require_writable
from rli.model import FileGroupId
from rli.storage import Storage
from rli.table.table import pass_over
from rli.view.caller_metadata import CallerMetadata
from rli.view.file_slices import FileSlice
from rli.write.choices import chosen_attempts, chosen_partition_change
from rli.write.maintenance import write_and_maintain
from rli.write.placement import Placement, plan_placements, records_placed
from rli.write.tagging import (
    KEY_COLUMNS,
    current_locations,
    groups_of,
    late_arrivals,
    newest_of,
    partitions_of,
    require_no_moves,
    require_slices,
    to_work_rows,
    with_keys,
)
from rli_spark.batches import arrow_schema, keep, map_tables, tasks_for
from rli_spark.errors import unwrapped_errors
from rli_spark.executors import require_reachable
from rli_spark.file_groups import whole_groups, write_file_groups
from rli_spark.row_batches import DATA, unpack
from rli_spark.profile import TAGGED, Profile, packet, packet_of_read, tagged
from rli_spark.requests import Request, require_same
from rli_spark.tally import Tally
from rli_spark.tasks import SparkTasks

_TIE_BREAKER: Final = "_rli_tie_breaker"
_SAMPLE: Final = 5


@dataclass(frozen=True, slots=True)
class _Records:
    """The records of an upsert, and how they are to be written.

    Attributes:
        request: the records behind their key and the partition path that their own values name.
        schema: of the records.
        on_change: what becomes of records whose partition changed.
    """

    request: Request
    schema: pa.Schema
    on_change: OnPartitionChange


def upsert(
    df: DataFrame,
    table: Table,
    *,
    on_partition_change: OnPartitionChange | str | None = None,
    attempts: int | None = None,
    transaction: tuple[str, int] | None = None,
    metadata: Mapping[str, str] | None = None,
    on_step: OnStep = pass_over,
) -> CommitResult:
    """Insert records with new keys, update those with known keys, move those whose partition changed.

    Of several records with one key the one with the greatest ordering value counts. Among equals one is chosen by
    its content, always the same one, because rows of a frame have no order.

    Each task of the frame is computed once, and its records are kept in the table's work folder until the write has
    ended. So neither a lost executor nor a further attempt changes what is written, whatever the frame would give by
    then. (Shuffles inside the frame are Spark's: it repeats their tasks as it does in any job.)

    Args:
        df: the records.
        table: the table; its index must be reachable from the executors.
        on_partition_change: "move", "keep" or "fail"; by default what the table's settings say.
        attempts: as for ``Table.upsert``.
        transaction: as for ``Table.upsert``.
        metadata: as for ``Table.upsert``.
        on_step: called on the driver after each step of the write; the steps begin anew with each attempt.

    Raises:
        RliError: as for ``Table.upsert``.
    """
    caller = CallerMetadata.of(transaction, metadata)
    on_change, most = (
        chosen_partition_change(table.settings, on_partition_change),
        chosen_attempts(table.settings, attempts),
    )
    definition, index = table.definition.reloaded(), table.index
    require_reachable(df.sparkSession, index)
    key_generator, ordering = definition.key_generator, definition.properties.ordering_field
    data = df.drop(*META_COLUMNS)
    incoming = arrow_schema(data)
    require_writable(definition.properties)
    # Fails here, on no records, if a column is missing or of a wrong type.
    with_keys(incoming.empty_table(), key_generator, ordering)
    records, seconds = shared_records(definition, index), definition.require_settings().lease_seconds
    with request_folder(definition.storage, records, seconds) as folder:
        told_apart = data.withColumn(_TIE_BREAKER, F.xxhash64(*_hashable(data)))
        request = Request.of(told_apart, lambda tables: _keyed(tables, key_generator, ordering), folder)
        return write_and_maintain(
            partial(WriteTransaction.begin, definition, index, SparkTasks(df.sparkSession), on_step, caller=caller),
            partial(_write_records, _Records(request, written_schema(incoming), on_change)),
            most,
            SparkTasks(df.sparkSession),
        )


def _write_records(records: _Records, write: WriteTransaction) -> PreparedWrite:
    with ExitStack() as kept, unwrapped_errors():
        schema = write.schema_with(records.schema)
        rows = keep(_tagged(records, write, schema), kept)
        profile = Profile.of(rows)
        records.request.require_whole(profile.read)
        write.on_step(Step.TAGGED)
        new, late, expected = Counter(profile.new), 0, profile.staying
        if profile.leaving:
            moves = F.col(work_rows.CHANGE) == int(Change.MOVE_IN)
            in_time = keep(_in_time(records, rows.where(moves), write, schema, profile), kept)
            arriving = Profile.of(in_time)
            require_same("compared", profile.moving, arriving.read)
            _require_allowed(in_time, arriving.staying.keys, records.on_change)
            late = profile.moving.keys - arriving.staying.keys
            expected += arriving.staying
            new.update(arriving.new)
            rows = rows.where(~moves).unionByName(in_time)
        placements = _plan(write, new, records.request.bytes_per_row)
        write.on_step(Step.RESOLVED)
        live = write.snapshot.slices
        slices = live.of_groups(profile.origins)
        slices.update({file_slice.group: file_slice for file_slice in live.of_partitions(new)})
        results = write_file_groups(
            rows,
            placements,
            write.context(schema),
            slices,
            _sizes(profile, placements, live, records.request.bytes_per_row),
            expected=expected,
        )
        write.on_step(Step.WRITTEN)
        return PreparedWrite(results, schema, "UPSERT", late, ReadSet(profile.origins))


def _keyed(tables: Iterator[pa.Table], key_generator: KeyGenerator, ordering: str | None) -> Iterator[pa.Table]:
    """Records with their keys and what decides between equals; of each key the newest of each table."""
    for table in tables:
        tie_breaker = table.column(_TIE_BREAKER)
        keyed = with_keys(table.drop_columns(_TIE_BREAKER), key_generator, ordering)
        yield _newest(keyed.append_column(_TIE_BREAKER, tie_breaker), ordering)


def _newest(keyed: pa.Table, ordering: str | None) -> pa.Table:
    """One record for each key."""
    newest = newest_of(keyed, ordering)
    # Of equals the last one counts, so that those that there are must come in an order that does not depend on chance.
    return keyed if newest is keyed else newest_of(keyed.sort_by(_TIE_BREAKER), ordering)


def _tagged(records: _Records, write: WriteTransaction, schema: pa.Schema) -> DataFrame:
    """Packets of work rows: of the newest record of each key."""
    ordering, index, snapshot = write.table.properties.ordering_field, write.index, write.sequence
    keyed_schema = pa.schema([*(pa.field(name, pa.string()) for name in KEY_COLUMNS), *schema])
    on_change = records.on_change

    def work_packets(requested: list[pa.Table]) -> Iterator[pa.Table]:
        if requested:
            rows = pa.concat_tables(requested)
            yield tagged([packet_of_read(Tally.of(rows.column(work_rows.RECORD_KEY)))])
            keyed = conform(_newest(rows, ordering), keyed_schema)
            keys = keyed.column(work_rows.RECORD_KEY).combine_chunks()
            yield _in_packets(to_work_rows(keyed, current_locations(index, keys, snapshot), on_change))

    return records.request.by_key(work_packets, TAGGED)


def _in_packets(rows: pa.Table) -> pa.Table:
    updates, inserts, arrivals = (
        rows.filter(pc.equal(rows.column(work_rows.CHANGE), int(change)))
        for change in (Change.UPDATE, Change.INSERT, Change.MOVE_IN)
    )
    return tagged(
        [
            *(packet(Change.UPDATE, *group, part) for group, part in groups_of(updates)),
            *(packet(Change.INSERT, path, None, part) for path, part in partitions_of(inserts)),
            *(packet(Change.MOVE_IN, *group, part) for group, part in groups_of(arrivals, work_rows.PRIOR_FILE_GROUP)),
        ]
    )


def _in_time(
    records: _Records, arriving: DataFrame, write: WriteTransaction, schema: pa.Schema, profile: Profile
) -> DataFrame:
    """Packets of the records that move, less those that are older than what is stored."""
    ordering = write.table.properties.ordering_field
    storage, field = write.table.storage, schema.field(ordering) if ordering else None
    slices = require_slices(write.snapshot.slices, profile.leaving)
    size = int(sum(profile.leaving.values()) * records.request.bytes_per_row)
    tasks = min(len(slices), tasks_for(arriving.sparkSession, size))
    by_origin = arriving.repartition(tasks, *work_rows.FILE_GROUP).sortWithinPartitions(*work_rows.FILE_GROUP)
    return map_tables(by_origin, lambda packets: _arriving_in_time(packets, storage, slices, field), TAGGED)


def _arriving_in_time(
    packets: Iterator[pa.Table], storage: Storage, slices: Mapping[FileGroupId, FileSlice], ordering: pa.Field | None
) -> Iterator[pa.Table]:
    arriving, read = list[pa.Table](), Tally()
    columns = (*work_rows.FILE_GROUP, DATA)
    named = (
        (FileGroupId(partition_path.as_py(), file_id.as_py()), content.as_buffer())
        for table in packets
        for partition_path, file_id, content in zip(*(table.column(name) for name in columns), strict=True)
    )
    for group, rows in whole_groups(named):
        read += Tally.of(rows.column(work_rows.RECORD_KEY))
        if ordering is not None:
            rows = rows.filter(pc.invert(late_arrivals(storage, slices[group], ordering, rows)))  # noqa: PLW2901
        arriving.append(rows)
    if arriving:
        yield tagged([packet_of_read(read)])
        parts = partitions_of(pa.concat_tables(arriving))
        yield tagged(packet(Change.MOVE_IN, path, None, part) for path, part in parts)


def _require_allowed(arriving: DataFrame, count: int, on_change: OnPartitionChange) -> None:
    if on_change is OnPartitionChange.FAIL and count:
        some = unpack(arriving.select(DATA).where(F.col(DATA).isNotNull()).take(1)[0][0])
        require_no_moves(count, some.column(work_rows.RECORD_KEY).slice(0, _SAMPLE).to_pylist())


def _plan(write: WriteTransaction, new: Mapping[str, int], estimate: float) -> dict[str, Placement]:
    return plan_placements(
        new,
        write.bytes_per_record(estimate),
        write.snapshot.slices.of_partitions(new),
        write.table.require_settings(),
        new_file_id,
    )


def _sizes(
    profile: Profile,
    placements: Mapping[str, Placement],
    live: Mapping[FileGroupId, FileSlice],
    bytes_per_row: float,
) -> dict[FileGroupId, float]:
    """Of each file group that the write may change, about how many bytes it takes to write: what it has, what it gets."""
    rows = Counter(profile.changed)
    rows.update(dict.fromkeys(profile.leaving, 0))
    for group, taken in records_placed(placements):
        rows[group] += taken
    return {group: (live[group].size if group in live else 0) + count * bytes_per_row for group, count in rows.items()}


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
