"""Commands to Redis are bounded in size, however large what they carry is, and few, however many widths keys have."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rli.errors import IndexNotReadyError
from rli.store.contract import Store
from rli.store.registry import open_store
from rli.testing.batches import entries_of, get_all, key_batch, random_keys, scanned
from rli.urls import without_option
from rli_redis.scripts import LIST_CONTROL
from rli_redis.servers import Command
from tests.support.docker import Service
from tests.support.redis import redis_url

pytestmark = pytest.mark.docker

MEBIBYTE = 1 << 20


@pytest.fixture
def store(redis_server: Service, request: pytest.FixtureRequest) -> Iterator[Store]:
    """A store for whole keys, or for keys that are found by so many bytes."""
    with open_store(redis_url(redis_server, prefix=getattr(request, "param", 0)), create=True) as store:
        yield store
        store.drop()


@pytest.fixture
def beside(store: Store) -> Iterator[Store]:
    """A store for an index of a column."""
    with open_store(store.url_beside("by_email"), create=True) as beside:
        yield beside
        beside.drop()


@pytest.fixture
def sent(store: Store, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """All commands from now on, as they are sent."""
    assert store.stats().live_entries == 0
    sent: list[bytes] = []
    pack = Command.packed

    def packed(command: Command) -> bytes:
        sent.append(pack(command))
        return sent[-1]

    monkeypatch.setattr(Command, "packed", packed)
    return sent


def test_no_command_exceeds_two_megabytes(store: Store, sent: list[bytes]) -> None:
    """Neither writes nor reads nor splits of buckets."""
    keys = random_keys(240, 60_000, seed=1)
    for first in range(0, 240, 80):
        store.put(key_batch(keys[first : first + 80]), entries_of(1, range(first, first + 80)))
    assert get_all(store, keys) == entries_of(1, range(240)).tolist()
    assert len(scanned(store, [0])) == 240
    assert max(map(len, sent)) <= 2 * MEBIBYTE


def test_control_records_are_read_in_portions(store: Store, sent: list[bytes]) -> None:
    records = [(f"log/{number:03}", b"%03d" % number + bytes(100_000)) for number in range(40)]
    for name, value in records:
        assert store.compare_and_set(name, None, value)
    sent.clear()
    assert store.scan_control("log/") == records
    listings = [command for command in sent if LIST_CONTROL.sha.encode() in command]
    assert len(listings) >= len(records) * 100_000 / MEBIBYTE


def test_large_control_record_is_read_whole(store: Store) -> None:
    records = [("a", bytes(3 * MEBIBYTE)), ("b", b""), ("c", b"c" * MEBIBYTE), ("d", b"d")]
    for name, value in records:
        assert store.compare_and_set(name, None, value)
    assert store.scan_control("") == records


def test_many_key_widths_take_few_commands(store: Store, sent: list[bytes]) -> None:
    batches = [(key_batch([bytes([width]) * width]), entries_of(1, [width])) for width in range(20, 220)]
    store.put_all(batches)
    sent.clear()
    store.put_all([(keys, entries_of(2, [keys.width])) for keys, _ in batches])
    assert len(sent) <= len(batches) + 10
    sent.clear()
    assert [found.tolist() for found in store.look_up([keys for keys, _ in batches])] == [
        entries_of(2, [keys.width]).tolist() for keys, _ in batches
    ]
    assert len(sent) <= 10


def test_large_batch_is_sent_about_once(store: Store, sent: list[bytes]) -> None:
    """Also into an index with few entries: it gets the buckets that it needs before the batch."""
    shards = [number % 4 for number in range(20_064)]
    keys = random_keys(20_064, 16, seed=2)
    store.put(key_batch(keys[:64], shards[:64]), entries_of(1, range(64)))
    sent.clear()
    entries = entries_of(2, range(20_000))
    store.put(key_batch(keys[64:], shards[64:]), entries)
    assert get_all(store, keys[64:], shards[64:]) == entries.tolist()
    assert sum(map(len, sent)) < 2 * 20_000 * (16 + 3)


@pytest.mark.parametrize("store", [0, 8], indirect=True)
def test_values_are_found_by_few_commands(store: Store, sent: list[bytes]) -> None:
    """Also where another process has made the shards larger, or stored wider keys, since the last look-up."""
    prefixes, shards = [b"prefix%02d" % shard for shard in range(40)], list(range(40))
    sought = key_batch(prefixes, shards)
    stored: set[bytes] = set()
    with open_store(store.url) as other:
        for round_number, count in enumerate((10, 400, 10, 3_000)):
            for shard, prefix in enumerate(prefixes[: 1 if count == 3_000 else None]):
                keys = random_keys(count, 9 + round_number, seed=shard)
                others, own = keys[::2], [prefix + key for key in keys[1::2]]
                stored.update(own)
                other.put(key_batch([*others], shard), entries_of(1, range(len(others))))
                other.put(key_batch(own, shard), entries_of(1, range(len(own))))
            sent.clear()
            found = [key for keys, _ in store.find(sought) for key in keys.to_bytes()]
            assert sorted(found) == sorted(stored)
            assert not [*store.find(key_batch(prefixes, [*shards[1:], 0]))]
            again = len(sent)
            assert len([*store.find(sought)]) <= 8
            assert len(sent) - again <= 6


def test_find_reads_few_buckets(beside: Store, sent: list[bytes]) -> None:
    """Of more than two thousand that the shard has: their names alone take a hundred kilobytes."""
    prefixes = random_keys(3_000, 8, seed=1)
    keys = [prefix + key for prefix in prefixes for key in random_keys(10, 16, seed=2)]
    beside.put(key_batch(keys), entries_of(1, range(len(keys))))
    assert [*beside.find(key_batch([b"absent!!"]))] == []
    sent.clear()
    [(found, entries)] = beside.find(key_batch(prefixes[700:701]))
    assert sorted(found.to_bytes()) == sorted(keys[7_000:7_010])
    assert entries.tolist() == beside.get(found).tolist()
    assert sum(map(len, sent)) < 5_000


def test_one_value_may_have_all_keys(beside: Store, sent: list[bytes]) -> None:
    """They are found in portions, and a change of one of them writes a part of the shard."""
    alike = [b"8 bytes!" + key for key in random_keys(30_000, 200, seed=1)]
    for start in range(0, len(alike), 10_000):
        beside.put(key_batch(alike[start : start + 10_000]), entries_of(1, range(10_000)))
    beside.put(key_batch([b"another!" + alike[0][:200]]), entries_of(1, [1]))
    sent.clear()
    beside.put(key_batch(alike[:1]), entries_of(2, [0]))
    assert sum(map(len, sent)) < MEBIBYTE // 16
    found = [keys.to_bytes() for keys, _ in beside.find(key_batch([b"8 bytes!"]))]
    assert sorted(key for keys in found for key in keys) == sorted(alike)
    assert max(map(len, found)) * len(alike[0]) < 2 * MEBIBYTE
    assert len(scanned(beside, [0])) == len(alike) + 1


def test_stores_made_for_whole_keys_find(store: Store) -> None:
    """Those beside a store were such once, and are opened by URLs of stores that are not."""
    former = without_option(store.url_beside("by_email"), "prefix")
    with open_store(former, create=True) as beside:
        beside.put(key_batch([b"prefix and key", b"another an key"]), entries_of(1, [1, 2]))
    with open_store(store.url_beside("by_email")) as beside:
        assert [keys.to_bytes() for keys, _ in beside.find(key_batch([b"prefix a"]))] == [[b"prefix and key"]]
        beside.drop()


def test_find_misses_no_applied_commit(store: Store) -> None:
    store.put(key_batch([b"prefix and key"]), entries_of(1, [1]))
    assert store.mark_applied(store.applied(), 3)
    assert len([*store.find(key_batch([b"prefix a"]), 3)]) == 1
    with pytest.raises(IndexNotReadyError):
        list(store.find(key_batch([b"prefix a"]), 4))
