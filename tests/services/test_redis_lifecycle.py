"""Indexes in Redis come and go without touching each other or anyone's keys, and what was lost is noticed."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import numpy as np
import pytest
import redis
from typer.testing import CliRunner

import rli
from rli.cli.app import app
from rli.errors import CorruptIndexError, IndexMismatchError, IndexNotFoundError
from rli.store.contract import Store
from rli.store.registry import open_store
from rli.testing.batches import differences, entries_of, entry, get_all, key_batch, random_keys, scanned
from rli.urls import without_option
from rli_redis import RedisStore
from rli_redis.keyspace import Names
from rli_redis.lifecycle import Header
from rli_redis.scripts import CREATE_INDEX, DROP_SEGMENT, NOTE_SEGMENTS, REMOVE_HEADER, REPLACE_HEADER
from tests.support.children import was_killed
from tests.support.docker import Service
from tests.support.redis import all_keys, dropped_afterwards, redis_url, url_of
from tests.support.services import REDIS_PORT
from tests.support.tables import records
from tests.support.tcp_proxy import Fate, tcp_proxy

pytestmark = pytest.mark.docker

KEYS = random_keys(3000, 16, seed=1)
SHARDS = [key[0] % 4 for key in KEYS]
DATABASE = 7


@pytest.fixture
def raw(redis_server: Service) -> Iterator[redis.Redis]:
    """A database of the tests' own, without rli."""
    client = redis.Redis(redis_server.host, redis_server.ports[REDIS_PORT], db=DATABASE)
    client.flushdb()
    yield client
    client.flushdb()
    client.close()


@pytest.fixture
def url(redis_server: Service) -> str:
    return redis_url(redis_server, database=DATABASE, name="trips")


def fill(store: Store, sequence: int = 1) -> None:
    store.put(key_batch(KEYS, SHARDS), entries_of(sequence, range(len(KEYS))))
    store.put(key_batch([b"w" * 600]), entries_of(sequence, [1]))
    for number in range(300):
        store.compare_and_set(f"log/{number:03}", None, b"%d" % number)


def expect_full(store: Store, sequence: int = 1) -> None:
    assert differences(get_all(store, KEYS, SHARDS), [entry(sequence, number) for number in range(len(KEYS))]) == []
    assert len(store.scan_control("log/")) == 300
    stats = store.stats()
    assert (stats.live_entries, stats.tombstones) == (len(KEYS) + 1, 0)


def names_of(store: Store) -> Names:
    assert isinstance(store, RedisStore)
    return store._names  # noqa: SLF001  (to break single keys on purpose)


def every_use(store: Store) -> list[Callable[[], object]]:
    return [
        lambda: get_all(store, [KEYS[0]], SHARDS[0]),
        lambda: get_all(store, [b"k" * 2000]),
        lambda: store.put(key_batch([KEYS[0]], SHARDS[0]), entries_of(9, [9])),
        lambda: store.put(key_batch([b"k" * 2000]), entries_of(9, [9])),
        lambda: scanned(store, [0]),
        lambda: store.read_control("log/000"),
        lambda: store.scan_control(""),
        lambda: store.compare_and_set("lease", None, b"mine"),
        lambda: store.compare_and_set("log/000", b"0", None),
        store.stats,
        store.drop,
    ]


# Several indexes, and other applications -----------------------------------------------------------------------


def test_index_leaves_other_keys_unchanged(raw: redis.Redis, redis_server: Service, url: str) -> None:
    raw.mset({"app": "1", "{rli}": "2", "rli": "3", "{rlix}": "4", "{rli": "5"})
    raw.hset("{rli}index", "field", "6")
    with open_store(redis_url(redis_server, database=DATABASE, name="other"), create=True) as other:
        fill(other, 7)
        before = {key: raw.dump(key) for key in all_keys(raw)}
        with open_store(url, create=True) as store:
            fill(store, 1)
            expect_full(store, 1)
            expect_full(other, 7)
            added = all_keys(raw) - set(before)
            assert all(key.startswith(b"{rli") for key in added)
            store.drop()
        assert {key: raw.dump(key) for key in all_keys(raw)} == before
        expect_full(other, 7)


