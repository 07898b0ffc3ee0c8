"""Who holds the lease, who lives, and what a successor knows of those before it."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest

from rli import Step, Table, create_table
from rli.coordination.file_records import FileRecords
from rli.coordination.lease import HeldLease, TableLease
from rli.coordination.liveness import CLOCK_SLACK_SECONDS, Holding, Watch
from rli.coordination.shared_records import SharedRecords
from rli.coordination.writers import writer_record
from rli.errors import LeaseLostError
from rli.processes import ProcessId
from rli.storage import Storage
from rli.store.registry import open_store
from rli.table.table import opened_table
from rli.view import paths
from tests.support.children import start_child
from tests.support.indexes import record_index
from tests.support.waiting import eventually

ELSEWHERE = ProcessId("another host", 1, "1")


@pytest.fixture(params=["store", "files"])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> SharedRecords:
    """Where a lease is kept."""
    if request.param == "files":
        return FileRecords(Storage(str(tmp_path)))
    return open_store(f"memory:{uuid4().hex}", create=True)


def do_nothing() -> None:
    """A child's work."""


def dead_process() -> ProcessId:
    child = start_child(do_nothing)
    child.join()
    assert child.pid is not None
    return replace(ProcessId.current(), pid=child.pid, started="long ago")


def held(process: ProcessId, writer: str = "w", *, expires_in: float = 30.0, displaced: tuple[str, ...] = ()) -> bytes:
    return Holding(writer, process, time.time() + expires_in, 30.0, displaced).to_json()


@pytest.mark.parametrize("expires_in", [-1e9, 0.0, 1e9])
def test_lease_wait_compares_no_clocks(expires_in: float) -> None:
    watch = Watch()
    assert not watch.has_lapsed(held(ELSEWHERE, expires_in=expires_in))
    assert not watch.has_lapsed(held(ELSEWHERE, expires_in=expires_in + 1))


def test_unchanged_lease_record_lapses() -> None:
    watch = Watch()
    record = Holding("w", ELSEWHERE, time.time() + 1e9, 1e-9).to_json()
    assert not watch.has_lapsed(record)
    assert watch.has_lapsed(record)


@pytest.mark.invariant("P10")
def test_local_process_death_is_noticed_immediately() -> None:
    assert Watch().has_lapsed(held(dead_process()))
    assert not Watch().has_lapsed(held(ProcessId.current()))


_HOLDER = """
import sys, time
from rli.processes import ProcessId
from rli.coordination.liveness import Holding
print(Holding("w", ProcessId.current(), time.time() + 30, 30.0).to_json().decode(), flush=True)
sys.stdin.read()
"""
_JUDGE = """
import sys
from rli.coordination.liveness import Watch
print(Watch().has_lapsed(sys.stdin.read().encode()))
"""
_CONTAINERS = {
    "its own /proc": ["--mount-proc"],
    "the host's /proc": [],
    "no /proc": ["--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"],
}


