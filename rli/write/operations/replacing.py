"""What overwrites and drops of partitions have in common: the file groups of partitions are replaced as a whole."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import Literal, TypeAlias

from rli.commit.write_basis import WriteBasis
from rli.errors import InvalidInputError
from rli.file_group.write_context import FileGroupResult, WriteContext
from rli.index.placing import PlansClustering, Renewal
from rli.model import FileGroupId, Step
from rli.view.file_slices import FileSlice
from rli.write.engine.contract import Engine
from rli.write.operations.candidates import locator_of_matches
from rli.write.rewrites.replaced_groups import EndOfGroups, ReplacedLot

Partitions: TypeAlias = Sequence[str] | Literal["all"]
"""Partition paths as the table has them, or all of them."""


def renewal_of(write: WriteBasis, replaced: Collection[FileGroupId]) -> Renewal | None:
    """What the index lets take the place of file groups that are replaced; None if it keeps no names of file groups."""
    return write.index.renewal(write.snapshot, replaced) if isinstance(write.index, PlansClustering) else None


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
