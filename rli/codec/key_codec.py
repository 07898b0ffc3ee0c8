"""From record keys to encoded keys with their shards, as an index's settings say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rli.codec import record_keys, scoped_keys
from rli.codec.encoded_keys import EncodedKeys
from rli.codec.fingerprints import fingerprints
from rli.codec.murmur import murmur3
from rli.errors import SettingsError
from rli.model import KeyMode, Scope
from rli.settings import IndexSettings


@dataclass(frozen=True, slots=True)
class KeyCodec:
    """Encodes and decodes the keys of one index: record keys, or with partition scope texts of ``scoped_keys``."""

    settings: IndexSettings

    def stored_keys(self, record_keys: pa.Array, partition_paths: pa.Array | pa.Scalar) -> pa.Array:
        """The stored key of each record key (string array, shape (n,)) in its partition, or in the only one."""
        if self.settings.scope is Scope.GLOBAL:
            return record_keys
        return scoped_keys.joined(partition_paths, record_keys)

    def stored_keys_in(self, partition_path: str, record_keys: pa.Array) -> pa.Array:
        """The stored keys of record keys (string array, shape (n,)) of one partition."""
        return self.stored_keys(record_keys, pa.scalar(partition_path, pa.string()))

    def record_keys_of(self, stored_keys: pa.Array) -> pa.Array:
        """The record keys of stored keys, in order."""
        return stored_keys if self.settings.scope is Scope.GLOBAL else scoped_keys.split(stored_keys)[1]

    def encode(self, keys: pa.Array) -> Iterator[tuple[NDArray[np.intp], EncodedKeys]]:
        """Encoded keys of a batch (string array, shape (n,)), one group per width, with their positions in it.

        Raises:
            InvalidKeyError: a key is null.
        """
        if self.settings.key_mode is KeyMode.DIGEST:
            groups = [(np.arange(len(keys)), self._digest(keys))] if len(keys) else []
        elif self.settings.scope is Scope.PARTITION:
            groups = scoped_keys.encode(keys)
        else:
            groups = record_keys.encode(keys)
        for positions, encoded in groups:
            yield positions, EncodedKeys(encoded, self.shards_of(encoded))

    def _digest(self, keys: pa.Array) -> NDArray[np.void]:
        key = self.settings.digest_key
        if key is None:
            return record_keys.digest(keys)
        return record_keys.keyed_digest(keys, bytes.fromhex(key.get_secret_value()))

    def decode(self, keys: EncodedKeys) -> pa.StringArray:
        """The keys, in order.

        Raises:
            SettingsError: the index keeps digests, from which no key can be had back.
            CorruptIndexError: ``encode`` makes no such bytes.
        """
        if self.settings.key_mode is KeyMode.DIGEST:
            raise SettingsError(
                "this index keeps digests of its keys, so they cannot be listed: key_mode=digest",
                remedy="compare from the table's side instead",
            )
        decode = scoped_keys.decode if self.settings.scope is Scope.PARTITION else record_keys.decode
        return decode(keys.keys)

    def shards_of(self, keys: NDArray[np.void]) -> NDArray[np.uint16]:
        """Shard of each encoded key: 32-bit MurmurHash3 over its bytes, modulo the shard count."""
        count = self.settings.shard_count
        if count == 1:
            return np.zeros(len(keys), dtype=np.uint16)
        hashes = murmur3(keys, self.settings.hash_seed)
        return (hashes % np.uint32(count)).astype(np.uint16)


ROUTING_SEED: Final = 0x7461736B
"""Of the hashes by which the records of a write are shared out: over tasks, and over the file groups of a partition.
Files of requests are arranged by them, and the states of streams."""

HASHES: Final = 1 << 32
"""How many hashes there are."""


def routing_hashes(keys: pa.Array) -> NDArray[np.uint32]:
    """The hash of each record key (string array, shape (n,)) by which records are shared out."""
    return hash_keys(keys, ROUTING_SEED)


def key_hashes(keys: pa.Array) -> tuple[NDArray[np.uint32], NDArray[np.uint64]]:
    """The routing hash and the fingerprint of each record key (string array, shape (n,))."""
    hashes, prints = np.empty(len(keys), np.uint32), np.empty(len(keys), np.uint64)
    for positions, encoded in record_keys.encode(keys):
        hashes[positions], prints[positions] = murmur3(encoded, ROUTING_SEED), fingerprints(encoded)
    return hashes, prints


def key_fingerprints(keys: pa.Array) -> NDArray[np.uint64]:
    """The fingerprint of each record key (string array, shape (n,)), or of other text."""
    prints = np.empty(len(keys), np.uint64)
    for positions, encoded in record_keys.encode(keys):
        prints[positions] = fingerprints(encoded)
    return prints


def hash_keys(keys: pa.Array, seed: int) -> NDArray[np.uint32]:
    """32-bit MurmurHash3 of each encoded record key (string array, shape (n,)), whatever an index's settings say."""
    hashes = np.empty(len(keys), dtype=np.uint32)
    for positions, encoded in record_keys.encode(keys):
        hashes[positions] = murmur3(encoded, seed)
    return hashes
