"""The kind ``bucket:?buckets=N``."""

from __future__ import annotations

from typing import Final

from rli.hudi.bucket_index import MOST_BUCKETS
from rli.index.bucket.hashing import BucketHashing
from rli.index.hashed.hashed_index import HashedIndex
from rli.index.hashed.kind import HashedKind
from rli.index.hashed.settings import HashSettings, UrlForm
from rli.index.reports import Scope
from rli.view.definition import TableDefinition
from rli.view.snapshot import Snapshot

_FORM: Final = UrlForm("bucket", "bucket:?buckets=8, or bucket:?buckets=8&fields=a,b", MOST_BUCKETS)


class BucketIndex(HashedIndex):
    """Each partition has a fixed number of buckets: a hash belongs to the bucket of its remainder."""

    @property
    def hash_settings(self) -> HashSettings:
        return _FORM.parse(self.url)[0]

    def hashing_of(self, snapshot: Snapshot) -> BucketHashing:
        return BucketHashing.of(snapshot, self.hash_settings)


class BucketKind(HashedKind):
    """The bucket index."""

    def require_url(self, url: str) -> None:
        _FORM.parse(url)

    def index_of(self, table: TableDefinition) -> BucketIndex:
        return BucketIndex(table, Scope.PARTITION)
