"""Whether others have made a bucket's first file group meanwhile (docs/protocol.md, P36).

Two writers may both find that a bucket has no file group, and make one each, under different names. What they changed in
file groups that were there before, the check of these tells.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import pyarrow as pa

from rli.file_group.journal import Journal
from rli.index.contract import ChangedKeys
from rli.index.hashed.hashing import Hashing
from rli.index.hashed.layout import largest, require_own_keys
from rli.index.reports import SomeKeys, sum_of
from rli.index.table_files.changes import FileChanges
from rli.model import FileGroupId
from rli.tasks import TaskRunner
from rli.view.snapshot import Snapshot

_CHECKED: Final = 4
"""File slices of other commits at whose keys a write looks: their writers may have had another number of buckets."""


class BucketChanges(ChangedKeys):
    """Compares the buckets of a write with those that the table has now.

    Args:
        changes: of the keys that file slices hold.
        now: the later state.
        hashing: as of it.
    """

    def __init__(self, changes: FileChanges, now: Snapshot, hashing: Hashing) -> None:
        self._changes = changes
        self._now = now
        self._hashing = hashing
        self.instants = changes.instants

    def placed_by(self, journals: Sequence[Journal], tasks: TaskRunner) -> SomeKeys:  # noqa: ARG002  (little work)
        partitions = {journal.group.partition_path for journal in journals}
        others = [found for found in self._changes.slices if found.group.partition_path in partitions]
        require_own_keys(self._now, self._hashing, largest(others, _CHECKED))
        groups = {found.group for found in others}
        storage = self._now.table.storage
        return sum_of(
            SomeKeys.of(journal.placed_keys(storage)) for journal in journals if self._has_rival(journal, groups)
        )

    def _has_rival(self, journal: Journal, others: Collection[FileGroupId]) -> bool:
        """Whether one of the file groups that others have made or changed is the bucket that a journal tells of."""
        group = journal.group
        bucket = self._hashing.bucket_of(group)
        return bucket is None or any(
            other != group and other.partition_path == group.partition_path and self._hashing.bucket_of(other) == bucket
            for other in others
        )

    def among(self, record_keys: pa.Array) -> SomeKeys:
        return self._changes.among(record_keys)
