"""Dropping partitions. One operation for all engines."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import pyarrow as pa

from rli.commit.conflicts import ReadSet
from rli.commit.prepared_write import PreparedWrite
from rli.commit.write_basis import WriteBasis
from rli.errors import InvalidInputError
from rli.hudi.table_features import require_writable
from rli.hudi.timeline.instant import Action
from rli.index.contract import TableIndex
from rli.model import CommitResult, Step, WriteCounts
from rli.view.caller_metadata import BoundRequest, CallerMetadata, ComparedBy
from rli.view.definition import TableDefinition
from rli.write.engine.contract import Engine
from rli.write.operations.operation import written
from rli.write.operations.replacing import ended_groups, partition_paths, renewal_of, slices_in
from rli.write.options import WriteOptions

_SAMPLE: Final = 5


def drop_partitions(
    table: TableDefinition,
    index: TableIndex,
    engine: Engine,
    partitions: Sequence[str],
    options: WriteOptions,
    *,
    missing_ok: bool = False,
) -> CommitResult:
    """Remove all records of partitions; see ``Table.drop_partitions``.

    Args:
        table: the definition as it is stored now.
        index: of the table.
        engine: does the work.
        partitions: their paths.
        options: of the write.
        missing_ok: whether partitions may be absent.
    """
    require_writable(table.properties)
    paths = partition_paths(partitions)
    if not paths:
        raise InvalidInputError(
            f"no partitions are named: partitions={partitions!r}",
            remedy='give partition paths, such as ["day=2026-11-25"]; to remove all records, call delete_where("true")',
        )
    return written(
        "DELETE_PARTITION",
        table,
        index,
        engine,
        partial(_dropped, paths, missing_ok, engine=engine),
        options=options,
        caller=_bound(options.caller, paths),
        action=Action.REPLACE_COMMIT,
    )


def _dropped(paths: Sequence[str], missing_ok: bool, write: WriteBasis, engine: Engine) -> PreparedWrite:  # noqa: FBT001  (bound by partial)
    schema = write.snapshot.schema or pa.schema([])
    write.on_step(Step.TAGGED)
    replaced = slices_in(write, paths)
    present = {group.partition_path for group in replaced}
    missing = [path for path in paths if path not in present]
    if missing and not missing_ok:
        raise InvalidInputError(
            f"the table has no such partitions: table={write.table.location} partitions={missing[:_SAMPLE]} count={len(missing)}",
            remedy="name partitions as their folders in the table, such as day=2026-11-25; missing_ok=True (--missing-ok) skips others",
        )
    context = write.context(schema, is_flushed=engine.flushes_in_tasks)
    write.on_step(Step.RESOLVED)
    ended = ended_groups(write, engine, context, replaced)
    read = ReadSet(frozenset(replaced), partitions=frozenset(paths))
    return PreparedWrite(
        ended,
        schema,
        "DELETE_PARTITION",
        WriteCounts(),
        read,
        renewal_of(write, replaced),
        is_flushed=engine.flushes_in_tasks,
    )


def _bound(caller: CallerMetadata, paths: Sequence[str]) -> CallerMetadata:
    if caller.transaction is None:
        return caller
    content = json.dumps(list(paths)).encode()
    hashes = int.from_bytes(hashlib.sha256(content).digest()[:8], "big")
    return replace(caller, request=BoundRequest("drop_partitions", ComparedBy.CONDITION, 0, hashes))
