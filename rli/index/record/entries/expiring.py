"""Entries of expired keys become tombstones, which cleans remove (P30, P40).

A record of the log gives the tombstones their sequence, so that they lose against every later commit. Expired keys count
as absent with or without them. So the record counts as applied at once: nobody waits for the tombstones, and those that
an interrupted expiry did not write are written by the next one.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final
from uuid import uuid4

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from rli.codec import entries as codec
from rli.hudi.timeline.instant import instant_moment
from rli.index.record.entries.stored_entries import StoredEntries
from rli.index.record.entries.time_to_live import have_expired
from rli.index.record.log.actions import EXPIRE
from rli.index.record.log.record import RecordDraft

_LAST: Final = "expired"
"""Name of the control record with the last cutoff."""

_TIMES: Final = 10
"""So many times within a time to live the index is read for expired keys: about a tenth more than the known ones stay."""

_SCAN_BATCH: Final = 65_536


def expire(index: StoredEntries) -> bool:
    """Remove the entries of expired keys, if the last time was long enough ago; may be repeated, interrupted and raced.

    Args:
        index: has applied all of its log.

    Returns:
        Whether that was done.
    """
    applied, log = index.read_progress()
    cutoff = index.cutoff(log)
    last = index.store.read_control(_LAST)
    if not cutoff or applied.least != log.head or not _is_due(index, last, cutoff):
        return False
    sequence = log.head + 1
    appended = index.log.append(log, RecordDraft(instant=None, action=EXPIRE, writer=uuid4().hex, located_at=(cutoff,)))
    if appended is None or not index.store.mark_applied(applied, sequence):
        return False
    instants = appended.dictionary.instants_of(np.arange(1, sequence))
    gone = np.concatenate([[False], pc.less(instants, cutoff).to_numpy(zero_copy_only=False)])
    for shard in range(index.settings.shard_count):
        remove_entries(index, sequence, gone, shard)
    index.store.compare_and_set(_LAST, last, cutoff.encode())
    return True


def remove_entries(index: StoredEntries, sequence: int, gone: NDArray[np.bool_], shard: int) -> set[int]:
    """Delete the entries of one shard that certain commits had placed: a task.

    Args:
        index: the index.
        sequence: to delete with; entries of this sequence and later ones are passed over.
        gone: shape (sequence or more,): for each commit sequence whether its entries go.
        shard: number of the shard.

    Returns:
        The numbers of the file groups that had any entries.
    """
    found: set[int] = set()
    for keys, entries in index.store.scan(shard, _SCAN_BATCH):
        older = np.flatnonzero(codec.is_live(entries) & (codec.sequences(entries) < sequence))
        found.update(np.unique(codec.file_groups(entries[older])).tolist())
        chosen = older[gone[codec.sequences(entries[older])]]
        if len(chosen):
            tombstones = codec.pack(sequence, np.full(len(chosen), codec.TOMBSTONE, np.uint64))
            index.store.put(keys.take(chosen), tombstones)
    return found


def count_expired(index: StoredEntries) -> int:
    """How many entries have a location, and an expired key, as of the last commit; reads all entries."""
    log = index.log.refresh()
    cutoff = index.cutoff(log)
    if cutoff is None:
        return 0
    count = 0
    for shard in range(index.settings.shard_count):
        for _, entries in index.store.scan(shard, _SCAN_BATCH):
            count += int(have_expired(index.log_of(entries).dictionary, entries, cutoff).sum())
    return count


def _is_due(index: StoredEntries, last: bytes | None, cutoff: str) -> bool:
    try:
        before = None if last is None else instant_moment(last.decode())
    except ValueError:
        before = None
    ttl = timedelta(seconds=index.ttl or 0)
    return before is None or instant_moment(cutoff) - before >= ttl / _TIMES
