"""From record keys to encoded keys with their shards, as an index's settings say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat

import mmh3
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rli.codec import record_keys as encoding
from rli.codec.encoded_keys import EncodedKeys
from rli.errors import SettingsError
from rli.model import KeyMode
from rli.settings import IndexSettings


@dataclass(frozen=True, slots=True)
class KeyCodec:
    """Encodes and decodes the record keys of one index."""

    settings: IndexSettings

    def encode(self, record_keys: pa.Array) -> Iterator[tuple[NDArray[np.intp], EncodedKeys]]:
        """Encoded keys of a batch (string array, shape (n,)), one group per width, with their positions in it.

        Raises:
            InvalidKeyError: a key is null.
        """
        if self.settings.key_mode is KeyMode.DIGEST:
            groups = [(np.arange(len(record_keys)), self._digest(record_keys))] if len(record_keys) else []
        else:
            groups = encoding.encode(record_keys)
        for positions, keys in groups:
            yield positions, EncodedKeys(keys, self.shards_of(keys))

    def _digest(self, record_keys: pa.Array) -> NDArray[np.void]:
        key = self.settings.digest_key
        if key is None:
            return encoding.digest(record_keys)
        return encoding.keyed_digest(record_keys, bytes.fromhex(key.get_secret_value()))

    def decode(self, keys: EncodedKeys) -> pa.StringArray:
        """The record keys, in order.

        Raises:
            SettingsError: the index keeps digests, from which no key can be had back.
            CorruptIndexError: the bytes are none that ``encode`` makes.
        """
        if self.settings.key_mode is KeyMode.DIGEST:
            raise SettingsError(
                "this index keeps digests of its keys, so they cannot be listed: key_mode=digest; "
                "compare from the table's side instead"
            )
        return encoding.decode(keys.keys)

    def shards_of(self, keys: NDArray[np.void]) -> NDArray[np.uint16]:
        """Shard of each encoded key: 32-bit MurmurHash3 over its bytes, modulo the shard count."""
        count = self.settings.shard_count
        if count == 1:
            return np.zeros(len(keys), dtype=np.uint16)
        hashes = hash_items(keys, self.settings.hash_seed)
        return (hashes % np.uint32(count)).astype(np.uint16)


def hash_keys(record_keys: pa.Array, seed: int) -> NDArray[np.uint32]:
    """32-bit MurmurHash3 of each encoded record key (string array, shape (n,)), whatever an index's settings say."""
    hashes = np.empty(len(record_keys), dtype=np.uint32)
    for positions, keys in encoding.encode(record_keys):
        hashes[positions] = hash_items(keys, seed)
    return hashes


def hash_items(items: NDArray[np.void], seed: int) -> NDArray[np.uint32]:
    """32-bit MurmurHash3 of each item's bytes."""
    return np.fromiter(map(mmh3.mmh3_32_uintdigest, items.tolist(), repeat(seed)), dtype=np.uint32, count=len(items))
