"""New file groups for the buckets that an overwrite or a drop of partitions replaces; the parts of the ring stay."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from uuid import uuid4

from rli.hudi.consistent_hashing import Bucket
from rli.index.consistent_bucket.hashing import RingHashing, RingPlacement
from rli.index.consistent_bucket.new_rings import RingChanges, changed_ring, files_of_new_rings, mark_completed
from rli.index.placing import Placement, PlacesRecords, Renewal
from rli.model import FileGroupId
from rli.storage import Storage
from rli.view.snapshot import Snapshot


@dataclass(frozen=True)
class RingRenewal(Renewal):
    """The renewal of some buckets.

    Attributes:
        index: of the table.
        snapshot: that the write builds on.
        hashing: as of this state.
        replaced: the file groups that are replaced.
        changes: by partition path, the bucket that comes for each of them.
    """

    index: PlacesRecords
    snapshot: Snapshot
    hashing: RingHashing
    replaced: frozenset[FileGroupId]
    changes: Mapping[str, RingChanges]

    @classmethod
    def of(
        cls, index: PlacesRecords, snapshot: Snapshot, hashing: RingHashing, replaced: Collection[FileGroupId]
    ) -> RingRenewal:
        """Name the buckets that come; arguments as the attributes."""
        changes: dict[str, dict[str, tuple[Bucket, ...]]] = {}
        for group in replaced:
            for bucket in hashing.ring(group.partition_path).buckets:
                if bucket.file_id == group.file_id:
                    new = Bucket(bucket.value, str(uuid4()))
                    changes.setdefault(group.partition_path, {})[group.file_id] = (new,)
        return cls(index, snapshot, hashing, frozenset(replaced), changes)

    def placements(self, records: Mapping[str, int], *, saves: bool) -> Mapping[str, Placement]:
        found = self.index.placements(records, self.snapshot, self.replaced, saves=saves)
        return {path: self._renewed(path, placement) for path, placement in found.items()}

    def files(self, instant: str, now: Snapshot, replaced: frozenset[FileGroupId]) -> dict[str, bytes]:  # noqa: ARG002  (all of them)
        return files_of_new_rings(RingHashing.of(now, self.hashing.settings), instant, self.changes)

    def completed(self, storage: Storage, instant: str, replaced: frozenset[FileGroupId]) -> None:  # noqa: ARG002  (all of them)
        mark_completed(storage, instant, self.changes)

    def _renewed(self, partition_path: str, placement: Placement) -> Placement:
        changes = self.changes.get(partition_path)
        if changes is None or not isinstance(placement, RingPlacement):
            return placement
        return replace(placement, ring=changed_ring(placement.ring, "", changes))
