"""The contract's sentences about watermarks, as tests."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import ClassVar

from rli.store.contract import Store
from rli.testing.batches import entries_of, entry, get_all, key_batch
from rli.testing.processes import mark, run_in_processes


class MarkCases:
    """``applied_sequence``, ``applied`` and ``mark_applied``."""

    shares_processes: ClassVar[bool]

    def open_store(self, url: str, *, create: bool) -> Store:
        raise NotImplementedError

    def test_nothing_is_marked_at_first(self, store: Store) -> None:
        assert store.applied_sequence() is None
        assert store.applied().least is None
        assert store.applied_beside([]) == (None, [])
        store.put(key_batch([b"k"]), entries_of(1, [1]))
        assert store.applied_sequence() is None
        assert store.applied().least is None

    def test_a_mark_is_seen_by_all(self, url: str, store: Store) -> None:
        assert store.mark_applied(store.applied(), 0)
        with self.open_store(url, create=False) as other:
            for sequence in (0, 3, 4):
                store.put(key_batch([b"k" * (sequence + 1)]), entries_of(sequence + 1, [1]))
                assert store.mark_applied(store.applied(), sequence)
                for each in (store, other):
                    assert each.applied_sequence() == sequence
                    assert each.applied_beside(["absent"]) == (sequence, [None])
                    assert (each.applied().least, each.applied().greatest) == (sequence, sequence)

    def test_a_mark_is_never_lowered(self, store: Store) -> None:
        store.put(key_batch([b"k"]), entries_of(1, [1]))
        before = store.applied()
        assert store.mark_applied(before, 5)
        assert store.mark_applied(before, 4)
        assert store.mark_applied(store.applied(), 5)
        assert store.applied_sequence() == store.applied().least == 5

    def test_commits_may_be_marked_in_turn(self, store: Store) -> None:
        since = store.applied()
        for sequence in (1, 2, 5):
            store.put(key_batch([b"k", b"l"], [0, 1]), entries_of(sequence, [1, 2]))
            assert store.mark_applied(since, sequence)
            assert store.applied().least == sequence

    def test_new_entries_need_no_catch_up(self, store: Store) -> None:
        assert store.mark_applied(store.applied(), 7)
        store.put(key_batch([b"k" * 9, b"l" * 9], [0, 1]), entries_of(8, [1, 2]))
        assert store.applied_sequence() == store.applied().least == 7

    def test_restored_store_is_not_marked(self, store: Store) -> None:
        """As a writer does it that began before the store went back."""
        store.put(key_batch([b"k"]), entries_of(1, [1]))
        assert store.mark_applied(store.applied(), 3)
        since = replace(store.applied(), least=6, greatest=6)
        assert not store.mark_applied(since, 7)
        assert store.applied_sequence() == store.applied().least == 3
        assert store.mark_applied(store.applied(), 7)

    def test_what_is_marked_can_be_read(self, store: Store) -> None:
        for sequence in (1, 2):
            store.put(key_batch([b"k"]), entries_of(sequence, [sequence]))
            assert store.mark_applied(store.applied(), sequence)
            assert store.applied_sequence() == sequence
            assert get_all(store, [b"k", b"-"]) == [entry(sequence, sequence), 0]

    def test_dropping_removes_the_marks(self, url: str, store: Store) -> None:
        store.put(key_batch([b"k"]), entries_of(1, [1]))
        assert store.mark_applied(store.applied(), 3)
        store.drop()
        with self.open_store(url, create=True) as fresh:
            assert fresh.applied_sequence() is None
            assert fresh.applied().least is None
            fresh.put(key_batch([b"k"]), entries_of(1, [1]))
            assert fresh.mark_applied(fresh.applied(), 1)
            assert fresh.applied().least == 1
            fresh.drop()

    def test_changes_of_others_are_no_setback(self, url: str, store: Store) -> None:
        assert store.mark_applied(store.applied(), 1)
        before = store.setbacks
        with self.open_store(url, create=False) as other:
            assert other.compare_and_set("lease", None, b"other")
            assert other.mark_applied(other.applied(), 2)
        assert store.applied_sequence() == 2
        assert store.setbacks == before

    def test_greatest_mark_of_threads_stays(self, store: Store) -> None:
        store.put(key_batch([b"k"]), entries_of(1, [1]))
        with ThreadPoolExecutor(8) as threads:
            assert all(threads.map(partial(mark, store), range(1, 25)))
        assert store.applied_sequence() == store.applied().least == 24

    def test_greatest_mark_of_processes_stays(self, store: Store) -> None:
        if not self.shares_processes:
            return
        store.put(key_batch([b"k"]), entries_of(1, [1]))
        assert all(run_in_processes([partial(mark, sequence=sequence) for sequence in (3, 9, 6)], store))
        assert store.applied_sequence() == store.applied().least == 9
