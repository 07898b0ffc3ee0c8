"""New partitions of the metadata table, built beside writers, who wait for the last step alone.

Each build goes on with what those before have read, also those of dead processes.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

from rli.coordination.requests import request_folder_of
from rli.errors import ConflictError, CorruptTableError, InstantNotFoundError
from rli.index.contract import TableIndex
from rli.metadata_table.kept_shards import ShardsRemovedError
from rli.publication.fence import Fence
from rli.services.metadata_births import (
    enable_metadata,
    is_unchanged,
    prepare_partitions,
    publish_partitions,
)
from rli.services.metadata_table import MetadataChange
from rli.services.new_partitions import NewPartitions
from rli.tasks import TaskRunner
from rli.view.definition import TableDefinition

METADATA_SERVICE: Final = "metadata"
"""Name of all services of the metadata table, in the messages of processes that wait for the lease."""

_BESIDE_WRITERS: Final = 2
"""How often partitions are built without the lease, before writers have to wait."""

OnProgress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class BesideWriters:
    """Builds partitions of the metadata table while others write the table.

    Attributes:
        opened: gives definition and index as they are now.
        service: holds the lease for a table service.
        tasks: of an engine, which read the files; None to read them in this process.
    """

    opened: Callable[[], tuple[TableDefinition, TableIndex]]
    service: Callable[[], AbstractContextManager[tuple[TableDefinition, Fence]]]
    tasks: TaskRunner | None = None

    def enable(self, wanted: NewPartitions, on_progress: OnProgress = lambda _, __: None) -> MetadataChange:
        """Build the partitions that the metadata table lacks; raises as ``MetadataOfTable.enable``.

        Args:
            wanted: the partitions.
            on_progress: called with the number of files read, and of all files.
        """
        for _ in range(_BESIDE_WRITERS):
            done = self._built(wanted, on_progress)
            if done is not None:
                return done
        with self.service() as (_, fence):
            return enable_metadata(wanted, fence, on_progress, self.tasks)

    def _built(self, wanted: NewPartitions, on_progress: OnProgress) -> MetadataChange | None:
        """As ``enable``, with the lease for the last step alone; None if the table changed meanwhile."""
        table, index = self.opened()
        definition = table.reloaded().durable()
        timeline = definition.load_timeline()
        with request_folder_of(definition, index) as request:
            try:
                prepared = prepare_partitions(wanted, definition, request.path, on_progress, self.tasks)
            except ShardsRemovedError:
                return None
            except (ConflictError, CorruptTableError, InstantNotFoundError):
                # Others may have cleaned a file away, or built the same partition.
                if is_unchanged(definition, timeline):
                    raise
                return None
            if prepared is None:
                return MetadataChange((), (), definition.properties.metadata_partitions)
            with self.service() as (_, fence):
                request.require_kept()
                return publish_partitions(prepared, fence)
