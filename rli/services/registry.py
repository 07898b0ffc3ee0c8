"""The services that a dead process may have announced, by the names of their announcements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from rli.errors import UnsupportedTableError
from rli.hudi.timeline.instant import is_instant_time
from rli.publication.fence import Fence, settle_prepared
from rli.services.clean import CLEAN
from rli.services.planned import AnnouncedService, Finished
from rli.services.restore import RESTORE
from rli.services.rollback import ROLLBACK
from rli.services.savepoint import SAVEPOINT, SAVEPOINT_DELETION
from rli.storage import StoredFile
from rli.view import paths
from rli.view.definition import TableDefinition

_SERVICES: Final = (ROLLBACK, RESTORE, CLEAN, SAVEPOINT, SAVEPOINT_DELETION)

ANNOUNCED_SERVICES: Final[Mapping[str, AnnouncedService]] = {service.action: service for service in _SERVICES}
"""By action."""


def announced_in(table: TableDefinition, files: Iterable[StoredFile]) -> list[tuple[str, AnnouncedService]]:
    """The services that the files of a folder announce, each with the instant in its name.

    Raises:
        UnsupportedTableError: a newer version of rli announced a service that this one does not know.
    """
    found = []
    for file in files:
        instant, _, action = file.name.partition(".")
        if action in ANNOUNCED_SERVICES:
            found.append((instant, ANNOUNCED_SERVICES[action]))
        elif is_instant_time(instant) and action.isidentifier():
            raise UnsupportedTableError(
                "a newer version of rli has announced a service that this version does not know: "
                f"table={table.location} service={action} instant={instant}",
                remedy="finish it with the newer version: rli index sync TABLE",
            )
        # Files of other names are not announcements.
    return found


def finish_announced(fence: Fence) -> Finished:
    """Finish services that were announced, drop those that were not. The caller has the lease.

    Raises:
        UnsupportedTableError: see ``announced_in``; then nothing was finished.
    """
    table, finished = fence.table, Finished()
    settle_prepared(fence)
    files = [file for folder in (paths.UNDOING, paths.SERVICES) for file in table.storage.list_files(folder)]
    if files:
        # As for prepared files.
        fence.require_held()
    announced = announced_in(table, files)
    # Only holders of the lease write announcements: these files are of none that lives.
    table.storage.delete_files(file.path for file in files if file.is_temporary)
    for instant, service in announced:
        finished |= service.resume(table, instant, fence)
    return finished
