"""The file group of a key within a partition of the metadata table."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rli.hudi.java_hash import string_hashes
from rli.hudi.metadata.partitions import PartitionKind, kind_of
from rli.hudi.metadata.secondary_keys import prefixes_of


def groups_of(keys: pa.Array, count: int) -> NDArray[np.intp]:
    """Number of the file group of each key, counted from 0.

    Args:
        keys: string or binary array of UTF-8, shape (n,), without nulls.
        count: file groups of the partition, at least 1.

    Returns:
        Shape (n,).

    Example:
        >>> groups_of(pa.array(["k1", "k2"]), 10).tolist()
        [6, 7]
    """
    if count == 1:
        return np.zeros(len(keys), np.intp)
    strings = keys if pa.types.is_string(keys.type) else keys.cast(pa.string())
    # Java's smallest int has no absolute value, and its remainder is negative; its amount is the same.
    amounts = np.abs(string_hashes(strings).view(np.int32).astype(np.int64))
    return np.asarray(amounts % count, np.intp)


def placed_groups(partition: str, keys: pa.Array, count: int) -> NDArray[np.intp]:
    """As ``groups_of``, in a partition: a secondary index places its entries by their values alone.

    Args:
        partition: of the metadata table.
        keys: as for ``groups_of``.
        count: as for ``groups_of``.
    """
    is_secondary = kind_of(partition) is PartitionKind.SECONDARY_INDEX
    return groups_of(prefixes_of(keys) if is_secondary else keys, count)
