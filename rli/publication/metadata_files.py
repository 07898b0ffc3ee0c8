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


def flush_waiting(source: str, files: Sequence[str], fence: ReplacesFiles) -> None:
    """Make files survive a power cut.

    Args:
        source: folder that they wait in.
        files: below it.
        fence: of the caller.
    """
    waiting = [posixpath.join(source, file) for file in files]
    fence.table.storage.flush(files=waiting, folders=set(map(posixpath.dirname, waiting)))


def bring_into_place(source: str, files: Sequence[str], fence: ReplacesFiles) -> None:
    """Move files into the metadata table, in their order; that survives a power cut when this returns.

    Args:
        source: folder that they wait in.
        files: below it, and then below the metadata table.
        fence: of the caller.

    Raises:
        LeaseLostError: another writer took the lease over, and has removed what was begun.
    """
    storage = fence.table.storage
    targets = [posixpath.join(METADATA_FOLDER, file) for file in files]
    try:
        for file, target in zip(files, targets, strict=True):
            storage.move(posixpath.join(source, file), target)
    except FileNotFoundError as error:
        raise LeaseLostError(
            f"another writer took the lease over: table={fence.table.location}",
            remedy="the metadata table is as it was, call it again",
        ) from error
    storage.flush(folders=set(map(posixpath.dirname, targets)))
