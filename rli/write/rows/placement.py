"""Placing new records: small file groups are filled before new ones are opened.

The plan is made from counts alone and is small. Each record then finds its file group from the hash of its key, so
that any engine, and any repetition of a task, places it in the same one.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from rli.codec.key_codec import HASHES, routing_hashes
from rli.index.placing import Placement
from rli.settings import MEBIBYTE, TableSettings
from rli.view.file_slices import FileSlice


@dataclass(frozen=True, slots=True)
class SizedPlacement(Placement):
    """Where the new records of one partition go, by the sizes of its file groups.

    Attributes:
        file_ids: the file groups that take them.
        shares: shape (len(file_ids),), how many records each is to take, as a rising sum.
    """

    file_ids: tuple[str, ...]
    shares: tuple[int, ...]

    def file_ids_of(self, record_keys: pa.Array) -> pa.Array:
        drawn = routing_hashes(record_keys).astype(np.uint64) * np.uint64(self.shares[-1]) // np.uint64(HASHES)
        chosen = np.searchsorted(np.array(self.shares), drawn, side="right")
        return pa.DictionaryArray.from_arrays(pa.array(chosen.astype(np.int32)), pa.array(self.file_ids, pa.string()))

    @property
    def only_file_id(self) -> str | None:
        return self.file_ids[0] if len(self.file_ids) == 1 else None

    def hashes_of(self, file_id: str) -> tuple[int, int]:
        """The first of the routing hashes whose records a file group takes, and the first one behind them."""
        number = self.file_ids.index(file_id)
        start, stop = (0, *self.shares)[number : number + 2]
        return -(-start * HASHES // self.shares[-1]), -(-stop * HASHES // self.shares[-1])

    def records_by_file_id(self) -> Iterator[tuple[str, int]]:
        yield from zip(self.file_ids, np.diff(self.shares, prepend=0).tolist(), strict=True)


def plan_placements(
    new_records: Mapping[str, int],
    bytes_per_record: float,
    live: Iterable[FileSlice],
    settings: TableSettings,
    new_file_id: Callable[[], str],
    *,
    most_rewritten: float = math.inf,
) -> dict[str, SizedPlacement]:
    """Plan where new records go.

    Args:
        new_records: partition path → how many records it gains.
        bytes_per_record: what a record takes in a base file.
        live: the live file slices of those partitions.
        settings: sizes.
        new_file_id: gives ids for new file groups.
        most_rewritten: how many times the bytes that a partition gains a file group may have that takes some of them.
            Those of a mebibyte or less take records in any case.

    Returns:
        Partition path → placement.
    """
    small: dict[str, list[FileSlice]] = defaultdict(list)
    for file_slice in live:
        gained = new_records.get(file_slice.group.partition_path, 0) * bytes_per_record
        if file_slice.size < settings.small_file_size and file_slice.size <= max(MEBIBYTE, most_rewritten * gained):
            small[file_slice.group.partition_path].append(file_slice)
    return {
        partition_path: _place(count, bytes_per_record, small[partition_path], settings.target_file_size, new_file_id)
        for partition_path, count in new_records.items()
        if count
    }


def _place(
    count: int, bytes_per_record: float, small: list[FileSlice], target_size: int, new_file_id: Callable[[], str]
) -> SizedPlacement:
    takers: list[tuple[str, int]] = []
    remaining = count
    # The fullest first: each file that is filled up is one that needs no rewriting the next time.
    for file_slice in sorted(small, key=lambda candidate: (-candidate.size, candidate.group)):
        room = int((target_size - file_slice.size) / bytes_per_record)
        if remaining and room > 0:
            takers.append((file_slice.group.file_id, min(room, remaining)))
            remaining -= takers[-1][1]
    per_file = max(1, int(target_size / bytes_per_record))
    files = -(-remaining // per_file)
    takers.extend((new_file_id(), -(-remaining // files)) for _ in range(files))
    return SizedPlacement(
        tuple(file_id for file_id, _ in takers), tuple(np.cumsum([share for _, share in takers]).tolist())
    )
