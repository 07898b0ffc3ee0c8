"""What servers may be like: how they are reached, what they allow, and how a store says what is wrong with them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from secrets import token_hex

import pytest
import redis

from rli.errors import IndexNotFoundError, SettingsError, StoreUnavailableError
from rli.findings import Finding, Verdict
from rli.store.contract import Store
from rli.store.registry import open_store
from rli.testing.batches import differences, entries_of, entry, get_all, key_batch, random_keys, scanned
from rli_redis import RedisStore
from rli_redis.log_in import PASSWORD_VARIABLE
from tests.support.docker import Service, running_service
from tests.support.redis import (
    CLUSTER_RIGHTS,
    READERS_RIGHTS,
    WRITERS_RIGHTS,
    all_keys,
    as_user,
    client_of,
    cluster_url,
    dropped_afterwards,
    give_rights,
    keys_of,
    redis_url,
    replica_of,
    rights_of,
    spare_server,
    url_of,
)
from tests.support.services import REDIS_PORT, REDIS_TLS_PORT
from tests.support.waiting import eventually

pytestmark = pytest.mark.docker

KEYS = random_keys(2000, 16, seed=1)
DATABASE = 5


def put_all(store: Store, sequence: int = 1) -> None:
    store.put(key_batch(KEYS), entries_of(sequence, range(len(KEYS))))


def expect_all(store: Store, sequence: int = 1) -> None:
    assert differences(get_all(store, KEYS), [entry(sequence, number) for number in range(len(KEYS))]) == []


def use_all(url: str) -> None:
    """Use everything that a store can do."""
    with dropped_afterwards(url), open_store(url, create=True) as store:
        assert isinstance(store, RedisStore)
        # Few at first, so that buckets are split.
        store.put(key_batch(KEYS[:50]), entries_of(1, range(50)))
        put_all(store)
        expect_all(store)
        assert store.compare_and_set("lease", None, b"mine")
        with open_store(url, create=False) as other:
            assert other.compare_and_set("record", None, b"theirs")
            assert other.compare_and_set("record", b"theirs", None)
        assert store.compare_and_set("lease", b"mine", None)
        assert store.read_control("lease") is None
        assert store.scan_control("") == []
        assert len(scanned(store, [0])) == len(KEYS)
        assert sum(len(entries) for _, entries in store.find(key_batch(KEYS[:1]))) == 1
        assert store.stats().live_entries == len(KEYS)
        assert store.health()
        store.drop()


# Ways to a server ----------------------------------------------------------------------------------------------


@pytest.fixture
def certificate(redis_server: Service, tmp_path: Path) -> Path:
    """The certificate of the server, which it has signed itself."""
    path = tmp_path / "ca.pem"
    path.write_text(redis_server.run("cat", "tls/cert.pem"))
    return path


def test_tls(redis_server: Service, certificate: Path) -> None:
    url = f"rediss://localhost:{redis_server.ports[REDIS_TLS_PORT]}/0?name=tls"
    use_all(f"{url}&ssl_ca_certs={certificate}")
    use_all(f"{url}&ssl_cert_reqs=none&ssl_check_hostname=false")
    for wrong in (f"{url}&timeout=1", url_of("localhost", redis_server.ports[REDIS_TLS_PORT], timeout=1)):
        with pytest.raises(StoreUnavailableError, match="last cause"):
            open_store(wrong, create=True)


def test_tls_to_several_servers(redis_server: Service, certificate: Path) -> None:
    address = f"localhost:{redis_server.ports[REDIS_TLS_PORT]}"
    use_all(f"rediss+shards://{address}/0?name=tls&ssl_ca_certs={certificate}")


def test_a_socket(redis_server: Service, redis_socket: Path) -> None:
    assert redis_server.host
    use_all(f"unix://{redis_socket}?db=5&name=socket")


def test_a_password(redis_server: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PASSWORD_VARIABLE, raising=False)
    with spare_server(redis_server, "--requirepass", "s3cret") as server:
        host, port = server.target
        use_all(f"redis://:s3cret@{host}:{port}/0")
        use_all(f"redis://default:s3cret@{host}:{port}/0")
        for wrong in (
            f"redis://{host}:{port}/0",
            f"redis://:n0t@{host}:{port}/0",
            f"redis://who:s3cret@{host}:{port}/0",
        ):
            with pytest.raises(SettingsError, match=r"refuses the log-in.*RLI_REDIS_PASSWORD") as caught:
                open_store(wrong, create=True)
            assert f"{host}:{port}" in str(caught.value)
            assert not any(secret in str(caught.value) for secret in ("s3cret", "n0t"))
        monkeypatch.setenv(PASSWORD_VARIABLE, "s3cret")
        use_all(f"redis://{host}:{port}/0")


def test_trial_server_requires_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = 'a "quoted" \\ one'
    with running_service("redis", ports=[REDIS_PORT], environment={"PASSWORD": chosen}) as service:
        url = f"redis://{service.address(REDIS_PORT)}/0"
        monkeypatch.delenv(PASSWORD_VARIABLE, raising=False)
        with pytest.raises(SettingsError, match="refuses the log-in"):
            open_store(url, create=True)
        monkeypatch.setenv(PASSWORD_VARIABLE, chosen)
        use_all(url)


@pytest.fixture
def user(redis_server: Service) -> Iterator[Callable[..., str]]:
    """Makes a user with rights and gives a URL for them of the index of a name, in a database of its own."""
    names = (f"user{number}" for number in count())
    made: list[str] = []
    with client_of(redis_server) as raw:

        def make(name: str, rights: list[str]) -> str:
            made.append(next(names))
            give_rights(made[-1], rights, raw)
            return as_user(redis_url(redis_server, database=DATABASE, name=name), made[-1])

        yield make
        raw.execute_command("ACL", "DELUSER", *made)


def test_the_documented_rights_suffice(user: Callable[..., str]) -> None:
    """Tables use no more of a store than the conformance tests, which run with these rights."""
    use_all(user("mine", rights_of("mine")))
    documented = " ".join((Path(__file__).parents[2] / "docs/stores/redis.md").read_text().split())
    for rights in (" ".join(keys_of("trips")), READERS_RIGHTS, WRITERS_RIGHTS, CLUSTER_RIGHTS):
        assert rights in documented


def test_each_right_is_needed_and_named(redis_server: Service, user: Callable[..., str]) -> None:
    rights = rights_of("mine")
    with client_of(redis_server) as raw, dropped_afterwards(redis_url(redis_server, database=DATABASE, name="mine")):

        def refusal_without(missing: str) -> str:
            raw.script_flush()
            try:
                use_all(user("mine", [right for right in rights if right != missing]))
            except SettingsError as error:
                return str(error)
            return ""

        refusals = {right: refusal_without(right) for right in rights}
    assert [right for right, refusal in refusals.items() if not refusal] == CLUSTER_RIGHTS.split()
    for refusal in filter(None, refusals.values()):
        assert re.search(r"lacks a right \(.*docs/stores/redis.md", refusal)
        assert "s3cret" not in refusal


def test_a_user_who_may_only_read(user: Callable[..., str]) -> None:
    owner, reader = user("shared", rights_of("shared")), user("shared", [*keys_of("shared"), *READERS_RIGHTS.split()])
    with dropped_afterwards(owner), open_store(owner, create=True) as store:
        put_all(store)
        with open_store(reader, create=False) as reading:
            expect_all(reading)
            assert len(scanned(reading, [0])) == len(KEYS)
            assert reading.applied().least is None
            assert reading.scan_control("") == []
            assert reading.stats().live_entries == len(KEYS)
            with pytest.raises(SettingsError, match="lacks a right"):
                put_all(reading, 2)
        expect_all(store)


@pytest.mark.parametrize("kind", ["server", "shards", "cluster"])
def test_index_user_reaches_no_other_index(
    redis_server: Service, second_redis_server: Service, redis_cluster: Service, kind: str
) -> None:
    hosts = f"{redis_server.address(REDIS_PORT)},{second_redis_server.address(REDIS_PORT)}"
    base, servers = {
        "server": (redis_url(redis_server, name=""), [client_of(redis_server)]),
        "shards": (f"redis+shards://{hosts}/0?name=", [client_of(redis_server), client_of(second_redis_server)]),
        "cluster": (
            cluster_url(redis_cluster, name=""),
            [client_of(redis_cluster, port) for port in redis_cluster.ports],
        ),
    }[kind]
    give_rights("theirs", rights_of("theirs"), *servers)
    use_all(as_user(f"{base}theirs", "theirs"))
    with dropped_afterwards(f"{base}theirs2") as victim, open_store(victim, create=True) as store:
        put_all(store)
        for create in (False, True):
            with pytest.raises(SettingsError, match="lacks a right"):
                open_store(as_user(victim, "theirs"), create=create)
        for server in servers:
            require_out_of_reach(server)
        expect_all(store)
    for server in servers:
        server.execute_command("ACL", "DELUSER", "theirs")


def require_out_of_reach(server: redis.Redis) -> None:
    """Neither the other index's keys nor anything that concerns a server as a whole is for this user."""
    options = server.get_connection_kwargs()
    theirs = redis.Redis(options["host"], options["port"], username="theirs", password="s3cret")  # noqa: S106
    keys = [key for key in all_keys(server) if b"theirs2" in key]
    commands: list[tuple[object, ...]] = [
        command
        for key in keys
        for command in (
            ("GET", key),
            ("MGET", key),
            ("SET", key, "forged"),
            ("UNLINK", key),
            ("EVAL", "return redis.call('GET', KEYS[1])", 1, key),
            ("EVAL", "return redis.call('SET', ARGV[1], 'forged')", 0, key),
        )
    ]
    whole = (
        "FLUSHALL, FLUSHDB, KEYS *, SCRIPT FLUSH, SCRIPT KILL, FUNCTION FLUSH, SWAPDB 0 1, CONFIG GET *, ACL LIST, "
        "SHUTDOWN, RANDOMKEY, CLIENT LIST, CLIENT KILL TYPE normal, MONITOR, REPLICAOF NO ONE"
    )
    commands += [tuple(command.split()) for command in whole.split(", ")]
    with theirs:
        for command in commands:
            with pytest.raises(redis.ResponseError, match=r"(?i)permission|access|can't"):
                theirs.execute_command(*command)


