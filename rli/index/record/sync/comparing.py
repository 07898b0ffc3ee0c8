"""The tasks of a comparison of index and table: on the keys of a base file, and on the entries of a shard.

A comparison is as of a commit sequence S. Entries only ever grow newer. So an entry that is not newer than S is the one
that its key had at S, also beside writers, and a newer one says nothing about S (docs/protocol.md, P31).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rli.codec import entries as codec
from rli.codec.encoded_keys import EncodedKeys
from rli.codec.entries import Entries
from rli.errors import CorruptIndexError, CorruptTableError
from rli.index.record.entries.stored_entries import StoredEntries
from rli.index.record.sync.key_sums import Fingerprints, Judged, KeySums, add_to, buckets_of, placed_fingerprints
from rli.index.record.sync.written_keys import live_keys
from rli.model import FileGroupId, KeyMode
from rli.view.file_slices import FileSlice
from rli.view.snapshot import Snapshot

SAMPLE: Final = 10
_SCAN_BATCH: Final = 65_536


@dataclass(frozen=True, slots=True)
class Compared:
    """A file slice that is compared. Picklable.

    Attributes:
        file_slice: the slice.
        number: of its file group; None for a group that the index does not know.
        cutoff: of what was written last before it, nothing is compared; None where keys do not expire.
    """

    file_slice: FileSlice
    number: int | None
    cutoff: str | None = None


@dataclass(frozen=True, slots=True)
class SliceCheck:
    """How the records of one file slice are indexed.

    Attributes:
        records: in the slice.
        missing, misplaced: how many the index does not hold, or places elsewhere.
        newer: how many have an entry that is newer than the comparison.
        sample: keys of those that are missing or misplaced.
        sums: of the keys that are placed here; None where there are none.
    """

    records: int
    missing: int
    misplaced: int
    newer: int
    sample: tuple[str, ...]
    sums: KeySums | None


NO_RECORDS: Final = SliceCheck(0, 0, 0, 0, (), None)


@dataclass(frozen=True, slots=True)
class Scanned:
    """What the index holds.

    Attributes:
        entries: keys with a location.
        sums: of the entries that count, by file group.
    """

    entries: int
    sums: KeySums


@dataclass(frozen=True, slots=True)
class Held:
    """Keys of one file slice whose sums differ from those of the index.

    Attributes:
        fingerprints: of the keys, ascending, distinct.
        repeated: how many records have the key of another one.
        sample: keys of those.
    """

    fingerprints: Fingerprints
    repeated: int
    sample: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Dangling:
    """Entries without a record.

    Attributes:
        count: how many.
        sample: a few of the keys; none where the index keeps digests.
    """

    count: int
    sample: tuple[str, ...]


def check_slice(
    snapshot: Snapshot, index: StoredEntries, sequence: int, buckets: int, item: Compared
) -> tuple[FileGroupId, SliceCheck | None]:
    """Compare the records of one file slice with the index.

    Args:
        snapshot: of the table.
        index: has applied all commits up to ``sequence``.
        sequence: as of which to compare.
        buckets: of the sums.
        item: the slice.

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
        stored = index.stored_keys_in(file_slice.group.partition_path, keys)
        entries = index.get(stored, sequence)
        counted = _counted(index, entries, sequence)
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


def scan_shards(index: StoredEntries, judged: Judged, shards: Sequence[int]) -> Scanned:
    """Count the entries of some shards, and add up those that count."""
    entries, sums = 0, judged.no_sums()
    flat = sums.reshape(-1)
    for _, found, rows, live in _live_entries(index, judged, shards):
        entries += live
        add_to(flat, rows * judged.buckets + buckets_of(found, judged.buckets), found)
    return Scanned(entries, sums)


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
        stored = index.stored_keys_in(file_slice.group.partition_path, keys)
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
        stored = index.stored_keys_in(file_slice.group.partition_path, keys)
        entries = index.get(stored)
        for positions, encoded in index.codec.encode(stored):
            placed = codec.file_groups(entries[positions])
            found = placed_fingerprints(encoded, placed)
            wrong = judge(number, entries[positions])[1]
            parts.append(found[wrong & chosen[judged.rows_of(placed), buckets_of(found, judged.buckets)]])
    return file_slice.group, Held(np.unique(np.concatenate(parts)), 0, ())


