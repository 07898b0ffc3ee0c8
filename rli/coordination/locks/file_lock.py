"""The lock of Hudi's ``FileSystemBasedLockProvider``: whoever has created the file ``lock`` holds it.

The provider looks whether the file exists, and no more. What rli writes into it is for rli alone:

- A process of Hudi deletes the file twice when it releases the lock, and does not look whose file the second one is. It may also
  open a file for writing that came to be after its look, and then takes it for its own. So a file that was created is looked at
  again after a moment, and whenever the holder asks: only while it has the content of its holder, the lock is held.
- A file of a process of rli that has lost the table's lease is replaced (``rli.coordination.locks.contract``).

A file of anybody else is left behind when it is older than the expiry. Without an expiry, an operator has to remove it.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final
from uuid import uuid4

from rli.coordination.renewal import Renewal
from rli.errors import LeaseLostError
from rli.json_text import parse_json
from rli.processes import ProcessId

_FILE: Final = "lock"
_SETTLING_SECONDS: Final = 0.1
"""By when a process of Hudi that has just released the lock has deleted the file a second time, as a rule."""

_RENEWALS_PER_TERM: Final = 3


class FileLock:
    """A lock file; ``SharedLock`` says what each method promises.

    Args:
        folder: of the file.
        expiry: seconds without a change after which anybody's file counts as left behind; 0 for never.
        owner: identity of the table, which all its processes of rli take the lock for.
    """

    def __init__(self, folder: Path, expiry: float, owner: str) -> None:
        self._path = folder / _FILE
        self._expiry = expiry
        self._owner = owner

    def attempt(self) -> HeldFileLock | None:
        """Take it, if it is free or left behind; None if another one holds it."""
        self._remove_left_behind()
        process = ProcessId.current()
        content = json.dumps(
            {"rli": self._owner, "token": uuid4().hex, "host": process.host, "pid": process.pid}
        ).encode()
        if not _create(self._path, content):
            return None
        time.sleep(_SETTLING_SECONDS)
        return HeldFileLock(self._path, content, self._expiry) if _read(self._path) == content else None

    def describe(self) -> str:
        """Name it, and say who holds it as far as that is known; for messages."""
        content = _read(self._path)
        if content is None:
            return f"file={self._path}"
        found = _fields(content)
        if "rli" in found:
            return f"file={self._path} holder=process {found.get('pid')} of rli on host {found.get('host')}"
        expires = f"expires after {self._expiry:g} s without a change" if self._expiry else "it never expires"
        return f"file={self._path} holder=a writer of Hudi ({expires})"

    def _remove_left_behind(self) -> None:
        content = _read(self._path)
        if content is None:
            return
        if _fields(content).get("rli") == self._owner or self._has_expired():
            self._path.unlink(missing_ok=True)

    def _has_expired(self) -> bool:
        try:
            changed = self._path.stat().st_mtime
        except FileNotFoundError:
            return False
        return 0 < self._expiry < time.time() - changed


class HeldFileLock:
    """A lock file of this process; its time is renewed while it is held."""

    def __init__(self, path: Path, content: bytes, expiry: float) -> None:
        self._path = path
        self._content = content
        self._renewal = Renewal(expiry / _RENEWALS_PER_TERM, self._renew, "lock file") if expiry else None

    def require_held(self) -> None:
        """Raise ``LeaseLostError`` if it is another one's, or nobody's."""
        if _read(self._path) != self._content:
            raise LeaseLostError(
                f"another writer of the table took Hudi's lock, or removed it: file={self._path}",
                remedy="write again; a lock file may only be removed while no writer holds it",
            )

    def leave(self) -> None:
        """Give no more signs of life, and let the lock lapse in place of releasing it."""
        if self._renewal is not None:
            self._renewal.end()

    def release(self) -> None:
        """Give it back, if it is still held."""
        self.leave()
        if _read(self._path) == self._content:
            self._path.unlink(missing_ok=True)

    def _renew(self) -> None:
        if _read(self._path) == self._content:
            os.utime(self._path)


def _create(path: Path, content: bytes) -> bool:
    """Write a file unless there is one; returns whether it was written."""
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
    except FileExistsError:
        return False
    try:
        os.write(descriptor, content)
    except BaseException:
        with suppress(OSError):
            path.unlink()
        raise
    finally:
        os.close(descriptor)
    return True


def _fields(content: bytes) -> dict[str, object]:
    """What a process of rli has written into its file; nothing for a file of anybody else."""
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
