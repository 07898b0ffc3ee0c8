"""The columns that the metadata table keeps statistics of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from rli.errors import UnsupportedTableError
from rli.hudi.meta_columns import COMMIT_TIME, PARTITION_PATH, RECORD_KEY
from rli.hudi.metadata.index_definitions import IndexDefinition
from rli.hudi.metadata.partitions import PartitionKind
from rli.hudi.metadata.statistic_values import StatisticsVersion

_ALWAYS: Final = (COMMIT_TIME, PARTITION_PATH, RECORD_KEY)
_MOST_BY_DEFAULT: Final = 32


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
        if definition is None or not definition.columns:
            plain = [field.name for field in list(schema)[:_MOST_BY_DEFAULT] if not pa.types.is_nested(field.type)]
            names = (*_ALWAYS, *plain)
        else:
            names = definition.columns
        version = StatisticsVersion.V1.value if definition is None else definition.version
        if version not in set(StatisticsVersion):
            raise UnsupportedTableError(
                f"the metadata table has column statistics in a form that rli does not know: version={version}",
                remedy="let Hudi drop the column statistics, or use a newer version of rli",
            )
        return cls(tuple(dict.fromkeys(names)), StatisticsVersion(version))
