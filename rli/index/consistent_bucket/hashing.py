"""Which bucket of a partition each record key belongs to: the one whose part of the ring holds its hash."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rli.hudi.consistent_hashing import LARGEST_HASH, Ring, key_hashes, ring_path
from rli.index.consistent_bucket.rings import ring_of, stored_ring
from rli.index.hashed.hashing import Hashing
from rli.index.hashed.settings import HashSettings
from rli.index.placing import Placement
from rli.model import FileGroupId
from rli.view.file_slices import FileSlice
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
class RingHashing(Hashing):
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

    def placement(
        self,
        partition_path: str,
        slices: Mapping[int, FileSlice],  # noqa: ARG002
        records: int,
        *,
        saves: bool,
    ) -> RingPlacement:
        ring, storage = self.ring(partition_path), self.snapshot.table.storage
        is_new = saves and stored_ring(self.snapshot, partition_path) is None
        # Two writers make the same first ring, so it need not be undone with a write.
        if is_new and not storage.create(ring_path(partition_path, ring.instant), ring.to_json()):
            # Unless they go by different settings: then the one that is stored counts.
            del self._rings[partition_path]
            ring = self.ring(partition_path)
        return RingPlacement(ring, self.fields, self.key_fields, records)

    @property
    def described(self) -> str:
        return f"buckets={self.settings.buckets} fields={','.join(self.fields)}"

    def advice(self, snapshot: Snapshot, slices: Iterable[FileSlice]) -> str:  # noqa: ARG002
        return (
            "another kind of index wrote the files, or hashed other columns, or the hashing metadata below "
            ".hoodie/.bucket_index was lost: restore it from a backup, or bootstrap simple: or a store's URL"
        )
