"""The kind ``consistent-bucket:?buckets=N``."""

from __future__ import annotations

from collections.abc import Collection

from rli.index.consistent_bucket.hashing import RingHashing
from rli.index.consistent_bucket.renewal import RingRenewal
from rli.index.consistent_bucket.resizing import RingResizing, limits_of, plan_resizes
from rli.index.consistent_bucket.settings import ConsistentBucketSettings
from rli.index.hashed.hashed_index import HashedIndex
from rli.index.hashed.kind import HashedKind
from rli.index.hashed.layout import BucketLayout
from rli.index.hashed.settings import HashSettings
from rli.index.placing import PlansClustering
from rli.model import FileGroupId, Scope
from rli.view.definition import TableDefinition
from rli.view.snapshot import Snapshot


class ConsistentBucketIndex(HashedIndex, PlansClustering):
    """Each bucket has a part of a ring of all hashes, which a clustering splits, or merges with its neighbours."""

    @property
    def hash_settings(self) -> HashSettings:
        return ConsistentBucketSettings.parse(self.url).hashed

    def hashing_of(self, snapshot: Snapshot) -> RingHashing:
        return RingHashing.of(snapshot, self.hash_settings)

    def resizing(self, snapshot: Snapshot, smaller_than: int | None) -> RingResizing:
        settings = ConsistentBucketSettings.parse(self.url)
        limits = limits_of(
            snapshot.table.require_settings(),
            smaller_than,
            numbers=(settings.min_buckets, settings.max_buckets),
            thresholds=(settings.split_threshold, settings.merge_threshold),
        )
        hashing = self.hashing_of(snapshot)
        layout = BucketLayout.of(snapshot, hashing, snapshot.slices.values())
        resizes = (
            resize
            for partition_path, slices in sorted(layout.slices.items())
            for resize in plan_resizes(hashing.ring(partition_path), slices, limits)
        )
        return RingResizing(hashing, list(resizes))

    def renewal(self, snapshot: Snapshot, replaced: Collection[FileGroupId]) -> RingRenewal:
        return RingRenewal.of(self, snapshot, self.hashing_of(snapshot), replaced)


class ConsistentBucketKind(HashedKind):
    """The consistent bucket index."""

    def require_url(self, url: str) -> None:
        ConsistentBucketSettings.parse(url)

    def index_of(self, table: TableDefinition) -> ConsistentBucketIndex:
        return ConsistentBucketIndex(table, Scope.PARTITION)