# Servers that refuse -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["redis-7.0", "redis-6.2", "valkey-9.1"])
def test_full_server_refuses_whole_batches(version: str) -> None:
    with (
        running_service("redis", ports=[REDIS_PORT], environment={"SERVER": version}) as service,
        client_of(service) as raw,
        open_store(redis_url(service), create=True) as store,
    ):
        put_all(store)
        store.compare_and_set("lease", None, b"mine")
        raw.config_set("maxmemory-policy", "noeviction")
        raw.config_set("maxmemory", 1)
        attempts: list[Callable[[], object]] = [
            lambda: put_all(store, 2),
            lambda: store.put(key_batch([b"other width"]), entries_of(1, [1])),
            lambda: store.compare_and_set("lease", b"mine", b"yours"),
            lambda: open_store(redis_url(service), create=True),
        ]
        for attempt in attempts:
            with pytest.raises(StoreUnavailableError, match=r"is full.*raise its maxmemory"):
                attempt()
        expect_all(store, 1)
        assert store.read_control("lease") == b"mine"
        assert store.stats().live_entries == len(KEYS)
        raw.config_set("maxmemory", 0)
        put_all(store, 2)
        expect_all(store, 2)
        raw.config_set("maxmemory", 1)
        store.drop()
        assert all_keys(raw) == set()


