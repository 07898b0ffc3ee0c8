"""Partitions of the metadata table: their names, and the ids of their file groups.

The number of file groups of a partition is kept nowhere: a reader counts the ids in the partition's folder.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from enum import StrEnum
from typing import Final

from rli.hudi.key_generator import escaped

METADATA_FOLDER: Final = ".hoodie/metadata"
"""Folder of the metadata table, relative to the table."""

FIRST_VERSION_OF_PARTITION_STATS: Final = 8
"""Of the table. Hudi 0.15 writes tables of version 6. It leaves ``partition_stats`` listed, and its own commits out of them."""

_GROUP: Final = re.compile(r"(?P<owner>.+)-(?P<number>\d{4,})-\d+", re.ASCII)


class PartitionKind(StrEnum):
    """What a partition of the metadata table holds; the value is the name of the partition, or begins it."""

    FILES = "files"
    COLUMN_STATS = "column_stats"
    BLOOM_FILTERS = "bloom_filters"
    PARTITION_STATS = "partition_stats"
    RECORD_INDEX = "record_index"
    SECONDARY_INDEX = "secondary_index_"
    EXPRESSION_INDEX = "expr_index_"
    OWN_EXPRESSION_INDEX = "rli_expr_index_"
    """Of an expression, or in a table of a version, that Hudi has no such index for: Hudi does not list the partition."""

    @property
    def is_prefix(self) -> bool:
        """True if many partitions may be of this kind, each with a name of its own."""
        return self.value.endswith("_")


OF_KEYS: Final = frozenset({PartitionKind.RECORD_INDEX, PartitionKind.SECONDARY_INDEX})
"""Partitions that say where records are: a record in a replaced file group is none."""

_PREFIXES: Final = {PartitionKind.COLUMN_STATS.value: "col-stats"}
"""Of ids of file groups, where they are not the partition's name with dashes."""


def kind_of(partition: str) -> PartitionKind | None:
    """The kind of a partition; None for a name that no known version of Hudi gives.

    Example:
        >>> kind_of("secondary_index_city")
        <PartitionKind.SECONDARY_INDEX: 'secondary_index_'>
    """
    for kind in PartitionKind:
        if partition.startswith(kind) if kind.is_prefix else partition == kind:
            # A prefix alone names no partition.
            return None if kind.is_prefix and partition == kind else kind
    return None


def is_own(partition: str) -> bool:
    """Whether a partition is one that Hudi does not know."""
    return kind_of(partition) is PartitionKind.OWN_EXPRESSION_INDEX


def is_of_expression(partition: str) -> bool:
    """Whether a partition is an index on an expression, of either home."""
    return kind_of(partition) in (PartitionKind.EXPRESSION_INDEX, PartitionKind.OWN_EXPRESSION_INDEX)


def with_dependent(names: Iterable[str], present: Collection[str]) -> set[str]:
    """Some partitions of a metadata table, and those that cannot be there without them.

    Args:
        names: of partitions.
        present: names of all partitions.
    """
    goes = {*names}
    if PartitionKind.FILES in goes:
        return {*present}
    if PartitionKind.COLUMN_STATS in goes:
        goes |= {PartitionKind.PARTITION_STATS} & {*present}
    if PartitionKind.RECORD_INDEX in goes:
        goes |= {name for name in present if kind_of(name) is PartitionKind.SECONDARY_INDEX}
    return goes


def file_id(partition: str, group: int, data_partition: str | None = None) -> str:
    """Id of a file group of the metadata table.

    Args:
        partition: of the metadata table.
        group: number of the file group within the partition, from 0.
        data_partition: partition path of the table, where each has file groups of its own (partitioned record index);
            None otherwise.

    Example:
        >>> file_id("column_stats", 1)
        'col-stats-0001-0'
        >>> file_id("record_index", 0, "day=2024-05-31")
        'record-index-day%3D2024%2D05%2D31-0000-0'
    """
    owner = _PREFIXES.get(partition, partition.replace("_", "-"))
    part = "" if data_partition is None else f"{escaped_partition(data_partition)}-"
    return f"{owner}-{part}{group:04d}-0"


def escaped_partition(partition_path: str) -> str:
    """A partition path of the table as ids of file groups contain it."""
    return escaped(partition_path).replace("_", "%5F").replace("-", "%2D")


def group_number(file_id: str) -> int:
    """Number of a file group within its partition, from 0; -1 if the id has none."""
    match = _GROUP.fullmatch(file_id)
    return int(match["number"]) if match else -1


def data_partition_of(file_id: str, partition: str) -> str | None:
    """The escaped partition path of the table in the id of a file group; "" if the id has none.

    ``escaped_partition`` escapes it.

    Args:
        file_id: of a file group in the partition's folder.
        partition: of the metadata table.

    Returns:
        None if the id does not belong to the partition.
    """
    match = _GROUP.fullmatch(file_id)
    owner = _PREFIXES.get(partition, partition.replace("_", "-"))
    if match is None or not f"{match['owner']}-".startswith(f"{owner}-"):
        return None
    return match["owner"][len(owner) + 1 :]
