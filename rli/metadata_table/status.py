"""How the metadata table is: its partitions, and how far their log files have grown since they were compacted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from rli.errors import CorruptTableError
from rli.hudi.metadata.group_slices import GroupSlice
from rli.hudi.metadata.partitions import kind_of
from rli.hudi.metadata.reader import MetadataTableReader
from rli.metadata_table.compaction import deltacommits_since_compaction, last_deltacommit


class PartitionState(StrEnum):
    """What a partition of the metadata table is good for."""

    LISTED = "listed"
    """Readers rely on it."""
    BUILDING = "building"
    """It is being built: writers keep it, readers do not use it yet."""
    UNKNOWN = "unknown"
    """Of a kind that rli does not know."""


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """A partition of the metadata table.

    Attributes:
        partition: its name.
        state: what it is good for.
        file_groups: how many it has.
        log_files: of all its file groups, since their last compaction; the empty first ones count, too.
        bytes: of the files that a reader reads.
        base_instant: of the newest base file, which its last compaction or its birth wrote; None without one.
    """

    partition: str
    state: PartitionState
    file_groups: int
    log_files: int
    bytes: int
    base_instant: str | None


@dataclass(frozen=True, slots=True)
class MetadataStatus:
    """The metadata table of a table.

    Attributes:
        partitions: listed ones and those that are being built; none if the table has no metadata table.
        last_instant: of the last deltacommit; None without one.
        deltacommits: since the last compaction.
    """

    partitions: tuple[PartitionStatus, ...]
    last_instant: str | None
    deltacommits: int


def metadata_status(reader: MetadataTableReader) -> MetadataStatus:
    """How the metadata table is now.

    Args:
        reader: of the metadata table.

    Raises:
        CorruptTableError: the metadata table lacks file groups.
    """
    partitions = tuple(_partitions(reader))
    if not partitions:
        return MetadataStatus((), None, 0)
    last = last_deltacommit(reader.timeline) or None
    return MetadataStatus(partitions, last, deltacommits_since_compaction(reader.timeline))


def _partitions(reader: MetadataTableReader) -> Iterator[PartitionStatus]:
    for name in reader.all_partitions:
        if kind_of(name) is None:
            yield PartitionStatus(name, PartitionState.UNKNOWN, 0, 0, 0, None)
            continue
        is_listed = name in reader.partitions
        groups = reader.groups(name) if is_listed else _groups_so_far(reader, name)
        files = [file for group in groups for file in (*group.logs, *([group.base] if group.base else []))]
        yield PartitionStatus(
            name,
            PartitionState.LISTED if is_listed else PartitionState.BUILDING,
            len(groups),
            sum(len(group.logs) for group in groups),
            sum(file.size for file in files),
            max((group.base_instant for group in groups if group.base), default=None),
        )


def _groups_so_far(reader: MetadataTableReader, partition: str) -> tuple[GroupSlice, ...]:
    """The file groups of a partition that is being built; none where its builder has died, or has not brought all of them."""
    try:
        return reader.groups(partition)
    except CorruptTableError:
        return ()
