"""What Spark keeps for a bucket of keys: their locations, and as of which state of the table."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rli.codec.key_codec import key_hashes
from rli.index.following import Position, relocated
from rli_spark.rows.row_batches import unpack
from rli_spark.streams.base import LOCATION

STATE_SCHEMA: Final = "buckets int, position string, locations binary, forgotten binary"
"""Spark's schema of a bucket's state."""

_USED: Final = "used"
_SECOND: Final = 1_000_000

StoredState = tuple[int, str, bytes, bytes]


@dataclass(frozen=True, slots=True)
class LocationState:
    """The locations of a bucket.

    Attributes:
        buckets: how many there are; with another number, the bucket has other keys.
        position: as of which state of the table.
        locations: ``record_key``, ``partition_path``, ``file_id``, and when each was used last (``used``; microseconds).
        forgotten: hashes of keys that were not used for too long; sorted.
    """

    buckets: int
    position: Position
    locations: pa.Table
    forgotten: NDArray[np.uint64]

    @classmethod
    def new(cls, buckets: int, position: Position, locations: pa.Table) -> LocationState:
        """Locations, all of them used now."""
        used = pa.repeat(pa.scalar(_now(), pa.int64()), locations.num_rows)
        return cls(buckets, position, locations.append_column(_USED, used), np.empty(0, np.uint64))

    @classmethod
    def from_stored(cls, stored: StoredState) -> LocationState:
        """Read what ``to_stored`` made."""
        buckets, position, locations, forgotten = stored
        read = unpack(locations)
        for name in LOCATION[1:]:
            number = read.schema.get_field_index(name)
            read = read.set_column(number, name, read.column(name).cast(pa.string()))
        return cls(buckets, Position.from_string(position), read, np.frombuffer(forgotten, np.uint64))

    def to_stored(self) -> StoredState:
        """As Spark keeps it."""
        compact = self.locations.combine_chunks()
        for name in LOCATION[1:]:
            number = compact.schema.get_field_index(name)
            compact = compact.set_column(number, name, pc.dictionary_encode(compact.column(name)))
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, compact.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
            writer.write_table(compact)
        return self.buckets, self.position.to_string(), sink.getvalue().to_pybytes(), self.forgotten.tobytes()

    def after(self, position: Position, commits: Sequence[pa.Table]) -> LocationState:
        """The state once some commits have been followed, to a later position."""
        locations = relocated(self.locations, commits)
        used = pc.fill_null(locations.column(_USED), _now())
        return replace(self, position=position, locations=locations.set_column(len(LOCATION), _USED, used))

    def found(self, record_keys: pa.Array) -> pa.Table:
        """The locations of those of some keys that are known."""
        known = pc.is_in(self.locations.column("record_key"), value_set=record_keys)
        return self.locations.filter(known).select(LOCATION)

    def may_have_forgotten(self, record_keys: pa.Array) -> bool:
        """Whether the table may hold records of some keys that are not among the locations.

        Another location of such a key may be known: with partition scope, another writer may have inserted it elsewhere.
        """
        return bool(len(self.forgotten)) and bool(np.isin(_hashes(record_keys), self.forgotten).any())

    def used_by(self, record_keys: pa.Array, seconds: float) -> LocationState:
        """The state after some keys were used, without those that nobody has used for some seconds."""
        now = _now()
        touched = pc.is_in(self.locations.column("record_key"), value_set=record_keys)
        used = pc.if_else(touched, pa.scalar(now, pa.int64()), self.locations.column(_USED))
        is_kept = pc.greater(used, pa.scalar(now - int(seconds * _SECOND), pa.int64()))
        gone = self.locations.filter(pc.invert(is_kept)).column("record_key").combine_chunks()
        locations = self.locations.set_column(len(LOCATION), _USED, used).filter(is_kept)
        return replace(self, locations=locations, forgotten=np.union1d(self.forgotten, _hashes(gone)))


def _now() -> int:
    return time.time_ns() // (1_000_000_000 // _SECOND)


def _hashes(record_keys: pa.Array) -> NDArray[np.uint64]:
    return key_hashes(record_keys)[1]
