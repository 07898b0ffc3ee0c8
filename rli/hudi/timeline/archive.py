"""The archive of a timeline: where completed instants go when they leave the active timeline, in Hudi's own formats."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rli.errors import CorruptTableError
from rli.hudi.timeline import archive_history, archive_log
from rli.hudi.timeline.archive_history import ArchivedInstant, History
from rli.hudi.timeline.avro_files import MALFORMED, read_record
from rli.hudi.timeline.instant import WRITE_ACTIONS, Action, Instant
from rli.hudi.timeline.layouts import TimelineLayout
from rli.json_text import parse_json
from rli.storage import Storage

ARCHIVED_ACTIONS: Final = frozenset[str](
    {Action.COMMIT, Action.DELTA_COMMIT, Action.REPLACE_COMMIT, Action.CLEAN, Action.ROLLBACK}
)
"""Actions whose completed instants are archived; Hudi archives no others."""

_FIELDS: Final[dict[str, str]] = {
    Action.COMMIT: "hoodieCommitMetadata",
    Action.DELTA_COMMIT: "hoodieCommitMetadata",
    Action.REPLACE_COMMIT: "hoodieReplaceCommitMetadata",
    Action.CLEAN: "hoodieCleanMetadata",
    Action.ROLLBACK: "hoodieRollbackMetadata",
}
_IN_JSON: Final = frozenset[str]({Action.COMMIT, Action.DELTA_COMMIT, Action.REPLACE_COMMIT})
_WITH_PLAN: Final = frozenset[str]({Action.REPLACE_COMMIT, Action.CLEAN, Action.COMPACTION})


@dataclass(frozen=True, slots=True)
class ArchiveFile:
    """A file of the archive.

    Attributes:
        path: relative to the table.
        content: of the file.
    """

    path: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Archive:
    """The archive of one table.

    Attributes:
        storage: the table.
        layout: of its timeline.
    """

    storage: Storage
    layout: TimelineLayout

    def is_empty(self) -> bool:
        """Whether nothing was ever archived."""
        if self.layout.keeps_completion_times:
            return self._history.is_empty()
        return self._newest_log_file() is None

    def writes_since(self, time: str) -> set[str]:
        """The times of the completed writes that were archived, from a time on.

        Raises:
            CorruptTableError: a file of the archive cannot be read; names it.
        """
        if self.layout.keeps_completion_times:
            return _writes_in(self._history.since(time), time)
        while (found := self._logged_since(time)) is None:
            # Hudi has joined files of the archive meanwhile.
            pass
        return found

    def _logged_since(self, time: str) -> set[str] | None:
        """As ``writes_since``, of layout 1; None if a file is gone by now."""
        found: set[str] = set()
        for name in self._newest_log_files():
            entries = self._entries_of(name)
            if entries is None:
                return None
            found |= _writes_in(entries, time)
            # Older files hold older writes.
            if max(_writes_in(entries), default=time) < time:
                break
        return found

    def file_for(self, files: Sequence[Sequence[Instant]]) -> ArchiveFile | None:
        """The file that instants are to be archived in, less those that are archived already; None if all are.

        Hudi reads archived files from the newest one back, and stops at one that brings it nothing new: so nothing
        is archived twice.

        Args:
            files: each instant in the states of which there are files, the completed one last; by time.

        Raises:
            CorruptTableError: a file of the timeline or of the archive cannot be read.
        """
        if self.layout.keeps_completion_times:
            known = self._history.since(files[0][-1].time)
            added = [self._archived(states) for states in files if _name(states) not in known]
            if not added:
                return None
            return ArchiveFile(self._path(archive_history.file_name(added)), archive_history.to_parquet(added))
        newest = self._newest_log_file()
        known = (None if newest is None else self._entries_of(newest)) or set[tuple[str, str]]()
        entries = [
            archive_log.entry(state.time, state.action, state.state.name, self._metadata(state))
            for states in files
            if _name(states) not in known
            for state in states
        ]
        if not entries:
            return None
        return ArchiveFile(self._path(archive_log.next_file_name(newest)), archive_log.to_log_file(entries))

    def add(self, path: str, size: int, create: Callable[[str, bytes], bool]) -> None:
        """Let a file of the archive count that lies where it belongs; may be repeated.

        Args:
            path: of the file.
            size: its bytes.
            create: writes a file unless one exists.

        Raises:
            CorruptTableError: a file of the archive cannot be read.
        """
        if self.layout.keeps_completion_times:
            self._history.add(posixpath.basename(path), size, create)

    @property
    def _history(self) -> History:
        return History(self.storage, self.layout.archive_folder)

    def _newest_log_file(self) -> str | None:
        return next(iter(self._newest_log_files()), None)

    def _newest_log_files(self) -> list[str]:
        return archive_log.newest_files(file.name for file in self.storage.list_files(self.layout.archive_folder))

    def _entries_of(self, name: str) -> set[tuple[str, str]] | None:
        """Times and actions of the completed instants in a log file; None if it is gone by now."""
        content = self.storage.read_bytes(self._path(name))
        return None if content is None else archive_log.completed_entries(content, self._path(name))

    def _path(self, name: str) -> str:
        return f"{self.layout.archive_folder}/{name}"

    def _archived(self, states: Sequence[Instant]) -> ArchivedInstant:
        completed = states[-1]
        plan = self._content(states[0]) if states[0].action in _WITH_PLAN and len(states) > 1 else None
        return ArchivedInstant(
            time=completed.time,
            completion_time=completed.completion_time or "",
            action=completed.action,
            metadata=self._content(completed),
            plan=plan or None,
        )

    def _metadata(self, instant: Instant) -> tuple[str, dict[str, Any]] | None:
        """The field of an entry that keeps the content of an instant, and the content; None of pending instants."""
        content = self._content(instant) if instant.is_completed else b""
        if not content:
            return None
        try:
            is_json = instant.action in _IN_JSON
            fields = _without_nulls(parse_json(content)) if is_json else read_record(content)
            return _FIELDS[instant.action], fields
        except MALFORMED as error:
            raise CorruptTableError(
                f"an instant cannot be archived, its file cannot be read: file={self.layout.path(instant.file_name)} "
                f"({type(error).__name__}: {error})",
                remedy="restore the file from a backup",
            ) from error

    def _content(self, instant: Instant) -> bytes:
        return self.storage.read_bytes(self.layout.path(instant.file_name)) or b""


def _writes_in(entries: Iterable[tuple[str, str]], since: str = "") -> set[str]:
    """The times of the writes among completed instants, from a time on."""
    return {time for time, action in entries if action in WRITE_ACTIONS and time >= since}


def _name(states: Sequence[Instant]) -> tuple[str, str]:
    return states[-1].time, states[-1].action


def _without_nulls(fields: dict[str, Any]) -> dict[str, Any]:
    """Commit metadata without what its Avro form has no place for: null texts of the writer's own."""
    extra = fields.get("extraMetadata") or {}
    return {**fields, "extraMetadata": {key: value for key, value in extra.items() if value is not None}}
