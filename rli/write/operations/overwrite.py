"""Replacing whole partitions by the records of a batch, and dropping partitions. One operation for all engines.

The file groups of the partitions are replaced as a whole, as Hudi's ``insert_overwrite`` does. New file groups take the records. A
task for each replaced file group tells the index of the keys that are gone: what that costs is proportional to them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Final, Literal, TypeAlias

import pyarrow as pa

from rli.commit.conflicts import ReadSet
from rli.commit.prepared_write import PreparedWrite
from rli.commit.write_basis import WriteBasis
from rli.errors import InvalidInputError, SettingsError
from rli.file_group.writer import FileGroupResult, WriteContext
from rli.hudi.table_features import require_writable
from rli.hudi.table_keys import TableKeys
from rli.hudi.timeline.instant import Action
from rli.index.contract import TableIndex
from rli.index.placing import PlacesRecords
from rli.model import CommitResult, OnPartitionChange, Scope, Step, WriteCounts
from rli.view.caller_metadata import BoundRequest, CallerMetadata, ComparedBy
from rli.view.definition import TableDefinition
from rli.view.file_slices import FileSlice
from rli.write.choices import chosen_partition_change
from rli.write.engine.contract import Engine, Request, TaggedRows
from rli.write.operations.candidates import locator_of_matches
from rli.write.operations.operation import Operation, require_same_key_types, run, written
from rli.write.operations.planning import plan_write, tagged_rows
from rli.write.options import WriteOptions
from rli.write.rewrites.replaced_groups import EndOfGroup, NewGroupWriting
from rli.write.rows.keying import RecordKeying
from rli.write.rows.late_moves import LateMoves, require_no_moves
from rli.write.rows.tagging import OverwriteTagging

Partitions: TypeAlias = Sequence[str] | Literal["all"]
"""Partition paths as the table has them, or all of them."""

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
    _require_kind(index, table)
    on_change = chosen_partition_change(table.require_settings(), on_partition_change)
    if on_change is OnPartitionChange.KEEP:
        raise InvalidInputError(
            "an overwrite keeps no record in another partition than its own: on_partition_change=keep",
            remedy='give on_partition_change="move" or "fail"',
        )
    kind = OverwriteTable if partitions == "all" else OverwritePartitions
    operation = kind(_paths(partitions) if partitions is not None else (), on_change)
    return run(operation, table, index, engine, source, options=options)


def drop_partitions(
    table: TableDefinition, index: TableIndex, engine: Engine, partitions: Sequence[str], options: WriteOptions
) -> CommitResult:
    """Remove all records of partitions; see ``Table.drop_partitions``.

    Args:
        table: the definition as it is stored now.
        index: of the table.
        engine: does the work.
        partitions: their paths.
        options: of the write.
    """
    require_writable(table.properties)
    _require_kind(index, table)
    paths = _paths(partitions)
    if not paths or partitions == "all":
        raise InvalidInputError(
            f"no partitions are named: partitions={partitions!r}",
            remedy='give partition paths, such as ["day=2026-11-25"]; to remove all records, call delete_where("true")',
        )
    return written(
        "DELETE_PARTITION",
        table,
        index,
        engine,
        partial(_dropped, frozenset(paths), engine=engine),
        options=options,
        caller=_bound(options.caller, paths),
        action=Action.REPLACE_COMMIT,
    )


@dataclass(frozen=True, slots=True)
class OverwritePartitions(Operation):
    """Replace the partitions of the records, and others that the caller names.

    Attributes:
        partitions: paths that the caller names.
        on_change: what becomes of keys that are in a partition that stays: they move, or the write fails.
    """

    name: ClassVar[str] = "INSERT_OVERWRITE"
    action: ClassVar[Action] = Action.REPLACE_COMMIT

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
        tagging = OverwriteTagging(schema)
        with tagged_rows(write, request, tagging, tagging) as tagged:
            write.on_step(Step.TAGGED)
            # No ordering value is compared: none is late.
            late = LateMoves(write.table.storage, {}, None)
            rows = tagged.without_late_moves(late) if tagged.profile.leaving else tagged
            self._require_allowed(rows)
            partitions = self._replaced_by(rows)
            replaced = _slices_in(write, partitions)
            context = write.context(schema, is_flushed=engine.flushes_in_tasks)
            results = _written_rows(write, context, rows, request.bytes_per_row, replaced)
            leaving = rows.profile.leaving
            apart = rows.profile.apart
        kept = sum(result.counts.updated for result in results) + sum(
            count for group, count in leaving.items() if group in replaced
        )
        ended = _ended(write, engine, context, replaced, results)
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
    replaced: dict[Any, FileSlice],
) -> list[FileGroupResult]:
    plan = plan_write(write, context, rows.profile, bytes_per_row, replaced=frozenset(replaced))
    plan = replace(plan, writing=NewGroupWriting(plan.writing.context, plan.writing.slices))
    write.on_step(Step.RESOLVED)
    results = []
    for result in rows.write(plan):
        results.append(result)
        write.on_step(Step.FILE_GROUP_WRITTEN)
    return results


def _dropped(partitions: frozenset[str], write: WriteBasis, engine: Engine) -> PreparedWrite:
    schema = write.snapshot.schema or pa.schema([])
    write.on_step(Step.TAGGED)
    replaced = _slices_in(write, partitions)
    context = write.context(schema, is_flushed=engine.flushes_in_tasks)
    write.on_step(Step.RESOLVED)
    ended = _ended(write, engine, context, replaced, [])
    read = ReadSet(frozenset(replaced), partitions=partitions)
    return PreparedWrite(ended, schema, "DELETE_PARTITION", WriteCounts(), read, is_flushed=engine.flushes_in_tasks)


def _ended(
    write: WriteBasis,
    engine: Engine,
    context: WriteContext,
    replaced: dict[Any, FileSlice],
    results: Sequence[FileGroupResult],
) -> list[FileGroupResult]:
    """The results of the file groups that are replaced, each with the journal of its keys that are gone."""
    journals = tuple(result.journal for result in results if result.journal is not None)
    end = EndOfGroup(context, locator_of_matches(write), journals)
    ended = list(engine.workers.run(end, [replaced[group] for group in sorted(replaced)]))
    write.on_step(Step.WRITTEN)
    return ended


def _slices_in(write: WriteBasis, partitions: frozenset[str] | None) -> dict[Any, FileSlice]:
    slices = write.snapshot.slices
    live = slices.values() if partitions is None else slices.of_partitions(partitions)
    return {found.group: found for found in live}


def _paths(partitions: Partitions) -> tuple[str, ...]:
    if partitions == "all":
        return ()
    if isinstance(partitions, str) or not all(isinstance(path, str) for path in partitions):
        raise InvalidInputError(
            f"these are no partition paths: partitions={partitions!r}",
            remedy='give a list of them, such as ["day=2026-11-25"], or "all"',
        )
    return tuple(sorted(set(partitions)))


def _require_kind(index: TableIndex, table: TableDefinition) -> None:
    if isinstance(index, PlacesRecords):
        raise SettingsError(
            "the index computes the file group of each record, and rli does not replace such file groups: "
            f"table={table.location} index={index.url}",
            remedy="call delete_where and upsert, or give the table another kind of index: rli index migrate TABLE --to simple:",
        )


def _bound(caller: CallerMetadata, paths: Sequence[str]) -> CallerMetadata:
    if caller.transaction is None:
        return caller
    content = json.dumps(list(paths)).encode()
    hashes = int.from_bytes(hashlib.sha256(content).digest()[:8], "big")
    return replace(caller, request=BoundRequest("drop_partitions", ComparedBy.CONDITION, 0, hashes))
