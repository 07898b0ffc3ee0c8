"""Heartbeats of Hudi: a file for each pending instant, named after it. The time of the file shows that the writer lives.

A writer of Hudi that shares the table with others (``hoodie.clean.failed.writes.policy=LAZY``) rolls back a pending instant
whose file is missing, or is older than two intervals. For a commit, it looks into the table's folder, and for the deltacommit of a
commit into the folder of the metadata table.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from rli.coordination.contract import SignsOfLife
from rli.coordination.renewal import Renewal
from rli.storage import Storage, local_files

_FOLDERS: Final = (".hoodie/.heartbeat", ".hoodie/metadata/.hoodie/.heartbeat")
_INTERVAL_SECONDS: Final = 60.0
"""Hudi's default of ``hoodie.client.heartbeat.interval_in_ms``."""

_TOLERATED_SECONDS: Final = 2 * _INTERVAL_SECONDS
"""By Hudi's default of ``hoodie.client.heartbeat.tolerable.misses``."""

_BEATS_PER_INTERVAL: Final = 3

_DAY_SECONDS: Final = 86_400.0


class Heartbeats:
    """The heartbeats of a table's instants.

    Args:
        storage: the table's folder.
        has_metadata_table: whether the table has one.
    """

    def __init__(self, storage: Storage, *, has_metadata_table: bool) -> None:
        # A power cut ends the writer, too.
        self._storage = storage.unflushed()
        self._folders = _FOLDERS if has_metadata_table else _FOLDERS[:1]

    def begin(self, instant: str, signs: SignsOfLife) -> BeatingSigns:
        """Give heartbeats of an instant until its signs of life are released."""
        return BeatingSigns(self, instant, signs)

    def beat(self, instant: str) -> None:
        """Give one heartbeat of an instant."""
        for folder in self._folders:
            self._storage.write_bytes(f"{folder}/{instant}", b"")

    def remove(self, instant: str) -> None:
        """Remove the heartbeats of an instant."""
        self._storage.delete_files(f"{folder}/{instant}" for folder in self._folders)


def seconds_since_beat(storage: Storage, instant: str) -> float | None:
    """Seconds since the last heartbeat of an instant; None if there is no heartbeat, or the table is in an object store."""
    last = _changed(storage, f"{_FOLDERS[0]}/{instant}") if storage.is_local else None
    return None if last is None else time.time() - last


def is_fresh(seconds: float) -> bool:
    """Whether a writer counts as alive, by the age of its last heartbeat in seconds."""
    return seconds <= _TOLERATED_SECONDS


def is_silent(storage: Storage, pending_paths: Iterable[str], instant: str) -> bool:
    """Whether the writer of a pending instant, a process of Hudi, seems to be dead: its last heartbeat is older than two intervals.

    A writer that failed has removed its heartbeat, and a writer with the policy ``EAGER`` never gives any. So an instant without a
    heartbeat counts as left behind after a day.

    Args:
        storage: the table's folder. In an object store, no writer counts as dead.
        pending_paths: the files of the instant on the timeline; some may be missing.
        instant: its time.
    """
    if not storage.is_local:
        return False
    beaten = _changed(storage, f"{_FOLDERS[0]}/{instant}")
    began = [at for path in pending_paths if (at := _changed(storage, path)) is not None]
    if beaten is None and not began:
        return False
    end = max(began) + _DAY_SECONDS if beaten is None else beaten + _TOLERATED_SECONDS
    return local_files.has_passed(str(Path(storage.root, ".hoodie")), end)


def _changed(storage: Storage, path: str) -> float | None:
    """The time of a file's last change, in seconds since the epoch; None if there is no file."""
    try:
        return Path(storage.root, path).stat().st_mtime
    except FileNotFoundError:
        return None


class BeatingSigns:
    """Signs of life among writers of rli, with heartbeats for writers of Hudi; see ``SignsOfLife``."""

    def __init__(self, heartbeats: Heartbeats, instant: str, signs: SignsOfLife) -> None:
        self._heartbeats = heartbeats
        self._instant = instant
        self._signs = signs
        heartbeats.beat(instant)
        self._renewal = Renewal(
            _INTERVAL_SECONDS / _BEATS_PER_INTERVAL, lambda: heartbeats.beat(instant), f"heartbeat {instant}"
        )

    def require_held(self) -> None:
        """Raise ``LeaseLostError`` if another process has taken this one for dead."""
        self._signs.require_held()

    def release(self) -> bool:
        """Stop the heartbeats; True if no other process has taken this one for dead."""
        self._renewal.end()
        try:
            self._heartbeats.remove(self._instant)
        finally:
            was_held = self._signs.release()
        return was_held
