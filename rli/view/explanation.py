"""What a scan reads, what it leaves out, and by which step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from rli.locations import KeysByGroup
from rli.view.file_slices import FileSlice


class PruningStep(StrEnum):
    """A source that proves of files that no record in them passes a filter; in the order in which a scan asks them."""

    PARTITION_PATH = "partition_path"
    """The values of partition columns in the path."""

    SECONDARY_INDEX = "secondary_index"
    """Record keys of values that a filter names, and their places, in the metadata table."""

    PARTITION_STATS = "partition_stats"
    """Statistics of the columns of a partition, in the metadata table."""

    COLUMN_STATS = "column_stats"
    """Statistics of the columns of a file, in the metadata table."""

    EXPRESSION_INDEX = "expression_index"
    """Bounds or bloom filters of the value of an expression in a file, in the metadata table."""

    BLOOM_FILTERS = "bloom_filters"
    """Bloom filters of the record keys of a file, in the metadata table; asked of record keys that a filter names."""

    FOOTERS = "footers"
    """Bounds and null counts in the Parquet footers, which are opened for this."""


@dataclass(frozen=True, slots=True)
class Narrowed:
    """The file slices that a step leaves.

    Attributes:
        by: the step.
        kept: those that may hold a record of the filter.
        record_keys: of all records of the filter in the file groups that it has, and perhaps of others; the other file groups that are
            kept may hold any. None if the step does not know single records.
    """

    by: PruningStep
    kept: Sequence[FileSlice]
    record_keys: KeysByGroup | None = None


@dataclass(frozen=True, slots=True)
class PrunedCounts:
    """How many partitions or files a scan reads, and how many each step leaves out.

    Attributes:
        total: in the table, live.
        pruned: left out by each step that was asked, in their order; a file counts for the first step that proves it.
        read: left after all steps.
    """

    total: int
    pruned: Mapping[PruningStep, int]
    read: int

    def __str__(self) -> str:
        steps = ", ".join(f"{step.replace('_', ' ')} {count:,}" for step, count in self.pruned.items())
        return f"{self.read:,} of {self.total:,} read" + (f"; left out by {steps}" if steps else "")


@dataclass(frozen=True, slots=True)
class ScanExplanation:
    """Why a scan reads the files that it reads; its string is for people.

    Attributes:
        filter: as pyarrow shows it; as it was given, of a table that was never written; None for a scan of all records.
        partitions: with live files.
        files: live base files.

    Example:
        >>> explained = table.scan(filters="city = 'Rome'").explain()
        >>> explained.files.total, explained.files.read
        (2, 1)
        >>> explained.files.pruned["partition_path"]
        1
    """

    filter: str | None
    partitions: PrunedCounts
    files: PrunedCounts

    def __str__(self) -> str:
        return "\n".join([f"filter: {self.filter or 'none'}", f"partitions: {self.partitions}", f"files: {self.files}"])


def explained(shown: str | None, live: Sequence[FileSlice], steps: Sequence[Narrowed]) -> ScanExplanation:
    """Count the slices that each of some steps left out.

    Args:
        shown: the filter as people see it; None for a scan of all records.
        live: all slices.
        steps: in order.
    """
    partitions, files = [_partitions(live)], [len(live)]
    for step in steps:
        partitions.append(_partitions(step.kept))
        files.append(len(step.kept))
    names = [step.by for step in steps]
    return ScanExplanation(shown, _counts(names, partitions), _counts(names, files))


def _partitions(slices: Sequence[FileSlice]) -> int:
    return len({file_slice.group.partition_path for file_slice in slices})


def _counts(steps: Sequence[PruningStep], left: Sequence[int]) -> PrunedCounts:
    pruned = {step: before - after for step, before, after in zip(steps, left[:-1], left[1:], strict=True)}
    return PrunedCounts(left[0], pruned, left[-1])