def find_dangling(
    index: StoredEntries, judged: Judged, chosen: NDArray[np.bool_], held: Fingerprints, shards: Sequence[int]
) -> Dangling:
    """Entries of some shards that count and that no slice holds.

    Args:
        index: the index.
        judged: which entries count.
        chosen: shape (rows, buckets), where to look.
        held: ascending; of all keys that the slices hold there.
        shards: numbers of the shards.
    """
    count, sample = 0, list[str]()
    for keys in dangling_keys(index, judged, chosen, held, shards):
        count += len(keys)
        if index.settings.key_mode is KeyMode.EXACT:
            some = index.codec.decode(keys.take(np.arange(min(len(keys), SAMPLE - len(sample)))))
            sample += index.record_keys_of(some).to_pylist()
    return Dangling(count, tuple(sample))


def dangling_keys(
    index: StoredEntries, judged: Judged, chosen: NDArray[np.bool_], held: Fingerprints, shards: Sequence[int]
) -> Iterator[EncodedKeys]:
    """The keys of ``find_dangling``, in batches that are not empty."""
    for keys, found, rows, _ in _live_entries(index, judged, shards):
        candidates = np.flatnonzero(chosen[rows, buckets_of(found, judged.buckets)])
        gone = candidates[~np.isin(found[candidates], held)]
        if len(gone):
            yield keys.take(gone)


def _live_entries(
    index: StoredEntries, judged: Judged, shards: Sequence[int]
) -> Iterator[tuple[EncodedKeys, Fingerprints, NDArray[np.intp], int]]:
    """Keys whose entries count, with fingerprints and rows; and how many keys of each batch have a location at all."""
    for shard in shards:
        for keys, entries in index.store.scan(shard, _SCAN_BATCH):
            live = codec.is_live(entries)
            rows = judged.rows_of(codec.file_groups(entries))
            is_counted = live & _counted(index, entries, judged.sequences[rows])
            if judged.cutoffs is not None:
                is_counted &= ~_expired(index, entries, rows, judged.cutoffs)
            counted = np.flatnonzero(is_counted)
            numbers = codec.file_groups(entries[counted])
            chosen = keys.take(counted)
            yield chosen, placed_fingerprints(chosen, numbers), rows[counted], int(live.sum())


def _expired(
    index: StoredEntries, entries: Entries, rows: NDArray[np.intp], cutoffs: Sequence[str]
) -> NDArray[np.bool_]:
    """Which entries have expired, given the cutoff of each row of the sums."""
    gone, log = np.zeros(len(entries), dtype=bool), index.log_of(entries)
    # As a rule all rows have one.
    for cutoff in set(cutoffs):
        there = np.isin(rows, [row for row, own in enumerate(cutoffs) if own == cutoff])
        gone[there] = index.expired(log, entries[there], cutoff)
    return gone


def _counted(index: StoredEntries, entries: Entries, sequences: int | NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Which entries are not newer than a sequence, or than one for each of them."""
    found = codec.sequences(entries)
    counted = found <= sequences
    newest = int(found.max(initial=0))
    if not counted.all() and newest > index.log.last_read.head and newest > index.log.refresh().head:
        raise CorruptIndexError(
            f"the index holds entries of unknown commits: url={index.url} sequence={newest} "
            f"last={index.log.last_read.head}; bootstrap the index again: rli index bootstrap TABLE"
        )
    return counted


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
        stored = index.stored_keys_in(item.file_slice.group.partition_path, keys)
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