def test_the_database_numbers_keep_indexes_apart(raw: redis.Redis, redis_server: Service, url: str) -> None:
    with (
        open_store(url, create=True),
        dropped_afterwards(redis_url(redis_server, database=8, name="trips")) as elsewhere,
    ):
        with pytest.raises(IndexNotFoundError):
            open_store(elsewhere, create=False)
        with open_store(elsewhere, create=True) as other:
            fill(other)
        assert len(all_keys(raw)) == 3


# Dropped indexes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_made_again", [False, True])
def test_open_handles_find_no_dropped_index(raw: redis.Redis, url: str, *, is_made_again: bool) -> None:
    with open_store(url, create=True) as known, open_store(url, create=False) as fresh:
        fill(known)
        with open_store(url, create=False) as dropper:
            dropper.drop()
        assert all_keys(raw) == set()
        if is_made_again:
            with open_store(url, create=True) as new:
                new.put(key_batch([b"new"]), entries_of(1, [1]))
        before = {key: raw.dump(key) for key in all_keys(raw)}
        for old in (known, fresh):
            for use in every_use(old):
                with pytest.raises(IndexNotFoundError):
                    use()
        if not is_made_again:
            with pytest.raises(IndexNotFoundError):
                pickle.loads(pickle.dumps(known))  # noqa: S301  (made here)
        assert {key: raw.dump(key) for key in all_keys(raw)} == before


def test_a_flushed_server_has_no_index(raw: redis.Redis, url: str) -> None:
    with open_store(url, create=True) as known, open_store(url, create=False) as fresh:
        fill(known)
        raw.flushall()
        for store in (known, fresh):
            for use in every_use(store):
                with pytest.raises(IndexNotFoundError):
                    use()
        assert all_keys(raw) == set()


CREATION = (CREATE_INDEX.sha, "HSETNX", "SADD", REPLACE_HEADER.sha)
"""The requests of which making an index consists."""

REMOVAL = ("GET", REPLACE_HEADER.sha, "SMEMBERS", DROP_SEGMENT.sha, "UNLINK", REMOVE_HEADER.sha)
FATES = (Fate.LOST_BEFORE, Fate.ANSWER_LOST)


def create_and_die(target: tuple[str, int], request: str, fate: Fate) -> None:
    """Make an index in a process that is killed at a request."""
    with tcp_proxy(target) as proxy:
        proxy.once(request.encode(), fate, lambda: os.kill(os.getpid(), signal.SIGKILL))
        open_store(url_of(proxy.host, proxy.port, database=DATABASE, name="trips"), create=True)


def drop_and_die(target: tuple[str, int], request: str, fate: Fate) -> None:
    """Drop an index in a process that is killed at a request."""
    with tcp_proxy(target) as proxy:
        store = open_store(url_of(proxy.host, proxy.port, database=DATABASE, name="trips"), create=False)
        proxy.once(request.encode(), fate, lambda: os.kill(os.getpid(), signal.SIGKILL))
        store.drop()


def load_scripts(raw: redis.Redis) -> None:
    """Make the scripts known, so that the first answer to one is that of its work."""
    for script in (CREATE_INDEX, REPLACE_HEADER, DROP_SEGMENT, REMOVE_HEADER):
        assert raw.script_load(script.source) == script.sha


@pytest.mark.parametrize("fate", FATES)
@pytest.mark.parametrize("request_name", CREATION, ids=["claim", "control", "segments", "ready"])
@pytest.mark.slow
def test_half_created_index_is_completed(
    raw: redis.Redis, redis_server: Service, url: str, request_name: str, fate: Fate
) -> None:
    load_scripts(raw)
    assert was_killed(create_and_die, (redis_server.host, redis_server.ports[REDIS_PORT]), request_name, fate)
    if (request_name, fate) != (CREATION[-1], Fate.ANSWER_LOST):
        with pytest.raises(IndexNotFoundError):
            open_store(url, create=False)
    with open_store(url, create=True) as store:
        fill(store)
        expect_full(store)
        store.drop()
    assert all_keys(raw) == set()


