"""The lock of Hudi's ``StorageBasedLockProvider``: an object that names its holder, written by conditional writes alone.

The object ``.hoodie/.locks/table_lock.json`` says who holds the lock (``owner``), until when without a renewal (``validUntil``,
milliseconds since the epoch), and whether the holder has released the lock (``expired``). A holder renews ``validUntil``. Nobody deletes
the object: so of two processes that write in place of one version, the store refuses one. (Format and rules:
``StorageBasedLockProvider``, ``StorageLockFile`` and ``StorageLockData`` of Hudi 1.2.0, RFC-91.)

- A conditional write is sent again if its answer is lost. The repetition is refused if the first write was carried out. So after a
  refusal, the content tells: each holder has an owner of its own, and no two writes of a holder are the same.
- An object of a process of rli that has lost the table's lease is replaced (``rli.coordination.locks.contract``). Its owner begins with
  the identity of the table.
- The object of another holder counts as left behind once ``validUntil`` is over by the clock of this machine. By a clock that is
  wrong, a living holder would lose the lock. So this process also watches that nobody renews the object, unless it is over for
  longer than clocks may differ.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from threading import Lock
from typing import Final
from uuid import uuid4

from rli.coordination.liveness import CLOCK_SLACK_SECONDS
from rli.coordination.locks.storage_audit import Audit, AuditState
from rli.coordination.renewal import Renewal
from rli.errors import CorruptTableError, LeaseLostError
from rli.hudi.lock_settings import StorageLockSettings
from rli.json_text import parse_json
from rli.storage import Storage, Versioned

_FILE: Final = ".hoodie/.locks/table_lock.json"
_RLI: Final = "rli"
_CLOCK_BUFFER_SECONDS: Final = 0.5
"""By so much the clocks of Hudi's writers may differ."""

_SILENT_PART: Final = 0.2
"""Of the validity, in which a living holder renews the lock twice."""

_MOST_REFUSALS: Final = 10
_MILLISECONDS: Final = 1000


@dataclass(frozen=True, slots=True)
class _State:
    """The content of the lock's object; the names are those of the stored format."""

    expired: bool
    validUntil: int  # noqa: N815
    owner: str

    def to_json(self) -> bytes:
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, content: bytes) -> _State:
        try:
            found = parse_json(content)
            expired, until, owner = found["expired"], found["validUntil"], found["owner"]
            if isinstance(expired, bool) and isinstance(until, int) and isinstance(owner, str):
                # A time that no calendar has could not be shown.
                datetime.fromtimestamp(until / _MILLISECONDS, UTC)
                return cls(expired, until, owner)
            problem = "a value has another type"
        except (ValueError, TypeError, KeyError, OverflowError, OSError) as error:
            problem = f"{type(error).__name__}: {error}"
        raise CorruptTableError(
            f"the object of Hudi's lock is damaged ({problem}): object={_FILE}",
            remedy="make sure that no writer runs, and remove the object",
        )


