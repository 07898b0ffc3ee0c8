"""The kind ``bucket:?buckets=N``."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from rli.hudi.bucket_index import MOST_BUCKETS, new_bucket_file_id
from rli.index.bucket.hashing import BucketHashing
from rli.index.hashed.hashed_index import HashedIndex
from rli.index.hashed.kind import HashedKind
from rli.index.hashed.layout import slices_by_bucket
from rli.index.hashed.settings import HashSettings, UrlForm
from rli.index.placing import JoinedBucket, JoinsBuckets
from rli.index.reports import Scope
from rli.model import FileGroupId
from rli.view.definition import TableDefinition
from rli.view.snapshot import Snapshot

_FORM: Final = UrlForm("bucket", "bucket:?buckets=8, or bucket:?buckets=8&fields=a,b", MOST_BUCKETS)


class BucketIndex(HashedIndex, JoinsBuckets):
    """Each partition has a fixed number of buckets: a hash belongs to the bucket of its remainder."""

    @property
    def hash_settings(self) -> HashSettings:
        return _FORM.parse(self.url)[0]

    def hashing_of(self, snapshot: Snapshot) -> BucketHashing:
        return BucketHashing.of(snapshot, self.hash_settings)

    def to_join(self, snapshot: Snapshot, groups: Collection[FileGroupId]) -> Iterator[JoinedBucket]:
        slices = sorted(snapshot.slices.values(), key=lambda file_slice: file_slice.group)
        for (path, bucket), sources in slices_by_bucket(snapshot, self.hashing_of(snapshot), slices).items():
            if len(sources) > 1 or sources[0].group in groups:
                yield JoinedBucket(tuple(sources), FileGroupId(path, new_bucket_file_id(bucket)))


class BucketKind(HashedKind):
    """The bucket index."""

    def require_url(self, url: str) -> None:
        _FORM.parse(url)

    def index_of(self, table: TableDefinition) -> BucketIndex:
        return BucketIndex(table, Scope.PARTITION)
