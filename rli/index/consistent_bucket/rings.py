"""The ring of each partition, as of a state of the table.

A ring counts once the replacement that made it has completed. Files of others are passed over: those of replacements
that are still going on, that died, or that were undone.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from rli.hudi.consistent_hashing import FIRST_INSTANT, Ring, folder_of, instants_of_rings, ring_path
from rli.index.hashed.settings import HashSettings
from rli.view.snapshot import Snapshot


def stored_ring(snapshot: Snapshot, partition_path: str) -> Ring | None:
    """The ring of a partition that its files tell; None for a partition without such files.

    Raises:
        CorruptTableError: the file is damaged.
    """
    return next(_stored(snapshot, partition_path), None)


def ring_of(snapshot: Snapshot, partition_path: str, settings: HashSettings) -> Ring:
    """The ring of a partition: the first one where no file tells; raises as ``stored_ring``."""
    return stored_ring(snapshot, partition_path) or Ring.first(partition_path, settings.buckets)


def _stored(snapshot: Snapshot, partition_path: str) -> Iterator[Ring]:
    """The rings that count, the newest first."""
    storage = snapshot.table.storage
    names = [posixpath.basename(file.path) for file in storage.list_files(folder_of(partition_path))]
    for instant in instants_of_rings(names):
        if instant != FIRST_INSTANT and not snapshot.timeline.is_visible(instant):
            continue
        path = ring_path(partition_path, instant)
        # An undo may just have removed it.
        content = storage.read_bytes(path)
        if content is None:
            continue
        ring = Ring.from_json(content, path)
        if instant == FIRST_INSTANT or not snapshot.timeline.is_archived(instant) or _names_all(snapshot, ring):
            yield ring


def _names_all(snapshot: Snapshot, ring: Ring) -> bool:
    """Whether all file groups of a partition are buckets of a ring.

    Hudi leaves the ring of a replacement that it rolled back. Once the rollback is archived too, nothing else tells.
    """
    live = snapshot.slices.of_partitions([ring.partition_path])
    return {file_slice.group.file_id for file_slice in live} <= set(ring.file_ids)
