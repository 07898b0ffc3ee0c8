"""Sections: in which part of its store an index keeps each key."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rli.codec.key_codec import KeyCodec
from rli.file_group.journal import SECTIONS


@dataclass(frozen=True, slots=True)
class Sections:
    """Tells the section of each key: a run of neighbouring shards. Picklable.

    Attributes:
        codec: of the index.
    """

    codec: KeyCodec

    def __call__(self, partition_path: str, record_keys: pa.Array) -> NDArray[np.uint8]:
        """The section of each record key (string array, shape (n,)) of a partition, less than ``SECTIONS``."""
        keys = self.codec.stored_keys_in(partition_path, record_keys)
        found = np.empty(len(keys), np.uint8)
        for positions, encoded in self.codec.encode(keys):
            found[positions] = encoded.shards.astype(np.uint32) * SECTIONS // self.codec.settings.shard_count
        return found
