"""Other engines at work that a new partition of the metadata table must wait for."""

from __future__ import annotations

from collections.abc import Collection

from rli.errors import ConflictError
from rli.view import paths
from rli.view.planned_indexing import begun_indexings
from rli.view.snapshot import Snapshot


def require_no_other_writer(snapshot: Snapshot) -> None:
    """Raise ``ConflictError`` for a write of another engine, which would not know of the new partitions when it commits."""
    storage = snapshot.table.storage
    for instant in snapshot.timeline.pending:
        if instant.is_write and not storage.exists(paths.work_folder(instant.time)):
            raise ConflictError(
                f"another engine is writing, and does not know of a new metadata table: instant={instant.time} "
                f"action={instant.action}",
                remedy="wait until it has committed, or let Hudi roll back what a dead writer left",
            )


def require_no_other_indexer(snapshot: Snapshot, partitions: Collection[str]) -> None:
    """Raise ``ConflictError`` if an indexer of Hudi builds one of some partitions: each would remove the other's files."""
    for indexing in begun_indexings(snapshot.timeline):
        names = indexing.partitions.intersection(partitions)
        if names:
            problem = "an indexer of Hudi builds this index"
            raise indexing.conflict(snapshot.table, min(names), problem, "wait until it is built")