def test_server_fills_up_during_batch(redis_server: Service) -> None:
    """Some buckets of the batch may be written: it is an error, and repeating the batch completes it."""
    keys = random_keys(100_000, 16, seed=2)
    with (
        spare_server(redis_server) as server,
        server.client() as raw,
        open_store(server.url(), create=True) as store,
    ):
        put_all(store)
        raw.config_set("maxmemory", raw.info("memory")["used_memory"] + 1_500_000)
        with pytest.raises(StoreUnavailableError, match="is full"):
            store.put(key_batch(keys), entries_of(1, range(len(keys))))
        found = get_all(store, keys)
        written = [number for number in found if number]
        assert {*found} <= {0, *entries_of(1, range(len(keys))).tolist()}
        assert store.stats().live_entries == len(KEYS) + len(written)
        raw.config_set("maxmemory", 0)
        store.put(key_batch(keys), entries_of(1, range(len(keys))))
        assert differences(get_all(store, keys), entries_of(1, range(len(keys))).tolist()) == []
        assert store.stats().live_entries == len(KEYS) + len(keys)


@pytest.mark.parametrize("policy", ["allkeys-lru", "allkeys-lfu", "allkeys-random"])
def test_evicting_server_is_refused(redis_server: Service, policy: str) -> None:
    with spare_server(redis_server, "--maxmemory-policy", policy) as server:
        with pytest.raises(SettingsError, match=f"may evict.*{server.target[1]}.*{policy}.*noeviction.*allow_eviction"):
            open_store(server.url(), create=True)
        with open_store(server.url(allow_eviction="true"), create=True) as store:
            put_all(store)
            expect_all(store)
            assert isinstance(store, RedisStore)
            assert finding_of(store, "eviction").verdict == Verdict.PROBLEM


