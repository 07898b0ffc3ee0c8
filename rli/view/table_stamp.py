"""A stamp of a table: as long as it is the same, no other engine has changed the table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from rli.hudi.metadata.metadata_files import metadata_layout
from rli.hudi.properties import PROPERTIES_PATH
from rli.storage import StoredFile
from rli.view.definition import TableDefinition


@dataclass(frozen=True, slots=True)
class TableStamp:
    """The parts of a table that each change by another engine changes.

    Attributes:
        properties: content of the table's properties.
        instants: files of all instants, of the table and of its metadata table.
    """

    properties: bytes | None
    instants: frozenset[StoredFile]

    @classmethod
    def of(cls, table: TableDefinition, own: str) -> Self:
        """The stamp of a table now.

        Args:
            table: the table.
            own: the instant of a write of this process, whose own deltacommit changes nothing.
        """
        storage, layout = table.storage, table.timeline_layout
        of_metadata = storage.list_files(metadata_layout(layout).folder)
        found = [*storage.list_files(layout.folder), *(file for file in of_metadata if not file.name.startswith(own))]
        # In table version 6, other files lie among those of the instants, such as the lock.
        return cls(storage.read_bytes(PROPERTIES_PATH), frozenset(file for file in found if file.name[:1].isdigit()))