@pytest.mark.parametrize("proc", _CONTAINERS)
def test_process_in_other_container_stays_alive(proc: str) -> None:
    """Containers of one host have process numbers of their own; two processes may have the same."""
    run = ["unshare", "--user", "--map-root-user", "--pid", "--fork", *_CONTAINERS[proc]]
    container = [*run, sys.executable, "-c"]
    # Its number is greater than that of any process or thread of the judge.
    late = 'for _ in 1 2 3 4 5 6 7 8 9; do (: & : & : & : & : & : & : & : & wait); done; "$@"; exit $?'
    holding = [*run, "sh", "-c", late, "sh", sys.executable, "-c", _HOLDER]
    if subprocess.run([*container, ""], check=False, capture_output=True).returncode:
        pytest.skip("this system does not let tests make name spaces")
    with subprocess.Popen(holding, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        record = holder.stdout.readline().strip()
        assert not Watch().has_lapsed(record)
        judged = subprocess.run([*container, _JUDGE], input=record, capture_output=True, check=True)
        assert judged.stdout.strip() == b"False"
        holder.communicate()


def test_hidden_process_is_not_presumed_dead(tmp_path: Path) -> None:
    """As with /proc mounted with hidepid, for processes of another user."""
    living = ProcessId.current()
    hide = f'mount --bind "{tmp_path}" /proc/{living.pid} && exec "$@"'
    judge = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", hide, "sh", sys.executable, "-c"]
    if subprocess.run([*judge, ""], check=False, capture_output=True).returncode:
        pytest.skip("this system does not let tests make name spaces")
    judged = subprocess.run([*judge, _JUDGE], input=held(living), capture_output=True, check=True)
    assert judged.stdout.strip() == b"False"


def test_lease_check_allows_clock_skew() -> None:
    now = time.time()
    here, there = (Holding("w", process, now - 1, 30.0) for process in (ProcessId.current(), ELSEWHERE))
    assert here.is_over(now)
    assert not there.is_over(now)
    assert there.is_over(now + CLOCK_SLACK_SECONDS)


@pytest.mark.invariant("P3")
def test_successor_remembers_lapsed_holders_until_cleanup(shared: SharedRecords) -> None:
    assert shared.compare_and_set("lease", None, held(dead_process(), "second", displaced=("first",)))
    with TableLease(shared).hold("third") as lease:
        assert lease.displaced == ("second", "first")
        stored = shared.read_control("lease")
        assert stored is not None
        assert Holding.from_json(stored).displaced == ("second", "first")
        lease.settle()
    with TableLease(shared).hold("fourth") as lease:
        assert lease.displaced == ()


def test_displaced_holder_spares_its_successor(shared: SharedRecords) -> None:
    first, second = HeldLease(shared, "lease", "first"), HeldLease(shared, "lease", "second")
    assert first.take(over=None)
    assert second.take(over=shared.read_control("lease"))
    with pytest.raises(LeaseLostError, match="lease"):
        first.require_held()
    first.release()
    second.require_held()
    second.settle()
    second.release()
    assert shared.read_control("lease") is None


@pytest.mark.invariant("P3")
def test_failed_takeover_displaces_nobody(shared: SharedRecords) -> None:
    """The earlier holder has woken up and given the lease back, and may go on writing."""
    earlier = held(dead_process(), "earlier")
    next_holder = HeldLease(shared, "lease", "next")
    assert not next_holder.take(over=earlier)
    assert next_holder.take(over=None)
    assert next_holder.displaced == ()
    assert next_holder.release()
    assert shared.read_control("lease") is None


def running_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate()]


@pytest.mark.parametrize("failure", [KeyboardInterrupt, RuntimeError])
def test_failed_thread_start_leaves_lease_free(
    shared: SharedRecords, monkeypatch: pytest.MonkeyPatch, failure: type[BaseException]
) -> None:
    """Ctrl-C while the thread starts, or a system with too many threads: nobody would ever release the lease."""
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        if failure is KeyboardInterrupt:
            start(thread)
        raise failure

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(failure), TableLease(shared).hold("interrupted"):
            pass
    assert shared.read_control("lease") is None
    eventually(lambda: "rli lease" not in running_threads(), "the end of the thread")


def test_interrupted_takeover_ends_its_thread(shared: SharedRecords) -> None:
    """Between the taking and the caller's block; here, while the take-over is logged."""
    assert shared.compare_and_set("lease", None, held(dead_process(), "dead"))

    def interrupt(_: logging.LogRecord) -> bool:
        raise KeyboardInterrupt

    log = logging.getLogger("rli.lease")
    log.addFilter(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt), TableLease(shared, 0.2).hold("interrupted"):
            pass
    finally:
        log.removeFilter(interrupt)
    assert "rli lease" not in running_threads()
    with TableLease(shared, 0.2).hold("next") as lease:
        assert lease.displaced == ("interrupted", "dead")
        lease.settle()