@pytest.mark.parametrize("policy", ["noeviction", "volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl"])
def test_harmless_eviction_policy_is_accepted(redis_server: Service, policy: str) -> None:
    with spare_server(redis_server, "--maxmemory-policy", policy) as server:
        use_all(server.url())


def test_replica_is_read_only(redis_server: Service) -> None:
    with spare_server(redis_server) as master, replica_of(master) as replica:
        with open_store(master.url(name="trips"), create=True) as store:
            put_all(store)
            with replica.client() as raw, master.client() as source:
                offset = source.info("replication")["master_repl_offset"]
                eventually(lambda: raw.info("replication")["slave_repl_offset"] >= offset, "the replica has all")
        with open_store(replica.url(name="trips", timeout=1), create=False) as reading:
            assert isinstance(reading, RedisStore)
            expect_all(reading)
            assert len(scanned(reading, [0])) == len(KEYS)
            assert finding_of(reading, "role").verdict == Verdict.PROBLEM
            attempts: list[Callable[[], object]] = [
                lambda: put_all(reading, 2),
                lambda: reading.compare_and_set("lease", None, b"mine"),
                reading.drop,
            ]
            for attempt in attempts:
                with pytest.raises(StoreUnavailableError, match=r"read-only replica.*name its master"):
                    attempt()
            expect_all(reading)


def test_loading_server_is_awaited_until_deadline(redis_server: Service) -> None:
    with spare_server(redis_server, "--appendonly", "yes") as server:
        with open_store(server.url(name="trips"), create=True) as store:
            put_all(store)
        with server.client() as raw:
            raw.config_set("rdbcompression", "no")
            # A server that loads answers after each KiB, so between any two of these keys.
            raw.mset({f"app:{number}": token_hex(512) for number in range(3000)})
            raw.bgrewriteaof()
            eventually(lambda: not raw.info("persistence")["aof_rewrite_in_progress"], "the file is rewritten")
        server.kill()
        slow = ("--loading-process-events-interval-bytes", "1024", "--key-load-delay", "10000")
        server.start("--appendonly", "yes", *slow)
        with pytest.raises(StoreUnavailableError, match=r"does not answer.*loading the dataset"):
            open_store(server.url(name="trips", timeout=1), create=False)
        with server.client() as raw:
            raw.config_set("key-load-delay", 0)
        with open_store(server.url(name="trips"), create=False) as store:
            expect_all(store)


def test_failing_snapshots_are_reported(redis_server: Service) -> None:
    with (
        spare_server(redis_server) as server,
        server.client() as raw,
        open_store(server.url(), create=True) as store,
    ):
        assert isinstance(store, RedisStore)
        # No snapshot is due but the one below: an earlier one would take the name.
        raw.config_set("save", "3600 1000000")
        # Nothing can be renamed to the name of a folder.
        server.service.run("mkdir", f"{server.folder}/dump.rdb")
        raw.bgsave()
        eventually(lambda: raw.info("persistence")["rdb_last_bgsave_status"] == "err", "the snapshot has failed")
        with pytest.raises(StoreUnavailableError, match="MISCONF"):
            put_all(store)
        assert finding_of(store, "persistence").verdict == Verdict.PROBLEM


def test_missing_database_is_url_error(redis_server: Service) -> None:
    with pytest.raises(SettingsError, match="no database of this number"):
        open_store(redis_url(redis_server, database=99), create=True)


def test_missing_replicas_are_reported(redis_server: Service) -> None:
    with (
        spare_server(redis_server) as server,
        open_store(server.url(timeout=1), create=True) as store,
        server.client() as raw,
    ):
        put_all(store)
        raw.config_set("min-replicas-to-write", 1)
        with pytest.raises(StoreUnavailableError, match=r"too few replicas.*NOREPLICAS"):
            put_all(store, 2)
        expect_all(store)


def is_busy(server: redis.Redis) -> bool:
    try:
        server.ping()
    except redis.ResponseError:
        return True
    return False


def test_a_busy_server_is_awaited(redis_server: Service, caplog: pytest.LogCaptureFixture) -> None:
    """Someone else's script may keep a server for a while."""
    caplog.set_level("INFO")
    with (
        spare_server(redis_server, "--busy-reply-threshold", "50") as server,
        server.client() as raw,
        server.client() as other,
        open_store(server.url(), create=True) as store,
        ThreadPoolExecutor(2) as threads,
    ):
        put_all(store)
        running = threads.submit(other.eval, "while true do end", 0)
        eventually(lambda: is_busy(raw), "the server is busy")
        reading = threads.submit(expect_all, store)
        eventually(lambda: "BUSY" in caplog.text, "the store has met the busy server")
        raw.script_kill()
        reading.result()
        assert isinstance(running.exception(), redis.ResponseError)


