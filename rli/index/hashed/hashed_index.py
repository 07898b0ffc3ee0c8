"""An index that computes the file group of a record from the hash of its key, so that writes look nothing up."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from rli.errors import CorruptTableError
from rli.hudi.table_features import remedy_for_repeats
from rli.index.hashed.changes import BucketChanges
from rli.index.hashed.hashing import ArrivingRecords, Hashing, KeepsBuckets
from rli.index.hashed.layout import BucketLayout, largest, misplaced_keys, require_own_keys
from rli.index.hashed.locator import BucketLocator
from rli.index.hashed.settings import HashSettings
from rli.index.placing import Placement, PlacesRecords
from rli.index.reports import Scope, SomeKeys, VerifyReport
from rli.index.table_files.changes import changes_between
from rli.index.table_files.table_index import TableFilesIndex
from rli.model import FileGroupId
from rli.view.definition import TableDefinition
from rli.view.file_slices import FileSlice
from rli.view.snapshot import Snapshot
from rli.view.time_travel import whole_snapshot

_CHECKED_AT_ONCE: Final = 4
"""File slices at whose keys a write looks, or the first look-up, to see that they were hashed as the settings say: at most
one of each partition, none a second time."""


class HashedIndex(TableFilesIndex, PlacesRecords):
    """Knows the file group of a record by the hash of its key. A kind says how: ``hashing_of``.

    Args:
        table: the table; its settings hold the URL of the index.
        scope: where a key is unique: in its partition.
    """

    def __init__(self, table: TableDefinition, scope: Scope) -> None:
        super().__init__(table, scope)
        self.hash_settings.columns_of(table)
        self._checked = frozenset[FileGroupId]()

    @property
    @abstractmethod
    def hash_settings(self) -> HashSettings:
        """What the URL says."""

    @abstractmethod
    def hashing_of(self, snapshot: Snapshot) -> Hashing:
        """The hash function as of a state of the table."""

    def locator_of(self, snapshot: Snapshot) -> BucketLocator:
        hashing = self.hashing_of(snapshot)
        if not self._checked:
            # With another hash function, keys would seem to be absent.
            self._require_hashed(snapshot, BucketLayout.of(snapshot, hashing, snapshot.slices.values()))
        return BucketLocator(snapshot, hashing)

    def placements(
        self, records: Mapping[str, int], snapshot: Snapshot, replaced: Collection[FileGroupId] = (), *, saves: bool
    ) -> Mapping[str, Placement]:
        hashing = self.hashing_of(snapshot)
        live = snapshot.slices.of_partitions(records)
        self._require_hashed(snapshot, BucketLayout.of(snapshot, hashing, live))
        layout = BucketLayout.of(snapshot, hashing, [one for one in live if one.group not in replaced])
        if saves and isinstance(hashing, KeepsBuckets):
            hashing.keep(records)
        return {
            path: hashing.placement(ArrivingRecords(path, layout.slices.get(path, {}), count))
            for path, count in records.items()
        }

    def changes_between(self, before: Snapshot, now: Snapshot) -> BucketChanges | None:
        # Nothing is asked of the file groups that nobody has changed.
        changes = changes_between(before, now, lambda state: BucketLocator(state, self.hashing_of(state)))
        return None if changes is None else BucketChanges(changes, now, self.hashing_of(now))

    def require_fitting(self, table: TableDefinition) -> None:
        """Pass a table whose file groups are the buckets that this index says; raises ``IndexMismatchError`` for others."""
        snapshot = whole_snapshot(table)
        hashing, slices = self.hashing_of(snapshot), list(snapshot.slices.values())
        BucketLayout.of(snapshot, hashing, slices)
        require_own_keys(snapshot, hashing, slices)

    def verify(self, snapshot: Snapshot) -> VerifyReport:
        """Check that each file group is a bucket, that all keys stand in their bucket, and none of them twice there.

        Raises:
            IndexMismatchError: file groups are no buckets, or two of them are one bucket.
            CorruptTableError: a file is missing or damaged.
        """
        hashing, slices = self.hashing_of(snapshot), list(snapshot.slices.values())
        BucketLayout.of(snapshot, hashing, slices)
        wrong = SomeKeys.of(
            misplaced_keys(hashing, file_slice, keys)
            for file_slice in slices
            for keys in snapshot.record_keys(file_slice)
        )
        report = super().verify(snapshot)
        return replace(report, misplaced=wrong.count, sample=(*report.sample, *wrong.sample))

    def require_sound(self, table: TableDefinition, report: VerifyReport) -> None:
        super().require_sound(table, report)
        if report.misplaced:
            raise CorruptTableError(
                f"record keys stand in another bucket than their own: table={table.location} index={self.url} "
                f"records={report.misplaced} sample={list(report.sample)}; bootstrap another kind of index, such as "
                "simple:",
                remedy=remedy_for_repeats(table.properties),
            )

    def _require_hashed(self, snapshot: Snapshot, layout: BucketLayout) -> None:
        """Look at the keys of a few file slices, so that no other number of buckets goes unnoticed."""
        of_partitions = (largest(slices.values(), 1) for slices in layout.slices.values())
        unchecked: list[FileSlice] = []
        for file_slice in (found for slices in of_partitions for found in slices):
            if file_slice.group not in self._checked and len(unchecked) < _CHECKED_AT_ONCE:
                unchecked.append(file_slice)
        require_own_keys(snapshot, layout.hashing, unchecked)
        self._checked |= {file_slice.group for file_slice in unchecked}

    def __reduce__(self) -> tuple[object, ...]:
        return *super().__reduce__(), {"_checked": self._checked}