@pytest.mark.parametrize("create", [False, True])
@pytest.mark.parametrize("fate", FATES)
@pytest.mark.parametrize("request_name", REMOVAL, ids=["look", "mark", "list", "retire", "unlink", "header"])
@pytest.mark.slow
def test_interrupted_drop_is_finished_by_creation(
    raw: redis.Redis, redis_server: Service, url: str, request_name: str, fate: Fate, *, create: bool
) -> None:
    load_scripts(raw)
    with open_store(url, create=True) as store:
        fill(store)
    assert was_killed(drop_and_die, (redis_server.host, redis_server.ports[REDIS_PORT]), request_name, fate)
    is_begun = request_name not in REMOVAL[:2] or (request_name, fate) == (REMOVAL[1], Fate.ANSWER_LOST)
    if is_begun and not create:
        kept = all_keys(raw)
        with pytest.raises(IndexNotFoundError):
            open_store(url, create=False)
        # A process that only opens it may have been led here by a header that somebody forged.
        assert all_keys(raw) == kept
        with open_store(url, create=True) as store:
            store.drop()
    else:
        with open_store(url, create=create) as store:
            if is_begun:
                assert get_all(store, KEYS[:1], SHARDS[:1]) == [0]
                assert store.scan_control("") == []
            else:
                expect_full(store)
            store.drop()
    assert all_keys(raw) == set()


def test_many_create_and_drop_at_once(raw: redis.Redis, url: str) -> None:
    """A late process finds no index, makes no index that nobody knows of, and leaves nothing."""
    for _ in range(10):
        with ThreadPoolExecutor(4) as threads:

            def work(number: int) -> None:
                try:
                    with open_store(url, create=True) as store:
                        store.put(key_batch(KEYS[:50], number), entries_of(1, range(50)))
                        store.compare_and_set(f"r{number}", None, b"value")
                        store.drop()
                except IndexNotFoundError:
                    pass

            for future in [threads.submit(work, number) for number in range(4)]:
                future.result()
        try:
            with open_store(url, create=False) as store:
                store.drop()
        except IndexNotFoundError:
            pass
        assert all_keys(raw) == set()


def test_writes_beside_drop_leave_nothing(raw: redis.Redis, url: str) -> None:
    for _ in range(5):
        with open_store(url, create=True) as store:
            fill(store)
            begun = [Event() for _ in range(3)]

            def write(number: int, begun: Event) -> None:
                with open_store(url, create=False) as own:
                    for sequence in range(2, 1000):
                        own.put(key_batch(KEYS, SHARDS), entries_of(sequence, range(len(KEYS))))
                        own.put(key_batch([b"n" * (number + 2)], sequence), entries_of(1, [1]))
                        own.compare_and_set(f"w{number}/{sequence}", None, b"value")
                        begun.set()

            with ThreadPoolExecutor(3) as threads:
                writing = [threads.submit(write, number, event) for number, event in enumerate(begun)]
                assert all(event.wait(60) for event in begun)
                store.drop()
                for future in writing:
                    assert isinstance(future.exception(), IndexNotFoundError)
        assert all_keys(raw) == set()


def test_late_segment_creation_leaves_nothing(raw: redis.Redis, redis_server: Service, url: str) -> None:
    """The index is dropped between the moments when a writer sees it and when it makes a segment."""
    with tcp_proxy((redis_server.host, redis_server.ports[REDIS_PORT])) as proxy:
        through = url_of(proxy.host, proxy.port, database=DATABASE, name="trips")
        for request in (NOTE_SEGMENTS.sha.encode(), b"EVALSHA"):
            with open_store(url, create=True) as dropper, open_store(through, create=False) as store:
                proxy.once(request, Fate.LOST_BEFORE, dropper.drop)
                with pytest.raises(IndexNotFoundError):
                    store.put(key_batch(KEYS, SHARDS), entries_of(1, range(len(KEYS))))
                assert proxy.is_done
            assert all_keys(raw) == set()


@pytest.mark.usefixtures("raw")
def test_late_drop_spares_next_index(redis_server: Service, url: str) -> None:
    def drop_and_make_again() -> None:
        with open_store(url, create=False) as other:
            other.drop()
        with open_store(url, create=True) as new:
            fill(new)

    with (
        open_store(url, create=True),
        tcp_proxy((redis_server.host, redis_server.ports[REDIS_PORT])) as proxy,
        open_store(url_of(proxy.host, proxy.port, database=DATABASE, name="trips"), create=False) as late,
    ):
        proxy.once(b"EVAL", Fate.LOST_BEFORE, drop_and_make_again)
        with pytest.raises(IndexNotFoundError):
            late.drop()
        assert proxy.is_done
        with open_store(url, create=False) as new:
            expect_full(new)


