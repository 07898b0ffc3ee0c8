"""What overwrites and drops of partitions have in common: the file groups of partitions are replaced as a whole."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import Literal, TypeAlias

from rli.commit.write_basis import WriteBasis
from rli.errors import InvalidInputError, SettingsError
from rli.file_group.write_context import FileGroupResult, WriteContext
from rli.index.contract import TableIndex
from rli.index.placing import PlansClustering
from rli.model import FileGroupId, Step
from rli.view.definition import TableDefinition
from rli.view.file_slices import FileSlice
from rli.write.engine.contract import Engine
from rli.write.operations.candidates import locator_of_matches
from rli.write.rewrites.replaced_groups import EndOfGroups, ReplacedLot

Partitions: TypeAlias = Sequence[str] | Literal["all"]
"""Partition paths as the table has them, or all of them."""


def require_kind(index: TableIndex, table: TableDefinition) -> None:
    """Pass indexes with which file groups may be replaced; raises ``SettingsError`` for others."""
    if isinstance(index, PlansClustering):
        raise SettingsError(
            "the index keeps the names of its file groups, as Hudi's writers do, so they cannot be replaced by others: "
            f"table={table.location} index={index.url}",
            remedy="call delete_where and upsert, or give the table another kind of index: rli index migrate TABLE --to simple:",
        )


def partition_paths(partitions: Partitions) -> tuple[str, ...]:
    """The partition paths that a caller names, in order; none for all of them.

    Raises:
        InvalidInputError: they are no paths.
    """
    if partitions == "all":
        return ()
    if isinstance(partitions, str) or not all(isinstance(path, str) for path in partitions):
        raise InvalidInputError(
            f"these are no partition paths: partitions={partitions!r}",
            remedy='give a list of them, such as ["day=2026-11-25"], or "all"',
        )
    return tuple(sorted(set(partitions)))


def slices_in(write: WriteBasis, partitions: Collection[str] | None) -> dict[FileGroupId, FileSlice]:
    """The live slices of some partitions; None for all of them."""
    slices = write.snapshot.slices
    live = slices.values() if partitions is None else slices.of_partitions(partitions)
    return {found.group: found for found in live}


def ended_groups(
    write: WriteBasis,
    engine: Engine,
    context: WriteContext,
    replaced: Mapping[FileGroupId, FileSlice],
    results: Sequence[FileGroupResult] = (),
) -> list[FileGroupResult]:
    """The results of file groups that are replaced, each with the journal of its keys that are gone.

    Args:
        write: the attempt, or a dry run.
        engine: does the work.
        context: of the attempt.
        replaced: the file groups.
        results: of the file groups that take the records.
    """
    end = EndOfGroups.of(context, locator_of_matches(write), results)
    ended = list(chain.from_iterable(engine.workers.run(end, ReplacedLot.of(replaced.values()))))
    write.on_step(Step.WRITTEN)
    return ended
