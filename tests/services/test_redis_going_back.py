"""One Redis server of an index loses what it has acknowledged: it is noticed, and the next write or sync heals it."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from uuid import uuid4

import pyarrow as pa
import pytest
from redis.crc import key_slot

import rli
from rli import Step
from rli.index.record.entries.limits import IndexLimits
from rli.index.record.index_alone import IndexAlone
from rli.index.record.log.state import LogState
from rli.index.record.stored_index import StoredIndex
from rli.model import FileGroupId
from rli.store.registry import open_store
from rli.table.table import opened_table
from rli.testing.batches import entries_of, key_batch
from rli_redis import RedisStore
from rli_redis.scripts import LIST_CONTROL, NOTE_SEGMENTS
from rli_redis.servers import Command
from tests.support.checked_writer import KEYS, CheckedWriter
from tests.support.docker import Service
from tests.support.faults import PointedStorage
from tests.support.indexes import record_index
from tests.support.locations import commit_places
from tests.support.log_drafts import commit_draft
from tests.support.redis import SpareServer, all_keys, cluster_url, spare_server, url_of
from tests.support.redis_cluster import Cluster
from tests.support.services import REDIS_PORT
from tests.support.soak import cases
from tests.support.stored_indexes import create_index, open_index
from tests.support.tables import check_stored, records, rows_of
from tests.support.tcp_proxy import Fate, tcp_proxy

pytestmark = [pytest.mark.docker, pytest.mark.slow]

DURABLE = ("--appendonly", "yes", "--appendfsync", "always")
CONTROL, OTHER = 0, 1


@pytest.fixture
def spares(redis_server: Service) -> Iterator[list[SpareServer]]:
    """Two servers that may be killed; the first one is to have the control records."""
    with ExitStack() as stack:
        yield [stack.enter_context(spare_server(redis_server, *DURABLE, number=number)) for number in (CONTROL, OTHER)]


@pytest.fixture
def url(redis_server: Service, spares: list[SpareServer]) -> str:
    """An index on three servers."""
    hosts = [f"{host}:{port}" for host, port in (spare.target for spare in spares)]
    return f"redis+shards://{','.join([*hosts, redis_server.address(REDIS_PORT)])}/0?name={uuid4().hex}"


def writer_with_all_keys(folder: Path, url: str) -> CheckedWriter:
    """A writer whose index has every part that it will ever have."""
    writer = CheckedWriter(folder, url)
    batch = [(key, "w", 0, 0.5) for key in KEYS]
    writer.table.upsert(records(*batch))
    writer.rows = {row[0]: row for row in batch}
    writer.write()
    return writer


def take_snapshot(server: SpareServer) -> None:
    """Keep what the server has now, and let it write nothing to disk from now on."""
    with server.client() as raw:
        raw.config_set("appendonly", "no")
        raw.save()


def go_back(server: SpareServer) -> None:
    """Start the server again from its snapshot."""
    server.kill()
    server.start()


def require_healed(writer: CheckedWriter) -> None:
    writer.require_right_tags()
    writer.require_all()
    with rli.open_table(writer.table.location) as table:
        assert table.verify_index().agrees
        assert table.sync_index().applied == ()
    writer.write()
    writer.require_all()


@pytest.mark.invariant("P14")
def test_shard_server_goes_back(url: str, spares: list[SpareServer], tmp_path: Path) -> None:
    writer = writer_with_all_keys(tmp_path, url)
    take_snapshot(spares[OTHER])
    for _ in range(4):
        writer.write()
    go_back(spares[OTHER])
    for look in (lambda: writer.table.lookup(KEYS), writer.table.verify_index):
        with pytest.raises(rli.IndexNotReadyError, match="went back"):
            look()
    with rli.open_table(writer.table.location) as another:
        assert len(another.sync_index().applied) == 4
    require_healed(writer)
    writer.table.drop_index()


def test_next_write_heals_restored_server(url: str, spares: list[SpareServer], tmp_path: Path) -> None:
    writer = writer_with_all_keys(tmp_path, url)
    take_snapshot(spares[OTHER])
    for _ in range(2):
        writer.write()
    go_back(spares[OTHER])
    writer.write()
    require_healed(writer)
    writer.table.drop_index()


def test_log_server_goes_back(url: str, spares: list[SpareServer], tmp_path: Path) -> None:
    """The others have entries of commits that the log does not know: their numbers must not be given out again."""
    writer = writer_with_all_keys(tmp_path, url)
    take_snapshot(spares[CONTROL])
    for _ in range(2):
        writer.write()
    go_back(spares[CONTROL])
    with pytest.raises(rli.RliError):
        writer.table.lookup(KEYS)
    for use in (writer.write, writer.table.sync_index):
        with pytest.raises(rli.CorruptIndexError, match="commit log went back"):
            use()
    writer.table.drop_index()
    writer.table.bootstrap_index()
    require_healed(writer)
    writer.table.drop_index()


def test_log_server_goes_back_to_nothing(url: str, spares: list[SpareServer], tmp_path: Path) -> None:
    """It knows of no part of the index then. Two commits that overlapped would be registered in another order."""
    location = tmp_path / "trips"
    rli.create_table(location, record_key="id", partition_by="city", ordering="ts", index=url).close()
    take_snapshot(spares[CONTROL])
    with rli.open_table(location) as early, rli.open_table(location) as late:
        waiting = [lambda: late.upsert(records(*((f"late{number}", "x", 1, 0.5) for number in range(20))))]

        def on_step(step: Step) -> None:
            if step is Step.WRITTEN and waiting:
                waiting.pop()()

        early.upsert(records(*((f"early{number}", "y", 1, 0.5) for number in range(20))), on_step=on_step)
    go_back(spares[CONTROL])
    keys = [f"{name}{number}" for name in ("late", "early") for number in range(20)]
    with rli.open_table(location) as table:
        with pytest.raises(rli.RliError):
            table.lookup(keys)
        with pytest.raises(rli.CorruptIndexError, match="commit log went back"):
            table.sync_index()
        table.drop_index()
        for spare in spares:
            with spare.client() as raw:
                assert all_keys(raw) == set()
        table.bootstrap_index()
        assert table.lookup(keys)["partition_path"].to_pylist() == ["x"] * 20 + ["y"] * 20
        table.drop_index()


def test_log_server_forgets_unapplied_commit(url: str, spares: list[SpareServer]) -> None:
    """The other servers have entries of it, below no watermark; its sequence must not be given out again."""
    keys = key_batch([b"%016d" % number for number in range(30)], [number % 3 for number in range(30)])
    with open_store(url, create=True) as store:
        store.put(keys, entries_of(1, range(30)))
        assert store.mark_applied(store.applied(), 1)
        take_snapshot(spares[CONTROL])
        store.put(keys, entries_of(2, range(30)))
        go_back(spares[CONTROL])
        applied = store.applied()
        assert (applied.least, applied.greatest, applied.written) == (1, 1, 2)
        store.drop()


@pytest.mark.invariant("P25")
def test_open_reader_detects_reused_numbers(spares: list[SpareServer]) -> None:
    """The only server loses the end of the log, and another commit gets the sequence and the file group's number."""
    places = [FileGroupId("p", "a-0"), FileGroupId("p", "b-0"), FileGroupId("q", "c-0")]
    with create_index(spares[OTHER].url(name="alone")) as writer:
        commit_places(writer, {"k1": places[0]})
        take_snapshot(spares[OTHER])
        commit_places(writer, {"k2": places[1]})
        with open_index(writer.store.url) as reader:
            assert reader.lookup(["k2"])["file_id"].to_pylist() == ["b-0"]
            go_back(spares[OTHER])
            with open_index(writer.store.url) as another:
                commit_places(another, {"k3": places[2]})
            found = reader.lookup(["k1", "k2", "k3"])
        assert found["partition_path"].to_pylist() == ["p", None, "q"]
        assert found["file_id"].to_pylist() == ["a-0", None, "c-0"]
        writer.drop()


