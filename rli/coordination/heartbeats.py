"""Heartbeats of Hudi: a file for each pending instant, named after it. The time of the file shows that the writer lives.

A writer of Hudi that shares the table with others (``hoodie.clean.failed.writes.policy=LAZY``) rolls back a pending instant
whose file is missing, or is older than some intervals. For a commit, it looks into the table's folder, and for the deltacommit of a
commit into the folder of the metadata table.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Self

from rli.coordination.contract import SignsOfLife
from rli.coordination.renewal import Renewal
from rli.hudi.lock_settings import HeartbeatSettings
from rli.storage import Storage, local_files
from rli.view.definition import TableDefinition

FOLDER: Final = ".hoodie/.heartbeat"
_OF_METADATA_TABLE: Final = ".hoodie/metadata/.hoodie/.heartbeat"
_BEATS_PER_INTERVAL: Final = 3
_DAY_SECONDS: Final = 86_400.0


class Heartbeats:
    """The heartbeats of a table's instants.

    Args:
        storage: the table's folder.
        settings: how often writers give heartbeats.
        has_metadata_table: whether the table has one.
    """

    def __init__(self, storage: Storage, settings: HeartbeatSettings, *, has_metadata_table: bool) -> None:
        # A power cut ends the writer, too.
        self._storage = storage.unflushed()
        self._settings = settings
        self._folders = (FOLDER, _OF_METADATA_TABLE) if has_metadata_table else (FOLDER,)

    @classmethod
    def of(cls, table: TableDefinition) -> Self:
        """Those of a table, as its properties say; raises ``UnsupportedTableError`` for a wrong value."""
        settings = HeartbeatSettings.of(table.properties.raw, table.location)
        return cls(table.storage, settings, has_metadata_table=bool(table.properties.metadata_partitions))

    def begin(self, instant: str, signs: SignsOfLife) -> BeatingSigns:
        """Give heartbeats of an instant until its signs of life are released."""
        return BeatingSigns(self, instant, signs, self._settings.interval / _BEATS_PER_INTERVAL)

    def beat(self, instant: str) -> None:
        """Give one heartbeat of an instant."""
        for folder in self._folders:
            self._storage.write_bytes(f"{folder}/{instant}", b"")

    def remove(self, instant: str) -> None:
        """Remove the heartbeats of an instant."""
        self._storage.delete_files(f"{folder}/{instant}" for folder in self._folders)

    def seconds_since(self, instant: str) -> float | None:
        """Seconds since the last heartbeat of an instant; None if there is no heartbeat, or the table is in an object store."""
        last = _changed(self._storage, f"{FOLDER}/{instant}") if self._storage.is_local else None
        return None if last is None else time.time() - last

    def is_recent(self, seconds: float) -> bool:
        """Whether a writer with a heartbeat of that age counts as alive, or one with another change of that age may be."""
        return seconds <= self._settings.tolerated

    def is_silent(self, pending_paths: Iterable[str], instant: str) -> bool:
        """Whether the writer of a pending instant, a process of Hudi, seems to be dead: its last heartbeat is too old.

        A writer that failed has removed its heartbeat, and a writer with the policy ``EAGER`` never gives any. So an instant without
        a heartbeat counts as left behind after a day. In an object store, no writer counts as dead.

        Args:
            pending_paths: the files of the instant on the timeline; some may be missing.
            instant: its time.
        """
        storage = self._storage
        if not storage.is_local:
            return False
        beaten = _changed(storage, f"{FOLDER}/{instant}")
        began = [at for path in pending_paths if (at := _changed(storage, path)) is not None]
        if beaten is None and not began:
            return False
        end = max(began) + _DAY_SECONDS if beaten is None else beaten + self._settings.tolerated
        return local_files.has_passed(str(Path(storage.root, ".hoodie")), end)


def _changed(storage: Storage, path: str) -> float | None:
    """The time of a file's last change, in seconds since the epoch; None if there is no file."""
    try:
        return Path(storage.root, path).stat().st_mtime
    except FileNotFoundError:
        return None


class BeatingSigns:
    """Signs of life among writers of rli, with heartbeats for writers of Hudi; see ``SignsOfLife``."""

    def __init__(self, heartbeats: Heartbeats, instant: str, signs: SignsOfLife, seconds: float) -> None:
        self._heartbeats = heartbeats
        self._instant = instant
        self._signs = signs
        heartbeats.beat(instant)
        self._renewal = Renewal(seconds, lambda: heartbeats.beat(instant), f"heartbeat {instant}")
        self._renewal.begin()

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
