"""From counts of tagged rows to base files: which file groups take new records, and what each costs to write."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from rli.commit.conflicts import ReadSet, no_keys
from rli.commit.write_basis import WriteBasis
from rli.file_group.deleted_keys import DeletedKeys
from rli.file_group.write_context import FileGroupResult, WriteContext
from rli.hudi.file_names import new_file_id
from rli.index.contract import ChangedKeys
from rli.index.locators import Unlocated
from rli.index.placing import Placement, PlacesRecords, Renewal
from rli.index.reports import SomeKeys
from rli.index.roles import AppliesSections
from rli.model import FileGroupId, Step
from rli.settings import MEBIBYTE
from rli.view.file_slices import FileSlice
from rli.view.paths import unpublished_files
from rli.write.engine.contract import Engine, Request, TaggedRows, Tagging
from rli.write.engine.workload import WorkloadProfile
from rli.write.engine.write_plan import FileGroupWriting, RowPlacing, WritePlan
from rli.write.operations.named_slices import require_slices
from rli.write.rows.deletions import DeleteKeeping, Deletions
from rli.write.rows.placement import plan_placements


def plan_write(
    write: WriteBasis,
    context: WriteContext,
    profile: WorkloadProfile,
    bytes_per_row: float,
    *,
    most_rewritten: float = math.inf,
    replaced: frozenset[FileGroupId] = frozenset(),
    renewal: Renewal | None = None,
) -> WritePlan:
    """Plan how the rows of a write become base files.

    Args:
        write: the attempt.
        context: of the attempt.
        profile: counts of its rows, without late moves.
        bytes_per_row: an estimate.
        most_rewritten: see ``plan_placements``.
        replaced: file groups that the write replaces: they take no record, and records leave them without being removed.
        renewal: what the index lets take their place; None if it keeps no names of file groups.

    Raises:
        CorruptIndexError: the index names a file group that is not in the table.
    """
    if renewal is None:
        placements = _placements(write, profile, bytes_per_row, most_rewritten, replaced)
    else:
        placements = renewal.placements(profile.new, saves=write.saves)
    # A record that leaves costs nothing here: it is counted where it arrives.
    rows = Counter(profile.changed)
    rows.update(dict.fromkeys(profile.leaving.keys() - replaced, 0))
    for partition_path, placement in placements.items():
        for file_id, taken in placement.records_by_file_id():
            rows[FileGroupId(partition_path, file_id)] += taken
    slices = {
        **write.snapshot.slices.of_groups(rows),
        **require_slices(write.snapshot.slices, profile.origins - replaced),
    }
    sizes = {
        group: (slices[group].size if group in slices else 0) + count * bytes_per_row for group, count in rows.items()
    }
    if isinstance(write.index, AppliesSections) and sum(profile.new.values()) > write.index.keys_together:
        context = replace(context, sections_of=write.index.sections_of)
    return WritePlan(RowPlacing(placements, replaced), FileGroupWriting(context, slices), sizes)


def tagged_rows(
    write: WriteBasis, request: Request, tagging: Tagging, undecided: Tagging
) -> AbstractContextManager[TaggedRows]:
    """The work rows of an attempt, released when the context ends; raises as ``Request.tag``.

    Args:
        write: the attempt.
        request: the rows.
        tagging: for an index that looks keys up.
        undecided: for one that computes where they belong.
    """
    if isinstance(write.index, PlacesRecords):
        return request.tag(Unlocated(), undecided)
    return located_rows(write, request, tagging)


def located_rows(write: WriteBasis, request: Request, tagging: Tagging) -> AbstractContextManager[TaggedRows]:
    """As ``tagged_rows``, but also an index that computes where records belong looks up which of them are stored."""
    # No index need be asked where a table without records has its keys.
    return request.tag(Unlocated(write.locator) if write.snapshot.is_unwritten else write.locator, tagging)


def read_set(
    profile: WorkloadProfile,
    results: Iterable[FileGroupResult],
    changed_keys: Callable[[ChangedKeys], SomeKeys] = no_keys,
    deleted_keys: Callable[[DeletedKeys], SomeKeys] = no_keys,
    known_deletes: DeletedKeys | None = None,
    *,
    requested_keys: Callable[[pa.Array], SomeKeys] | None = None,
) -> ReadSet:
    """What a write depends on: the file groups that hold its keys, also where it changed nothing; see ``ReadSet``."""
    groups = profile.origins | {result.group for result in results}
    return ReadSet(groups, changed_keys, deleted_keys, known_deletes, requested_keys=requested_keys)


def deletions_of(write: WriteBasis) -> Deletions:
    """Decides about records that are deletes, or older than one, as of the state that a write builds on."""
    return Deletions(write.deleted_keys, write.table.properties.ordering_field)


def deleted_among(request: Request, deleted: DeletedKeys) -> SomeKeys:
    """The requested keys that others deleted."""
    return request.some_keys(partial(_chosen, deleted))


def requested_among(request: Request, record_keys: pa.Array) -> SomeKeys:
    """The requested keys among some others."""
    return request.some_keys(partial(_held, record_keys))


def _held(others: pa.Array, record_keys: pa.Array) -> SomeKeys:
    return SomeKeys.of([record_keys.filter(pc.is_in(record_keys, value_set=others)).unique()])


def _chosen(deleted: DeletedKeys, record_keys: pa.Array) -> SomeKeys:
    return SomeKeys.of([record_keys.filter(pa.array(deleted.among(record_keys))).unique()])


def kept_deletes(
    write: WriteBasis,
    engine: Engine,
    request: Request,
    schema: pa.Schema,
    *,
    ordering: str | None,
    by_mark: bool,
    refused: Sequence[tuple[str, tuple[str, ...]]] = (),
) -> list[str]:
    """Files of the deleted keys of a request, among the unpublished files of its write.

    Args:
        write: the attempt.
        engine: does the work.
        request: the rows.
        schema: of the table's records.
        ordering: their column of ordering values; None if they have none, and nothing is to be kept.
        by_mark: whether only marked rows are deletes.
        refused: partition paths with keys whose delete took no effect, and is not kept.
    """
    if ordering is None or not write.keeps_deleted_keys:
        return []
    if not write.saves:
        return []
    storage = write.table.storage if engine.flushes_in_tasks else write.table.storage.unflushed()
    storage.make_folder(unpublished_files(write.instant))
    name = write.table.properties.ordering_field
    field = schema.field(name) if name in schema.names else None
    return request.files_of(
        DeleteKeeping(
            storage, write.instant, write.deleted_keys, ordering, field, write.index.scope, by_mark, tuple(refused)
        )
    )


def run_plan(write: WriteBasis, rows: TaggedRows, plan: WritePlan) -> Sequence[FileGroupResult]:
    """Write the file groups of a plan, and report each."""
    results = []
    for result in rows.write(plan):
        results.append(result)
        write.on_step(Step.FILE_GROUP_WRITTEN)
    write.on_step(Step.WRITTEN)
    return results


def _placements(
    write: WriteBasis,
    profile: WorkloadProfile,
    bytes_per_row: float,
    most_rewritten: float,
    replaced: frozenset[FileGroupId],
) -> Mapping[str, Placement]:
    new = profile.new
    if not new:
        return {}
    if isinstance(write.index, PlacesRecords):
        return write.index.placements(new, write.snapshot, replaced, saves=write.saves)
    # A write into a file group of a pending clustering would be in conflict (P57).
    avoided = replaced | write.snapshot.reserved.keys()
    return plan_placements(
        new,
        write.bytes_per_record(bytes_per_row),
        [
            found
            for found in write.snapshot.slices.of_partitions(new)
            if found.group not in avoided and _takes_new(write, found)
        ],
        write.table.require_settings(),
        new_file_id,
        most_rewritten=math.inf if write.logs_take_new else most_rewritten,
    )


def _takes_new(write: WriteBasis, file_slice: FileSlice) -> bool:
    """Whether new records may go to a file group, which gets a new base file or a log file by them.

    Where they may not be appended, a base file with log files is left to a compaction, unless both are small: Hudi's writers do
    so, too. Nothing goes to a file group with a planned compaction: an append may turn out to be impossible.
    """
    if write.table.properties.is_copy_on_write:
        return True
    is_cheap = write.logs_take_new or not file_slice.logs or file_slice.size <= MEBIBYTE
    return is_cheap and file_slice.group not in write.planned_compactions
