"""One suite for the lease and for each lock that rli shares with writers of Hudi: they keep writers of a table apart."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Final

import pytest

from rli.coordination.contract import MutualExclusion
from rli.coordination.locks.contract import HeldLock
from rli.coordination.locks.file_lock import FileLock
from rli.coordination.locks.storage_lock import StorageLock
from rli.errors import LeaseBusyError, LeaseLostError
from rli.hudi.lock_settings import StorageLockSettings
from rli.storage import Storage
from tests.support.exclusions import Parties, behind_a_lease, lease_of
from tests.support.object_store import ObjectStore

pytestmark = pytest.mark.invariant("P55")

ROUNDS = 4


@dataclass(frozen=True, slots=True)
class Exclusion:
    """A kind of mutual exclusion.

    Attributes:
        of: gives the lease or lock of a party, by the party's name.
        remove: removes the record of the holder, as an operator might.
    """

    of: Parties
    remove: Callable[[], None]


def _lease(folder: Path, _server: ObjectStore) -> Exclusion:
    def remove() -> None:
        for record in folder.rglob("lease.*"):
            record.unlink()

    return Exclusion(lambda _: lease_of(folder / "shared"), remove)


def _file(folder: Path, _server: ObjectStore) -> Exclusion:
    return Exclusion(lambda party: behind_a_lease(FileLock(folder, 0, party), folder / party), (folder / "lock").unlink)


def _storage(folder: Path, server: ObjectStore) -> Exclusion:
    table = Storage(f"s3://{server.new_bucket()}/t", server.options)

    def of(party: str) -> MutualExclusion:
        return behind_a_lease(StorageLock(table, StorageLockSettings(300, 30), party), folder / party)

    return Exclusion(of, lambda: table.delete_files([".hoodie/.locks/table_lock.json"]))


KINDS: Final[Mapping[str, Callable[[Path, ObjectStore], Exclusion]]] = {
    "lease": _lease,
    "file": _file,
    "storage": _storage,
}


@pytest.fixture(params=KINDS)
def exclusion(request: pytest.FixtureRequest, tmp_path: Path, object_store: ObjectStore) -> Exclusion:
    return KINDS[request.param](tmp_path, object_store)


def test_one_party_holds_at_once(exclusion: Exclusion) -> None:
    with exclusion.of("one").hold("first") as held:
        with pytest.raises(LeaseBusyError), exclusion.of("two").hold("second", patience=0):
            pass
        held.require_held()
    with exclusion.of("two").hold("second", patience=0) as held:
        held.require_held()


def test_holder_finds_its_record_removed(exclusion: Exclusion) -> None:
    with exclusion.of("one").hold("first") as held:
        exclusion.remove()
        with pytest.raises(LeaseLostError):
            held.require_held()


def test_former_holder_leaves_successor_alone(exclusion: Exclusion) -> None:
    with exclusion.of("one").hold("first") as former:
        exclusion.remove()
        successor = exclusion.of("two").hold("second", patience=0)
        held = successor.__enter__()
        with pytest.raises(LeaseLostError):
            former.require_held()
    held.require_held()
    with pytest.raises(LeaseBusyError), exclusion.of("three").hold("third", patience=0):
        pass
    successor.__exit__(None, None, None)


def test_no_update_is_lost(exclusion: Exclusion, tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    counter.write_text("0")

    def count(party: str) -> None:
        for number in range(ROUNDS):
            with exclusion.of(party).hold(f"{party} {number}") as held:
                seen = int(counter.read_text())
                held.require_held()
                counter.write_text(str(seen + 1))

    parties = [Thread(target=count, args=(party,)) for party in ("one", "two", "three")]
    for party in parties:
        party.start()
    for party in parties:
        party.join()
    assert int(counter.read_text()) == ROUNDS * len(parties)


def test_lock_of_lost_lease_is_replaced(tmp_path: Path) -> None:
    # Both processes write one table: if the second has the lease, the first has lost it.
    lock = FileLock(tmp_path, 0, "table")
    with (
        behind_a_lease(lock, tmp_path / "former").hold("paused") as former,
        behind_a_lease(lock, tmp_path / "now").hold("successor", patience=0) as held,
    ):
        with pytest.raises(LeaseLostError):
            former.require_held()
        held.require_held()


def test_displaced_waiter_leaves_successors_lock_alone(tmp_path: Path) -> None:
    # A process is paused while it waits for a writer of Hudi. Its successor in the lease has the lock when it goes on.
    lock = FileLock(tmp_path, 0, "table")
    attempts: list[HeldLock | None] = []

    class Paused:
        def attempt(self, require_leading: Callable[[], None]) -> HeldLock | None:
            if attempts:
                return lock.attempt(require_leading)
            lease_of(tmp_path / "lease").take_away("successor", tuple)
            attempts.append(lock.attempt(lambda: None))
            return None

        def withdraw(self) -> None:
            lock.withdraw()

        def describe(self) -> str:
            return lock.describe()

    with pytest.raises(LeaseLostError), behind_a_lease(Paused(), tmp_path / "lease").hold("waiter", patience=5):
        pass
    (held,) = attempts
    assert held is not None
    held.require_held()


def test_killed_process_leaves_no_nameless_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # With another process's eyes: the file has its whole content as soon as it is there.
    seen = list[bytes]()
    link = os.link

    def look(source: Path, target: Path) -> None:
        link(source, target)
        seen.append(target.read_bytes())
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "link", look)
    with pytest.raises(KeyboardInterrupt):
        FileLock(tmp_path, 0, "table").attempt(lambda: None)
    monkeypatch.undo()
    assert b"table" in seen[0]
    held = FileLock(tmp_path, 0, "table").attempt(lambda: None)
    assert held is not None
    held.release()
    assert list(tmp_path.iterdir()) == []
