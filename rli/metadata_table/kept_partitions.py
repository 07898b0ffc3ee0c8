"""Which partitions of the metadata table a change keeps right, and which must be dropped before it shows."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from rli.errors import CorruptTableError, UnsupportedTableError
from rli.hudi.metadata.index_definitions import IndexDefinition
from rli.hudi.metadata.partitions import PartitionKind, is_of_expression, is_own, kind_of
from rli.hudi.metadata.reader import MetadataTableReader
from rli.hudi.timeline.instant import Action
from rli.metadata_table.announced_partitions import announced_partitions
from rli.metadata_table.indexed_columns import IndexedColumns
from rli.model import Scope
from rli.view.snapshot import Snapshot
from rli.view.table_metadata import require_each_commit

KEPT_KINDS: Final = (
    PartitionKind.FILES,
    PartitionKind.COLUMN_STATS,
    PartitionKind.PARTITION_STATS,
    PartitionKind.BLOOM_FILTERS,
    PartitionKind.RECORD_INDEX,
)
"""The partitions that rli makes and keeps, in the order in which it makes them."""


@dataclass(frozen=True, slots=True)
class KeptPartitions:
    """Partitions of the metadata table, told apart by what becomes of them.

    Attributes:
        kept: names of those that the change keeps.
        dropped: names of the others, with the reason.
    """

    kept: tuple[str, ...]
    dropped: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        snapshot: Snapshot,
        reader: MetadataTableReader,
        definitions: Mapping[str, IndexDefinition],
        scope: Scope,
        unchanged: Collection[PartitionKind] = (),
    ) -> KeptPartitions:
        """Those that any change keeps.

        Args:
            snapshot: of the table.
            reader: of the metadata table.
            definitions: of its indexes.
            scope: in which a record key is unique.
            unchanged: kinds in which the change changes nothing.

        Raises:
            CorruptTableError: another engine has left a commit out of a partition. A change on top of it would hide that: once the commit
                is archived, nothing tells that it is missing.
        """
        # What nobody can log to yet stays as it is: the indexer lists it.
        announced = announced_partitions(snapshot)
        names = tuple(name for name in reader.all_partitions if name not in announced)
        if reason := _why_none(reader):
            return cls((), dict.fromkeys(names, reason))
        for name in reader.partitions:
            require_each_commit(reader, name, snapshot.table)
        found = {name: _why_not(name, reader, definitions, scope) for name in names if kind_of(name) not in unchanged}
        return cls(names).without({name: reason for name, reason in found.items() if reason})

    def without(self, dropped: Mapping[str, str]) -> KeptPartitions:
        """The same, with these dropped, too: name → reason. Secondary indexes need the record index, all need the lists of files."""
        gone = {name: reason for name, reason in dropped.items() if name in self.kept}
        if reason := gone.get(PartitionKind.RECORD_INDEX):
            secondary = [name for name in self.kept if kind_of(name) is PartitionKind.SECONDARY_INDEX]
            gone |= dict.fromkeys(secondary, reason)
        if reason := gone.get(PartitionKind.FILES):
            gone = dict.fromkeys(self.kept, reason)
        return KeptPartitions(tuple(name for name in self.kept if name not in gone), {**self.dropped, **gone})

    @property
    def keeps_nothing(self) -> bool:
        """Whether the metadata table goes as a whole."""
        return not self.kept


def _why_none(reader: MetadataTableReader) -> str:
    if PartitionKind.FILES not in reader.partitions:
        return "the metadata table has no lists of files"
    compactions = (instant.action == Action.COMPACTION for instant in reader.timeline.pending)
    if not reader.timeline.layout.keeps_completion_times and any(compactions):
        # Log files of table version 6 must name the base files that the compaction is about to write.
        return "a compaction of the metadata table is unfinished"
    return ""


def _why_not(name: str, reader: MetadataTableReader, definitions: Mapping[str, IndexDefinition], scope: Scope) -> str:
    """Why a partition cannot be kept; "" if it can."""
    kind, definition = kind_of(name), definitions.get(name)
    if kind is PartitionKind.SECONDARY_INDEX and PartitionKind.RECORD_INDEX not in reader.partitions:
        return "the metadata table has no record index"
    if kind not in {*KEPT_KINDS, PartitionKind.SECONDARY_INDEX} and not is_of_expression(name):
        return "rli does not keep partitions of this kind"
    is_global = definition is None or not definition.is_partitioned
    if kind is PartitionKind.RECORD_INDEX and is_global and scope is Scope.PARTITION:
        return "record keys are unique in their partition only"
    try:
        if kind in {PartitionKind.COLUMN_STATS, PartitionKind.PARTITION_STATS}:
            IndexedColumns.of(definitions, pa.schema([]))
        reader.groups(name)
    except UnsupportedTableError as error:
        return str(error)
    except CorruptTableError:
        # A dead indexer has only announced it; or Hudi has built the metadata table anew, and does not know of it.
        if name in reader.partitions and not is_own(name):
            raise
        return "it has no file groups yet"
    return ""
