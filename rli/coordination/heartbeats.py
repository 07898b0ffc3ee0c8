"""Heartbeats of Hudi: a file for each pending instant, named after it. The time of the file shows that the writer lives.

A writer of Hudi that shares the table with others (``hoodie.clean.failed.writes.policy=LAZY``) rolls back a pending instant
whose file is missing, or is older than some intervals. For a commit, it looks into the table's folder, and for the deltacommit of a
commit into the folder of the metadata table.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final, Self

from rli.coordination.contract import SignsOfLife
from rli.coordination.renewal import Renewal
from rli.hudi.lock_settings import HeartbeatSettings
from rli.storage import Storage
from rli.view.definition import TableDefinition

FOLDER: Final = ".hoodie/.heartbeat"
_OF_METADATA_TABLE: Final = ".hoodie/metadata/.hoodie/.heartbeat"
_BEATS_PER_INTERVAL: Final = 3
_DAY_SECONDS: Final = 86_400.0
_CLOCK_FOLDER: Final = ".hoodie"
_WHOLE_SECOND: Final = 1.0
"""An object store tells the time of a file without its fraction."""


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
        """Seconds since the last heartbeat of an instant; None if there is no heartbeat."""
        last = self._storage.changed_at(f"{FOLDER}/{instant}")
        return None if last is None else time.time() - last

    def is_recent(self, seconds: float) -> bool:
        """Whether a writer with a heartbeat of that age counts as alive, or one with another change of that age may be."""
        return seconds <= self._settings.tolerated

    def is_silent(self, pending_paths: Iterable[str], instant: str, *, is_foretold: bool = False) -> bool:
        """Whether the writer of a pending instant, a process of Hudi, seems to be dead: its last heartbeat is too old.

        A writer that failed has removed its heartbeat, and a writer with the policy ``EAGER`` never gives any. So an instant without
        a heartbeat counts as left behind after a day.

        Args:
            pending_paths: the files of the instant on the timeline; some may be missing.
            instant: its time.
            is_foretold: ask the clock of this machine alone: to ask that of the storage, too, a file is written.
        """
        storage = self._storage
        beaten = storage.changed_at(f"{FOLDER}/{instant}")
        if beaten is not None:
            over = beaten + _WHOLE_SECOND + self._settings.tolerated
        else:
            began = [at for path in pending_paths if (at := storage.changed_at(path)) is not None]
            if not began:
                return False
            over = max(began) + _DAY_SECONDS
        return time.time() > over if is_foretold else storage.has_passed(_CLOCK_FOLDER, over)


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
