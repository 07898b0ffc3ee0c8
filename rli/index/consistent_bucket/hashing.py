"""Which bucket of a partition each record key belongs to: the one whose part of the ring holds its hash."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rli.hudi.consistent_hashing import LARGEST_HASH, Ring, key_hashes, ring_path
from rli.index.consistent_bucket.rings import ring_of, stored_ring
from rli.index.hashed.hashing import ArrivingRecords, Hashing, KeepsBuckets
from rli.index.hashed.settings import HashSettings
from rli.index.placing import Placement
from rli.model import FileGroupId
from rli.view.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class RingPlacement(Placement):
    """The buckets of one partition.

    Attributes:
        ring: of the partition.
        fields: the columns that are hashed.
        key_fields: the columns of the record key.
        records: how many are to be placed.
    """

    ring: Ring
    fields: tuple[str, ...]
    key_fields: tuple[str, ...]
    records: int

    def file_ids_of(self, record_keys: pa.Array) -> pa.Array:
        return self.ring.owners_of(key_hashes(record_keys, self.fields, self.key_fields))

    def records_by_file_id(self) -> Iterator[tuple[str, int]]:
        parts = np.diff(self.ring.values, prepend=self.ring.values[-1] - LARGEST_HASH - 1)
        for file_id, part in zip(self.ring.file_ids, parts.tolist(), strict=True):
            yield file_id, -(-self.records * part // (LARGEST_HASH + 1))


@dataclass(frozen=True, slots=True)
class RingHashing(Hashing, KeepsBuckets):
    """The rings of a table, as of a state of it.

    Attributes:
        snapshot: the state.
        settings: of the index.
        fields: the columns that are hashed.
        key_fields: the columns of the record key.
    """

    snapshot: Snapshot
    settings: HashSettings
    fields: tuple[str, ...]
    key_fields: tuple[str, ...]
    _rings: dict[str, Ring] = field(default_factory=dict)

    @classmethod
    def of(cls, snapshot: Snapshot, settings: HashSettings) -> RingHashing:
        """The rings as of a state; raises ``SettingsError`` for columns that are not of the key."""
        return cls(snapshot, settings, *settings.columns_of(snapshot.table))

    def ring(self, partition_path: str) -> Ring:
        """The ring of a partition; raises ``CorruptTableError`` if its file is damaged."""
        if partition_path not in self._rings:
            self._rings[partition_path] = ring_of(self.snapshot, partition_path, self.settings)
        return self._rings[partition_path]

    def hashes(self, record_keys: pa.Array) -> NDArray[np.int64]:
        return key_hashes(record_keys, self.fields, self.key_fields)

    def buckets_of(self, partition_path: str, hashes: NDArray[np.int64]) -> NDArray[np.int64]:
        return self.ring(partition_path).owners(hashes)

    def bucket_of(self, group: FileGroupId) -> int | None:
        return self.ring(group.partition_path).positions.get(group.file_id)

    def placement(self, arriving: ArrivingRecords) -> RingPlacement:
        return RingPlacement(self.ring(arriving.partition_path), self.fields, self.key_fields, arriving.count)

    def keep(self, partition_paths: Iterable[str]) -> None:
        for partition_path in partition_paths:
            ring, storage = self.ring(partition_path), self.snapshot.table.storage
            is_new = stored_ring(self.snapshot, partition_path) is None
            # Two writers make the same first ring, so it need not be undone with a write.
            if is_new and not storage.create(ring_path(partition_path, ring.instant), ring.to_json()):
                # Unless they go by different settings: then the one that is stored counts.
                del self._rings[partition_path]

    @property
    def described(self) -> str:
        return f"buckets={self.settings.buckets} fields={','.join(self.fields)}"

    @property
    def advice(self) -> str:
        return (
            "another kind of index wrote the files, or hashed other columns, or the hashing metadata below "
            ".hoodie/.bucket_index was lost: restore it from a backup, or bootstrap simple: or a store's URL"
        )
