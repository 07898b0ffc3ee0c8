"""What a caller wants of a metadata table."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from rli.errors import InvalidInputError, UnsupportedTableError
from rli.hudi.metadata.index_definitions import IndexDefinition
from rli.hudi.metadata.partitions import FIRST_VERSION_OF_PARTITION_STATS, PartitionKind
from rli.hudi.properties import TableProperties
from rli.metadata_table.kept_partitions import KEPT_KINDS
from rli.model import Scope

_DEFAULT_KINDS: Final = (PartitionKind.FILES, PartitionKind.COLUMN_STATS, PartitionKind.PARTITION_STATS)
FIRST_VERSION_OF_PARTITIONED_INDEX: Final = 9
_NEEDS: Final = {PartitionKind.PARTITION_STATS: PartitionKind.COLUMN_STATS}


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """What a caller wants of a metadata table.

    Attributes:
        names: of the partitions; None for those that Hudi makes by default in tables of the version.
        scope: where a record key is unique: with ``PARTITION`` the record index is partitioned, too.
        columns: that get statistics; None for the first 32 columns.
        replaced: those of the names that are built again, although they are there.
        of_column: definition of a secondary index, or of an index on an expression, which comes with the names; None for none.
    """

    names: Collection[str] | None
    scope: Scope
    columns: Sequence[str] | None = None
    replaced: frozenset[str] = frozenset()
    of_column: IndexDefinition | None = None

    def kinds(self, version: int) -> list[str]:
        """The partitions with those that they need, in their order.

        Args:
            version: of the table.

        Raises:
            InvalidInputError: rli does not make a partition of such a name.
        """
        if self.names is None:
            has_partition_stats = version >= FIRST_VERSION_OF_PARTITION_STATS
            return [kind for kind in _DEFAULT_KINDS if has_partition_stats or kind is not PartitionKind.PARTITION_STATS]
        unknown = sorted({*self.names} - {*KEPT_KINDS})
        if unknown:
            raise InvalidInputError(
                f"rli makes no partition of this name in a metadata table: partition={unknown[0]}",
                remedy=f"choose from {', '.join(KEPT_KINDS)}",
            )
        wanted = {PartitionKind.FILES, *map(PartitionKind, self.names)}
        wanted |= {_NEEDS[kind] for kind in wanted if kind in _NEEDS}
        own = [] if self.of_column is None else [self.of_column.name]
        return [*(kind for kind in KEPT_KINDS if kind in wanted), *own]

    def require_columns_of(self, kept: IndexDefinition | None) -> None:
        """Pass columns whose statistics are kept already; all, if nothing tells which are.

        Args:
            kept: definition of the statistics of columns that are there.

        Raises:
            InvalidInputError: one of the columns is not among them.
        """
        of_kept = () if kept is None else kept.columns
        missing = [column for column in self.columns or () if of_kept and column not in of_kept]
        if missing:
            raise InvalidInputError(
                f"the metadata table has statistics of other columns already: column={missing[0]} kept={','.join(of_kept)}",
                remedy="remove these first: rli metadata disable TABLE --partitions column_stats",
            )

    def require_supported(self, properties: TableProperties) -> None:
        """Pass partitions that tables of this version can have; raises ``InvalidInputError`` as ``kinds``.

        Args:
            properties: of the table.

        Raises:
            UnsupportedTableError: they have none of a kind.
        """
        version, kinds = properties.version, self.kinds(properties.version)
        is_partitioned = self.scope is Scope.PARTITION
        if PartitionKind.RECORD_INDEX in kinds and is_partitioned and version < FIRST_VERSION_OF_PARTITIONED_INDEX:
            raise UnsupportedTableError(
                "record keys are unique in their partition alone, and tables of this version have no partitioned record "
                f"index in their metadata table: table={properties.name} version={version}",
                remedy="leave record_index out, or let Hudi upgrade the table",
            )
