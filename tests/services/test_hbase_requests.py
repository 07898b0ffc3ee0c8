"""How much writes and look-ups ask of HBase."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

import pytest

import rli
from rli.store import Store, without_option
from rli.store.registry import open_store
from rli.testing.batches import entries_of, entry, get_all, key_batch, random_keys, scanned, tombstones_of
from rli.testing.find_cases import found_in
from rli_hbase.client import Client
from rli_hbase.rows import Rows
from tests.support.docker import Service
from tests.support.hbase import hbase_url, new_table
from tests.support.tables import records

pytestmark = pytest.mark.docker

T = TypeVar("T")


@pytest.fixture
def beside(hbase: Service) -> Iterator[Store]:
    """A store as it is made for the index of a column."""
    with open_store(hbase_url(hbase, new_table()), create=True) as store:
        url = store.url_beside("by_email")
        store.drop()
    with open_store(url, create=True) as store:
        yield store
        store.drop()


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """One item for each call of HBase, be it a request or a page of a scan."""
    noted = list[None]()
    call = Client.call

    def counted(self: Client, work: Callable[[Any], T]) -> T:
        noted.append(None)
        return call(self, work)

    monkeypatch.setattr(Client, "call", counted)
    return noted


def test_upsert_reads_each_entry_once(hbase: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bytes] = []
    read_rows = Rows.read

    def noted(self: Rows, rows: Sequence[bytes], columns: Sequence[bytes], batch: int) -> Iterator[Any]:
        read.extend(rows)
        return read_rows(self, rows, columns, batch)

    index = hbase_url(hbase, new_table(), batch=100)
    with rli.create_table(tmp_path / "t", record_key="id", partition_by="city", ordering="ts", index=index) as table:
        table.upsert(records(*((f"k{n}", "x", 1, 1.0) for n in range(100, 350))))
        monkeypatch.setattr(Rows, "read", noted)
        updated = table.upsert(records(*((f"k{n}", "x", 2, 2.0) for n in range(100, 350))))
        assert (updated.updated, len(read)) == (250, 250)
        table.drop_index()


def test_values_are_found_by_few_calls(beside: Store, calls: list[None]) -> None:
    """A row each in the sample and among the others: however many values."""
    values = random_keys(500, 8, seed=1)
    keys = [value + key for key in random_keys(3, 16, seed=2) for value in values]
    shards = [value[0] % 64 for value in values]
    beside.put(key_batch(keys, shards * 3), entries_of(1, range(1500)))
    for count in (1, 100, 128):
        calls.clear()
        assert len(found_in(beside, values[:count], shards[:count])) == 3 * count
        assert len(calls) == 2
    calls.clear()
    assert len(found_in(beside, values, shards)) == 1500
    assert len(calls) == 5


def test_one_value_may_have_many_keys(beside: Store, calls: list[None]) -> None:
    """They are found in portions, at whose end a caller may stop, whatever bytes they have."""
    alike = [b"8 bytes!" + bytes(rest) for rest in product(b"'(,\0\xff\\", repeat=6)]
    others = random_keys(300, 14, seed=2)
    keys = [*alike, *others]
    beside.put(key_batch(keys), entries_of(1, range(len(keys))))
    beside.put(key_batch(alike[:9]), tombstones_of(2, 9))
    calls.clear()
    found = [batch.to_bytes() for batch, _ in beside.find(key_batch([b"8 bytes!", others[0][:8]]))]
    assert sorted(key for batch in found for key in batch) == sorted([*alike, others[0]])
    assert max(map(len, found)) <= 16_384
    assert len(calls) <= 7
    calls.clear()
    assert next(beside.find(key_batch([b"8 bytes!"])))
    assert len(calls) == 1
    contents = scanned(beside, [0], 20_000)
    assert contents[0, alike[10]] == entry(1, 10)
    assert len(contents) == len(keys) == beside.stats().live_entries + 9
    assert get_all(beside, others) == entries_of(1, range(len(alike), len(keys))).tolist()


def test_stores_made_for_whole_keys_find(beside: Store, hbase: Service) -> None:
    """Those beside a store were such once, and are opened by URLs of stores that are not."""
    former = hbase_url(hbase, new_table())
    with open_store(former, create=True) as store:
        store.put(key_batch([b"prefix and key", b"another an key"]), entries_of(1, [1, 2]))
    with open_store(f"{former}&prefix=8", create=True) as store:
        assert found_in(store, [b"prefix a"], [0]) == {(0, b"prefix and key"): entry(1, 1)}
        store.drop()
    beside.put(key_batch([b"prefix and key"]), entries_of(1, [1]))
    with open_store(without_option(beside.url, "prefix")) as store:
        assert get_all(store, [b"prefix and key"]) == [entry(1, 1)]