@pytest.mark.invariant("P25")
def test_reader_notices_log_going_back(spares: list[SpareServer]) -> None:
    """It asked for what is applied first; the record that was lost came between that and its reading of the log."""
    with create_index(spares[OTHER].url(name="between")) as writer:
        commit_places(writer, {"k1": FileGroupId("p", "a-0")})
        take_snapshot(spares[OTHER])
        with open_index(writer.store.url) as reader:
            reader.applied_sequence()
            commit_places(writer, {"k2": FileGroupId("p", "b-0")})
            assert reader.log.refresh().head == 2
            go_back(spares[OTHER])
            with open_index(writer.store.url) as another:
                commit_places(another, {"k3": FileGroupId("q", "c-0")})
            assert reader.lookup(["k1", "k2", "k3"])["file_id"].to_pylist() == ["a-0", None, "c-0"]
        writer.drop()


@pytest.fixture(params=["one server", "one of three"])
def log_and_url(request: pytest.FixtureRequest, spares: list[SpareServer], url: str) -> tuple[SpareServer, str]:
    """The server that has the commit log of an index, and the index's URL."""
    return (
        (spares[OTHER], spares[OTHER].url(name="epochs")) if request.param == "one server" else (spares[CONTROL], url)
    )


class OvertakenError(Exception):
    """Another writer has appended to the log first."""


