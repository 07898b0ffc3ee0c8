"""A state machine that takes the same steps on a store and on plain dicts, and compares."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from rli.codec.encoded_keys import EncodedKeys
from rli.codec.entries import TOMBSTONE, Entries
from rli.store.contract import APPLIED, Store
from rli.store.purging import SupportsPurge
from rli.testing import strategies
from rli.testing.batches import Content, scanned
from rli.testing.purge_cases import apply_and_raise_floor

_SHARDS = 3


class StoreMachine(RuleBasedStateMachine):
    """Random steps on a store against the model; a subclass says how to open one."""

    def make_store(self) -> Store:
        """An empty store of its own, at each call another one."""
        raise NotImplementedError

    def reopen_store(self, url: str) -> Store:
        """The store of ``url`` again, after it was closed."""
        raise NotImplementedError

    def __init__(self) -> None:
        super().__init__()
        self.store = self.make_store()
        self.entries: Content = {}
        self.control: dict[str, bytes] = {}
        self.floor = 0
        self.ever: set[tuple[int, bytes]] = set()

    @rule(batch=strategies.written_batches(_SHARDS))
    def put(self, batch: tuple[EncodedKeys, Entries]) -> None:
        keys, entries = batch
        # Up to the floor all commits were applied: what comes late was written once. A sequence is given out once, so a
        # key gets no other entry with the sequence that it has.
        can_come = [
            number
            for number, (address, new) in enumerate(zip(_addresses(keys), entries.tolist(), strict=True))
            if (new >> 32 > self.floor or address in self.ever)
            and (new >> 32 != (stored := self.entries.get(address, 0)) >> 32 or new == stored)
        ]
        keys, entries = keys.take(np.array(can_come, dtype=np.intp)), entries[can_come]
        self.ever.update(_addresses(keys))
        self.store.put(keys, entries)
        for address, new in zip(_addresses(keys), entries.tolist(), strict=True):
            if new >> 32 > self.floor and new >> 32 > self.entries.get(address, 0) >> 32:
                self.entries[address] = new

    @rule(keys=strategies.key_batches(_SHARDS), sequence=st.integers(1, 4))
    def purge(self, keys: EncodedKeys, sequence: int) -> None:
        """What was removed stays away, and so do entries that arrive late."""
        if not isinstance(self.store, SupportsPurge) or not self.entries:
            return
        apply_and_raise_floor(self.store, sequence)
        self.control[APPLIED] = str(self.store.applied_sequence()).encode()
        self.floor = max(self.floor, sequence)
        assert self.store.floor() == self.floor
        addresses = set(_addresses(keys))
        old = [
            address
            for address, number in self.entries.items()
            if address in addresses and number & TOMBSTONE == TOMBSTONE and number >> 32 <= self.floor
        ]
        distinct = keys.take(
            np.array([_addresses(keys).index(address) for address in sorted(addresses)], dtype=np.intp)
        )
        assert self.store.remove_tombstones(distinct) == len(old)
        for address in old:
            del self.entries[address]

    @rule(keys=strategies.key_batches(_SHARDS))
    def get(self, keys: EncodedKeys) -> None:
        assert self.store.get(keys).tolist() == [self.entries.get(address, 0) for address in _addresses(keys)]

    @rule(shard=st.integers(0, _SHARDS - 1), batch_size=st.integers(1, 20))
    def scan(self, shard: int, batch_size: int) -> None:
        expected = {address: number for address, number in self.entries.items() if address[0] == shard}
        assert scanned(self.store, [shard], batch_size) == expected

    @rule(
        name=strategies.control_names(),
        expected=strategies.control_values(),
        value=strategies.control_values(),
        guess_right=st.booleans(),
    )
    def compare_and_set(self, name: str, expected: bytes | None, value: bytes | None, *, guess_right: bool) -> None:
        stored = self.control.get(name)
        expected = stored if guess_right else expected
        assert self.store.compare_and_set(name, expected, value) == (stored == expected)
        if stored == expected and value is None:
            self.control.pop(name, None)
        elif stored == expected and value is not None:
            self.control[name] = value
        assert self.store.read_control(name) == self.control.get(name)

    @rule(prefix=strategies.control_names() | st.just(""), start=strategies.control_names() | st.just(""))
    def scan_control(self, prefix: str, start: str) -> None:
        assert self.store.scan_control(prefix, start) == [
            (name, value) for name, value in sorted(self.control.items()) if name.startswith(prefix) and name >= start
        ]

    @rule()
    def count(self) -> None:
        stats = self.store.stats()
        tombstones = sum(number & TOMBSTONE == TOMBSTONE for number in self.entries.values())
        assert (stats.live_entries, stats.tombstones) == (len(self.entries) - tombstones, tombstones)

    @rule()
    def reopen(self) -> None:
        # A store may take an index for absent that holds nothing yet.
        if self.entries or self.control:
            self.store.close()
            self.store = self.reopen_store(self.store.url)

    def teardown(self) -> None:
        for shard in range(_SHARDS):
            self.scan(shard, 100)
        self.store.drop()
        self.store.close()


def _addresses(keys: EncodedKeys) -> list[tuple[int, bytes]]:
    return list(zip(keys.shards.tolist(), keys.to_bytes(), strict=True))