def test_drop_removes_keys_in_portions(raw: redis.Redis, url: str) -> None:
    raw.config_resetstat()
    with open_store(url, create=True) as store:
        keys = random_keys(60_000, 8, seed=2)
        store.put(key_batch(keys), entries_of(1, range(len(keys))))
        raw.config_set("slowlog-log-slower-than", 0)
        raw.slowlog_reset()
        store.drop()
        slow = raw.slowlog_get(100)
        raw.config_set("slowlog-log-slower-than", 10_000)
    unlinked = [item["command"] for item in slow if item["command"].startswith(b"UNLINK")]
    assert len(unlinked) >= 3
    # Microseconds; the machine that runs tests may be busy.
    assert max(item["duration"] for item in slow if item["command"][:4] in (b"UNLI", b"EVAL")) < 200_000
    assert all_keys(raw) == set()


# What is lost --------------------------------------------------------------------------------------------------


def bucket_keys(store: Store, number: int) -> tuple[bytes, bytes]:
    """The state of the segment of one of KEYS, and its bucket 0."""
    names = names_of(store)
    return names.segment(16, SHARDS[number]), names.buckets(16, SHARDS[number], np.array([0]))[0]


@pytest.mark.parametrize("what", ["state", "bucket", "watermark", "set", "control", "control names"])
@pytest.mark.parametrize("is_known", [True, False])
def test_evicted_entries_are_errors(raw: redis.Redis, url: str, what: str, *, is_known: bool) -> None:
    with open_store(url, create=True) as store:
        fill(store)
        names = names_of(store)
        state, bucket = bucket_keys(store, 0)
        key = {
            "state": state,
            "bucket": bucket,
            "watermark": names.watermark(SHARDS[0]),
            "set": names.segments,
            "control": names.control,
            "control names": names.control_names,
        }[what]
        mine = store if is_known else open_store(url, create=False)
        assert raw.unlink(key) == 1
        uses: dict[str, list[Callable[[], object]]] = {
            "state": [
                lambda: get_all(mine, KEYS, SHARDS),
                lambda: mine.put(key_batch(KEYS, SHARDS), entries_of(2, range(len(KEYS)))),
                lambda: scanned(mine, [SHARDS[0]]),
                mine.stats,
            ],
            "bucket": [
                lambda: get_all(mine, KEYS, SHARDS),
                lambda: mine.put(key_batch(KEYS, SHARDS), entries_of(2, range(len(KEYS)))),
                lambda: scanned(mine, [SHARDS[0]]),
            ],
            "watermark": [
                lambda: get_all(mine, KEYS, SHARDS),
                lambda: mine.put(key_batch(KEYS, SHARDS), entries_of(2, range(len(KEYS)))),
                mine.applied,
            ],
            "set": [lambda: scanned(mine, [0]), mine.stats, lambda: get_all(mine, [b"never seen"])],
            "control": [
                lambda: mine.read_control("log/000"),
                lambda: mine.scan_control(""),
                lambda: mine.compare_and_set("lease", None, b"mine"),
            ],
            "control names": [lambda: mine.scan_control("")],
        }
        for use in uses[what]:
            with pytest.raises(CorruptIndexError, match=r"lost a part of the index.*bootstrap"):
                use()
        mine.close()
        # Nothing of the index stays, whatever is missing.
        with open_store(url, create=False) as dropper:
            dropper.drop()
        assert all_keys(raw) == set()


@pytest.mark.parametrize("is_open", [True, False])
def test_index_without_control_records_is_rebuilt(raw: redis.Redis, url: str, tmp_path: Path, *, is_open: bool) -> None:
    path = tmp_path / "trips"
    with rli.create_table(path, record_key="id", partition_by="city", ordering="ts", index=url) as table:
        table.upsert(records(("a", "oslo", 1, 1.0), ("b", "bergen", 1, 2.0)))
        with open_store(url) as store:
            raw.unlink(names_of(store).control)
        if is_open:
            table.drop_index()
    if not is_open:
        with rli.open_table(path) as table, pytest.raises(CorruptIndexError, match="drop the index"):
            table.lookup(["a"])
        assert CliRunner().invoke(app, ["index", "drop", str(path)]).exit_code == 0
    assert all_keys(raw) == set()
    with rli.open_table(path) as table:
        assert table.bootstrap_index() == 2
        assert table.lookup(["a", "b"])["partition_path"].to_pylist() == ["oslo", "bergen"]
        table.drop_index()


