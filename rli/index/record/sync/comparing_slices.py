"""The tasks of a comparison of index and table on the keys of a file slice.

A clean may remove a slice before it is read: a task then gives None for it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rli.codec import entries as codec
from rli.codec.entries import Entries
from rli.errors import CorruptTableError
from rli.index.record.entries.stored_entries import StoredEntries
from rli.index.record.sync.comparing_entries import counted_in
from rli.index.record.sync.findings import SAMPLE, Compared, Held, SliceCheck
from rli.index.record.sync.key_sums import Fingerprints, Judged, add_to, buckets_of, placed_fingerprints
from rli.index.record.sync.written_keys import live_keys
from rli.model import FileGroupId
from rli.view.snapshot import Snapshot


def check_slice(
    snapshot: Snapshot, index: StoredEntries, sequence: int, buckets: int, item: Compared, *, is_applied: bool = True
) -> tuple[FileGroupId, SliceCheck | None]:
    """Compare the records of one file slice with the index.

    Args:
        snapshot: of the table.
        index: has all entries of the commits up to ``sequence``.
        sequence: as of which to compare.
        buckets: of the sums.
        item: the slice.
        is_applied: False in a build, which marks its entries as applied in the end.

    Returns:
        The file group and what was found; None if the slice was cleaned meanwhile.

    Raises:
        CorruptIndexError: an entry has a sequence that the commit log never gave out.
        CorruptTableError: the file is damaged.
        IndexNotReadyError: the store has lost entries of commits up to the sequence.
    """
    file_slice, number = item.file_slice, item.number
    records = missing = misplaced = newer = 0
    sample: list[str] = []
    sums = np.zeros(buckets, np.uint64)
    for keys in _unless_gone(snapshot, item):
        if keys is None:
            return file_slice.group, None
        stored = index.codec.stored_keys_in(file_slice.group.partition_path, keys)
        entries = index.get(stored, sequence if is_applied else 0)
        counted = counted_in(index, entries, sequence)
        absent, wrong = (kind & counted for kind in judge(number, entries))
        records += len(keys)
        missing += int(absent.sum())
        misplaced += int(wrong.sum())
        newer += int((~counted).sum())
        sample += keys.filter(pa.array(absent | wrong)).slice(0, SAMPLE - len(sample)).to_pylist()
        for _, found in _fingerprints(index, stored.filter(pa.array(counted & ~absent & ~wrong)), number):
            add_to(sums, buckets_of(found, buckets), found)
    return file_slice.group, SliceCheck(records, missing, misplaced, newer, tuple(sample), sums)


def judge(number: int | None, entries: Entries) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which entries of the keys of a file group are absent, and which are elsewhere."""
    live = codec.is_live(entries)
    return ~live, live & (codec.file_groups(entries) != (-1 if number is None else number))


def hold_slice(
    snapshot: Snapshot, index: StoredEntries, of_buckets: tuple[Compared, NDArray[np.bool_]]
) -> tuple[FileGroupId, Held | None]:
    """The file group, and its keys in some buckets (shape (buckets,)); None if the slice was cleaned meanwhile."""
    item, chosen = of_buckets
    file_slice, number = item.file_slice, item.number
    parts: list[Fingerprints] = [np.empty(0, np.uint64)]
    for keys in _unless_gone(snapshot, item):
        if keys is None:
            return file_slice.group, None
        stored = index.codec.stored_keys_in(file_slice.group.partition_path, keys)
        parts += [found[chosen[buckets_of(found, len(chosen))]] for _, found in _fingerprints(index, stored, number)]
    every, counts = np.unique(np.concatenate(parts), return_counts=True)
    repeated = every[counts > 1]
    sample = _keys_with(snapshot, index, item, repeated) if len(repeated) else ()
    return file_slice.group, Held(every, int((counts - 1).sum()), sample)


def hold_misplaced(
    snapshot: Snapshot, index: StoredEntries, judged: Judged, chosen: NDArray[np.bool_], item: Compared
) -> tuple[FileGroupId, Held | None]:
    """The records of one file slice that the index places elsewhere: their entries there are no dangling ones.

    Args:
        snapshot: of the table.
        index: the index.
        judged: which entries count.
        chosen: shape (rows, buckets), where the index places the keys in question.
        item: as for ``check_slice``.

    Returns:
        The file group and these keys, by where they are placed; None if the slice was cleaned meanwhile.
    """
    file_slice, number = item.file_slice, item.number
    parts: list[Fingerprints] = [np.empty(0, np.uint64)]
    for keys in _unless_gone(snapshot, item):
        if keys is None:
            return file_slice.group, None
        stored = index.codec.stored_keys_in(file_slice.group.partition_path, keys)
        entries = index.get(stored)
        for positions, encoded in index.codec.encode(stored):
            placed = codec.file_groups(entries[positions])
            found = placed_fingerprints(encoded, placed)
            wrong = judge(number, entries[positions])[1]
            parts.append(found[wrong & chosen[judged.rows_of(placed), buckets_of(found, judged.buckets)]])
    return file_slice.group, Held(np.unique(np.concatenate(parts)), 0, ())


def _fingerprints(
    index: StoredEntries, stored_keys: pa.Array, number: int | None
) -> Iterator[tuple[NDArray[np.intp], Fingerprints]]:
    """Fingerprints of stored keys in one file group, with their positions."""
    if number is None:
        return
    for positions, encoded in index.codec.encode(stored_keys):
        yield positions, placed_fingerprints(encoded, np.full(len(encoded), number))


def _keys_with(snapshot: Snapshot, index: StoredEntries, item: Compared, wanted: Fingerprints) -> tuple[str, ...]:
    """A few keys of a file slice that have certain fingerprints."""
    sample: dict[str, None] = {}
    for keys in _unless_gone(snapshot, item):
        if keys is None:
            break
        stored = index.codec.stored_keys_in(item.file_slice.group.partition_path, keys)
        for positions, found in _fingerprints(index, stored, item.number):
            chosen = positions[np.isin(found, wanted)]
            sample.update(dict.fromkeys(keys.take(pa.array(chosen)).to_pylist()))
    return tuple(sample)[:SAMPLE]


def _unless_gone(snapshot: Snapshot, item: Compared) -> Iterator[pa.Array | None]:
    """The record keys of a file slice, in batches; None at the end of a slice that was cleaned before it was read."""
    try:
        yield from live_keys(snapshot, item.file_slice, item.cutoff)
    except CorruptTableError:
        if snapshot.slices.has_files(item.file_slice):
            raise
        yield None
