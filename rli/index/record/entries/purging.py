"""Tombstones that nobody needs any more are removed, in stores that can (P30)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rli.codec.entries import is_old_tombstone
from rli.index.record.entries.stored_entries import StoredEntries
from rli.store.purging import SupportsPurge

_KEYS_AT_ONCE: Final = 16_384


def purge_if_it_pays(index: StoredEntries, kept: Sequence[str]) -> int:
    """Remove the tombstones of commits before all kept ones, if there are many; returns how many.

    Args:
        index: the index.
        kept: instants of commits; if the index has not followed one of them, nothing is removed.
    """
    if not isinstance(index.store, SupportsPurge):
        return 0
    stored, limits = index.store.stats(), index.limits
    if stored.tombstones < max(limits.least_tombstones, stored.live_entries // limits.entries_per_tombstone):
        return 0
    log = index.log.refresh()
    return purge(index, min((log.instants.sequence_of(instant) or 0 for instant in kept), default=0) - 1)


def purge(index: StoredEntries, sequence: int) -> int:
    """Remove the tombstones of commits up to a sequence; may be repeated, interrupted and raced.

    Args:
        index: the index.
        sequence: nobody looks keys up as of an earlier commit. No more than what was applied is removed.

    Returns:
        How many were removed; always 0 in stores that cannot.
    """
    store = index.store
    floor = min(sequence, store.applied().least or 0)
    if not isinstance(store, SupportsPurge) or floor < 1:
        return 0
    store.raise_floor(floor)
    if store.floor() < floor:
        # An older format of the store has no floor.
        return 0
    removed = 0
    for shard in range(index.settings.shard_count):
        for keys, entries in store.scan(shard, _KEYS_AT_ONCE):
            is_old = is_old_tombstone(entries, floor)
            if is_old.any():
                removed += store.remove_tombstones(keys.take(is_old))
    return removed


def floor_of(index: StoredEntries) -> int:
    """Up to which commit sequence tombstones may be gone; 0 where the store removes none."""
    return index.store.floor() if isinstance(index.store, SupportsPurge) else 0


def floor_of_look_ups(index: StoredEntries) -> int:
    """Up to which commit sequence tombstones may have been gone in look-ups of this process up to now."""
    return index.store.seen_floor() if isinstance(index.store, SupportsPurge) else 0