class StorageLock:
    """A lock in a table's object store; ``SharedLock`` says what each method promises.

    Args:
        storage: the table's folder.
        settings: of the lock.
        table_id: identity of the table, by which processes of rli know each other.
    """

    def __init__(self, storage: Storage, settings: StorageLockSettings, table_id: str) -> None:
        self._storage = storage
        self._settings = settings
        self._of_rli = f"{_RLI}-{table_id}-"
        self._seen: bytes | None = None
        self._seen_at = 0.0
        self._audit: Audit | None = None

    def attempt(self, require_leading: Callable[[], None]) -> HeldStorageLock | None:
        """Take the lock if it is free or left behind; None if another process holds it.

        Args:
            require_leading: raises ``LeaseLostError`` once another writer has the lease.
        """
        if self._audit is None:
            # Before the lock is taken: nobody waits for this look.
            self._audit = Audit(self._storage, self._of_rli + uuid4().hex, self._settings.validity)
        found = self._storage.read_versioned(_FILE)
        if found is not None and not self._is_free(found.content, require_leading):
            return None
        audit, self._audit = self._audit, None
        now = _now()
        state = _State(expired=False, validUntil=now + self._settings.validity * _MILLISECONDS, owner=audit.owner)
        taken = self._storage.write_versioned(_FILE, state.to_json(), found)
        if taken is None:
            return None
        audit.record(AuditState.START, now)
        return HeldStorageLock(self._storage, self._settings, audit, taken)

    def withdraw(self) -> None:
        """Nothing: there is no queue."""

    def describe(self) -> str:
        """The lock and, as far as known, its holder; for messages."""
        if self._seen is None:
            return f"object={_FILE}"
        state = _State.from_json(self._seen)
        until = datetime.fromtimestamp(state.validUntil // _MILLISECONDS, UTC).isoformat()
        kind = "a process of rli" if state.owner.startswith(self._of_rli) else "a writer of Hudi"
        return f"object={_FILE} holder={kind} owner={state.owner} valid_until={until}"

    def _is_free(self, content: bytes, require_leading: Callable[[], None]) -> bool:
        now = time.monotonic()
        if content != self._seen:
            self._seen, self._seen_at = content, now
        state = _State.from_json(content)
        if state.expired:
            return True
        if state.owner.startswith(self._of_rli):
            # Behind the look: this process may have been paused, and the object be that of its successor in the lease. The object
            # of a successor that takes the lease after the check has another version.
            require_leading()
            return True
        over = time.time() - state.validUntil / _MILLISECONDS
        silent = now - self._seen_at
        return over > CLOCK_SLACK_SECONDS or (
            over > _CLOCK_BUFFER_SECONDS and silent > self._settings.validity * _SILENT_PART
        )


class HeldStorageLock:
    """The lock while this process has it; it is renewed until it is left or released."""

    def __init__(self, storage: Storage, settings: StorageLockSettings, audit: Audit, taken: Versioned) -> None:
        self._storage = storage
        self._validity = settings.validity
        self._audit = audit
        self._own = taken
        self._renewed_at = time.monotonic()
        self._changing = Lock()
        self._renewal = Renewal(settings.renewal, self._renew, "lock in the storage")
        self._renewal.begin()

    def settle(self) -> bool:
        """Nothing is in doubt: nobody releases what another holder has."""
        return True

    def require_held(self) -> None:
        """Raise ``LeaseLostError`` if this process does not hold the lock any more."""
        with self._changing:
            self._own = self._found()
            # Enough of the validity is left for the publication, whatever the renewals have come to.
            if time.monotonic() > self._renewed_at + self._validity / 2:
                self._extend()

    def leave(self) -> None:
        """Stop renewing the lock, so that it lapses, and do not release it."""
        self._renewal.end()

    def release(self) -> None:
        """Release the lock, if this process still holds it."""
        self.leave()
        try:
            released = self._write(expired=True, valid_until=_State.from_json(self._own.content).validUntil)
        except LeaseLostError:
            return
        self._audit.record(AuditState.END, released)

    def _renew(self) -> None:
        with self._changing:
            self._extend()

    def _extend(self) -> None:
        began = time.monotonic()
        renewed = self._write(expired=False, valid_until=_now() + self._validity * _MILLISECONDS)
        self._renewed_at = began
        self._audit.record(AuditState.RENEW, renewed)

    def _write(self, *, expired: bool, valid_until: int) -> int:
        """Write the object in place of the own one; when that began. Raises ``LeaseLostError`` if another process has it."""
        now = _now()
        content = _State(expired=expired, validUntil=valid_until, owner=self._audit.owner).to_json()
        for _ in range(_MOST_REFUSALS):
            written = self._storage.write_versioned(_FILE, content, self._own)
            if written is not None:
                self._own = written
                return now
            # A store may also refuse a write because another one, of this very process, has not ended.
            self._own = self._found()
        raise OSError(f"the object store refuses to replace an object that nobody changes: object={_FILE}")

    def _found(self) -> Versioned:
        found = self._storage.read_versioned(_FILE)
        if found is None or _State.from_json(found.content).owner != self._audit.owner:
            raise LeaseLostError(
                f"another writer of the table took Hudi's lock, or removed it: object={_FILE}",
                remedy="this writer was paused or cut off for longer than the lock is valid, write again",
            )
        return found


def _now() -> int:
    return time.time_ns() // 1_000_000
