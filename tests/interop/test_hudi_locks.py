"""Locks that writers of Hudi and of rli take in turn: the lock providers of Hudi's newest release, in a JVM."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import pytest

from rli.coordination.locks.file_lock import FileLock
from rli.coordination.locks.locked_lease import LockedLease
from rli.errors import LeaseBusyError, LeaseLostError
from tests.support.exclusions import behind_a_lease
from tests.support.hudi_locks import HudiJvm, HudiLock

pytestmark = [pytest.mark.hudi, pytest.mark.spark, pytest.mark.slow, pytest.mark.invariant("P55")]

EXPIRY_SECONDS = 60
ROUNDS = 6


@pytest.fixture(scope="module")
def jvm() -> Iterator[HudiJvm]:
    with HudiJvm() as started:
        yield started


def file_lock_of_hudi(jvm: HudiJvm, folder: Path) -> HudiLock:
    options = {
        "hoodie.write.lock.filesystem.path": str(folder),
        "hoodie.write.lock.filesystem.expire": str(EXPIRY_SECONDS // 60),
    }
    return jvm.lock("FileSystemBasedLockProvider", options)


def exclusion(folder: Path) -> LockedLease:
    return behind_a_lease(FileLock(folder, EXPIRY_SECONDS, owner="table"), folder / "rli")


def age(folder: Path) -> None:
    """Let a lock file be as old as if its holder had been silent for the expiry."""
    old = time.time() - EXPIRY_SECONDS - 1
    os.utime(folder / "lock", (old, old))


def test_hudi_and_rli_exclude_each_other(jvm: HudiJvm, tmp_path: Path) -> None:
    counter = tmp_path / "counter"
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
            lock = file_lock_of_hudi(jvm, tmp_path)
            if lock.attempt():
                count("hudi")
                lock.release()

    def count_in_rli() -> None:
        while counted.count("rli") < ROUNDS:
            try:
                with exclusion(tmp_path).hold("rli") as held:
                    count("rli", held.require_held)
            except LeaseLostError:
                continue  # a release of Hudi deleted the file that rli had just made

    sides = [Thread(target=count_in_hudi), Thread(target=count_in_rli)]
    for side in sides:
        side.start()
    for side in sides:
        side.join()
    assert int(counter.read_text()) == len(counted) >= 2 * ROUNDS


def test_paused_hudi_loses_its_lock(jvm: HudiJvm, tmp_path: Path) -> None:
    lock = file_lock_of_hudi(jvm, tmp_path)
    assert lock.attempt()
    jvm.pause()
    try:
        with pytest.raises(LeaseBusyError, match="writer of Hudi"), exclusion(tmp_path).hold("rli", patience=0.2):
            pass
        age(tmp_path)
        with exclusion(tmp_path).hold("rli") as held:
            held.require_held()
            # Hudi deletes the file of any holder: the holder notices before it publishes.
            jvm.resume()
            lock.release()
            with pytest.raises(LeaseLostError):
                held.require_held()
    finally:
        jvm.resume()


def test_hudi_takes_lapsed_lock(jvm: HudiJvm, tmp_path: Path) -> None:
    lock = file_lock_of_hudi(jvm, tmp_path)
    with exclusion(tmp_path).hold("rli") as held:
        assert not lock.attempt()
        age(tmp_path)
        assert lock.attempt()
        with pytest.raises(LeaseLostError):
            held.require_held()
    # rli released its own lock, and not Hudi's.
    assert not file_lock_of_hudi(jvm, tmp_path).attempt()
    lock.release()


def test_lock_of_killed_hudi_lapses(tmp_path: Path) -> None:
    with HudiJvm() as own:
        assert file_lock_of_hudi(own, tmp_path).attempt()
        own.kill()
    with pytest.raises(LeaseBusyError), exclusion(tmp_path).hold("rli", patience=0.2):
        pass
    age(tmp_path)
    with exclusion(tmp_path).hold("rli") as held:
        held.require_held()
