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
    """What each change of a table by another engine shows in.

    Attributes:
        properties: content of the table's properties.
        instants: the files of all instants, of the table and of its metadata table.
    """

    properties: bytes | None
    instants: frozenset[StoredFile]

    @classmethod
    def of(cls, table: TableDefinition) -> Self:
        """The stamp of a table now."""
        storage, layout = table.storage, table.timeline_layout
        folders = (layout.folder, metadata_layout(layout).folder)
        found = (file for folder in folders for file in storage.list_files(folder))
        # In table version 6, other files lie among those of the instants, such as the lock.
        return cls(storage.read_bytes(PROPERTIES_PATH), frozenset(file for file in found if file.name[:1].isdigit()))
