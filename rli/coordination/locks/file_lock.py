"""The lock of Hudi's ``FileSystemBasedLockProvider``: the process that has created the file ``lock`` holds the lock.

The provider only asks whether the file exists. The content of a file of rli is for rli alone:

- A process of Hudi deletes the file twice when it releases the lock, and may so delete the file of the next holder. It may also
  truncate a file that was created after it had asked for one, and then takes the file for its own. So a holder of rli reads its
  file again after a moment, and at each check: it holds the lock only while the file has the content that it wrote.
- The file of a process of rli that has lost the table's lease is replaced (``rli.coordination.locks.contract``).

Any other file counts as left behind once it is older than the expiry. Without an expiry, an operator has to remove it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final
from uuid import uuid4

from rli.coordination.renewal import Renewal
from rli.errors import LeaseLostError
from rli.json_text import parse_json
from rli.processes import ProcessId
from rli.storage import local_files

_FILE: Final = "lock"
_SECOND_DELETE_SECONDS: Final = 0.1
"""After a release, Hudi deletes the file a second time within this time, as a rule."""

_CREATION_SECONDS: Final = 0.02
"""After it has asked for the file, Hudi creates or truncates it within this time, as a rule."""

_RENEWALS_PER_TERM: Final = 3


class FileLock:
    """A lock file; ``SharedLock`` says what each method promises.

    Args:
        folder: of the file.
        expiry: seconds without a change after which a file counts as left behind, whoever its holder is; 0 for never.
        owner: identity of the table: all processes of rli take the lock in its name.
    """

    def __init__(self, folder: Path, expiry: float, owner: str) -> None:
        self._path = folder / _FILE
        self._expiry = expiry
        self._owner = owner

    def attempt(self, require_leading: Callable[[], None]) -> HeldFileLock | None:
        """Take the lock if it is free or left behind; None if another process holds it.

        Args:
            require_leading: raises ``LeaseLostError`` once another writer has the lease.
        """
        self._remove_left_behind(require_leading)
        process = ProcessId.current()
        content = json.dumps(
            {"rli": self._owner, "token": uuid4().hex, "host": process.host, "pid": process.pid}
        ).encode()
        changed = self._path.parent.stat()
        if not _create(self._path, content):
            return None
        return HeldFileLock(self._path, content, self._expiry, changed)

    def withdraw(self) -> None:
        """Nothing: there is no queue."""

    def describe(self) -> str:
        """The lock and, as far as known, its holder; for messages."""
        content = _read(self._path)
        if content is None:
            return f"file={self._path}"
        found = _fields(content)
        if "rli" in found:
            return f"file={self._path} holder=process {found.get('pid')} of rli on host {found.get('host')}"
        expires = f"expires after {self._expiry:g} s without a change" if self._expiry else "it never expires"
        return f"file={self._path} holder=a writer of Hudi ({expires})"

    def _remove_left_behind(self, require_leading: Callable[[], None]) -> None:
        content = _read(self._path)
        if content is None or not self._is_left_behind(content):
            return
        # Behind the look: this process may have been paused, and the file be that of its successor in the lease. The file of a
        # successor that takes the lease after the check was not there at the look.
        require_leading()
        if _read(self._path) == content and self._is_left_behind(content):
            self._path.unlink(missing_ok=True)

    def _is_left_behind(self, content: bytes) -> bool:
        return _fields(content).get("rli") == self._owner or self._has_expired()

    def _has_expired(self) -> bool:
        try:
            changed = self._path.stat().st_mtime
        except FileNotFoundError:
            return False
        return self._expiry > 0 and local_files.has_passed(str(self._path.parent), changed + self._expiry)


class HeldFileLock:
    """A lock file of this process; its time is renewed while it is held.

    Args:
        path: of the file.
        content: of the file.
        expiry: seconds without a change after which the file counts as left behind; 0 for never.
        folder: the state of its folder before.
    """

    def __init__(self, path: Path, content: bytes, expiry: float, folder: os.stat_result) -> None:
        self._path = path
        self._content = content
        self._folder = folder
        self._taken_at = time.monotonic()
        self._renewal = Renewal(expiry / _RENEWALS_PER_TERM, self._renew, "lock file")
        if expiry:
            self._renewal.begin()

    def settle(self) -> bool:
        """Wait until a release of Hudi has deleted its file the second time; False if that was this file."""
        needed = max(_SECOND_DELETE_SECONDS - self._quiet_seconds(), _CREATION_SECONDS)
        time.sleep(max(self._taken_at + needed - time.monotonic(), 0.0))
        return _read(self._path) == self._content

    def _quiet_seconds(self) -> float:
        """For how long no file of the folder was deleted before this one was created; 0 if nobody knows."""
        # The first deletion changed the folder. A client of a file server may remember an older time of the folder.
        if not os.major(self._folder.st_dev):
            return 0.0
        try:
            return max(self._path.stat().st_mtime - self._folder.st_mtime, 0.0)
        except FileNotFoundError:
            return 0.0

    def require_held(self) -> None:
        """Raise ``LeaseLostError`` if this process does not hold the lock any more."""
        if _read(self._path) != self._content:
            raise LeaseLostError(
                f"another writer of the table took Hudi's lock, or removed it: file={self._path}",
                remedy="write again; a lock file may only be removed while no writer holds it",
            )

    def leave(self) -> None:
        """Stop renewing the lock, so that it lapses, and do not release it."""
        self._renewal.end()

    def release(self) -> None:
        """Release the lock, if this process still holds it."""
        self.leave()
        if _read(self._path) == self._content:
            self._path.unlink(missing_ok=True)

    def _renew(self) -> None:
        if _read(self._path) == self._content:
            os.utime(self._path)


def _create(path: Path, content: bytes) -> bool:
    """Create a file with its content in one step; False if there is one already."""
    # Waiting processes ask often: without a look first, each question would write a file.
    if path.exists():
        return False
    # Were it empty for a moment, a process that dies in it would leave a file that nobody can tell from one of Hudi.
    temporary = path.with_name(local_files.temporary_name(path.name))
    try:
        temporary.write_bytes(content)
        # That of a file of Hudi that was removed; Hudi's next look at this one would fail.
        local_files.forget_checksum(str(path))
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        with suppress(OSError):
            temporary.unlink()
    return True


def _fields(content: bytes) -> dict[str, object]:
    """The fields that a process of rli has written into its file; none for other files."""
    try:
        found = parse_json(content)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
