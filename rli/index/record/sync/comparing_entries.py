"""The tasks of a comparison of index and table on the entries of a shard.

A comparison is as of a commit sequence S. Entries only ever grow newer. So an entry that is not newer than S is the entry of
its key at S, also beside writers, and a newer entry says nothing about S (docs/protocol.md, P31).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rli.codec import entries as codec
from rli.codec.encoded_keys import EncodedKeys
from rli.codec.entries import Entries
from rli.errors import CorruptIndexError
from rli.index.record.entries.stored_entries import StoredEntries
from rli.index.record.entries.time_to_live import have_expired
from rli.index.record.sync.findings import SAMPLE, Dangling, Scanned
from rli.index.record.sync.key_sums import Fingerprints, Judged, add_to, buckets_of, placed_fingerprints
from rli.model import KeyMode

_SCAN_BATCH: Final = 65_536


def scan_shards(index: StoredEntries, judged: Judged, shards: Sequence[int]) -> Scanned:
    """Count the entries of some shards, and add up those that count."""
    entries, sums = 0, judged.no_sums()
    flat = sums.reshape(-1)
    for _, found, rows, live in _live_entries(index, judged, shards):
        entries += live
        add_to(flat, rows * judged.buckets + buckets_of(found, judged.buckets), found)
    return Scanned(entries, sums)


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
            sample += index.codec.record_keys_of(some).to_pylist()
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


def counted_in(index: StoredEntries, entries: Entries, sequences: int | NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Which entries are not newer than a sequence, or than one for each of them."""
    found = codec.sequences(entries)
    counted = found <= sequences
    newest = int(found.max(initial=0))
    if not counted.all() and newest > index.log.last_read.head and newest > index.log.refresh().head:
        raise CorruptIndexError(
            f"the index holds entries of unknown commits: url={index.url} sequence={newest} "
            f"last={index.log.last_read.head}",
            remedy="bootstrap the index again: rli index bootstrap TABLE",
        )
    return counted


def _live_entries(
    index: StoredEntries, judged: Judged, shards: Sequence[int]
) -> Iterator[tuple[EncodedKeys, Fingerprints, NDArray[np.intp], int]]:
    """Keys whose entries count, with fingerprints and rows; and how many keys of each batch have a location at all."""
    for shard in shards:
        for keys, entries in index.store.scan(shard, _SCAN_BATCH):
            live = codec.is_live(entries)
            rows = judged.rows_of(codec.file_groups(entries))
            is_counted = live & counted_in(index, entries, judged.sequences[rows])
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
        gone[there] = have_expired(log.dictionary, entries[there], cutoff)
    return gone
