"""Files that wait in a folder of their own until they are moved into the metadata table, as a whole or not at all.

The process that has the lease next removes this folder first: from then on, a process that was paused moves no more of
them.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Sequence
from typing import Protocol

from rli.errors import LeaseLostError
from rli.hudi.metadata.partitions import METADATA_FOLDER
from rli.view import paths
from rli.view.definition import TableDefinition


class ReplacesFiles(Protocol):
    """The part of a fence that is needed here; see ``Fence``."""

    @property
    def table(self) -> TableDefinition:
        """The table."""

    @property
    def require_held(self) -> Callable[[], None]:
        """Raises ``LeaseLostError`` once the lease is another one's."""

    def replace(self, path: str, content: bytes) -> None:
        """Write a file in place of the one of that name."""


def flush_waiting(folder: str, files: Sequence[str], fence: ReplacesFiles) -> None:
    """Make files survive a power cut, and all else that is in their folder.

    Args:
        folder: of ``paths.birth_folder``.
        files: below ``paths.birth_files(folder)``.
        fence: of the caller.
    """
    waiting = [posixpath.join(paths.birth_files(folder), file) for file in files]
    fence.table.storage.flush(files=waiting, folders={folder, *map(posixpath.dirname, waiting)})


def bring_into_place(folder: str, files: Sequence[str], fence: ReplacesFiles) -> None:
    """Move files into the metadata table, in their order; that survives a power cut when this returns.

    Args:
        folder: of ``paths.birth_folder``.
        files: below ``paths.birth_files(folder)``, and then below the metadata table.
        fence: of the caller.

    Raises:
        LeaseLostError: another writer took the lease over, and has removed what was begun.
    """
    storage = fence.table.storage
    targets = [posixpath.join(METADATA_FOLDER, file) for file in files]
    try:
        for file, target in zip(files, targets, strict=True):
            storage.move(posixpath.join(paths.birth_files(folder), file), target)
    except FileNotFoundError as error:
        raise LeaseLostError(
            f"another writer took the lease over: table={fence.table.location}",
            remedy="the metadata table is as it was, call it again",
        ) from error
    storage.flush(folders=set(map(posixpath.dirname, targets)))