def append(index: StoredIndex, log: LogState, key: str) -> LogState:
    """Add a commit that puts one record into a file group of its own, without applying it."""
    instant = f"2030010100000{secrets.randbelow(10_000):04}"
    group = FileGroupId("p", f"file-of-{key}")
    appended = index.log.append(log, commit_draft(instant, group))
    if appended is None:
        raise OvertakenError
    return appended


def put(index: StoredIndex, log: LogState, key: str) -> None:
    number = log.dictionary.numbers_of([FileGroupId("p", f"file-of-{key}")])
    index.put(pa.array([key]), entries_of(log.head, number.values()))


def commit(index: StoredIndex, key: str) -> None:
    applied, log = index.read_progress()
    log = append(index, log, key)
    put(index, log, key)
    assert index.store.mark_applied(applied, log.head)


def files_of(url: str, keys: list[str]) -> list[str | None]:
    with open_index(url) as reader:
        found: list[str | None] = reader.lookup(keys)["file_id"].to_pylist()
        return found


@pytest.mark.invariant("P32")
def test_entries_of_lost_record_are_refused(log_and_url: tuple[SpareServer, str]) -> None:
    """Another commit has got the record's number, and the file group's, before they are written."""
    server, url = log_and_url
    with create_index(url, table_id="t", shards=3) as late:
        late.store.mark_applied(late.store.applied(), 0)
        commit(late, "k1")
        take_snapshot(server)
        log = append(late, late.read_progress()[1], "k2")
        go_back(server)
        with open_index(url) as other:
            commit(other, "k3")
            with pytest.raises(rli.StoreRestartedError, match="restarted or replaced"):
                put(late, log, "k2")
            assert files_of(url, ["k1", "k2", "k3"]) == ["file-of-k1", None, "file-of-k3"]
            commit(late, "k4")
            assert files_of(url, ["k4"]) == ["file-of-k4"]
            other.drop()


@pytest.mark.invariant("P32")
def test_no_record_follows_lost_records(log_and_url: tuple[SpareServer, str]) -> None:
    """The writer has read records that the log's server loses. Its own record would leave a gap in the log."""
    server, url = log_and_url
    with create_index(url, table_id="t", shards=3) as late:
        late.store.mark_applied(late.store.applied(), 0)
        commit(late, "k1")
        take_snapshot(server)
        append(late, late.read_progress()[1], "k2")
        log = late.read_progress()[1]
        go_back(server)
        with pytest.raises(rli.StoreRestartedError, match="restarted or replaced"):
            append(late, log, "k3")
        commit(late, "k4")
        assert files_of(url, ["k1", "k2", "k3", "k4"]) == ["file-of-k1", None, None, "file-of-k4"]
        late.drop()


