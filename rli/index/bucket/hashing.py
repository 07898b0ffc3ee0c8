"""Which bucket of a partition each record key belongs to."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rli.errors import IndexMismatchError
from rli.hudi.bucket_index import MOST_BUCKETS, bucket_hashes, bucket_of_file_id, new_bucket_file_id
from rli.hudi.hashing_config import HashingConfig, load_hashing_config
from rli.index.bucket.placement import BucketPlacement
from rli.index.hashed.hashing import ArrivingRecords, Hashing, InfersSettings
from rli.index.hashed.layout import first_keys, largest
from rli.index.hashed.settings import HashSettings
from rli.model import FileGroupId
from rli.view.file_slices import FileSlice
from rli.view.snapshot import Snapshot

_SUGGESTED: Final = 5

_MANY: Final = 20
"""Keys of which the differences have a greater common divisor by chance about once in a million times."""


@dataclass(frozen=True, slots=True)
class BucketHashing(Hashing, InfersSettings):
    """A bucket is the remainder of a hash.

    Attributes:
        config: how many buckets each partition has.
        fields: the columns that are hashed.
        key_fields: the columns of the record key.
    """

    config: HashingConfig
    fields: tuple[str, ...]
    key_fields: tuple[str, ...]

    @classmethod
    def of(cls, snapshot: Snapshot, settings: HashSettings) -> BucketHashing:
        """The hash function of a table as of a state of it.

        Raises:
            SettingsError: the settings name columns that are not of the key.
            IndexMismatchError: Hudi has hashed the table with another number of buckets.
        """
        table = snapshot.table
        pending = {instant.time for instant in snapshot.timeline.instants if not instant.is_completed}
        stored = load_hashing_config(table.storage, pending, snapshot.timeline.latest_time)
        if stored is not None and stored.default_buckets != settings.buckets:
            raise IndexMismatchError(
                f"the table's hashing config says another number of buckets: table={table.location} "
                f"buckets={settings.buckets} hashing config={stored.default_buckets}",
                remedy=f"write bucket:?buckets={stored.default_buckets}",
            )
        return cls(stored or HashingConfig(settings.buckets), *settings.columns_of(table))

    def hashes(self, record_keys: pa.Array) -> NDArray[np.int64]:
        return bucket_hashes(record_keys, self.fields, self.key_fields)

    def buckets_of(self, partition_path: str, hashes: NDArray[np.int64]) -> NDArray[np.int64]:
        return hashes % self.config.buckets_of(partition_path)

    def bucket_of(self, group: FileGroupId) -> int | None:
        bucket = bucket_of_file_id(group.file_id)
        return bucket if bucket is not None and bucket < self.config.buckets_of(group.partition_path) else None

    def placement(self, arriving: ArrivingRecords) -> BucketPlacement:
        slices = arriving.slices
        buckets = range(self.config.buckets_of(arriving.partition_path))
        file_ids = (slices[one].group.file_id if one in slices else new_bucket_file_id(one) for one in buckets)
        return BucketPlacement(tuple(file_ids), self.fields, self.key_fields, arriving.count)

    @property
    def described(self) -> str:
        return f"buckets={self.config.default_buckets} fields={','.join(self.fields)}"

    @property
    def advice(self) -> str:
        return (
            "the files hold no buckets of these columns, another kind of index wrote them: bootstrap simple: or a "
            "store's URL"
        )

    def inferred(self, snapshot: Snapshot, slices: Iterable[FileSlice]) -> str | None:
        numbers = _suggested_buckets(snapshot, self, slices)
        if not numbers:
            return None
        if self.config.default_buckets in numbers:
            return "two writers made the first file group of a bucket at the same moment. Run: rli deduplicate TABLE"
        others = f", or one of {', '.join(map(str, numbers[1:_SUGGESTED]))}" if len(numbers) > 1 else ""
        return f"the files suggest bucket:?buckets={numbers[0]}{others}"


def _suggested_buckets(snapshot: Snapshot, hashing: BucketHashing, slices: Iterable[FileSlice]) -> list[int]:
    """The numbers of buckets by which keys stand where they stand, rising; more than one where there are few keys.

    A key's hash and its bucket differ by a multiple of that number, so it divides all these differences. Of many keys it is
    their greatest common divisor.
    """
    found, highest, seen = 0, 0, 0
    for file_slice in largest(slices):
        bucket = bucket_of_file_id(file_slice.group.file_id)
        if bucket is None:
            return []
        highest = max(highest, bucket)
        for keys in first_keys(snapshot, file_slice):
            seen += len(keys)
            found = int(np.gcd.reduce(np.append(hashing.hashes(keys) - bucket, found)))
    numbers = [number for number in _divisors(found) if highest < number <= MOST_BUCKETS]
    return numbers[-1:] if seen >= _MANY else numbers


def _divisors(number: int) -> list[int]:
    small = [divisor for divisor in range(1, math.isqrt(number) + 1) if number % divisor == 0]
    return sorted({*small, *(number // divisor for divisor in small)})
