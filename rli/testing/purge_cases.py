"""The sentences about stores that remove tombstones (``SupportsPurge``), as tests; other stores pass."""

from __future__ import annotations

from rli.store.contract import Store
from rli.store.purging import SupportsPurge
from rli.testing.batches import entries_of, entry, get_all, key_batch, random_keys, scanned, tombstones_of

_WIDTHS = (1, 8, 16, 300, 600)


def apply_and_raise_floor(store: SupportsPurge, sequence: int) -> None:
    """Raise the floor as a purge does: to commits that are marked as applied."""
    assert isinstance(store, Store)
    since = store.applied()
    if (since.least or 0) < sequence:
        assert store.mark_applied(since, sequence)
    store.raise_floor(sequence)


class PurgeCases:
    """``floor``, ``raise_floor`` and ``remove_tombstones``."""

    def test_only_tombstones_below_floor_are_removed(self, store: Store) -> None:
        if not isinstance(store, SupportsPurge):
            return
        keys = {width: random_keys(4, width, seed=width) for width in _WIDTHS}
        for some in keys.values():
            store.put(key_batch(some[:3]), tombstones_of(3, 3))
            store.put(key_batch(some[2:3]), tombstones_of(4, 1))
            store.put(key_batch(some[3:]), entries_of(2, [7]))
        apply_and_raise_floor(store, 3)
        for some in keys.values():
            assert store.remove_tombstones(key_batch(some)) == 2
            assert get_all(store, some) == [0, 0, tombstones_of(4, 1)[0], entry(2, 7)]
        assert store.stats().tombstones == store.stats().live_entries == len(_WIDTHS)
        assert len(scanned(store, [0])) == 2 * len(_WIDTHS)

    def test_entries_below_floor_are_not_written(self, store: Store) -> None:
        if isinstance(store, SupportsPurge):
            store.put(key_batch([b"gone"]), tombstones_of(3, 1))
            store.put(key_batch([b"stay"]), entries_of(2, [7]))
            apply_and_raise_floor(store, 3)
            store.remove_tombstones(key_batch([b"gone"]))
            # As a process does that was paused while it applied these commits.
            store.put_all([(key_batch([b"gone", b"stay"]), entries_of(3, [1, 2]))])
            assert get_all(store, [b"gone", b"stay"]) == [0, entry(2, 7)]
            store.put(key_batch([b"gone"]), entries_of(4, [5]))
            assert get_all(store, [b"gone"]) == [entry(4, 5)]

    def test_the_floor_never_falls(self, store: Store) -> None:
        if isinstance(store, SupportsPurge):
            assert store.floor() == 0
            for sequence in (5, 3):
                apply_and_raise_floor(store, sequence)
                assert store.floor() == 5