def test_foreign_bucket_value_is_corrupt(raw: redis.Redis, url: str) -> None:
    with open_store(url, create=True) as store:
        fill(store)
        raw.set(bucket_keys(store, 0)[1], b"something else")
        with pytest.raises(CorruptIndexError, match="not a bucket"):
            get_all(store, KEYS, SHARDS)
        raw.set(bucket_keys(store, 0)[0], b"something else")
        with pytest.raises(CorruptIndexError, match="wrong length"):
            get_all(store, KEYS, SHARDS)


def test_shard_server_loses_its_memory(redis_server: Service, second_redis_server: Service) -> None:
    hosts = f"{redis_server.address(REDIS_PORT)},{second_redis_server.address(REDIS_PORT)}"
    url = f"redis+shards://{hosts}/{DATABASE}?name=trips"
    second = redis.Redis(second_redis_server.host, second_redis_server.ports[REDIS_PORT], db=DATABASE)
    with open_store(url, create=True) as known, open_store(url, create=False) as fresh:
        fill(known)
        expect_full(fresh)
        second.flushdb()
        for store in (known, fresh):
            with pytest.raises(CorruptIndexError):
                get_all(store, KEYS, SHARDS)
            with pytest.raises(CorruptIndexError):
                store.put(key_batch(KEYS, SHARDS), entries_of(2, range(len(KEYS))))
            with pytest.raises(CorruptIndexError):
                scanned(store, [1])
        with pytest.raises(CorruptIndexError, match="server=1"):
            open_store(url, create=False)
        known.drop()
    second.close()


def test_servers_are_named_as_at_creation(redis_server: Service, second_redis_server: Service) -> None:
    one, two = redis_server.address(REDIS_PORT), second_redis_server.address(REDIS_PORT)
    url = f"redis+shards://{one},{two}/{DATABASE}?name=trips"
    with open_store(url, create=True) as store:
        fill(store)
        for others in (f"redis+shards://{two},{one}", f"redis://{one}", f"redis+shards://{one}"):
            for create in (True, False):
                # The header of the second server alone says that an index is being made.
                with pytest.raises((IndexMismatchError, IndexNotFoundError)):
                    open_store(f"{others}/{DATABASE}?name=trips", create=create).close()
        expect_full(store)
        store.drop()


@pytest.mark.usefixtures("raw")
def test_a_server_named_twice_is_refused(redis_server: Service) -> None:
    port = redis_server.ports[REDIS_PORT]
    url = f"redis+shards://localhost:{port},127.0.0.1:{port}/{DATABASE}?name=twice"
    with pytest.raises(IndexMismatchError):
        open_store(url, create=True)
    with pytest.raises((IndexMismatchError, IndexNotFoundError)):
        open_store(url, create=False)


@pytest.mark.parametrize("version", [1, 6])
def test_header_of_other_version_is_refused(raw: redis.Redis, url: str, version: int) -> None:
    raw.set("{rli}index:trips", b'{"version":%d,"id":"AAA","server":0,"servers":1,"state":"ready"}' % version)
    for create in (False, True):
        with pytest.raises(IndexMismatchError, match="version"):
            open_store(url, create=create)


@pytest.mark.parametrize(
    "changes",
    [{"prefix": 8}, {"version": 5}, {"version": 5, "prefix": 8, "hash_key": ""}, {"version": 3}, {"hash_key": ""}],
)
def test_contradictory_header_is_refused(raw: redis.Redis, url: str, changes: dict[str, int | str]) -> None:
    """Keys and buckets would be sought elsewhere, and what is there not be found."""
    with open_store(url, create=True) as store:
        fill(store)
        made = raw.get("{rli}index:trips")
        assert isinstance(made, bytes)
        raw.set("{rli}index:trips", json.dumps(json.loads(made) | changes))
        for create in (False, True):
            with pytest.raises(CorruptIndexError, match=r"contradicts itself.*bootstrap"):
                open_store(url, create=create)
        raw.set("{rli}index:trips", made)
        expect_full(store)


