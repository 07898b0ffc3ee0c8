"""The options of a write on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from rli.model import OnPartitionChange


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How a file is written; ``Table.upsert`` describes each option.

    Attributes:
        on_partition_change: None for what the table's settings say.
        transaction: of the caller.
        metadata: of the caller.
    """

    on_partition_change: OnPartitionChange | None = None
    transaction: tuple[str, int] | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def arguments(self) -> dict[str, Any]:
        """Keyword arguments of an upsert."""
        return {item.name: getattr(self, item.name) for item in fields(self)}
