"""A stamp of a table: as long as it is the same, no other engine has changed what a write was checked against."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Self

from rli.hudi.metadata.metadata_files import metadata_layout
from rli.hudi.properties import PROPERTIES_PATH
from rli.hudi.timeline.instant import Action, Instant
from rli.hudi.timeline.timeline import Timeline, listed_timeline
from rli.storage import StoredFile
from rli.view.definition import TableDefinition

_WITHOUT_PLAN: Final = (Action.COMMIT, Action.DELTA_COMMIT)


@dataclass(frozen=True, slots=True)
class TableStamp:
    """The parts of a table that each change by another engine changes.

    Pending commits and deltacommits of others are no part of it: whoever completes one checks it against the commits before.

    Attributes:
        properties: content of the table's properties.
        instants: completed ones, plans, rollbacks, and the own one.
        of_metadata: files of the instants of the metadata table.
        timeline: with all instants.
    """

    properties: bytes | None
    instants: tuple[Instant, ...]
    of_metadata: frozenset[StoredFile]
    timeline: Timeline = field(compare=False)

    @classmethod
    def of(cls, table: TableDefinition, own: str) -> Self:
        """The stamp of a table now.

        Args:
            table: the table.
            own: the instant of a write of this process, whose own deltacommit changes nothing.

        Raises:
            CorruptTableError: an instant's file is broken; names the file.
        """
        storage, layout = table.storage, table.timeline_layout
        timeline = listed_timeline(storage, layout, storage.list_files(layout.folder))
        of_metadata = storage.list_files(metadata_layout(layout).folder)
        return cls(
            storage.read_bytes(PROPERTIES_PATH),
            tuple(found for found in timeline.instants if found.time == own or not _is_begun_write(found)),
            frozenset(file for file in of_metadata if file.name[:1].isdigit() and not file.name.startswith(own)),
            timeline,
        )


def _is_begun_write(instant: Instant) -> bool:
    """Whether another writer has begun a commit, and has neither completed it nor planned to rewrite file groups."""
    return not instant.is_completed and instant.action in _WITHOUT_PLAN
