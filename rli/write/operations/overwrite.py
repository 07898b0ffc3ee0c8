"""Replacing whole partitions by the records of a batch. One operation for all engines.

The file groups of the partitions are replaced as a whole, as Hudi's ``insert_overwrite`` does. New file groups take the records. A
task for each replaced file group tells the index of the keys that are gone: what that costs is proportional to them.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from rli.commit.conflicts import ReadSet
from rli.commit.prepared_write import PreparedWrite
from rli.commit.write_basis import WriteBasis
from rli.errors import InvalidInputError
from rli.file_group.write_context import FileGroupResult, WriteContext
from rli.hudi.table_keys import TableKeys
from rli.hudi.timeline.instant import Action
from rli.index.contract import TableIndex
from rli.index.placing import Renewal
from rli.model import CommitResult, FileGroupId, OnPartitionChange, Scope, Step, WriteCounts
from rli.view.definition import TableDefinition
from rli.write.choices import chosen_partition_change
from rli.write.engine.contract import Engine, Request, TaggedRows
from rli.write.operations.operation import Operation, require_same_key_types, run
from rli.write.operations.planning import located_rows, plan_write
from rli.write.operations.replacing import Partitions, ended_groups, partition_paths, renewal_of, slices_in
from rli.write.options import WriteOptions
from rli.write.rewrites.replaced_groups import NewGroupWriting
from rli.write.rows.keying import RecordKeying
from rli.write.rows.late_moves import LateMoves, require_no_moves
from rli.write.rows.tagging import OverwriteTagging

_SAMPLE: Final = 5


def overwrite_partitions(
    table: TableDefinition,
    index: TableIndex,
    engine: Engine,
    source: Any,
    options: WriteOptions,
    *,
    partitions: Partitions | None = None,
    on_partition_change: OnPartitionChange | str | None = None,
) -> CommitResult:
    """Replace partitions by records; see ``Table.overwrite_partitions``.

    Args:
        table: the definition as it is stored now.
        index: of the table.
        engine: does the work.
        source: the records, in the engine's own form.
        options: of the write.
        partitions: replaced beside those of the records; None for no others.
        on_partition_change: what becomes of keys that are in a partition that stays.
    """
    on_change = chosen_partition_change(table.require_settings(), on_partition_change)
    if on_change is OnPartitionChange.KEEP:
        raise InvalidInputError(
            "an overwrite keeps no record in another partition than its own: on_partition_change=keep",
            remedy='give on_partition_change="move" or "fail"',
        )
    kind = OverwriteTable if partitions == "all" else OverwritePartitions
    operation = kind(partition_paths(partitions) if partitions is not None else (), on_change)
    return run(operation, table, index, engine, source, options=options)


@dataclass(frozen=True, slots=True)
class OverwritePartitions(Operation):
    """Replace the partitions of the records, and others that the caller names.

    Attributes:
        partitions: paths that the caller names.
        on_change: what becomes of keys that are in a partition that stays: they move, or the write fails.
    """

    name: ClassVar[str] = "INSERT_OVERWRITE"
    action: ClassVar[Action | None] = Action.REPLACE_COMMIT

    partitions: tuple[str, ...]
    on_change: OnPartitionChange

    @property
    def verb(self) -> str:
        # A transaction that is repeated names the same partitions.
        named = f" {json.dumps(self.partitions)}" if self.partitions else ""
        return f"overwrite_partitions{named}"

    def keying(self, keys: TableKeys, table: TableDefinition, scope: Scope, options: WriteOptions) -> RecordKeying:
        return options.keying(RecordKeying, keys, table, scope)

    def prepare(self, write: WriteBasis, request: Request, engine: Engine) -> PreparedWrite:
        require_same_key_types(write, request.schema)
        schema = write.schema_with(request.schema)
        with located_rows(write, request, OverwriteTagging(schema)) as tagged:
            write.on_step(Step.TAGGED)
            # No ordering value is compared: none is late.
            late = LateMoves(write.snapshot.reader, {}, None)
            rows = tagged.without_late_moves(late) if tagged.profile.leaving else tagged
            self._require_allowed(rows)
            partitions = self._replaced_by(rows)
            replaced = slices_in(write, partitions)
            renewal = renewal_of(write, replaced)
            context = write.context(schema, is_flushed=engine.flushes_in_tasks)
            results = _written_rows(write, context, rows, request.bytes_per_row, replaced, renewal=renewal)
            leaving = rows.profile.leaving
            apart = rows.profile.apart
        kept = sum(result.counts.updated for result in results) + sum(
            count for group, count in leaving.items() if group in replaced
        )
        ended = ended_groups(write, engine, context, replaced, results)
        if not write.saves:
            # Without journals, the tasks cannot tell which keys stay.
            apart += WriteCounts(deleted=-kept)
        read = frozenset(replaced) | frozenset(leaving) | {result.group for result in results}
        return PreparedWrite(
            [*results, *ended],
            schema,
            self.name,
            apart,
            ReadSet(read, partitions=partitions),
            renewal,
            is_flushed=engine.flushes_in_tasks,
        )

    def _require_allowed(self, rows: TaggedRows) -> None:
        moving = sum(rows.profile.arriving.values())
        if moving and self.on_change is OnPartitionChange.FAIL:
            require_no_moves(moving, rows.keys_of_moves(_SAMPLE))

    def _replaced_by(self, rows: TaggedRows) -> frozenset[str] | None:
        partitions = frozenset(rows.profile.new).union(self.partitions)
        if not partitions:
            raise InvalidInputError(
                "there are no records, and no partitions are named: nothing says what to replace",
                remedy='give partitions=[...], or partitions="all"',
            )
        return partitions


class OverwriteTable(OverwritePartitions):
    """Replace all partitions."""

    __slots__ = ()

    name: ClassVar[str] = "INSERT_OVERWRITE_TABLE"

    @property
    def verb(self) -> str:
        return "overwrite_partitions all"

    def _replaced_by(self, rows: TaggedRows) -> frozenset[str] | None:  # noqa: ARG002  (whatever the records are)
        return None


def _written_rows(
    write: WriteBasis,
    context: WriteContext,
    rows: TaggedRows,
    bytes_per_row: float,
    replaced: Collection[FileGroupId],
    *,
    renewal: Renewal | None,
) -> list[FileGroupResult]:
    plan = plan_write(write, context, rows.profile, bytes_per_row, replaced=frozenset(replaced), renewal=renewal)
    plan = replace(plan, writing=NewGroupWriting(plan.writing.context, plan.writing.slices))
    write.on_step(Step.RESOLVED)
    results = []
    for result in rows.write(plan):
        results.append(result)
        write.on_step(Step.FILE_GROUP_WRITTEN)
    return results
