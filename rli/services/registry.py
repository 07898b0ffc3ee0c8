"""The services that a dead process may have announced, by what their marks are named by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rli.publication.fence import Fence, settle_prepared
from rli.services.clean import CLEAN
from rli.services.planned import AnnouncedService, Finished
from rli.services.restore import RESTORE
from rli.services.rollback import ROLLBACK
from rli.services.savepoint import SAVEPOINT, SAVEPOINT_DELETION
from rli.view import paths
from rli.view.definition import TableDefinition

_SERVICES: Final = (ROLLBACK, RESTORE, CLEAN, SAVEPOINT, SAVEPOINT_DELETION)

ANNOUNCED_SERVICES: Final[Mapping[str, AnnouncedService]] = {service.action: service for service in _SERVICES}
"""By action."""


def finish_announced(table: TableDefinition, fence: Fence) -> Finished:
    """Finish services that were announced, drop those that were not. The caller has the lease."""
    finished = Finished()
    settle_prepared(fence)
    for mark in [*table.storage.list_files(paths.UNDOING), *table.storage.list_files(paths.SERVICES)]:
        instant, _, action = mark.name.partition(".")
        service = ANNOUNCED_SERVICES.get(action)
        # Files of other names are temporary ones.
        if service is not None:
            finished |= service.resume(table, instant, fence)
    return finished
