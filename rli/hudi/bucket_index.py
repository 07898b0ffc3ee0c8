"""Hudi's simple bucket index: the bucket of a record key, and the names of the file groups that are buckets.

In each partition, a bucket is one file group. Its file id begins with the bucket's number in eight digits. The rest is
the rest of a random UUID, or always the same where writers may make a bucket at the same time without a lock
(non-blocking concurrency control). Hudi's rescaling leaves the ``-0`` at the end out. Source: ``BucketIdentifier`` of Hudi 1.2.0; Flink's writer names buckets likewise.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final
from uuid import uuid4

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rli.hudi.hash_fields import hash_values
from rli.hudi.java_hash import list_hashes

MOST_BUCKETS: Final = 65_536
"""Of a partition. A write gives each of them a file id, so more would slow every write; eight digits would name more."""

_DIGITS: Final = 8
_POSITIVE: Final = np.uint32(0x7FFFFFFF)
_FILE_ID: Final = re.compile(r"\d{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(-\d+)?", re.ASCII)


def bucket_hashes(record_keys: pa.Array, fields: Sequence[str], key_fields: Sequence[str]) -> NDArray[np.int64]:
    """The hash of each record key: modulo the number of buckets of its partition, it is the key's bucket.

    Args:
        record_keys: string array, shape (n,), without nulls.
        fields: the key columns whose values are hashed.
        key_fields: the columns of the record key.

    Returns:
        Shape (n,), each from 0 to 2³¹ - 1.
    """
    hashes = list_hashes(hash_values(record_keys, fields, key_fields))
    return (hashes & _POSITIVE).astype(np.int64)


def new_bucket_file_id(bucket: int) -> str:
    """An id for the file group of a bucket, as Hudi makes them."""
    return f"{bucket:0{_DIGITS}d}{str(uuid4())[_DIGITS:]}-0"


def bucket_of_file_id(file_id: str) -> int | None:
    """The bucket that a file group is; None for a file id that names no bucket.

    A random UUID begins with eight decimal digits about once in 43 times, so the answer is a number for some file groups
    that are no buckets.
    """
    return int(file_id[:_DIGITS]) if _FILE_ID.fullmatch(file_id) else None