@pytest.mark.parametrize("index_id", ["*", "..*", "", "AAAA"])
@pytest.mark.parametrize("state", ["ready", "dropping"])
def test_header_with_forged_id_is_refused(raw: redis.Redis, url: str, index_id: str, state: str) -> None:
    with open_store(url.replace("trips", "other"), create=True) as victim:
        fill(victim)
        for version in (3, 4):
            forged = {"version": version, "id": index_id, "server": 0, "servers": 1, "state": state}
            raw.set("{rli}index:trips", json.dumps(forged))
            for create in (False, True):
                with pytest.raises(IndexMismatchError, match="header"):
                    open_store(url, create=create)
        expect_full(victim)


def make_version_3(raw: redis.Redis, url: str, index_id: str = "AAA") -> None:
    """Begin an index as version 3 did, for who creates it next to complete it."""
    name = url.partition("name=")[2]
    header = {"version": 3, "id": index_id, "server": 0, "servers": 1, "state": "making"}
    raw.mset({f"{{rli}}index:{name}": json.dumps(header), f"{{rli}}id:{index_id}": name})


def test_forged_header_drops_no_other_index(raw: redis.Redis, url: str) -> None:
    theirs = url.replace("trips", "other")
    make_version_3(raw, theirs)
    with open_store(theirs, create=True) as victim:
        fill(victim)
        raw.set("{rli}index:trips", b'{"version":3,"id":"AAA","server":0,"servers":1,"state":"dropping"}')
        with pytest.raises(IndexMismatchError, match="id of another index"):
            open_store(url, create=True)
        expect_full(victim)


def test_forged_header_reaches_no_other_index(raw: redis.Redis, url: str) -> None:
    with open_store(url.replace("trips", "other"), create=True) as victim:
        fill(victim)
        header = raw.get("{rli}index:other")
        assert isinstance(header, bytes)
        raw.set("{rli}index:trips", header.replace(b"ready", b"dropping"))
        with open_store(url, create=True) as store:
            assert scanned(store, range(4)) == {}
            store.drop()
        expect_full(victim)


def test_index_of_version_3_stays_unchanged(raw: redis.Redis, url: str) -> None:
    make_version_3(raw, url)
    with open_store(url, create=True) as store:
        fill(store)
        assert store.mark_applied(store.applied(), 1)
    header = json.loads(raw.get("{rli}index:trips") or "")
    # Version 3 did not have it.
    assert header.pop("hash_key") == ""
    raw.set("{rli}index:trips", json.dumps(header))
    with open_store(url, create=False) as store:
        expect_full(store)
        store.put(key_batch(KEYS, SHARDS), entries_of(2, range(len(KEYS))))
        expect_full(store, 2)
        assert all(key.startswith((b"{rliAAA", b"{rli}")) for key in all_keys(raw))
        store.drop()
    assert all_keys(raw) == set()


def segment_states(raw: redis.Redis) -> list[bytes]:
    """The keys of the states of all segments whose keys have less than 128 bytes."""
    return [key for key in all_keys(raw) if len(key) == key.index(b"}") + 2 and raw.type(key) == b"string"]


def to_version_2(raw: redis.Redis) -> None:
    """Give the only index of a server the layout of version 2, in which each segment had a watermark."""
    header = raw.get(b"{rli}index:trips")
    assert isinstance(header, bytes)
    index_id = Header.from_json(header).id.encode()
    members: set[bytes] = raw.smembers(b"{rli%s}f" % index_id)  # type: ignore[assignment]
    for member in members:
        if member.startswith(b"shard "):
            raw.srem(b"{rli%s}f" % index_id, member)
        elif member.startswith(b"+"):
            raw.sadd(b"{rli%s}f" % index_id, member[1:])
    for key in segment_states(raw):
        raw.append(key, raw.getrange(key[: key.index(b"}") + 1], 0, 3))
    for key in all_keys(raw):
        if key.startswith(b"{rli%s" % index_id) and key.endswith(b"}"):
            raw.unlink(key)
    raw.set(
        b"{rli}index:trips", header.replace(b'"version": 3', b'"version": 2').replace(b'"version":3', b'"version":2')
    )


