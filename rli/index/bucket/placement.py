"""Placing the records of a partition in the file groups that are their buckets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from rli.hudi.bucket_index import bucket_hashes
from rli.index.placing import Placement


@dataclass(frozen=True, slots=True)
class BucketPlacement(Placement):
    """The buckets of one partition.

    Attributes:
        file_ids: the file group of each bucket.
        fields: the columns that are hashed.
        key_fields: the columns of the record key.
        records: how many are to be placed.
    """

    file_ids: tuple[str, ...]
    fields: tuple[str, ...]
    key_fields: tuple[str, ...]
    records: int

    def file_ids_of(self, record_keys: pa.Array) -> pa.Array:
        buckets = bucket_hashes(record_keys, self.fields, self.key_fields) % len(self.file_ids)
        return pa.DictionaryArray.from_arrays(pa.array(buckets.astype(np.int32)), pa.array(self.file_ids, pa.string()))

    def records_by_file_id(self) -> Iterator[tuple[str, int]]:
        share = -(-self.records // len(self.file_ids))
        yield from ((file_id, share) for file_id in self.file_ids)
