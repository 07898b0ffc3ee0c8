"""The entries of indexes on columns, secondary and of expressions, with a change of the table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa

from rli.hudi.metadata.index_definitions import IndexDefinition
from rli.hudi.metadata.partitions import PartitionKind, kind_of
from rli.metadata_table.expression_entries import ExpressionEntries, kept_expressions, why_expression_not_kept
from rli.metadata_table.partition_change import PartitionChange
from rli.metadata_table.secondary_entries import SecondaryEntries, kept_entries, why_not_kept
from rli.view.snapshot import Snapshot

_WHY_NOT_KEPT: Final[Mapping[PartitionKind | None, Callable[[IndexDefinition | None, pa.Schema | None], str]]] = {
    PartitionKind.SECONDARY_INDEX: why_not_kept,
    PartitionKind.EXPRESSION_INDEX: why_expression_not_kept,
    PartitionKind.OWN_EXPRESSION_INDEX: why_expression_not_kept,
}

Changes = dict[str, Callable[[], PartitionChange]]
"""Partition of the metadata table → what makes its change."""


@dataclass(frozen=True, slots=True)
class ColumnEntries:
    """The indexes on columns of a table.

    Attributes:
        definitions: of all indexes of the table.
        snapshot: a state of the table.
        schema: of its records after the change, without meta columns; None of a table without records.
    """

    definitions: Mapping[str, IndexDefinition]
    snapshot: Snapshot
    schema: pa.Schema | None

    def reasons(self, partitions: Iterable[str]) -> dict[str, str]:
        """Partition → why rli cannot keep it; without those that it can keep."""
        found = {
            name: why(self.definitions.get(name), self.schema)
            for name in partitions
            if (why := _WHY_NOT_KEPT.get(kind_of(name)))
        }
        return {name: reason for name, reason in found.items() if reason}

    def secondary(self, kept: Iterable[str], change_of: Callable[[SecondaryEntries], PartitionChange]) -> Changes:
        """The changes of the secondary indexes among the partitions that are kept."""
        found = kept_entries(kept, self.definitions, self.snapshot, self.schema)
        return {name: partial(change_of, entries) for name, entries in found.items()}

    def expressions(self, kept: Iterable[str], change_of: Callable[[ExpressionEntries], PartitionChange]) -> Changes:
        """The changes of the indexes on expressions among the partitions that are kept."""
        found = kept_expressions(kept, self.definitions, self.snapshot, self.schema)
        return {name: partial(change_of, entries) for name, entries in found.items()}
