"""Whether a table's file groups are the buckets that its settings say; what they suggest where they are others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from rli.errors import IndexMismatchError
from rli.index.hashed.hashing import Hashing, InfersSettings
from rli.model import FileGroupId
from rli.view.file_slices import FileSlice
from rli.view.snapshot import Snapshot

_SLICES: Final = 8
"""So many file slices, the largest ones, are asked what number of buckets they suggest."""

_KEYS: Final = 1_000
"""Of each of them, so many keys."""

_SAMPLE: Final = 5


@dataclass(frozen=True, slots=True)
class BucketLayout:
    """The buckets of some partitions.

    Attributes:
        hashing: of the table.
        slices: partition path → bucket → its file slice.
    """

    hashing: Hashing
    slices: Mapping[str, Mapping[int, FileSlice]]

    @classmethod
    def of(cls, snapshot: Snapshot, hashing: Hashing, slices: Iterable[FileSlice]) -> BucketLayout:
        """The layout of some live slices of a table.

        Raises:
            IndexMismatchError: a file group is no bucket, or two of them are one bucket.
        """
        known = list(slices)
        found: dict[str, dict[int, FileSlice]] = {}
        for (partition_path, bucket), (first, *others) in slices_by_bucket(snapshot, hashing, known).items():
            if others:
                problem = f"two file groups are one bucket: {_named(first.group)} other={others[0].group.file_id}"
                raise _mismatch(snapshot, hashing, known, problem)
            found.setdefault(partition_path, {})[bucket] = first
        return cls(hashing, found)


def slices_by_bucket(
    snapshot: Snapshot, hashing: Hashing, slices: Sequence[FileSlice]
) -> Mapping[tuple[str, int], Sequence[FileSlice]]:
    """Partition path and bucket → the file slices that are this bucket: one, unless another engine broke the rule.

    Raises:
        IndexMismatchError: a file group is no bucket.
    """
    found: dict[tuple[str, int], list[FileSlice]] = defaultdict(list)
    for file_slice in slices:
        group = file_slice.group
        bucket = hashing.bucket_of(group)
        if bucket is None:
            raise _mismatch(snapshot, hashing, slices, f"a file group is no bucket: {_named(group)}")
        found[group.partition_path, bucket].append(file_slice)
    return found


def require_own_keys(snapshot: Snapshot, hashing: Hashing, slices: Sequence[FileSlice]) -> None:
    """Raise ``IndexMismatchError`` if some of the keys of some file slices do not belong in them."""
    for file_slice in slices:
        for keys in first_keys(snapshot, file_slice):
            wrong = misplaced_keys(hashing, file_slice, keys)
            if len(wrong):
                sample = wrong.slice(0, _SAMPLE).to_pylist()
                problem = f"a file group holds keys of other buckets: {_named(file_slice.group)} keys={sample}"
                others = snapshot.slices.of_partitions([file_slice.group.partition_path])
                raise _mismatch(snapshot, hashing, others, problem)


def misplaced_keys(hashing: Hashing, file_slice: FileSlice, record_keys: pa.Array) -> pa.Array:
    """Those of a file slice's keys that belong in another bucket."""
    group = file_slice.group
    buckets = hashing.buckets_of(group.partition_path, hashing.hashes(record_keys))
    return record_keys.filter(pa.array(buckets != hashing.bucket_of(group)))


def largest(slices: Iterable[FileSlice], count: int = _SLICES) -> list[FileSlice]:
    """The largest ones of some file slices: they tell most."""
    return sorted(slices, key=lambda file_slice: (-file_slice.size, file_slice.group))[:count]


def _named(group: FileGroupId) -> str:
    return f"partition={group.partition_path!r} file_id={group.file_id}"


def _mismatch(snapshot: Snapshot, hashing: Hashing, slices: Iterable[FileSlice], problem: str) -> IndexMismatchError:
    inferred = hashing.inferred(snapshot, slices) if isinstance(hashing, InfersSettings) else None
    return IndexMismatchError(
        f"{problem} table={snapshot.table.location} {hashing.described}", remedy=f"{inferred or hashing.advice}"
    )


def first_keys(snapshot: Snapshot, file_slice: FileSlice) -> Iterator[pa.Array]:
    """The first keys of a file slice, in one batch; none if it is empty."""
    for keys in snapshot.record_keys(file_slice):
        yield pc.unique(keys.slice(0, _KEYS))
        return
