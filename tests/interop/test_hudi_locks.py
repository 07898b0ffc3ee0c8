"""Locks that writers of Hudi and of rli take in turn: the lock providers of Hudi's newest release, in a JVM."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
import pytest
from kazoo.client import KazooClient
from py4j.protocol import Py4JJavaError

from rli import Step, create_table
from rli.coordination.locks.contract import SharedLock
from rli.coordination.locks.file_lock import FileLock
from rli.coordination.locks.locked_lease import LockedLease
from rli.coordination.locks.storage_lock import StorageLock
from rli.coordination.locks.zookeeper_lock import HeldZookeeperLock, ZookeeperLock
from rli.errors import LeaseBusyError, LeaseLostError
from rli.hudi.lock_settings import StorageLockSettings, ZookeeperLockSettings
from rli.storage import Storage
from tests.support.children import stopping, was_killed
from tests.support.exclusions import behind_a_lease
from tests.support.hudi_locks import HudiJvm, HudiLock
from tests.support.object_store import ObjectStore
from tests.support.zookeeper import running_zookeeper

pytestmark = [pytest.mark.hudi, pytest.mark.spark, pytest.mark.slow, pytest.mark.invariant("P55")]

EXPIRY_SECONDS = 60
SESSION_SECONDS = 20.0
ROUNDS = 6


@dataclass(frozen=True, slots=True)
class Locks:
    """The lock of one table, as writers of both engines take it.

    Attributes:
        jvm: of Hudi's writers.
        provider: of Hudi.
        options: of Hudi's writers.
        of_rli: a new lock of a process of rli.
        age: lets a lock lapse as if its holder had been silent for the expiry.
        remove: takes the lock from its holder, as ZooKeeper does when it ends a session.
        table: the arguments of a table with this lock.
        folder: for leases.
    """

    jvm: HudiJvm
    provider: str
    options: Mapping[str, str]
    of_rli: Callable[[], SharedLock]
    age: Callable[[], None]
    remove: Callable[[], None]
    table: Mapping[str, Any]
    folder: Path

    def of_hudi(self, jvm: HudiJvm | None = None) -> HudiLock:
        return (jvm or self.jvm).lock(self.provider, self.options)

    def exclusion(self) -> LockedLease:
        return behind_a_lease(self.of_rli(), self.folder / "rli")


@pytest.fixture(scope="module")
def jvm() -> Iterator[HudiJvm]:
    with HudiJvm() as started:
        started.compile_client_of_s3()
        yield started


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_zookeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


def _file(jvm: HudiJvm, base: Path, _store: ObjectStore, _zookeeper: str) -> Locks:
    folder = base / "t/.hoodie"
    folder.mkdir(parents=True)
    options = {
        "hoodie.write.lock.filesystem.path": str(folder),
        "hoodie.write.lock.filesystem.expire": str(EXPIRY_SECONDS // 60),
    }

    def age() -> None:
        old = time.time() - EXPIRY_SECONDS - 1
        os.utime(folder / "lock", (old, old))

    of_rli = partial(FileLock, folder, EXPIRY_SECONDS, "table")
    table = {"path": base / "t", "lock": "filesystem"}
    return Locks(jvm, "FileSystemBasedLockProvider", options, of_rli, age, (folder / "lock").unlink, table, base)


def _storage(jvm: HudiJvm, folder: Path, store: ObjectStore, _zookeeper: str) -> Locks:
    location = f"s3://{store.new_bucket()}/t"
    storage, path = Storage(location, store.options), ".hoodie/.locks/table_lock.json"
    options = {"hoodie.base.path": location, "rli.tests.endpoint": store.url}

    def age() -> None:
        state = json.loads(storage.read_bytes(path) or b"")
        storage.write_bytes(path, json.dumps({**state, "validUntil": int((time.time() - 3600) * 1000)}).encode())

    of_rli = partial(StorageLock, storage, StorageLockSettings(300, 30), "table")
    table = {"path": location, "lock": "storage", "storage_options": store.options}
    return Locks(
        jvm, "StorageBasedLockProvider", options, of_rli, age, lambda: storage.delete_files([path]), table, folder
    )


def _zookeeper(jvm: HudiJvm, folder: Path, _store: ObjectStore, zookeeper: str) -> Locks:
    key = uuid4().hex
    options = {
        "hoodie.write.lock.zookeeper.url": zookeeper,
        "hoodie.write.lock.zookeeper.base_path": "/hudi/locks",
        "hoodie.write.lock.zookeeper.lock_key": key,
        "hoodie.write.lock.zookeeper.session_timeout_ms": str(int(SESSION_SECONDS * 1000)),
    }
    settings = ZookeeperLockSettings(zookeeper, "/hudi/locks", key, SESSION_SECONDS, 15.0)
    of_rli = partial(ZookeeperLock, settings, "table")
    table = {"path": folder / "t", "lock": f"zookeeper://{zookeeper}/hudi/locks?key={key}"}

    remove = partial(_remove_nodes, zookeeper, settings.path)
    return Locks(jvm, "ZookeeperBasedLockProvider", options, of_rli, remove, remove, table, folder)


def _remove_nodes(servers: str, path: str) -> None:
    client = KazooClient(servers)
    client.start()
    for child in client.get_children(path):
        client.delete(f"{path}/{child}")
    client.stop()


KINDS: Final = {"file": _file, "storage": _storage, "zookeeper": _zookeeper}


@pytest.fixture(params=KINDS)
def locks(
    request: pytest.FixtureRequest, jvm: HudiJvm, tmp_path: Path, object_store: ObjectStore, zookeeper: str
) -> Locks:
    return KINDS[request.param](jvm, tmp_path, object_store, zookeeper)


def test_hudi_and_rli_exclude_each_other(locks: Locks) -> None:
    counter = locks.folder / "counter"
    counter.write_text("0")
    counted = list[str]()

    def count(side: str, before_publishing: Callable[[], None] = lambda: None) -> None:
        seen = int(counter.read_text())
        time.sleep(0.02)
        before_publishing()
        counter.write_text(str(seen + 1))
        counted.append(side)

    def count_in_hudi() -> None:
        while counted.count("hudi") < ROUNDS:
            lock = locks.of_hudi()
            if lock.attempt():
                count("hudi")
                lock.release()
            else:
                lock.close()

    def count_in_rli() -> None:
        while counted.count("rli") < ROUNDS:
            try:
                with locks.exclusion().hold("rli") as held:
                    count("rli", held.require_held)
            except LeaseLostError:
                continue  # a release of Hudi deleted the file that rli had just made

    sides = [Thread(target=count_in_hudi), Thread(target=count_in_rli)]
    for side in sides:
        side.start()
    for side in sides:
        side.join()
    assert int(counter.read_text()) == len(counted) >= 2 * ROUNDS


def test_paused_hudi_loses_its_lock(locks: Locks) -> None:
    lock = locks.of_hudi()
    lock.take()
    locks.jvm.pause()
    try:
        with pytest.raises(LeaseBusyError, match="writer of Hudi"), locks.exclusion().hold("rli", patience=0.2):
            pass
        locks.age()
        with locks.exclusion().hold("rli") as held:
            held.require_held()
            locks.jvm.resume()
            lose_quietly(lock)
            if locks.provider == "FileSystemBasedLockProvider":
                # Hudi deletes the file of any holder: the holder notices before it publishes.
                with pytest.raises(LeaseLostError):
                    held.require_held()
            else:
                held.require_held()
    finally:
        locks.jvm.resume()


def lose_quietly(lock: HudiLock) -> None:
    """Release a lock that another process has taken; some providers say so."""
    with contextlib.suppress(Py4JJavaError):
        lock.release()


def hold_through_a_pause(of_rli: Callable[[], SharedLock], folder: Path, sender: Connection) -> None:
    """Pause with the lock; sends whether the lock is lost then."""
    try:
        with behind_a_lease(of_rli(), folder).hold("paused") as held:
            os.kill(os.getpid(), signal.SIGSTOP)
            held.require_held()
    except LeaseLostError:
        sender.send("lost")
    else:
        sender.send("held")


def test_paused_rli_loses_its_lock(locks: Locks) -> None:
    with stopping(hold_through_a_pause, locks.of_rli, locks.folder / "rli") as paused:
        lock = locks.of_hudi()
        assert not lock.attempt()
        locks.age()
        lock.take()
    assert paused.outcome == "lost"
    # rli released its own lock, and not Hudi's.
    other = locks.of_hudi()
    assert not other.attempt()
    other.close()
    lock.release()


def hold_until_death(of_rli: Callable[[], SharedLock], folder: Path) -> None:
    with behind_a_lease(of_rli(), folder).hold("killed"):
        os.kill(os.getpid(), signal.SIGKILL)


def test_lock_of_killed_rli_is_replaced(locks: Locks) -> None:
    assert was_killed(hold_until_death, locks.of_rli, locks.folder / "rli")
    # The successor in the lease need not wait until the lock lapses; Hudi has to.
    with locks.exclusion().hold("successor") as held:
        held.require_held()
        other = locks.of_hudi()
        assert not other.attempt()
        other.close()
    lock = locks.of_hudi()
    lock.take()
    lock.release()


def test_lock_of_killed_hudi_lapses(locks: Locks) -> None:
    with HudiJvm() as own:
        if locks.provider == "StorageBasedLockProvider":
            own.compile_client_of_s3()
        locks.of_hudi(own).take()
        own.kill()
    with pytest.raises(LeaseBusyError), locks.exclusion().hold("rli", patience=0.2):
        pass
    if locks.provider != "ZookeeperBasedLockProvider":
        # The servers of ZooKeeper end the session of a dead holder by themselves.
        locks.age()
    with locks.exclusion().hold("rli") as held:
        held.require_held()


def test_table_is_written_under_lock(locks: Locks) -> None:
    rows = pa.table({"id": ["a", "b"]})
    index = f"lmdb://{locks.folder / 'index'}"
    table = create_table(**locks.table, record_key="id", index=index, write_attempts=1, maintenance=False)
    assert table.upsert(rows).inserted == 2
    theirs = locks.of_hudi()
    theirs.take()
    with pytest.raises(LeaseBusyError, match="Hudi"):
        table.clean(timeout=0)
    theirs.release()

    def lose(step: Step) -> None:
        if step is Step.PROMOTED:
            locks.remove()

    with pytest.raises(LeaseLostError):
        table.upsert(pa.table({"id": ["c"]}), on_step=lose)
    assert table.read().num_rows == 2
    assert table.upsert(pa.table({"id": ["c"]})).inserted == 1
    # Nothing of rli's holdings is left.
    theirs = locks.of_hudi()
    theirs.take()
    theirs.release()


def test_write_outlives_each_session(zookeeper: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The node of the holder goes, as if ZooKeeper ended its session: just behind the taking, or before a check or the release."""
    left, seen = list[int](), [0]
    attempt, check, release = ZookeeperLock.attempt, HeldZookeeperLock.require_held, HeldZookeeperLock.release
    lock = f"zookeeper://{zookeeper}/hudi/locks?key={tmp_path.name}"
    table = create_table(tmp_path / "t", record_key="id", lock=lock, write_attempts=1, maintenance=False)

    def end_if_wanted() -> None:
        seen[0] += 1
        if left and seen[0] == left[0]:
            left.clear()
            _remove_nodes(zookeeper, f"/hudi/locks/{tmp_path.name}")

    def attempt_and_end(own: ZookeeperLock, require_leading: Callable[[], None]) -> HeldZookeeperLock | None:
        held = attempt(own, require_leading)
        if held is not None:
            end_if_wanted()
        return held

    def end_and(then: Callable[[HeldZookeeperLock], None]) -> Callable[[HeldZookeeperLock], None]:
        def run(held: HeldZookeeperLock) -> None:
            end_if_wanted()
            then(held)

        return run

    monkeypatch.setattr(ZookeeperLock, "attempt", attempt_and_end)
    monkeypatch.setattr(HeldZookeeperLock, "require_held", end_and(check))
    monkeypatch.setattr(HeldZookeeperLock, "release", end_and(release))
    seen[0] = 0
    table.upsert(pa.table({"id": ["a"], "n": [0]}))
    for point in range(1, seen[0] + 1):
        seen[0] = 0
        left[:] = [point]
        assert table.upsert(pa.table({"id": ["a"], "n": [point]})).updated == 1
        assert left == []
        assert table.read().to_pylist() == [{"id": "a", "n": point}]
    assert all(instant.is_completed for instant in table.timeline())
    assert table.verify_index().agrees


