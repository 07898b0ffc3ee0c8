"""Keys of the entries of a column's index: a hash of the value, then the encoded record key.

All entries of a value begin alike and are in one shard, so a store finds them together. Another value may have the same hash:
then its record keys are found, too, and the reader's test of the records leaves them out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rli.codec import record_keys as codec
from rli.codec.encoded_keys import EncodedKeys
from rli.codec.key_codec import key_fingerprints

NO_FILE_GROUP: Final = 0
"""In the entries: they name record keys, and where the records are is asked of the table's index."""

_HASH_WIDTH: Final = 8
_SHARD_SHIFT: Final = np.uint64(48)
"""The high bits of the hash tell the shard: they are the best mixed."""


def prefixes_of(values: pa.Array, shards: int) -> EncodedKeys:
    """How the keys of the entries of some values begin; each once.

    Args:
        values: string array without nulls.
        shards: of the index.
    """
    hashes = np.unique(key_fingerprints(values))
    return EncodedKeys(hashes.astype(">u8").view(f"V{_HASH_WIDTH}"), _shards_of(hashes, shards))


def entry_keys(values: pa.Array, record_keys: pa.Array, shards: int) -> Iterator[EncodedKeys]:
    """The keys of the entries of some records, in batches of one width; ``each_once`` gives each once.

    Args:
        values: string array, shape (n,); records with null have no entry.
        record_keys: string array without nulls, shape (n,).
        shards: of the index.
    """
    has_value = values.is_valid()
    hashes, keys = key_fingerprints(values.filter(has_value)), record_keys.filter(has_value)
    for positions, encoded in codec.encode(keys):
        own = hashes[positions]
        joined = np.empty(len(own), dtype=[("hash", ">u8"), ("key", encoded.dtype)])
        joined["hash"], joined["key"] = own, encoded
        yield EncodedKeys(joined.view(f"V{joined.dtype.itemsize}"), _shards_of(own, shards))


def record_keys_of(keys: EncodedKeys) -> pa.StringArray:
    """The record keys of entries, in order; raises ``CorruptIndexError`` for bytes that are no such keys."""
    matrix = np.ascontiguousarray(keys.keys).view(np.uint8).reshape(len(keys), keys.width)
    rest = np.ascontiguousarray(matrix[:, _HASH_WIDTH:])
    return codec.decode(rest.view(f"V{keys.width - _HASH_WIDTH}")[:, 0])


def _shards_of(hashes: NDArray[np.uint64], shards: int) -> NDArray[np.uint16]:
    return ((hashes >> _SHARD_SHIFT) % np.uint64(shards)).astype(np.uint16)
