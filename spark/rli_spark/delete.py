"""Deleting by key alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame

from rli import CommitResult, RecordIndex, Step, Table
from rli.commit.conflicts import ReadSet, SomeKeys, newer_keys, sum_of
from rli.commit.requests import request_folder
from rli.commit.shared_records import shared_records
from rli.commit.write_transaction import OnStep, PreparedWrite, WriteTransaction
from rli.file_group import work_rows
from rli.file_group.work_rows import Change
from rli.hudi.key_generator import KeyGenerator, require_record_keys
from rli.hudi.meta_columns import RECORD_KEY
from rli.table.table import pass_over
from rli.view.caller_metadata import CallerMetadata
from rli.write.choices import chosen_attempts
from rli.write.maintenance import write_and_maintain
from rli.write.tagging import current_locations, delete_rows, groups_of, require_slices
from rli_spark.batches import arrow_schema, keep
from rli_spark.errors import unwrapped_errors
from rli_spark.executors import require_reachable
from rli_spark.file_groups import write_file_groups
from rli_spark.profile import TAGGED, Profile, packet, packet_of_read, packet_of_unknown, tagged
from rli_spark.requests import Request
from rli_spark.tally import Tally
from rli_spark.tasks import SparkTasks

_KEYS: Final = pa.schema([(work_rows.RECORD_KEY, pa.string())])
_NEWER: Final = pa.schema(
    [
        ("count_of_keys", pa.int64()),
        ("sample", pa.list_(pa.string())),
        ("read_keys", pa.int64()),
        ("read_hashes", pa.int64()),
    ]
)


def delete(
    df: DataFrame,
    table: Table,
    *,
    attempts: int | None = None,
    transaction: tuple[str, int] | None = None,
    metadata: Mapping[str, str] | None = None,
    on_step: OnStep = pass_over,
) -> CommitResult:
    """Remove records by their keys alone; keys that the table does not hold are counted as unchanged.

    As for ``upsert``, each task of the frame is computed once, however often the write is tried.

    Args:
        df: has the table's record-key columns, or the column ``_hoodie_record_key`` with whole record keys; other
            columns do not matter.
        table: the table.
        attempts: as for ``Table.upsert``.
        transaction: as for ``Table.upsert``.
        metadata: as for ``Table.upsert``.
        on_step: as for ``upsert``.

    Raises:
        RliError: as for ``Table.delete``.
    """
    caller = CallerMetadata.of(transaction, metadata)
    most = chosen_attempts(table.settings, attempts)
    definition, index = table.definition.reloaded(), table.index
    require_reachable(df.sparkSession, index)
    key_generator = definition.key_generator
    if RECORD_KEY not in df.columns:
        key_generator.record_keys(arrow_schema(df).empty_table())
    records, seconds = shared_records(definition, index), definition.require_settings().lease_seconds
    with request_folder(definition.storage, records, seconds) as folder:
        request = Request.of(df, lambda tables: _keys(tables, key_generator), folder)
        return write_and_maintain(
            partial(WriteTransaction.begin, definition, index, SparkTasks(df.sparkSession), on_step, caller=caller),
            partial(_write_deletes, request),
            most,
            SparkTasks(df.sparkSession),
        )


def _write_deletes(request: Request, write: WriteTransaction) -> PreparedWrite:
    index, snapshot = write.index, write.sequence
    schema = write.snapshot.schema or pa.schema([])
    with ExitStack() as kept, unwrapped_errors():
        rows = keep(request.by_key(lambda keys: _delete_packets(keys, index, snapshot, schema), TAGGED), kept)
        profile = Profile.of(rows)
        request.require_whole(profile.read)
        write.on_step(Step.TAGGED)
        slices = require_slices(write.snapshot.slices, profile.changed)
        sizes = {group: file_slice.size for group, file_slice in slices.items()}
        results = write_file_groups(rows, {}, write.context(schema), slices, sizes, expected=profile.staying)
        write.on_step(Step.WRITTEN)
    read = ReadSet(profile.origins, partial(_newer_keys, request, index, snapshot))
    return PreparedWrite(results, schema, "DELETE", profile.unknown, read)


def _newer_keys(request: Request, index: RecordIndex, snapshot: int) -> SomeKeys:
    """Which of the keys were changed after a commit sequence."""

    def look(requested: list[pa.Table]) -> Iterator[pa.Table]:
        found, read = newer_keys(index, snapshot, _distinct(requested)), _tally(requested)
        yield pa.table([[found.count], [list(found.sample)], [read.keys], [read.hashes]], schema=_NEWER)

    with unwrapped_errors():
        rows = request.by_key(look, _NEWER).collect()
    request.require_whole(sum((Tally(row.read_keys, row.read_hashes) for row in rows), Tally()))
    return sum_of(SomeKeys(row.count_of_keys, tuple(row.sample)) for row in rows)


def _keys(tables: Iterator[pa.Table], key_generator: KeyGenerator) -> Iterator[pa.Table]:
    for table in tables:
        if RECORD_KEY in table.column_names:
            keys = table.column(RECORD_KEY)
            require_record_keys(keys)
        else:
            keys = key_generator.record_keys(table)
        yield pa.table([keys.unique()], schema=_KEYS)


def _tally(requested: list[pa.Table]) -> Tally:
    return sum((Tally.of(rows.column(work_rows.RECORD_KEY)) for rows in requested), Tally())


def _distinct(requested: list[pa.Table]) -> pa.Array:
    """The keys of all tables, each once."""
    chunks = [chunk for rows in requested for chunk in rows.column(work_rows.RECORD_KEY).chunks]
    return pa.chunked_array(chunks, pa.string()).unique()


def _delete_packets(
    requested: list[pa.Table], index: RecordIndex, snapshot: int, schema: pa.Schema
) -> Iterator[pa.Table]:
    keys = _distinct(requested)
    rows = delete_rows(keys, current_locations(index, keys, snapshot), schema)
    known = (packet(Change.DELETE, *group, part) for group, part in groups_of(rows))
    unknown = len(keys) - rows.num_rows
    yield tagged([*known, packet_of_unknown(unknown), packet_of_read(_tally(requested))])