def test_audits_have_one_form(jvm: HudiJvm, tmp_path: Path, object_store: ObjectStore, zookeeper: str) -> None:
    locks = _storage(jvm, tmp_path, object_store, zookeeper)
    storage = Storage(locks.table["path"], object_store.options)
    storage.write_bytes(".hoodie/.locks/audit_enabled.json", b'{"STORAGE_LOCK_AUDIT_SERVICE_ENABLED": true}')
    forms = list[list[dict[str, object]]]()

    def read() -> None:
        [file] = storage.list_files(".hoodie/.locks/audit")
        lines = [json.loads(line) for line in (storage.read_bytes(file.path) or b"").splitlines()]
        assert file.name == f"{lines[0]['timestamp']}_{lines[0]['ownerId']}.jsonl"
        forms.append([{**line, "ownerId": "", "at": line["lockExpiration"] - line["timestamp"]} for line in lines])
        storage.delete_files([file.path])

    theirs = locks.of_hudi()
    theirs.take()
    theirs.release()
    read()
    with locks.exclusion().hold("rli"):
        pass
    read()
    moments = {"timestamp", "transactionStartTime", "lockExpiration"}
    hudi, rli = ([{k: v for k, v in line.items() if k not in moments} for line in form] for form in forms)
    assert hudi == rli
    assert [line["state"] for line in rli] == ["START", "END"]
    assert moments < {*forms[0][0]} == {*forms[1][0]}