@pytest.mark.parametrize("create", [False, True])
def test_index_of_version_2_is_upgraded(raw: redis.Redis, url: str, *, create: bool) -> None:
    make_version_3(raw, url)
    with open_store(url, create=True) as store:
        fill(store)
        assert store.mark_applied(store.applied(), 1)
        kept = store.stats().live_entries
    to_version_2(raw)
    with open_store(url, create=create) as store:
        # No process of version 2 that still has it open takes a state of this length for one.
        assert {raw.strlen(key) for key in segment_states(raw)} == {28}
        expect_full(store)
        assert store.look_up([key_batch(KEYS, SHARDS)], applied=1)[0].tolist() == get_all(store, KEYS, SHARDS)
        assert (store.applied().least, store.applied().greatest) == (1, 1)
        store.put(key_batch(KEYS, SHARDS), entries_of(2, range(len(KEYS))))
        assert store.mark_applied(store.applied(), 2)
        assert len(scanned(store, range(5))) == store.stats().live_entries == kept
        store.drop()
    assert all_keys(raw) == set()


def test_header_counts_and_not_url(raw: redis.Redis, url: str) -> None:
    """Of how many bytes keys are found by."""
    with open_store(url, create=True) as store:
        beside = store.url_beside("by_email")
    for opened in (beside, without_option(beside, "prefix"), beside.replace("prefix=8", "prefix=3")):
        with open_store(opened, create=True) as store:
            assert names_of(store).prefix_width == 8
    header = json.loads(raw.get("{rli}index:trips.by_email") or "")
    assert (header["version"], header["prefix"]) == (5, 8)


def test_stored_bytes_match_version_4(raw: redis.Redis, url: str) -> None:
    with open_store(url, create=True) as store:
        store.put(key_batch([b"key"], 65), entries_of(7, [5]))
        store.compare_and_set("settings", None, b"value")
        assert store.mark_applied(store.applied(), 9)
        names = names_of(store)
    own = b"{rlitrips/%s" % names.index_id.encode()
    header = raw.get(b"{rli}index:trips")
    assert isinstance(header, bytes)
    assert json.loads(header) == {
        "version": 4,
        "id": names.index_id,
        "server": 0,
        "servers": 1,
        "state": "ready",
        "hash_key": names.hash_key.hex(),
    }
    assert len(names.hash_key) == 16
    assert raw.hgetall(own + b"}c") == {b"\xff": b"2", b"settings": b"value", b"applied": b"9"}
    assert raw.zrange(own + b"}n", 0, -1) == [b"applied", b"settings"]
    assert [len(token) for token in raw.lrange(own + b"}t", 0, -1)] == [8, 8]
    number = b"%d" % (3 << 16 | 65)
    assert raw.smembers(own + b"}f") == {b"families", b"+" + number, b"shard 65", b"made %b 0 0" % number}
    servers = raw.info()
    incarnation = servers["run_id"] + servers["master_replid"]
    epoch = hashlib.sha1(incarnation.encode(), usedforsecurity=False).hexdigest()[:8].encode()
    assert raw.get(own + b"BB}") == bytes.fromhex("00000009 00000007") + epoch
    state = raw.get(own + b"BB}\x03")
    bucket = raw.get(own + b"BB}\x03\0\0\0\0")
    assert isinstance(state, bytes)
    assert isinstance(bucket, bytes)
    assert state[8:] == bytes.fromhex("00000001 0000000000000001 0000000000000000")
    assert bucket[4:] == bytes.fromhex("11 6b6579 07 05")
    assert len(all_keys(raw)) == 8


def test_colliding_keys_share_no_bucket(raw: redis.Redis, url: str) -> None:
    """20,000 of them made one bucket of 360 kB while the hash had no key."""
    first = np.random.default_rng(5).integers(0, 1 << 63, 20_000, dtype=np.uint64)
    state = (np.uint64(0x6275_636B) ^ first) * np.uint64(0xFF51_AFD7_ED55_8CCD)
    second = state ^ (state >> np.uint64(32))
    keys = [key.tobytes() for key in np.stack([first, second], axis=1).astype("<u8")]
    with open_store(url, create=True) as store:
        store.put(key_batch(keys), entries_of(1, range(len(keys))))
        assert max(raw.strlen(key) for key in all_keys(raw) if raw.type(key) == b"string") < 4096
        store.drop()