@pytest.mark.invariant("P32")
def test_the_only_server_refuses_lost_entries(spares: list[SpareServer]) -> None:
    """Its watermarks still have the former epoch, because nobody has asked what is applied since it came back."""
    server, url = spares[OTHER], spares[OTHER].url(name="alone")
    with create_index(url, table_id="t", shards=3) as late:
        late.store.mark_applied(late.store.applied(), 0)
        commit(late, "k1")
        take_snapshot(server)
        log = append(late, late.read_progress()[1], "k2")
        go_back(server)
        with pytest.raises(rli.StoreRestartedError, match="restarted or replaced"):
            put(late, log, "k2")
        commit(late, "k3")
        assert files_of(url, ["k1", "k2", "k3"]) == ["file-of-k1", None, "file-of-k3"]
        late.drop()


def test_log_and_watermarks_are_read_consistently(spares: list[SpareServer]) -> None:
    """The only server goes back between the reading of its watermarks and that of the log."""
    server, name = spares[OTHER], "between"
    with (
        tcp_proxy(server.target) as proxy,
        create_index(server.url(name=name), table_id="t", shards=3) as other,
        open_index(url_of(proxy.host, proxy.port, name=name)) as late,
    ):
        other.store.mark_applied(other.store.applied(), 0)
        commit(other, "k1")
        take_snapshot(server)
        commit(other, "k2")
        proxy.once(LIST_CONTROL.sha.encode(), Fate.LOST_BEFORE, lambda: go_back(server))
        applied, log = late.read_progress()
        assert proxy.is_done
        assert (applied.least, applied.written, log.head) == (1, 1, 1)
        other.drop()


@pytest.mark.invariant("P33")
def test_a_lost_segment_is_not_listed(spares: list[SpareServer]) -> None:
    """The only server goes back between the making of a segment and its listing."""
    server, name = spares[OTHER], "unlisted"
    with (
        tcp_proxy(server.target) as proxy,
        create_index(server.url(name=name), table_id="t", shards=3) as other,
        open_index(url_of(proxy.host, proxy.port, name=name)) as late,
    ):
        other.store.mark_applied(other.store.applied(), 0)
        commit(other, "k1")
        wide = f"{0:030}"
        take_snapshot(server)
        log = append(late, late.read_progress()[1], wide)
        proxy.once(NOTE_SEGMENTS.sha.encode(), Fate.LOST_BEFORE, lambda: go_back(server))
        with pytest.raises(rli.StoreRestartedError, match="restarted or replaced"):
            put(late, log, wide)
        assert proxy.is_done
        for key in ("k2", "k3"):
            commit(other, key)
        assert files_of(server.url(name=name), ["k1", "k2", "k3", wide]) == [
            *(f"file-of-k{n}" for n in (1, 2, 3)),
            None,
        ]
        commit(late, wide)
        assert files_of(server.url(name=name), [wide]) == [f"file-of-{wide}"]
        other.drop()


@pytest.mark.invariant("P33")
def test_finder_notices_list_going_back(spares: list[SpareServer], url: str) -> None:
    """The list then has as many segments as the finder knows, but others."""
    with open_store(url, create=True) as finder:
        finder.put(key_batch([b"prefix, k1"], 2), entries_of(1, [1]))
        take_snapshot(spares[CONTROL])
        finder.put(key_batch([b"prefix, key 2"], 2), entries_of(2, [2]))
        sought = key_batch([b"prefix, "], 2)
        assert len([*finder.find(sought)]) == 2
        go_back(spares[CONTROL])
        with open_store(url) as other:
            other.put(key_batch([b"prefix, and key 3"], 2), entries_of(3, [3]))
        assert [b"prefix, and key 3"] in [keys.to_bytes() for keys, _ in finder.find(sought)]
        finder.drop()


