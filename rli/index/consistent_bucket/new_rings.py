"""The rings that a commit makes which replaces buckets: their files, and what says that the commit has completed.

A new ring is made at the commit, where others may have been first: out of the ring that stands then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TypeAlias

from rli.errors import ConflictError
from rli.hudi.consistent_hashing import Bucket, Ring, commit_marker_path, ring_path
from rli.index.consistent_bucket.hashing import RingHashing
from rli.storage import Storage

RingChanges: TypeAlias = Mapping[str, Sequence[Bucket]]
"""As ``Ring.with_changes`` takes them."""


def files_of_new_rings(rings: RingHashing, instant: str, changes: Mapping[str, RingChanges]) -> dict[str, bytes]:
    """Path → content of the files of the rings that a commit makes.

    Args:
        rings: as of the state that the commit comes on top of.
        instant: of the commit.
        changes: by partition path.

    Raises:
        ConflictError: another commit has changed one of these rings since.
    """
    found = {}
    for partition_path, of_one in changes.items():
        ring = rings.ring(partition_path)
        # The newest name tells the ring that counts.
        if ring.instant >= instant:
            raise ConflictError(
                f"another commit that began later has replaced buckets first: partition={partition_path!r} "
                f"instant={ring.instant}",
                instants=(ring.instant,),
                remedy="call it again",
            )
        found[ring_path(partition_path, instant)] = changed_ring(ring, instant, of_one).to_json()
    return found


def changed_ring(ring: Ring, instant: str, changes: RingChanges) -> Ring:
    """A ring after buckets were replaced; raises ``ConflictError`` if another commit has replaced one of them."""
    try:
        return ring.with_changes(instant, changes)
    except KeyError as error:
        raise ConflictError(
            f"another commit has replaced buckets first: partition={ring.partition_path!r} file_id={error.args[0]} "
            f"instant={ring.instant}",
            instants=(ring.instant,),
            remedy="call it again",
        ) from error


def mark_completed(storage: Storage, instant: str, partition_paths: Iterable[str]) -> None:
    """Say beside the rings of partitions that the commit has completed; a failure does no harm."""
    for partition_path in partition_paths:
        # Hudi asks the timeline where there is no marker.
        with suppress(OSError):
            storage.create(commit_marker_path(partition_path, instant), b"")
