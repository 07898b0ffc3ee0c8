"""The columns that the metadata table keeps statistics of."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from rli.errors import SchemaError, UnsupportedTableError
from rli.filters.predicates import Column
from rli.hudi.footer_bounds import leaf_places
from rli.hudi.meta_columns import COMMIT_TIME, PARTITION_PATH, RECORD_KEY
from rli.hudi.metadata.index_definitions import IndexDefinition
from rli.hudi.metadata.partitions import PartitionKind
from rli.hudi.metadata.statistic_values import StatisticsVersion

_ALWAYS: Final = (COMMIT_TIME, PARTITION_PATH, RECORD_KEY)
_MOST_BY_DEFAULT: Final = 32
_WITH_COLUMNS: Final = frozenset({PartitionKind.COLUMN_STATS, PartitionKind.PARTITION_STATS})


@dataclass(frozen=True, slots=True)
class IndexedColumns:
    """Which columns have statistics, and in which form.

    Attributes:
        names: of the columns.
        version: of their statistics.
    """

    names: tuple[str, ...]
    version: StatisticsVersion

    @classmethod
    def of(cls, definitions: Mapping[str, IndexDefinition], schema: pa.Schema) -> IndexedColumns:
        """Those that the table's definitions name; without a definition, Hudi's default: the first 32 of the table.

        Args:
            definitions: of the table's indexes.
            schema: of the records, without meta columns.

        Raises:
            UnsupportedTableError: the statistics are in a form of later versions.
        """
        definition = definitions.get(PartitionKind.COLUMN_STATS)
        names = names_of_columns(schema) if definition is None or not definition.columns else definition.columns
        version = StatisticsVersion.V1.value if definition is None else definition.version
        if version not in set(StatisticsVersion):
            raise UnsupportedTableError(
                f"the metadata table has column statistics in a form that rli does not know: version={version}",
                remedy="let Hudi drop the column statistics, or use a newer version of rli",
            )
        return cls(tuple(dict.fromkeys(names)), StatisticsVersion(version))

    @classmethod
    def of_kept(
        cls, kept: Collection[str], definitions: Mapping[str, IndexDefinition], schema: pa.Schema | None
    ) -> IndexedColumns:
        """As ``of``; none if no partition of the metadata table that is kept has statistics of columns.

        Args:
            kept: partitions of the metadata table.
            definitions: of the table's indexes.
            schema: of the records, without meta columns; None of a table without records.
        """
        if _WITH_COLUMNS.isdisjoint(kept):
            return cls((), StatisticsVersion.V1)
        return cls.of(definitions, pa.schema([]) if schema is None else schema)


def chosen_columns(names: Iterable[str]) -> list[str]:
    """The columns with statistics that were chosen: all but those that always have them."""
    return [name for name in names if name not in _ALWAYS]


def leaf_of(name: str, leaves: Mapping[Column, tuple[int, pa.DataType]]) -> Column | None:
    """The column with a name, as Hudi writes it: "column.field" within a structure. None without one whose bounds are certain.

    Args:
        name: of the column.
        leaves: of a schema, as ``leaf_places`` gives them.

    Example:
        >>> leaf_of("s.a", leaf_places(pa.schema([("s", pa.struct([("a", pa.int64())]))])))
        ('s', 'a')
    """
    if (name,) in leaves:
        return (name,)
    leaf = tuple(name.split("."))
    # Of a floating-point column there nothing tells whether it holds NaN.
    return leaf if leaf in leaves and not pa.types.is_floating(leaves[leaf][1]) else None


def names_of_columns(schema: pa.Schema, chosen: Sequence[str] | None = None) -> tuple[str, ...]:
    """The columns that get statistics, with the meta columns that always do.

    Args:
        schema: of the records, without meta columns.
        chosen: names, within structures as "column.field"; None for those of the first 32 columns that are not nested.

    Raises:
        SchemaError: a chosen column does not exist, or no statistics can be kept of it.
    """
    if chosen is None:
        first = list(schema)[:_MOST_BY_DEFAULT]
        return (*_ALWAYS, *(field.name for field in first if not pa.types.is_nested(field.type)))
    leaves = leaf_places(schema)
    unfit = sorted(name for name in {*chosen} - {*_ALWAYS} if leaf_of(name, leaves) is None)
    if unfit:
        raise SchemaError(
            f"no statistics can be kept of a column: column={unfit[0]}",
            remedy="choose columns of the table that are no lists, maps or structures; within a structure, write column.field, and choose "
            "no floating-point number",
        )
    return tuple(dict.fromkeys((*_ALWAYS, *chosen)))
