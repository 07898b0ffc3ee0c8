"""The lock of Hudi's ``ZookeeperBasedLockProvider``, which is Curator's ``InterProcessMutex``.

Below the node of the lock, each process makes an ephemeral node with a sequential number: the holder has the least number, and the
others wait in the order of their numbers. A node goes with the session of its process. Curator names a node
``_c_<uuid>-lock-<number>``, and sorts all nodes by what comes after the last ``lock-``; the lock of kazoo uses other names, which Curator
would sort at random. (Format: ``LockInternals`` and ``StandardLockInternalsDriver`` of Curator 2.13 and 5;
``HoodieInterProcessMutex`` of Hudi 1.2.0 for the data of a node.)

A process of rli puts the identity of the table into the data of its node. The holder of the table's lease removes the nodes of processes
that have lost the lease, whether they hold the lock or wait for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final
from uuid import uuid4

from rli.coordination.locks.zookeeper_session import ZookeeperSession
from rli.errors import LeaseLostError, StoreUnavailableError
from rli.hudi.lock_settings import ZookeeperLockSettings
from rli.processes import ProcessId

_NUMBERED: Final = "lock-"
_APPLICATION: Final = "application_id="


class ZookeeperLock:
    """A lock in ZooKeeper; ``SharedLock`` says what each method promises.

    Args:
        settings: of the lock.
        table_id: identity of the table, by which processes of rli know each other.
    """

    def __init__(self, settings: ZookeeperLockSettings, table_id: str) -> None:
        self._settings = settings
        self._of_rli = f"{_APPLICATION}rli-{table_id} ".encode()
        process = ProcessId.current()
        self._data = self._of_rli + f"process {process.pid} on host {process.host}".encode()
        self._queued: tuple[ZookeeperSession, str] | None = None
        self._holder: bytes | None = None

    def attempt(self, require_leading: Callable[[], None]) -> HeldZookeeperLock | None:
        """Take the lock if it is free or left behind; None if another process holds it. This process then waits in the queue.

        Args:
            require_leading: raises ``LeaseLostError`` once another writer has the lease.
        """
        path = self._settings.path
        session, own = self._queued or self._enqueue()
        names = sorted(session.children(path), key=_order)
        if own not in names:
            # Whoever took this process for dead has removed the node: the caller's next check of the lease tells.
            require_leading()
            self.withdraw()
            return None
        for name in names[: names.index(own)]:
            data = session.data(f"{path}/{name}")
            if data is not None and data.startswith(self._of_rli):
                # Behind the look: a process that has lost the lease leaves the node of its successor alone.
                require_leading()
                session.remove(f"{path}/{name}")
            elif data is not None:
                self._holder = data
                return None
        self._queued = None
        return HeldZookeeperLock(session, f"{path}/{own}", self._data, self._settings.session)

    def withdraw(self) -> None:
        """Leave the queue."""
        if self._queued is not None:
            session, _ = self._queued
            self._queued = None
            session.close()

    def describe(self) -> str:
        """The lock and, as far as known, its holder; for messages."""
        where = f"node={self._settings.path} servers={self._settings.servers}"
        if self._holder is None:
            return where
        return f"{where} holder=a writer of Hudi ({self._holder.decode(errors='replace')})"

    def _enqueue(self) -> tuple[ZookeeperSession, str]:
        session = ZookeeperSession(self._settings)
        try:
            session.make(self._settings.path)
            name = session.enqueue(self._settings.path, f"_c_{uuid4()}-{_NUMBERED}", self._data)
        except BaseException:
            session.close()
            raise
        self._queued = session, name
        return self._queued


class HeldZookeeperLock:
    """The lock while this process has it, by a node of its session.

    Args:
        session: of the node alone.
        path: of the node.
        data: of the node.
        seconds: after which the servers end a silent session.
    """

    def __init__(self, session: ZookeeperSession, path: str, data: bytes, seconds: float) -> None:
        self._session = session
        self._path = path
        self._data = data
        self._seconds = seconds

    def settle(self) -> bool:
        """Nothing is in doubt: nobody releases what another holder has."""
        return True

    def require_held(self) -> None:
        """Raise ``LeaseLostError`` if this process does not hold the lock any more, or cannot find out."""
        try:
            # Not a read: the server that answers it may not know yet that the others have ended the session.
            is_held, cause = self._session.write(self._path, self._data), None
        except StoreUnavailableError as error:
            is_held, cause = False, error
        if not is_held:
            raise LeaseLostError(
                f"the session with ZooKeeper is over, and Hudi's lock with it: node={self._path}",
                remedy="this writer was paused or cut off for longer than the session lasts, write again",
            ) from cause

    def leave(self) -> None:
        """Let the lock lapse after the time of a session, and do not release it."""
        # The process may live on and keep the session. If it ends, the servers end the session after the same time.
        lapse = threading.Timer(self._seconds, self._session.close)
        lapse.daemon = True
        lapse.start()

    def release(self) -> None:
        """Release the lock, if this process still holds it."""
        try:
            self._session.remove(self._path)
        finally:
            self._session.close()


def _order(name: str) -> str:
    """What Curator sorts the nodes by."""
    return name.rpartition(_NUMBERED)[2]
