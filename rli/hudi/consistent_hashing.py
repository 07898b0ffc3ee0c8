"""Hudi's consistent hashing: a ring of buckets for each partition, and the files that hold these rings.

A record key hashes to a number of 31 bits. Its bucket is the first one whose value is not less than the hash, or the
first of all: the values lie on a ring. Each bucket is one file group, whose file id begins with the bucket's prefix.

The file ``<instant>.hashing_meta`` below ``.hoodie/.bucket_index/consistent_hashing_metadata/<partition>`` holds the
ring that the replacement of this instant made. The first ring of a partition is the same whoever makes it; its instant
is ``00000000000000``. An empty file ``<instant>.commit`` beside it says that the replacement was seen to have completed.
Sources: ``HoodieConsistentHashingMetadata``, ``ConsistentBucketIdentifier`` and ``ConsistentBucketIndexUtils`` of Hudi
1.2.0, whose answers and files tests compare.
"""

from __future__ import annotations

import json
import posixpath
import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import md5
from typing import Any, Final, Self
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rli.errors import CorruptTableError
from rli.hudi.hash_fields import hash_values
from rli.hudi.xx_hash import xx_hashes
from rli.json_text import parse_json

FIRST_INSTANT: Final = "00000000000000"
"""Of the first ring of each partition."""

MOST_BUCKETS: Final = 65_536
"""Of one partition, so that a damaged number is no memory."""

LARGEST_HASH: Final = 2**31 - 1

_FOLDER: Final = ".hoodie/.bucket_index/consistent_hashing_metadata"
_EXTENSION: Final = ".hashing_meta"
_COMPLETED: Final = ".commit"
_FILE_NAME: Final = re.compile(r"(?P<instant>\d{14,20})\.hashing_meta", re.ASCII)
_PREFIX: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.ASCII)
_NORMAL: Final = "NORMAL"


@dataclass(frozen=True, slots=True)
class Bucket:
    """One bucket of a ring.

    Attributes:
        value: the largest hash that it takes.
        prefix: its file id without the last part.
    """

    value: int
    prefix: str

    @property
    def file_id(self) -> str:
        return f"{self.prefix}-0"


@dataclass(frozen=True)
class Ring:
    """The buckets of one partition.

    Attributes:
        partition_path: the partition.
        instant: of the replacement that made the ring; ``FIRST_INSTANT`` for the first one.
        first_buckets: how many the first ring had.
        number: how many rings the partition had before.
        buckets: by rising values.
    """

    partition_path: str
    instant: str
    first_buckets: int
    number: int
    buckets: tuple[Bucket, ...]

    @classmethod
    def first(cls, partition_path: str, buckets: int) -> Self:
        """The first ring of a partition: about equal parts of all hashes."""
        step = (LARGEST_HASH + buckets - 1) // buckets
        ends = [min(step * number, LARGEST_HASH) for number in range(1, buckets + 1)]
        parts = zip([0, *ends[:-1]], ends, strict=True)
        made = tuple(Bucket(end, _first_prefix(partition_path, start, end)) for start, end in parts)
        return cls(partition_path, FIRST_INSTANT, buckets, 0, made)

    @classmethod
    def from_json(cls, content: bytes, path: str) -> Self:
        """Read a file of Hudi's; raises ``CorruptTableError``, naming the file, for anything else."""
        try:
            found = parse_json(content)
            buckets = sorted((_bucket(node) for node in found["nodes"]), key=lambda bucket: bucket.value)
            ring = cls(
                found["partitionPath"],
                str(found["instant"]),
                int(found["numBuckets"]),
                int(found["seqNo"]),
                tuple(buckets),
            )
            ring.require_valid()
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptTableError(
                f"a file of the hashing metadata is damaged: file={path} cause=({error!r})",
                remedy="restore it from a backup",
            ) from error
        return ring

    def to_json(self) -> bytes:
        """As Hudi writes it."""
        nodes = [{"value": bucket.value, "fileIdPrefix": bucket.prefix, "tag": _NORMAL} for bucket in self.buckets]
        content = {
            "version": 0,
            "partitionPath": self.partition_path,
            "instant": self.instant,
            "numBuckets": self.first_buckets,
            "seqNo": self.number,
            "nodes": nodes,
        }
        return json.dumps(content, indent=2, ensure_ascii=False).encode()

    def require_valid(self) -> None:
        """Raise ``ValueError`` for a ring without buckets, or with two of one value or one file group."""
        values = {bucket.value for bucket in self.buckets}
        prefixes = {bucket.prefix for bucket in self.buckets}
        if not self.buckets or len(self.buckets) > MOST_BUCKETS:
            raise ValueError(f"it has {len(self.buckets)} buckets")
        if not len(values) == len(prefixes) == len(self.buckets):
            raise ValueError("two buckets have one value or one file id")
        if min(values) < 0 or max(values) > LARGEST_HASH:
            raise ValueError("a value is no hash")

    @cached_property
    def file_ids(self) -> tuple[str, ...]:
        """The file group of each bucket."""
        return tuple(bucket.file_id for bucket in self.buckets)

    @cached_property
    def positions(self) -> dict[str, int]:
        """Where on the ring the bucket of each file group is."""
        return {file_id: position for position, file_id in enumerate(self.file_ids)}

    @cached_property
    def values(self) -> NDArray[np.int64]:
        """The value of each bucket, rising."""
        return np.array([bucket.value for bucket in self.buckets], np.int64)

    def owners(self, hashes: NDArray[np.int64]) -> NDArray[np.int64]:
        """The position of the bucket of each hash: shape (n,) → (n,)."""
        return np.searchsorted(self.values, hashes) % len(self.buckets)

    def owners_of(self, hashes: NDArray[np.int64]) -> pa.Array:
        """The file id of the bucket of each hash: a dictionary-encoded string array, shape (n,)."""
        owners = pa.array(self.owners(hashes).astype(np.int32))
        return pa.DictionaryArray.from_arrays(owners, pa.array(self.file_ids, pa.string()))

    def middle(self, position: int) -> int | None:
        """The value that halves the range of a bucket; None for a range of one hash."""
        before, value = self.buckets[position - 1].value, self.buckets[position].value
        middle = (before + value + (0 if before < value else LARGEST_HASH + 1)) // 2 & LARGEST_HASH
        return None if middle in {before, value} else middle

    def with_changes(self, instant: str, changes: Mapping[str, Sequence[Bucket]]) -> Ring:
        """The ring after buckets were replaced.

        Args:
            instant: of the replacement.
            changes: the file id of each bucket that goes → the buckets that come in its place, in none or more.

        Raises:
            KeyError: the ring has no such bucket.
        """
        unknown = changes.keys() - set(self.file_ids)
        if unknown:
            raise KeyError(min(unknown))
        kept = [bucket for bucket in self.buckets if bucket.file_id not in changes]
        come = [bucket for buckets in changes.values() for bucket in buckets]
        buckets = tuple(sorted([*kept, *come], key=lambda bucket: bucket.value))
        return replace(self, instant=instant, number=self.number + 1, buckets=buckets)