@pytest.mark.invariant("P33")
def test_list_goes_back_while_read(spares: list[SpareServer], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its length is that of the past again when the list is asked for the next time."""
    server, url = spares[CONTROL], spares[CONTROL].url(name=uuid4().hex)

    def write(key: bytes, sequence: int) -> None:
        with open_store(url, create=True) as other:
            other.put(key_batch([key], 2), entries_of(sequence, [sequence]))

    write(b"prefix, k1", 1)
    take_snapshot(server)
    write(b"prefix, key 2", 2)
    behind = {"SCARD": lambda: go_back(server), "SMEMBERS": lambda: write(b"prefix, key 2", 3)}
    with open_store(url) as finder:
        happen_behind(behind, monkeypatch)
        found = finder.find(key_batch([b"prefix, "], 2))
        assert sorted(key for keys, _ in found for key in keys.to_bytes()) == [b"prefix, k1", b"prefix, key 2"]
        assert not behind
        finder.drop()


def happen_behind(happenings: dict[str, Callable[[], None]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let something happen once behind the first command of a name: before the next one of another name is sent."""
    pack, last = Command.packed, [""]

    def packed(command: Command) -> bytes:
        before, last[0] = last[0], str(command.arguments[0])
        if before != last[0]:
            happenings.pop(before, lambda: None)()
        return pack(command)

    monkeypatch.setattr(Command, "packed", packed)


@pytest.mark.invariant("P32")
def test_entries_of_lost_record_are_noticed(spares: list[SpareServer], url: str) -> None:
    """They are written just before the record's number is given out again, and not to the server that lost it."""
    server = spares[CONTROL]
    with create_index(url, table_id="t", shards=3) as late, open_index(url) as other:
        late.store.mark_applied(late.store.applied(), 0)
        commit(late, "k1")
        take_snapshot(server)
        log = other.read_progress()[1]
        # A segment that is listed: who makes one asks the server with the list.
        listed = next(key for key in map("n{}".format, range(100)) if shard_of(late, key) == shard_of(late, "k1"))
        lost = append(late, late.read_progress()[1], listed)
        go_back(server)
        put(late, lost, listed)
        with pytest.raises(rli.StoreRestartedError, match="restarted or replaced"):
            append(other, log, "k3")
        with pytest.raises(rli.CorruptIndexError, match="commit log went back"):
            other.read_progress()
        other.drop()


def test_restarted_intact_server_accepts_writes(log_and_url: tuple[SpareServer, str]) -> None:
    server, url = log_and_url
    with create_index(url, table_id="t", shards=3) as one, open_index(url) as other:
        one.store.mark_applied(one.store.applied(), 0)
        for number in range(3):
            commit(one, f"one{number}")
            server.kill()
            server.start(*DURABLE)
            commit(other, f"other{number}")
        keys = [f"{name}{number}" for number in range(3) for name in ("one", "other")]
        assert files_of(url, keys) == [f"file-of-{key}" for key in keys]
        one.drop()


class Restarts:
    """A step hook that restarts the server with the commit log a number of times, each noticed by somebody else."""

    def __init__(self, server: SpareServer, url: str, count: int) -> None:
        self._server, self._url, self.left = server, url, count

    def __call__(self, step: Step) -> None:
        if step is Step.REGISTERED and self.left:
            self.left -= 1
            self._server.kill()
            self._server.start(*DURABLE)
            with open_store(self._url) as another:
                another.applied()


@pytest.mark.invariant("P32")
def test_write_survives_restart_before_applying(log_and_url: tuple[SpareServer, str], tmp_path: Path) -> None:
    server, url = log_and_url
    with rli.create_table(tmp_path / "trips", record_key="id", partition_by="city", ordering="ts", index=url) as table:
        for number in range(2):
            restarts = Restarts(server, url, 1)
            table.upsert(records((f"a{number}", "x", 1, 0.5), ("b", "x", number, 0.5)), on_step=restarts)
            assert restarts.left == 0
        assert table.sync_index().applied == ()
        assert table.verify_index().agrees
        table.drop_index()


@pytest.mark.invariant("P32")
def test_sync_gives_up_under_endless_restarts(
    spares: list[SpareServer], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server, url = spares[OTHER], spares[OTHER].url(name="restarted")
    with rli.create_table(tmp_path / "trips", record_key="id", partition_by="city", ordering="ts", index=url) as table:
        result = table.upsert(records(("a", "x", 1, 0.5)), on_step=Restarts(server, url, 100))
        assert result.index_behind
        assert "StoreRestartedError" in caplog.text
        assert table.lookup(["a"])["partition_path"].to_pylist() == ["x"]
        assert table.verify_index().agrees
        table.drop_index()


def commit_in_steps(index: StoredIndex, key: str) -> Iterator[None]:
    """A commit that others may interrupt between any two steps; it applies those before it, too."""
    applied, log = index.read_progress()
    yield
    log = append(index, log, key)
    for record in log.records_after(applied.least or 0):
        yield
        keys = [group.file_id.removeprefix("file-of-") for group in record.file_groups]
        numbers = log.dictionary.numbers_of(record.file_groups)
        index.put(pa.array(keys), entries_of(record.last_sequence, numbers.values()))
    yield
    index.store.mark_applied(applied, log.head)


def require_no_wrong_location(url: str, keys: list[str]) -> None:
    """A look-up may fail. If it does not, each key is in its own file group, and is absent only if its commit is."""
    with suppress(rli.RliError), open_index(url) as reader:
        applied, log = reader.read_progress()
        found = reader.lookup(keys, timeout=0.1)["file_id"].to_pylist()
        known = {group for record in log.records_after(0) for group in record.file_groups}
        for key, file in zip(keys, found, strict=True):
            assert file in (None, f"file-of-{key}")
            if file is None and FileGroupId("p", f"file-of-{key}") in known:
                assert (applied.least or 0) < log.head


@pytest.mark.invariant("P32")
@pytest.mark.parametrize("seed", range(cases(1)))
def test_server_losses_give_no_wrong_location(
    log_and_url: tuple[SpareServer, str], spares: list[SpareServer], seed: int
) -> None:
    random = Random(seed)
    server, url = log_and_url
    servers = [server] if "shards" not in url else spares
    keys = [f"k{number:0{random.choice([2, 20])}}" for number in range(60)]
    with ExitStack() as stack:
        indexes = [stack.enter_context(create_index(url, table_id="t", shards=3))]
        indexes += [stack.enter_context(open_index(url)) for _ in range(2)]
        indexes[0].store.mark_applied(indexes[0].store.applied(), 0)
        commit(indexes[0], "k-first")
        for each in servers:
            take_snapshot(each)
        writing: dict[int, Iterator[None]] = {}
        begun: list[str] = []
        for _ in range(60):
            match random.randrange(20):
                case 0:
                    take_snapshot(random.choice(servers))
                case 1:
                    go_back(random.choice(servers))
                case _:
                    which = random.randrange(len(indexes))
                    if which not in writing:
                        begun.append(keys[len(begun)])
                        writing[which] = commit_in_steps(indexes[which], begun[-1])
                    try:
                        next(writing[which])
                    except (StopIteration, OvertakenError, rli.RliError):
                        del writing[which]
            require_no_wrong_location(url, [*begun, "k-first"])
        indexes[0].drop()


@pytest.mark.invariant("P33")
def test_server_without_segment_is_healed(url: str, spares: list[SpareServer]) -> None:
    """A commit has the first keys of a width in a shard; the shard's server loses that commit."""
    with create_index(url, table_id="t", shards=3) as index:
        index.store.mark_applied(index.store.applied(), 0)
        commit(index, "k1")
        wide = next(key for key in map("{:030}".format, range(100)) if shard_of(index, key) == OTHER)
        take_snapshot(spares[OTHER])
        commit(index, wide)
        go_back(spares[OTHER])
        for _ in range(2):
            with pytest.raises(rli.IndexNotReadyError, match="went back"):
                files_of(url, [wide])
        assert files_of(url, ["k1"]) == ["file-of-k1"]
        with open_index(url) as other:
            applied, log = other.read_progress()
            assert (applied.least, applied.greatest, log.head) == (1, 2, 2)
            put(other, log, wide)
            assert other.store.mark_applied(applied, 2)
        assert files_of(url, ["k1", wide]) == ["file-of-k1", f"file-of-{wide}"]
        commit(index, "k2")
        assert files_of(url, [wide, "k2"]) == [f"file-of-{wide}", "file-of-k2"]
        index.drop()


def shard_of(index: StoredIndex, key: str) -> int:
    return next(int(keys.shards[0]) for _, keys in index.codec.encode(pa.array([key])))


def test_sync_hides_no_loss_from_threads(url: str, spares: list[SpareServer]) -> None:
    keys = key_batch([b"%016d" % number for number in range(30)], [number % 3 for number in range(30)])
    with open_store(url, create=True) as store, ThreadPoolExecutor(1) as other:
        store.put(keys, entries_of(1, range(30)))
        assert store.mark_applied(store.applied(), 1)
        take_snapshot(spares[OTHER])
        since = store.applied()
        store.put(keys, entries_of(2, range(30)))
        assert store.mark_applied(since, 2)
        go_back(spares[OTHER])
        applied = store.applied_sequence() or 0
        assert other.submit(store.applied).result().least == 1
        with pytest.raises(rli.IndexNotReadyError, match="went back"):
            store.look_up([keys], applied)
        store.drop()


def test_server_older_than_bootstrap_requires_bootstrap(url: str, spares: list[SpareServer], tmp_path: Path) -> None:
    writer = writer_with_all_keys(tmp_path, url)
    writer.table.bootstrap_index()
    # As if no commit had been applied since the server came to have this part.
    with spares[OTHER].client() as raw:
        for key in raw.scan_iter(match="{rli*}"):
            raw.setrange(key, 0, bytes(4))
    with pytest.raises(rli.IndexNotReadyError, match="rli index bootstrap"):
        writer.write()
    writer.table.bootstrap_index()
    require_healed(writer)
    writer.table.drop_index()


def test_standalone_index_reapplies_lost_transactions(url: str, spares: list[SpareServer]) -> None:
    """Staged changes of small transactions are kept for a while."""
    with create_index(url, shards=3) as index:
        second = _lose_the_second_transaction(index, spares[OTHER])
        index.begin().abort()
        assert set(index.lookup(KEYS)["file_id"].to_pylist()) == {second.file_id}
        index.drop()


def test_standalone_index_reports_lost_transactions(url: str, spares: list[SpareServer]) -> None:
    """Staged changes of large transactions are gone by then, so that they cannot be applied again."""
    with create_index(url, shards=3) as created:
        index = IndexAlone(created.store, created.settings, IndexLimits(bytes_kept=0))
        _lose_the_second_transaction(index, spares[OTHER])
        with pytest.raises(rli.CorruptIndexError, match="lost entries of a transaction"):
            index.begin()
        index.drop()


def _lose_the_second_transaction(index: StoredIndex, server: SpareServer) -> FileGroupId:
    first, second = FileGroupId("p", "a-0"), FileGroupId("q", "b-0")
    commit_places(index, dict.fromkeys(KEYS, first))
    take_snapshot(server)
    commit_places(index, dict.fromkeys(KEYS, second))
    go_back(server)
    with pytest.raises(rli.IndexNotReadyError, match="went back"):
        index.lookup(KEYS)
    return second


@pytest.fixture(params=["one server", "one of three"])
def index_and_server(request: pytest.FixtureRequest, spares: list[SpareServer], url: str) -> tuple[str, SpareServer]:
    """An index, and the server of it that is to go back."""
    return (spares[OTHER].url(), spares[OTHER]) if request.param == "one server" else (url, spares[OTHER])


@pytest.mark.invariant("P14")
def test_server_goes_back_during_apply(index_and_server: tuple[str, SpareServer], tmp_path: Path) -> None:
    """It acknowledged entries of the commit, and comes back without them before they are marked as applied."""
    url, server = index_and_server
    writer = writer_with_all_keys(tmp_path, url)
    writer.write()
    writer.write()
    take_snapshot(server)
    write_and_meanwhile(writer, Step.CHANGES_APPLIED, lambda: go_back(server))
    require_healed(writer)
    writer.table.drop_index()


def test_shard_server_goes_back_during_tagging(url: str, spares: list[SpareServer], tmp_path: Path) -> None:
    """What it lost would be taken for new, and inserted twice."""
    writer = writer_with_all_keys(tmp_path, url)
    take_snapshot(spares[OTHER])
    writer.write()
    with pytest.raises(rli.IndexNotReadyError, match="went back"):
        write_and_meanwhile(writer, Step.INFLIGHT, lambda: go_back(spares[OTHER]))
    writer.write()
    require_healed(writer)
    writer.table.drop_index()


def test_only_server_goes_back_during_tagging(spares: list[SpareServer], tmp_path: Path) -> None:
    """The writer's own watermark is lost with the entries, so that it begins again by itself, after a sync."""
    writer = writer_with_all_keys(tmp_path, spares[OTHER].url())
    take_snapshot(spares[OTHER])
    writer.write()
    write_and_meanwhile(writer, Step.INFLIGHT, lambda: go_back(spares[OTHER]))
    require_healed(writer)
    writer.table.drop_index()


def write_and_meanwhile(writer: CheckedWriter, at: Step, happen: Callable[[], None]) -> None:
    """Insert, update and move records; something happens the first time that a step is reached."""
    batch = [(key, "wxyz"[number % 4], 1000, 0.5) for number, key in enumerate(KEYS)]
    waiting = [happen]

    def on_step(step: Step) -> None:
        if step is at and waiting:
            waiting.pop()()

    writer.table.upsert(records(*batch), on_step=on_step)
    writer.rows = {row[0]: row for row in batch}


def test_lagging_replica_takes_over(cluster: Cluster, tmp_path: Path) -> None:
    writer = writer_with_all_keys(tmp_path, cluster_url(cluster.service))
    store = record_index(writer.table).store
    assert isinstance(store, RedisStore)
    log = cluster.node_of_slot(key_slot(store._names.tag))  # noqa: SLF001  (to leave that node alone)
    victim = min(port for port in cluster.masters() if port != log)
    with cluster.losing_what_is_written_to(victim):
        for _ in range(3):
            writer.write()
    with pytest.raises(rli.IndexNotReadyError, match="went back"):
        writer.table.lookup(KEYS)
    writer.write()
    require_healed(writer)
    writer.table.drop_index()


def at_point(table: rli.Table, point: str, happen: Callable[[], None]) -> None:
    """Let something happen before a change of the table's storage, the first time."""
    waiting = [happen]

    def pass_point(name: str) -> None:
        if waiting and name.startswith(point):
            waiting.pop()()

    storage = PointedStorage(table.location, {}, at_point=pass_point)
    table._opened.definition = replace(opened_table(table).definition, storage=storage)  # noqa: SLF001


@pytest.mark.invariant("P43")
def test_a_lost_lease_hides_no_publisher(spares: list[SpareServer], tmp_path: Path) -> None:
    """The server loses the lease of a writer that has just checked it, and keeps the record that the writer lives."""
    server, location = spares[OTHER], tmp_path / "trips"
    with (
        rli.create_table(
            location, record_key="id", partition_by="city", ordering="ts", index=server.url(name="leased")
        ) as late,
        rli.open_table(location) as other,
    ):
        late.upsert(records(("a", "x", 1, 0.0)))

        def on_step(step: Step) -> None:
            if step is Step.MANIFESTED:
                take_snapshot(server)

        def lose_the_lease() -> None:
            go_back(server)
            other.upsert(records(("new", "y", 2, 2.0)))

        at_point(late, "before publish", lose_the_lease)
        result = late.upsert(records(("new", "x", 3, 3.0)), on_step=on_step)
        assert (result.conflicts, result.moved) == (1, 1)
        assert [tuple(row.values()) for row in rows_of(other)] == [("a", "x", 1, 0.0), ("new", "x", 3, 3.0)]
        check_stored(other)
        late.drop_index()
