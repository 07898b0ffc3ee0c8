"""Splitting large buckets and merging small neighbours: what is to be done, and the rings that come of it.

The plan is made from the sizes of file slices. Which part of it was done is known at the commit, where others may have
been first. So the new ring of a partition is made there, out of the ring that stands then.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import uuid4

from rli.hudi.consistent_hashing import Bucket, Ring
from rli.index.consistent_bucket.hashing import RingHashing, RingPlacement
from rli.index.consistent_bucket.new_rings import changed_ring, files_of_new_rings, mark_completed
from rli.index.placing import Regrouping, Resizing
from rli.model import FileGroupId
from rli.settings import TableSettings
from rli.storage import Storage
from rli.view.file_slices import FileSlice
from rli.view.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Limits:
    """From which sizes on buckets are resized.

    Attributes:
        min_buckets, max_buckets: of a partition.
        target: bytes that merged buckets have together at most.
        split: a bucket of more bytes is split.
        merge: neighbours of no more bytes each are merged.
    """

    min_buckets: int
    max_buckets: int
    target: int
    split: float
    merge: float


@dataclass(frozen=True, slots=True)
class Resize:
    """Buckets that others take the place of.

    Attributes:
        partition_path: the partition.
        sources: their file slices; a bucket without records has none.
        goes: the buckets, as the ring has them one behind the other.
        comes: what takes their place.
    """

    partition_path: str
    sources: tuple[FileSlice, ...]
    goes: tuple[Bucket, ...]
    comes: tuple[Bucket, ...]

    @property
    def changes(self) -> dict[str, tuple[Bucket, ...]]:
        """As ``Ring.with_changes`` takes them."""
        first, *others = self.goes
        return {first.file_id: self.comes, **{bucket.file_id: () for bucket in others}}


class RingResizing(Resizing):
    """The splits and merges of a table.

    Args:
        hashing: as of the state that was planned on.
        resizes: what is to be done.
    """

    def __init__(self, hashing: RingHashing, resizes: Sequence[Resize]) -> None:
        self._hashing = hashing
        self._resizes = resizes

    @property
    def regroupings(self) -> list[Regrouping]:
        return [
            Regrouping(resize.sources, tuple(bucket.file_id for bucket in resize.comes), self._placement(resize))
            for resize in self._resizes
        ]

    @property
    def watched(self) -> frozenset[FileGroupId]:
        held = {file_slice.group for resize in self._resizes for file_slice in resize.sources}
        groups = (
            FileGroupId(resize.partition_path, bucket.file_id) for resize in self._resizes for bucket in resize.goes
        )
        return frozenset(groups) - held

    def files(self, instant: str, now: Snapshot, replaced: frozenset[FileGroupId]) -> dict[str, bytes]:
        done = {path: _changes_of(resizes) for path, resizes in self._done(replaced).items()}
        return files_of_new_rings(RingHashing.of(now, self._hashing.settings), instant, done)

    def completed(self, storage: Storage, instant: str, replaced: frozenset[FileGroupId]) -> None:
        mark_completed(storage, instant, self._done(replaced))

    def _placement(self, resize: Resize) -> RingPlacement:
        """Only keys of the buckets that go are asked for, so the others need not be on the ring."""
        hashing = self._hashing
        part = changed_ring(hashing.ring(resize.partition_path), "", resize.changes)
        return RingPlacement(part, hashing.fields, hashing.key_fields, 0)

    def _done(self, replaced: frozenset[FileGroupId]) -> Mapping[str, Sequence[Resize]]:
        """By partition, the resizes whose file groups were replaced."""
        found: dict[str, list[Resize]] = defaultdict(list)
        for resize in self._resizes:
            if all(file_slice.group in replaced for file_slice in resize.sources):
                found[resize.partition_path].append(resize)
        return found


def plan_resizes(ring: Ring, slices: Mapping[int, FileSlice], limits: Limits) -> list[Resize]:
    """Plan the splits and merges of one partition.

    A bucket is split where its part of the ring has its middle. Neighbours on the ring are merged while they have no
    more than the target together, the buckets without records between them, too.

    Args:
        ring: of the partition.
        slices: bucket → its file slice, if it has one.
        limits: sizes and numbers.
    """
    splits = _splits(ring, slices, limits)
    split = {bucket.file_id for resize in splits for bucket in resize.goes}
    most_merged = max(0, len(ring.buckets) + len(splits) - limits.min_buckets)
    merges = list[Resize]()
    for chain in _chains(ring, slices, limits, split):
        kept = chain[: most_merged + 1]
        sources = tuple(slices[position] for position in kept if position in slices)
        if len(kept) > 1 and sources:
            goes = tuple(ring.buckets[position] for position in kept)
            merges.append(Resize(ring.partition_path, sources, goes, (_new_bucket(goes[-1].value),)))
            most_merged -= len(kept) - 1
    return [*splits, *merges]


def limits_of(
    settings: TableSettings,
    smaller_than: int | None,
    *,
    numbers: tuple[int, int],
    thresholds: tuple[float, float],
) -> Limits:
    """The limits of a table.

    Args:
        settings: of the table.
        smaller_than: bytes from which on buckets are not merged; None for the threshold.
        numbers: the fewest and the most buckets.
        thresholds: of splits and merges, in target sizes.
    """
    target = settings.target_file_size
    merge = thresholds[1] * target if smaller_than is None else smaller_than - 1
    return Limits(*numbers, target, thresholds[0] * target, merge)


def _splits(ring: Ring, slices: Mapping[int, FileSlice], limits: Limits) -> list[Resize]:
    found = list[Resize]()
    by_size = sorted(slices.items(), key=lambda item: (-item[1].size, item[0]))
    for position, file_slice in by_size:
        bucket, middle = ring.buckets[position], ring.middle(position)
        is_full = len(ring.buckets) + len(found) >= limits.max_buckets
        if middle is not None and not is_full and file_slice.size > limits.split:
            halves = _new_bucket(middle), _new_bucket(bucket.value)
            found.append(Resize(ring.partition_path, (file_slice,), (bucket,), halves))
    return found


def _chains(ring: Ring, slices: Mapping[int, FileSlice], limits: Limits, split: set[str]) -> list[list[int]]:
    """The positions of neighbours that may be merged; the ring has no end, so a chain may go over its last bucket."""
    sizes = [slices[position].size if position in slices else 0 for position in range(len(ring.buckets))]
    fixed = [size > limits.merge or ring.file_ids[position] in split for position, size in enumerate(sizes)]
    start = fixed.index(True) if any(fixed) else 0
    chains, total = [list[int]()], 0
    for position in (*range(start, len(sizes)), *range(start)):
        if fixed[position] or total + sizes[position] > limits.target:
            chains.append([])
            total = 0
        if not fixed[position]:
            chains[-1].append(position)
            total += sizes[position]
    return chains


def _changes_of(resizes: Sequence[Resize]) -> dict[str, tuple[Bucket, ...]]:
    return {file_id: buckets for resize in resizes for file_id, buckets in resize.changes.items()}


def _new_bucket(value: int) -> Bucket:
    return Bucket(value, str(uuid4()))
