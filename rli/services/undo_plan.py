"""What a plan to undo commits may name, which files it names, and which other plans go with these files."""

from __future__ import annotations

import posixpath
from collections.abc import Container, Iterable, Iterator, Mapping

from rli.errors import UnsupportedTableError
from rli.hudi.consistent_hashing import files_of
from rli.hudi.timeline.by_partition import by_partition
from rli.hudi.timeline.instant import Action, Instant
from rli.metadata_table.announced_partitions import require_none_announced
from rli.publication.instants import TableInstant
from rli.storage import Storage
from rli.view import paths
from rli.view.definition import TableDefinition
from rli.view.planned_rewrites import pending_compactions
from rli.view.snapshot import Snapshot
from rli.view.table_change import TableChange


def require_undoable(snapshot: Snapshot, instants: Iterable[Instant]) -> None:
    """Pass commits that can be undone as far as the timeline tells.

    Raises:
        ConflictError: an indexer of Hudi builds an index that would lack the undo.
        UnsupportedTableError: one of them replaced whole file groups and is another engine's, or a savepoint keeps it.
    """
    require_none_announced(snapshot)
    saved = {instant.time for instant in snapshot.timeline.savepoints}
    for instant in instants:
        change = snapshot.change(instant)
        if (change.replaced or instant.action == Action.REPLACE_COMMIT) and not change.is_native:
            raise UnsupportedTableError(
                f"a commit of another engine replaced whole file groups: instant={instant.time} "
                f"operation={change.operation}",
                remedy="undo it with that engine",
            )
        if instant.time in saved:
            raise UnsupportedTableError(
                f"a savepoint keeps the commit: instant={instant.time}",
                remedy=f"delete the savepoint first: rli savepoint TABLE {instant.time} --delete",
            )


def written_files(storage: Storage, change: TableChange) -> dict[str, tuple[str, ...]]:
    """Partition path → full paths of the data files that a write made; none in a partition where it replaced file groups alone."""
    made = ((stat.partition_path, [storage.planned_path(stat.path)]) for stat in change.stats)
    return by_partition([*made, *((group.partition_path, []) for group in sorted(change.replaced))])


def planned_files(files: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """Paths within the table of the data files that a plan names.

    A plan names the table as its planner did, perhaps through a symbolic link or another mount. So only the partition
    and the file's name count.

    Args:
        files: partition path → full paths.
    """
    for partition_path, full_paths in files.items():
        yield from (posixpath.join(partition_path, posixpath.basename(path)) for path in full_paths)


def unschedule_compactions(table: TableDefinition, files: Iterable[str], undone: Container[str]) -> None:
    """Take pending compactions off the timeline that are to merge files of a plan: nobody could carry them out.

    Args:
        table: the table; the caller holds the lease.
        files: of the plan, as ``planned_files`` gives them.
        undone: instants that the caller takes off the timeline itself.
    """
    gone = {*files}
    for pending in pending_compactions(table.load_timeline()):
        instant = pending.instant
        if instant.time not in undone and not gone.isdisjoint(pending.plan.files):
            TableInstant(table, instant.time, instant.action).drop()


def kept_by_index(files: Mapping[str, object], instant: str, action: str) -> list[str]:
    """Paths within the table of what an index may have kept of a commit: the rings of replaced buckets.

    Args:
        files: as ``written_files`` gives them.
        instant: time of the commit.
        action: of the commit.
    """
    return files_of(files, instant) if action == Action.REPLACE_COMMIT else []


def has_folder_of_rli(storage: Storage, instant: str) -> bool:
    """Whether a write of rli has left its work folder, or its journals: it is none of another engine.

    The work folder is there from before the write's request until after its end, and a commit has journals until a clean.

    Args:
        storage: of the table.
        instant: time of the write.
    """
    return any(storage.exists(folder) for folder in (paths.work_folder(instant), paths.journal_folder(instant)))
