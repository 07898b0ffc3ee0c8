"""Transactions in any order against plain dicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from tempfile import TemporaryDirectory
from typing import Any, ClassVar
from uuid import uuid4

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from rli import ConflictError, IndexTransaction
from rli.index.record.entries.limits import IndexLimits
from rli.index.record.index_alone import IndexAlone
from rli.index.record.stored_index import StoredIndex
from rli.model import FileGroupId
from tests.support.locations import locations, places_of
from tests.support.soak import cases
from tests.support.stored_indexes import create_index, open_index

KEYS = ["", "\0", "a", "7", "-7", "007", "123e4567-e89b-12d3-a456-426614174000", "x:1,y:2", "\U0001f600", "k" * 600]
SOME_KEYS = st.lists(st.sampled_from(KEYS), unique=True, max_size=5)
GROUPS = [FileGroupId("", "f1-0"), FileGroupId("p", "f2-0"), FileGroupId("p", "f3-0"), FileGroupId("p/q", "f4-0")]
PLACES = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(GROUPS), max_size=5)


@dataclass
class Expected:
    """A transaction as the model sees it."""

    transaction: IndexTransaction
    began_at: int
    seen: dict[str, FileGroupId]
    staged: dict[str, FileGroupId | None] = field(default_factory=dict)
    number: str = ""


class TransactionMachine(RuleBasedStateMachine):
    """Several transactions at once on one index."""

    make_url: ClassVar[staticmethod[[str], str]]
    transactions = Bundle("transactions")
    prepared = Bundle("prepared")

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory(prefix="rli-model-")
        self.url = self.make_url(self.folder.name)
        self.limits = IndexLimits()
        self.index = create_index(self.url, shards=3)
        self.places: dict[str, FileGroupId] = {}
        self.changed_at: dict[str, int] = {}
        self.commits = 0
        self.held: dict[str, Expected] = {}
        self.waiting: list[str] = []
        self.history: list[tuple[str, dict[str, str]]] = []

    @initialize(look_ups=st.sampled_from([1, 1024]))
    def choose_how_to_check(self, look_ups: int) -> None:
        # Those of many keys compare them with the changes of others; those of few look them up.
        self.limits = IndexLimits(look_ups_per_read=look_ups)
        self.index = self.limited(self.index)

    @rule(target=transactions)
    def begin(self) -> Expected:
        return Expected(self.index.begin(), self.commits, dict(self.places))

    @rule(expected=transactions, keys=SOME_KEYS)
    def tag(self, expected: Expected, keys: list[str]) -> None:
        if self.changed_since(expected, keys) or self.held_of(keys):
            with pytest.raises(ConflictError):
                expected.transaction.tag(keys)
        else:
            seen = {key: expected.seen[key] for key in keys if key in expected.seen}
            assert places_of(expected.transaction, keys) == seen

    @rule(expected=transactions, places=PLACES)
    def stage(self, expected: Expected, places: dict[str, FileGroupId]) -> None:
        expected.transaction.stage(locations(places))
        expected.staged.update(places)

    @rule(expected=transactions, keys=SOME_KEYS)
    def stage_deletes(self, expected: Expected, keys: list[str]) -> None:
        expected.transaction.stage_deletes(keys)
        expected.staged.update(dict.fromkeys(keys))

    @rule(expected=consumes(transactions))
    def commit(self, expected: Expected) -> None:
        if self.meets_conflict(expected, expected.transaction.commit):
            return
        committed = expected.transaction.commit()
        if not expected.staged:
            assert committed.sequence is None
            return
        assert committed.placed == sum(place is not None for place in expected.staged.values())
        assert committed.deleted == sum(place is None for place in expected.staged.values())
        self.take_over(expected, {})

    @rule(target=prepared, expected=consumes(transactions), number=st.uuids().map(str))
    def prepare(self, expected: Expected, number: str) -> Any:
        if self.meets_conflict(expected, lambda: expected.transaction.prepare({"table.version": number})):
            return multiple()
        expected.transaction.prepare({"table.version": number})
        expected.number = number
        self.held |= dict.fromkeys(expected.staged, expected)
        self.waiting.append(number)
        return expected

    @rule(expected=consumes(prepared), is_own=st.booleans(), is_committed=st.booleans())
    def decide(self, expected: Expected, *, is_own: bool, is_committed: bool) -> None:
        pending = {found.metadata["table.version"]: found for found in self.index.pending()}
        decided = expected.transaction if is_own else pending[expected.number]
        assert pending[expected.number].id == expected.transaction.id
        self.held = {key: holder for key, holder in self.held.items() if holder is not expected}
        self.waiting.remove(expected.number)
        if is_committed:
            assert decided.commit().metadata == {"table.version": expected.number}
            self.take_over(expected, {"table.version": expected.number})
        else:
            decided.abort()

    def meets_conflict(self, expected: Expected, act: Callable[[], object]) -> bool:
        changed, held = self.changed_since(expected, list(expected.staged)), self.held_of(expected.staged)
        if not changed and not held:
            return False
        with pytest.raises(ConflictError) as raised:
            act()
        assert raised.value.key_count == len(raised.value.keys)
        if changed:
            assert set(raised.value.keys) == changed
        else:
            assert {self.held[key].transaction.instant for key in raised.value.keys} == set(raised.value.instants)
        return True

    def take_over(self, expected: Expected, metadata: dict[str, str]) -> None:
        self.commits += 1
        for key, place in expected.staged.items():
            self.changed_at[key] = self.commits
            self.places.pop(key, None)
            if place is not None:
                self.places[key] = place
        self.history.append((expected.transaction.instant, metadata))

    @rule(expected=consumes(transactions))
    def abort(self, expected: Expected) -> None:
        expected.transaction.abort()

    @rule()
    def reopen(self) -> None:
        # The one that transactions under way work on stays open.
        self.index = self.limited(open_index(self.url))

    @invariant()
    def look_up(self) -> None:
        assert places_of(self.index, KEYS) == self.places
        assert self.index.stats().entries == len(self.places)
        assert [found.metadata["table.version"] for found in self.index.pending()] == self.waiting
        assert [(commit.instant, commit.metadata) for commit in reversed(self.index.history())] == self.history

    def limited(self, index: StoredIndex) -> StoredIndex:
        return IndexAlone(index.store, index.settings, self.limits)

    def changed_since(self, expected: Expected, keys: list[str]) -> set[str]:
        return {key for key in keys if self.changed_at.get(key, 0) > expected.began_at}

    def held_of(self, keys: Iterable[str]) -> set[str]:
        return set(keys) & self.held.keys()

    def teardown(self) -> None:
        self.index.drop()
        self.folder.cleanup()


class MemoryMachine(TransactionMachine):
    make_url = staticmethod(lambda _: f"memory:{uuid4().hex}")


class LmdbMachine(TransactionMachine):
    make_url = staticmethod(lambda folder: f"lmdb://{folder}/index")


TestMemory = MemoryMachine.TestCase
TestMemory.settings = settings(max_examples=cases(12), stateful_step_count=30)
TestLmdb = LmdbMachine.TestCase
TestLmdb.settings = settings(max_examples=cases(3), stateful_step_count=15)