class _Hiccup(Storage):
    """A storage that once answers with an error: after it has created a file, or in place of that."""

    def expect(self, *, creates: bool) -> None:
        self.__dict__["creates"] = creates

    def create(self, path: str, content: bytes) -> bool:
        creates = self.__dict__.pop("creates", None)
        if creates is False:
            raise OSError("a hiccup of the storage")
        created = super().create(path, content)
        if creates is True:
            raise OSError("a hiccup of the storage")
        return created


def test_lease_taken_with_error_is_free(tmp_path: Path) -> None:
    """Nobody would renew it, and all others would wait until it lapses."""
    storage = _Hiccup(str(tmp_path))
    storage.expect(creates=True)
    with pytest.raises(OSError, match="hiccup"), TableLease(FileRecords(storage)).hold("first"):
        pass
    with TableLease(FileRecords(storage)).hold("second", patience=0) as lease:
        assert lease.displaced == ()


def test_lease_is_released_despite_hiccup(tmp_path: Path) -> None:
    storage = _Hiccup(str(tmp_path))
    with TableLease(FileRecords(storage)).hold("first"):
        storage.expect(creates=False)
    with TableLease(FileRecords(storage)).hold("second", patience=0) as lease:
        assert lease.displaced == ()


@pytest.mark.invariant("P10")
def test_instant_of_living_writer_stays_reserved(tmp_path: Path) -> None:
    """Two writers with one instant would take each other's work for their own."""
    instants = {name: f"2040010100000000{number}" for number, name in enumerate(["elsewhere", "dead"])}
    with create_table(tmp_path / "t", record_key="id", index=f"lmdb://{tmp_path}/i") as table:
        store = record_index(table).store
        for process, instant in zip((ELSEWHERE, dead_process()), instants.values(), strict=True):
            lapsed = held(process, instant, expires_in=-CLOCK_SLACK_SECONDS)
            assert store.compare_and_set(writer_record(instant), None, lapsed)
        table.sync_index()
        assert not HeldLease(store, writer_record(instants["elsewhere"]), "next").take(over=None)
        assert store.read_control(writer_record(instants["dead"])) is None
        # In time, nobody remembers it any more.
        name = writer_record(instants["elsewhere"])
        stored = store.read_control(name)
        assert stored is not None
        assert store.compare_and_set(name, stored, Holding.from_json(stored).placeholder(1.0).to_json())
        table.sync_index()
        assert store.scan_control("writer/") == []


def test_failed_removal_leaves_no_living_record(tmp_path: Path) -> None:
    """Else nobody could clear up after it for as long as its process lives."""
    with create_table(tmp_path / "t", record_key="id", index=f"lmdb://{tmp_path}/i") as table:
        failing = Table(replace(opened_table(table).definition, storage=_FailingOnce(table.location)))

        def fail(step: Step) -> None:
            if step is Step.WRITTEN:
                raise KeyError("the caller's own")

        with pytest.raises(KeyError, match="own"):
            failing.upsert(pa.table({"id": ["a"]}), on_step=fail)
        assert record_index(table).store.scan_control("writer/") == []
        failing.close()
        table.upsert(pa.table({"id": ["b"]}))
        assert [instant for instant in table.timeline() if not instant.is_completed] == []
        assert opened_table(table).definition.storage.list_folders(paths.WORK) == []


class _FailingOnce(Storage):
    """A storage that once does not answer."""

    _has_failed = False

    def delete_folder(self, path: str) -> None:
        if not self._has_failed:
            self.__dict__["_has_failed"] = True
            raise OSError("a hiccup of the storage")
        super().delete_folder(path)


@pytest.mark.invariant("P3")
def test_displaced_holders_pass_to_next_lease(shared: SharedRecords) -> None:
    assert shared.compare_and_set("lease", None, held(dead_process(), "paused", displaced=("older",)))
    with suppress(OSError), TableLease(shared, 0.2).hold("failing"):
        raise OSError("clearing up failed")
    with TableLease(shared, 0.2).hold("next") as lease:
        assert lease.displaced == ("failing", "paused", "older")
        lease.settle()
    assert shared.read_control("lease") is None
