"""Writing the records of a request: what upsert and merge have in common."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import pyarrow as pa

from rli.commit.conflicts import no_keys
from rli.commit.prepared_write import PreparedWrite
from rli.commit.write_basis import WriteBasis
from rli.file_group.conditions import Condition
from rli.file_group.write_context import WriteContext
from rli.index.contract import ChangedKeys
from rli.index.reports import SomeKeys
from rli.model import OnPartitionChange, Step, WriteCounts
from rli.write.engine.contract import Engine, Request, TaggedRows, Tagging
from rli.write.operations.named_slices import require_slices
from rli.write.operations.planning import (
    deleted_among,
    kept_deletes,
    plan_write,
    read_set,
    requested_among,
    run_plan,
    tagged_rows,
)
from rli.write.rows.late_moves import LateMoves, require_no_moves

_SAMPLE: Final = 5


@dataclass(frozen=True, slots=True)
class RecordWrite:
    """How the records of a request are written in an attempt.

    Attributes:
        operation: Hudi's name of the operation.
        schema: of the table from now on.
        on_change: what becomes of records whose partition changed.
        tagging: of the rows, where the index looks keys up.
        undecided: the same where it computes where they belong.
        kept: columns of which stored records keep their values.
        may_delete: whether rows may be marked as deleted.
        when: the caller's condition on changes of stored records; None where there is none.
    """

    operation: str
    schema: pa.Schema
    on_change: OnPartitionChange
    tagging: Tagging
    undecided: Tagging
    kept: tuple[str, ...] = ()
    may_delete: bool = False
    when: Condition | None = None


def prepare_records(write: WriteBasis, request: Request, engine: Engine, records: RecordWrite) -> PreparedWrite:
    """Insert, update, move and delete the records of a request; see ``Operation.prepare``."""
    schema = records.schema
    with tagged_rows(write, request, records.tagging, records.undecided) as tagged:
        write.on_step(Step.TAGGED)
        before = tagged.profile
        context = write.context(schema, is_flushed=engine.flushes_in_tasks, kept=records.kept)
        context = replace(context, when=records.when)
        rows = _in_time(tagged, write, records, context)
        late = sum(before.leaving.values()) - sum(rows.profile.arriving.values())
        plan = plan_write(write, context, rows.profile, request.bytes_per_row)
        write.on_step(Step.RESOLVED)
        results = run_plan(write, rows, plan)
    apart = before.apart + WriteCounts(unchanged=late)
    # Of a record that changes nothing, another writer may have inserted the key by now: the delete of an unknown key came too late
    # then, and the key of a known record may have expired for that writer.
    unchanged = apart.unchanged + sum(result.counts.unchanged for result in results)
    is_told = not unchanged or (write.expired_before is None and not records.may_delete)
    read = read_set(
        before,
        results,
        no_keys if is_told else partial(_changed_keys, request),
        partial(deleted_among, request),
        write.deleted_keys,
        requested_keys=partial(requested_among, request),
    )
    ordering = write.table.properties.ordering_field if records.may_delete else None
    refused = [(result.group.partition_path, result.refused) for result in results if result.refused]
    deleted = kept_deletes(write, engine, request, schema, ordering=ordering, by_mark=True, refused=refused)
    return PreparedWrite(
        results, schema, records.operation, apart, read, deleted_keys=deleted, is_flushed=engine.flushes_in_tasks
    )


def _changed_keys(request: Request, changes: ChangedKeys) -> SomeKeys:
    return request.some_keys(changes.among)


def _in_time(tagged: TaggedRows, write: WriteBasis, records: RecordWrite, context: WriteContext) -> TaggedRows:
    """The rows less late moves, with the stored values that moves keep; raises ``PartitionChangeError`` if records move that may not."""
    leaving = tagged.profile.leaving
    if not leaving:
        return tagged
    ordering, schema = write.table.properties.ordering_field, records.schema
    slices = require_slices(write.snapshot.slices, leaving)
    field = None if ordering is None else pa.field(ordering, schema.field(ordering).type)
    target = () if records.when is None else tuple(map(schema.field, records.when.target))
    late = LateMoves(
        context.open, slices, field, tuple(map(schema.field, records.kept)), when=records.when, target=target
    )
    rows = tagged.without_late_moves(late)
    moving = sum(rows.profile.arriving.values())
    if moving and records.on_change is OnPartitionChange.FAIL:
        require_no_moves(moving, rows.keys_of_moves(_SAMPLE))
    return rows