# Clusters and other names --------------------------------------------------------------------------------------


def test_cluster_node_is_no_server(redis_cluster: Service) -> None:
    for port in redis_cluster.ports:
        with pytest.raises(SettingsError, match=r"node of a Redis Cluster.*redis\+cluster://"):
            open_store(f"redis://{redis_cluster.address(port)}/0", create=True)
    with pytest.raises(IndexNotFoundError):
        open_store(cluster_url(redis_cluster, name="default"), create=False)


def test_server_is_no_cluster(redis_server: Service) -> None:
    with pytest.raises(SettingsError, match=r"not a node of a Redis Cluster.*redis://"):
        open_store(f"redis+cluster://{redis_server.address(REDIS_PORT)}", create=True)


def test_a_cluster_with_a_password(redis_cluster: Service) -> None:
    clients = [redis.Redis(redis_cluster.host, port) for port in redis_cluster.ports]
    for client in clients:
        give_rights("trips", rights_of("trips"), client)
        give_rights("nobody", [right for right in rights_of("trips") if right not in CLUSTER_RIGHTS.split()], client)
    url = cluster_url(redis_cluster, name="trips")
    use_all(url.replace("://", "://trips:s3cret@"))
    with pytest.raises(SettingsError, match="refuses the log-in") as caught:
        open_store(url.replace("://", "://trips:n0t@"), create=True)
    assert "n0t" not in str(caught.value)
    with pytest.raises(SettingsError, match=r"lacks a right.*docs/stores/redis.md"):
        open_store(url.replace("://", "://nobody:s3cret@"), create=True)
    for client in clients:
        client.execute_command("ACL", "DELUSER", "trips", "nobody")
        client.close()


def test_no_server_at_all() -> None:
    for scheme in ("redis", "redis+shards", "redis+cluster"):
        with pytest.raises(StoreUnavailableError, match=r"127.0.0.1:1\D.*refused"):
            open_store(f"{scheme}://:s3cret@127.0.0.1:1?timeout=0.3", create=True)
    with pytest.raises(StoreUnavailableError, match=r"unix:///nowhere"):
        open_store("unix:///nowhere?timeout=0.3", create=True)


# The doctor ----------------------------------------------------------------------------------------------------


def finding_of(store: RedisStore, check: str) -> Finding:
    [finding] = [finding for finding in store.health() if finding.check == check]
    return finding


def test_doctor_sees_server_guarantees(redis_server: Service, second_redis_server: Service) -> None:
    with spare_server(redis_server, "--appendonly", "yes") as server, open_store(server.url(), create=True) as store:
        assert isinstance(store, RedisStore)
        found = {finding.check: finding.verdict for finding in store.health()}
        assert found == {
            "version": Verdict.OK,
            "role": Verdict.OK,
            "eviction": Verdict.OK,
            "memory": Verdict.OK,
            "persistence": Verdict.OK,
            "replicas": Verdict.WARNING,
        }
        assert all(finding.advice for finding in store.health() if finding.verdict != Verdict.OK)
        with server.client() as raw:
            raw.config_set("appendonly", "no")
            assert finding_of(store, "persistence").verdict == Verdict.WARNING
            raw.config_set("maxmemory", raw.info("memory")["used_memory"] * 105 // 100)
            assert finding_of(store, "memory").verdict == Verdict.WARNING
            raw.config_set("maxmemory", 0)
        with replica_of(server):
            assert finding_of(store, "replicas").verdict == Verdict.OK
    hosts = [redis_server.address(REDIS_PORT), second_redis_server.address(REDIS_PORT)]
    url = f"redis+shards://{','.join(hosts)}/0?name=doctor"
    with dropped_afterwards(url), open_store(url, create=True) as several:
        assert isinstance(several, RedisStore)
        details = [finding.detail for finding in several.health() if finding.check == "role"]
        assert [host in detail for host, detail in zip(hosts, details, strict=True)] == [True, True]


def test_doctor_checks_each_cluster_master(redis_cluster: Service) -> None:
    url = cluster_url(redis_cluster)
    with dropped_afterwards(url), open_store(url, create=True) as store:
        assert isinstance(store, RedisStore)
        assert len([finding for finding in store.health() if finding.check == "role"]) == 3
        assert {finding.verdict for finding in store.health()} == {Verdict.OK}
