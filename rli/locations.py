"""Where a commit puts record keys: batches of Arrow columns, which journals keep and indexes apply."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rli.model import FileGroupId

LOCATION_SCHEMA: Final = pa.schema(
    [
        pa.field("record_key", pa.string(), nullable=False),
        pa.field("partition_path", pa.string()),
        pa.field("file_id", pa.string()),
        pa.field("instant_time", pa.string()),
    ]
)
"""Schema of what look-ups return."""

KeysByGroup: TypeAlias = Mapping[FileGroupId, pa.Array]
"""File group → the keys of some of its records, distinct, string array."""

BATCH_KEYS: Final = 1 << 20
"""Keys that are written to the store together: sorted, so that a store that keeps them sorted takes runs of them."""


@dataclass(frozen=True, slots=True)
class LocationUpdate:
    """New locations of record keys: a batch of one commit's changes to the index.

    Attributes:
        record_keys: string array, shape (n,), distinct.
        partition_paths: string array, shape (n,), plain or dictionary-encoded: where the keys are, or were deleted;
            null where nobody knows.
        file_ids: likewise; null where the key is deleted.
    """

    record_keys: pa.Array
    partition_paths: pa.Array
    file_ids: pa.Array

    @classmethod
    def placing(cls, record_keys: pa.Array, group: FileGroupId) -> LocationUpdate:
        """Changes that place all keys in one file group."""
        count = len(record_keys)
        return cls(record_keys, _repeated(group.partition_path, count), _repeated(group.file_id, count))

    @classmethod
    def removing(cls, record_keys: pa.Array, partition_path: str | None = None) -> LocationUpdate:
        """Changes that delete all keys: those of a partition, if record keys are unique in their partition only."""
        count = len(record_keys)
        return cls(record_keys, pa.repeat(pa.scalar(partition_path, pa.string()), count), pa.nulls(count, pa.string()))

    @classmethod
    def joined(cls, parts: Sequence[LocationUpdate]) -> LocationUpdate:
        """The changes of several updates, at least one, as one."""
        return cls(
            pa.concat_arrays([part.record_keys for part in parts]),
            pa.concat_arrays([part.partition_paths for part in parts]),
            pa.concat_arrays([part.file_ids for part in parts]),
        )

    def filtered(self, chosen: pa.Array) -> LocationUpdate:
        """The changes of some keys: boolean array, shape (n,)."""
        return LocationUpdate(
            *(part.filter(chosen) for part in (self.record_keys, self.partition_paths, self.file_ids))
        )

    def file_groups(self) -> set[FileGroupId]:
        """The file groups that keys are placed in."""
        return {group for group in named_groups(self.partition_paths, self.file_ids).groups if group is not None}


def coalesce_updates(changes: Iterable[LocationUpdate], batch_keys: int = BATCH_KEYS) -> Iterator[LocationUpdate]:
    """The same changes, all of one commit sequence and of different keys, in batches of ``batch_keys`` or more."""
    pending: list[LocationUpdate] = []
    keys = 0
    for part in changes:
        pending.append(part)
        keys += len(part.record_keys)
        if keys >= batch_keys:
            yield LocationUpdate.joined(pending)
            pending, keys = [], 0
    if pending:
        yield LocationUpdate.joined(pending)


def _repeated(text: str, count: int) -> pa.DictionaryArray:
    indices = pa.array(np.zeros(count, np.int32))
    return pa.DictionaryArray.from_arrays(indices, pa.array([text], pa.string()))


@dataclass(frozen=True, slots=True)
class NamedGroups:
    """The file groups that two string columns name, row by row.

    Attributes:
        groups: those that occur; None stands for rows without a file id.
        codes: shape (n,), the position of each row's file group in ``groups``.
    """

    groups: list[FileGroupId | None]
    codes: NDArray[np.intp]


def named_groups(partition_paths: pa.Array, file_ids: pa.Array) -> NamedGroups:
    """The file groups that two string arrays of one length name; of sorted rows, in the order of the rows."""
    path_codes, paths = _dictionary(partition_paths)
    id_codes, ids = _dictionary(file_ids)
    unique, codes = _ranked(path_codes * len(ids) + id_codes, len(paths) * len(ids))
    groups = [_group(paths[code // len(ids)], ids[code % len(ids)]) for code in unique.tolist()]
    return NamedGroups(groups, codes)


def keys_by_group(locations: pa.Table | pa.RecordBatch) -> KeysByGroup:
    """The record keys of locations (``LOCATION_SCHEMA``) by file group, each once; keys without a file group are left out."""
    keys, *places = map(_whole, (locations[name] for name in ("record_key", "partition_path", "file_id")))
    if len(keys) == 1:
        # For a single key, the arrays below take five times as long.
        group = _group(*(place[0].as_py() for place in places))
        return {} if group is None else {group: keys}
    named = named_groups(*places)
    order = np.argsort(named.codes, kind="stable")
    bounds = pairwise(np.searchsorted(named.codes[order], np.arange(len(named.groups) + 1)))
    return {
        group: pc.unique(keys.take(pa.array(order[start:end])))
        for group, (start, end) in zip(named.groups, bounds, strict=True)
        if group is not None
    }


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _ranked(codes: NDArray[np.int64], kinds: int) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """The distinct codes, each less than ``kinds``, in rising order, and for each code its position among them."""
    if kinds > len(codes):
        return np.unique(codes, return_inverse=True)
    unique = np.flatnonzero(np.bincount(codes, minlength=kinds))
    ranks = np.empty(kinds, np.intp)
    ranks[unique] = np.arange(len(unique))
    return unique, ranks[codes]


def _group(partition_path: str | None, file_id: str | None) -> FileGroupId | None:
    return None if partition_path is None or file_id is None else FileGroupId(partition_path, file_id)


def _dictionary(array: pa.Array) -> tuple[NDArray[np.int64], list[str | None]]:
    encoded = array if pa.types.is_dictionary(array.type) else pc.dictionary_encode(array, null_encoding="encode")
    if encoded.indices.null_count:
        encoded = pc.dictionary_encode(array.dictionary_decode(), null_encoding="encode")
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), encoded.dictionary.to_pylist()