def key_hashes(record_keys: pa.Array, fields: Sequence[str], key_fields: Sequence[str]) -> NDArray[np.int64]:
    """The place of each record key on the ring.

    Args:
        record_keys: string array, shape (n,), without nulls.
        fields: the key columns whose values are hashed.
        key_fields: the columns of the record key.

    Returns:
        Shape (n,), each from 0 to ``LARGEST_HASH``.
    """
    lists = hash_values(record_keys, fields, key_fields)
    values = lists.flatten().fill_null("null")
    filled = pa.ListArray.from_arrays(pa.array(_offsets(lists)), values)
    return (xx_hashes(pc.binary_join(filled, "")) & np.uint32(LARGEST_HASH)).astype(np.int64)


def folder_of(partition_path: str) -> str:
    """Holds the rings of a partition."""
    return posixpath.join(_FOLDER, partition_path).rstrip("/")


def ring_path(partition_path: str, instant: str) -> str:
    """The file of the ring that a replacement makes."""
    return f"{folder_of(partition_path)}/{instant}{_EXTENSION}"


def commit_marker_path(partition_path: str, instant: str) -> str:
    """The empty file that says that the replacement was seen to have completed."""
    return f"{folder_of(partition_path)}/{instant}{_COMPLETED}"


def files_of(partition_paths: Iterable[str], instant: str) -> list[str]:
    """All that a replacement may have left beside the rings of partitions."""
    return [
        path(partition, instant) for partition in sorted(partition_paths) for path in (ring_path, commit_marker_path)
    ]


def instants_of_rings(file_names: Iterable[str]) -> list[str]:
    """The instants of the rings among some files (names without folders), the newest first."""
    matches = (_FILE_NAME.fullmatch(name) for name in file_names)
    return sorted((match["instant"] for match in matches if match is not None), reverse=True)


def _offsets(lists: pa.ListArray) -> NDArray[np.int32]:
    offsets = lists.offsets.to_numpy()
    return offsets - offsets[0] if len(offsets) else np.zeros(1, np.int32)


def _bucket(node: Any) -> Bucket:
    value, prefix = node["value"], node["fileIdPrefix"]
    if not isinstance(value, int) or not _PREFIX.fullmatch(prefix):
        raise ValueError(f"a node has no value or no file id: value={value!r} fileIdPrefix={prefix!r}")
    return Bucket(value, prefix)


def _first_prefix(partition_path: str, start: int, end: int) -> str:
    """The name-based UUID of a range of hashes in a partition."""
    digest = md5(struct.pack(">qq", start, end) + partition_path.encode(), usedforsecurity=False).digest()
    return str(UUID(bytes=digest, version=3))
