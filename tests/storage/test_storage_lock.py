"""The lock of Hudi's StorageBasedLockProvider in an S3 server: its content, its expiry, and lost answers."""

from __future__ import annotations

import json
import time
from itertools import count
from uuid import uuid4

import pytest
from obstore.exceptions import BaseError, GenericError, PreconditionError

from rli import CorruptTableError, LeaseLostError
from rli.coordination.locks.storage_lock import HeldStorageLock, StorageLock
from rli.hudi.lock_settings import StorageLockSettings
from rli.storage import Storage
from tests.support.object_store import ObjectStore
from tests.support.requests import answer_lost

pytestmark = pytest.mark.invariant("P55")

FILE = ".hoodie/.locks/table_lock.json"
AUDIT = ".hoodie/.locks/audit"
VALIDITY = 300


@pytest.fixture
def storage(object_store: ObjectStore) -> Storage:
    return Storage(f"s3://{object_store.new_bucket()}/t", object_store.options)


def lock_of(storage: Storage, table: str = "t1", validity: int = VALIDITY, renewal: int = 30) -> StorageLock:
    return StorageLock(storage, StorageLockSettings(validity, renewal), table)


def taken(lock: StorageLock) -> HeldStorageLock:
    held = lock.attempt(lambda: None)
    assert held is not None, lock.describe()
    return held


def stored(storage: Storage) -> dict[str, object]:
    content = storage.read_bytes(FILE)
    assert content is not None
    found: dict[str, object] = json.loads(content)
    return found


def put_by_hudi(storage: Storage, valid_until: float, *, expired: bool = False) -> dict[str, object]:
    state = {"expired": expired, "validUntil": int(valid_until * 1000), "owner": str(uuid4())}
    storage.write_bytes(FILE, json.dumps(state).encode())
    return state


def test_content_is_what_hudi_reads(storage: Storage) -> None:
    began = time.time()
    held = taken(lock_of(storage))
    state = stored(storage)
    assert list(state) == ["expired", "validUntil", "owner"]
    assert state["expired"] is False
    assert isinstance(state["validUntil"], int)
    assert began + VALIDITY - 1 <= state["validUntil"] / 1000 <= time.time() + VALIDITY
    held.release()
    assert stored(storage) == {**state, "expired": True}


def test_valid_lock_of_hudi_is_respected(storage: Storage) -> None:
    state = put_by_hudi(storage, time.time() + 100)
    lock = lock_of(storage)
    assert lock.attempt(lambda: None) is None
    assert str(state["owner"]) in lock.describe()
    assert stored(storage) == state
    put_by_hudi(storage, time.time() + 100, expired=True)
    taken(lock).release()


def test_lapsed_lock_of_hudi_is_replaced(storage: Storage) -> None:
    put_by_hudi(storage, time.time() - 3600)
    taken(lock_of(storage)).release()


def test_fast_clock_leaves_renewed_lock_alone(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    # By this clock the lock is over. Its holder renews it, which shows that the clock is wrong.
    ticks = count(0, VALIDITY)
    monkeypatch.setattr(time, "monotonic", lambda: float(next(ticks)))
    lock = lock_of(storage)
    for renewal in range(5):
        put_by_hudi(storage, time.time() - 300 + 30 * renewal)
        assert lock.attempt(lambda: None) is None
    taken_later = lock.attempt(lambda: None)
    assert taken_later is not None, "a lock that nobody renews is left behind"
    taken_later.release()


def test_renewed_lock_outlives_its_validity(storage: Storage) -> None:
    held = taken(lock_of(storage, validity=10, renewal=1))
    first = stored(storage)["validUntil"]
    deadline = time.monotonic() + 30
    while stored(storage)["validUntil"] == first and time.monotonic() < deadline:
        held.require_held()
    assert stored(storage)["validUntil"] != first
    held.require_held()
    held.leave()
    assert stored(storage)["expired"] is False


def test_lock_of_lost_lease_is_replaced(storage: Storage) -> None:
    paused = taken(lock_of(storage))
    assert lock_of(storage, "t2").attempt(lambda: None) is None
    successor = taken(lock_of(storage))
    with pytest.raises(LeaseLostError, match="took Hudi's lock"):
        paused.require_held()
    paused.release()
    successor.require_held()
    successor.release()


LOST = pytest.mark.parametrize("error", [GenericError, PreconditionError], ids=["no answer", "refused"])
"""What this process is told of a write that was carried out. Hudi loses its lock for the validity then (hudi#14286)."""


@LOST
@pytest.mark.parametrize("is_new", [True, False], ids=["no object", "a released lock"])
def test_lost_answer_of_taking_is_ours(storage: Storage, error: type[BaseError], is_new: bool) -> None:  # noqa: FBT001
    if not is_new:
        taken(lock_of(storage)).release()
    storage.create("probed", b"")
    with answer_lost(1, error):
        held = taken(lock_of(storage))
    held.require_held()
    held.release()
    assert stored(storage)["expired"] is True


@LOST
def test_lost_answer_of_release_releases(storage: Storage, error: type[BaseError]) -> None:
    held = taken(lock_of(storage))
    with answer_lost(1, error):
        held.release()
    taken(lock_of(storage, "t2")).release()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[" * 100_000,
        b'{"expired":false,"validUntil":null,"owner":"a"}',
        b'{"expired":false,"validUntil":1e400,"owner":"a"}',
        b'{"expired":false,"validUntil":99999999999999999999,"owner":"a"}',
    ],
    ids=["empty", "no fields", "nested", "no time", "infinite", "no such time"],
)
def test_damaged_lock_is_told(storage: Storage, content: bytes) -> None:
    storage.write_bytes(FILE, content)
    with pytest.raises(CorruptTableError, match="table_lock"):
        lock_of(storage).attempt(lambda: None)


def test_audit_is_written_if_on(storage: Storage) -> None:
    taken(lock_of(storage)).release()
    assert storage.list_files(AUDIT) == []
    storage.write_bytes(".hoodie/.locks/audit_enabled.json", b'{"STORAGE_LOCK_AUDIT_SERVICE_ENABLED": true}')
    held = taken(lock_of(storage))
    owner = stored(storage)["owner"]
    held.release()
    [file] = storage.list_files(AUDIT)
    lines = [json.loads(line) for line in (storage.read_bytes(file.path) or b"").splitlines()]
    assert [line["state"] for line in lines] == ["START", "END"]
    began = lines[0]["timestamp"]
    assert file.name == f"{began}_{owner}.jsonl"
    for line in lines:
        assert line["ownerId"] == owner
        assert line["transactionStartTime"] == began
        assert line["lockExpiration"] == line["timestamp"] + VALIDITY * 1000
        assert line["lockHeld"] is True


def test_displaced_waiter_leaves_successor_alone(storage: Storage) -> None:
    successor = taken(lock_of(storage))

    def displaced() -> None:
        raise LeaseLostError("displaced", remedy="")

    with pytest.raises(LeaseLostError, match="displaced"):
        lock_of(storage).attempt(displaced)
    successor.require_held()
    successor.release()
