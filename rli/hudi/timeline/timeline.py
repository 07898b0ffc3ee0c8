"""The timeline of a table, loaded: which instants there are, in which order, and which files they make visible."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property, lru_cache
from itertools import takewhile
from typing import Final

from rli.byte_cache import ByteCache
from rli.errors import CorruptTableError, InstantNotFoundError
from rli.hudi.timeline.archive import Archive
from rli.hudi.timeline.archive_history import History
from rli.hudi.timeline.commit_metadata import CommitMetadata
from rli.hudi.timeline.instant import (
    ACTIONS,
    UNDOING_ACTIONS,
    WRITE_ACTIONS,
    Action,
    Instant,
    InstantState,
    new_instant_time,
)
from rli.hudi.timeline.layouts import TimelineLayout
from rli.hudi.timeline.undone import Undone
from rli.storage import Storage, StoredFile

_FILE_NAME: Final = re.compile(
    r"(?P<time>\d+)(?:_(?P<completion>\d+))?(?:\.inflight|\.(?P<action>[a-z]+)(?:\.(?P<state>requested|inflight))?)",
    re.ASCII,
)
_STATE_RANK: Final = {InstantState.REQUESTED: 0, InstantState.INFLIGHT: 1, InstantState.COMPLETED: 2}
_TIME_LENGTHS: Final = frozenset({*range(14, 21), 23})
"""The metadata table of version 6 adds three digits for a birth, and three more for a compaction of it."""

_MOST_REMEMBERED: Final = 1024
"""Rollbacks and restores whose content is kept in memory."""

_MOST_PARSED: Final = 4096
"""Names of files whose meaning is kept in memory: a write loads the timeline five times, and changes it three times."""

_REMEMBERED: Final[dict[tuple[str, frozenset[tuple[str, str]], str, int], Undone]] = {}

_BYTES_OF_LISTS: Final = 32 * 1024 * 1024
_MEMORY_OF_NAME: Final = 1_024
"""A file of a list takes about so many bytes: its name, and its instant."""

_BYTES_OF_COMMITS: Final = 32 * 1024 * 1024
_MEMORY_OF_BYTE: Final = 3
"""A commit takes so many times the bytes of its file: these, and what they say."""


@dataclass(frozen=True)
class Timeline:
    """The instants of a table at the moment of loading; each in the furthest state that it reached.

    Attributes:
        instants: ordered: layout 1 by instant time; layout 2 by completion time, pending ones last by instant time.
        layout: where the files of the instants are, and what they look like.
        as_of: newest instant time that this view shows; None for all.
        storage: the table.
        undoing: completed rollbacks and restores, those after ``as_of`` included.
        first: time of the first write that is not only kept for a savepoint: older writes were archived. None where
            the timeline holds no write.
        torn: the last writes whose completed files are empty. They count as inflight: their engine is about to write the
            file, or the power went off.
    """

    instants: tuple[Instant, ...]
    layout: TimelineLayout
    storage: Storage
    undoing: tuple[Instant, ...]
    first: str | None
    as_of: str | None = None
    torn: tuple[Instant, ...] = ()

    @cached_property
    def completed(self) -> tuple[Instant, ...]:
        """Completed instants of every action, in order."""
        return tuple(instant for instant in self.instants if instant.is_completed)

    @cached_property
    def completed_writes(self) -> tuple[Instant, ...]:
        """Completed instants that hold commit metadata, in order."""
        return tuple(instant for instant in self.completed if instant.action in WRITE_ACTIONS)

    @cached_property
    def pending(self) -> tuple[Instant, ...]:
        """Instants that were requested or begun but have not completed, by instant time."""
        return tuple(sorted((i for i in self.instants if not i.is_completed), key=lambda instant: instant.time))

    @cached_property
    def savepoints(self) -> tuple[Instant, ...]:
        """Completed savepoints, in order; each has the time of the commit that it keeps."""
        return tuple(instant for instant in self.completed if instant.action == Action.SAVEPOINT)

    @property
    def unsaved_writes(self) -> tuple[Instant, ...]:
        """Completed writes without a savepoint, in order.

        The oldest of them is where Hudi lets the active timeline begin; where there is none, nothing counts as archived.
        """
        saved = {instant.time for instant in self.savepoints}
        return tuple(instant for instant in self.completed_writes if instant.time not in saved)

    @property
    def last_clean(self) -> str | None:
        """Time of the last completed clean on the active timeline."""
        return self._last(Action.CLEAN)

    @property
    def last_replacement(self) -> str | None:
        """Time of the last completed replacement of file groups, such as a clustering, on the active timeline."""
        return self._last(Action.REPLACE_COMMIT)

    @property
    def last_compaction(self) -> str | None:
        """Time of the last completed compaction on the active timeline of a merge-on-read table: its writes are deltacommits."""
        return self._last(Action.COMMIT)

    def _last(self, action: Action) -> str | None:
        return max((instant.time for instant in self.completed if instant.action == action), default=None)

    @property
    def latest_write(self) -> Instant | None:
        """The completed write that came last."""
        return self.completed_writes[-1] if self.completed_writes else None

    @property
    def latest_time(self) -> str | None:
        """The greatest time in use, completion times included; a new instant must come after it."""
        times = [time for i in self.instants for time in (i.time, i.completion_time) if time is not None]
        return max(times, default=None)

    def next_time(self, now: datetime) -> str:
        """A time for a new instant or a completion: now, or just after all times in use where the clock is behind."""
        return new_instant_time(now, self.latest_time)

    def find(self, time: str) -> Instant:
        """The instant of that time.

        Raises:
            InstantNotFoundError: the timeline has none.
        """
        for instant in self.instants:
            if instant.time == time:
                return instant
        raise InstantNotFoundError(f"the timeline has no such instant: instant={time}", remedy="list the timeline")

    def at(self, as_of: str) -> Timeline:
        """The timeline as it shows the table at a time: the instants whose time is at or before it.

        Args:
            as_of: 17 digits, as ``parse_instant_time`` gives them.
        """
        return replace(self, instants=tuple(i for i in self.instants if i.time <= as_of), as_of=as_of)

    def is_visible(self, time: str) -> bool:
        """Whether base files of an instant count: it is a completed write, or one that was archived."""
        return time in self.write_times or self.is_archived(time)

    def is_archived(self, time: str) -> bool:
        """Whether an instant is older than the active timeline, hence long completed.

        One that the timeline says was undone is not: Hudi itself takes what such an instant left for data.
        """
        return is_older(time, self.first, self.as_of) and not self.is_undone(time)

    def is_undone(self, time: str) -> bool:
        """Whether an instant was rolled back or undone by a restore, as far as the active timeline tells.

        One that has completed all the same is not: a writer of Hudi may take another one's clustering for dead and roll it
        back, and the other one completes it behind that.

        Raises:
            CorruptTableError: the file of a rollback or restore cannot be read, or the archive; names it.
        """
        if time not in self.rolled_back or time in self.write_times:
            return False
        return not (is_older(time, self.first, None) and time in self._archived_writes)

    @cached_property
    def _archived_writes(self) -> frozenset[str]:
        """The writes that have left for the archive since the oldest one that a rollback names."""
        return frozenset(Archive(self.storage, self.layout).writes_since(min(self.rolled_back)))

    @cached_property
    def rolled_back(self) -> frozenset[str]:
        """The instants that the rollbacks and restores of the active timeline name."""
        return frozenset(time for instant in self.undoing for time in self._named_by(instant).instants)

    def undone_by(self, instant: Instant) -> Undone:
        """What a completed rollback or restore undid.

        Raises:
            CorruptTableError: its file cannot be read; names it.
        """
        named = self._named_by(instant)
        return replace(named, instants=tuple(time for time in named.instants if time not in self.write_times))

    def _named_by(self, instant: Instant) -> Undone:
        return _read_undone(self.storage, instant.action, self.layout.path(instant.file_name), instant.size)

    def completion_of(self, time: str) -> str:
        """When a write completed, as the active timeline tells, or the archive; else the time itself.

        Raises:
            CorruptTableError: the archive cannot be read; names the file.
        """
        return self._completion_times.get(time) or self._archived_completions.get(time, time)

    @cached_property
    def _completion_times(self) -> dict[str, str]:
        return {write.time: write.completion_time for write in self.completed_writes if write.completion_time}

    @cached_property
    def _archived_completions(self) -> dict[str, str]:
        if not self.layout.keeps_completion_times:
            return {}
        return History(self.storage, self.layout.archive_folder).completion_times()

    @cached_property
    def write_times(self) -> frozenset[str]:
        """The times of the completed writes."""
        return frozenset(instant.time for instant in self.completed_writes)


def _read_undone(storage: Storage, action: str, path: str, size: int) -> Undone:
    """What a rollback or restore undid: a file that is never changed, asked for at each load of the timeline."""
    key = storage.location, frozenset(storage.options.items()), path, size
    found = _REMEMBERED.get(key)
    if found is None:
        found = Undone.from_avro(action, storage.read_bytes(path) or b"", path)
        if len(_REMEMBERED) >= _MOST_REMEMBERED:
            _REMEMBERED.clear()
        _REMEMBERED[key] = found
    return found


def load_timeline(storage: Storage, layout: TimelineLayout) -> Timeline:
    """Load the active timeline.

    Files that Hudi passes over are passed over here: hidden files, checksums, folders, the properties, and names
    that are no instant's.

    Args:
        storage: the table.
        layout: of its timeline.

    Raises:
        CorruptTableError: an instant's file is broken; names the file.
    """
    while True:
        timeline = listed_timeline(storage, layout, storage.list_files(layout.folder))
        if is_unbroken(timeline):
            return timeline


def listed_timeline(storage: Storage, layout: TimelineLayout, files: Iterable[StoredFile]) -> Timeline:
    """The timeline of the files in its folder; raises as ``load_timeline``. Of two equal lists in a row, the second is not parsed again.

    It may lack instants that left for the archive while the folder was listed: see ``is_unbroken``.
    """
    key, found = (storage.location, storage.root, layout), tuple(files)
    kept = _LISTED.get(key)
    if kept is None or kept.files != found:
        kept = _KeptList(found, _timeline_of(storage, layout, found))
        _LISTED.keep(key, kept)
    timeline = kept.timeline
    return timeline if timeline.storage is storage else replace(timeline, storage=storage)


@dataclass(frozen=True, slots=True)
class _KeptList:
    files: tuple[StoredFile, ...]
    timeline: Timeline


_LISTED: Final = ByteCache[_KeptList](_BYTES_OF_LISTS, lambda kept: (len(kept.files) + 1) * _MEMORY_OF_NAME)
"""The last list of each timeline's folder, and what it says."""


def _timeline_of(storage: Storage, layout: TimelineLayout, files: Iterable[StoredFile]) -> Timeline:
    listed = sorted(_furthest_states(_instants_of(files, layout)), key=_order)
    torn = _torn(listed, layout)
    instants = tuple(sorted((_as_pending(i) if i in torn else i for i in listed), key=_order))
    first = _first_write(instants)
    undoing = tuple(i for i in instants if i.is_completed and i.action in UNDOING_ACTIONS)
    return Timeline(instants, layout, storage, undoing, first.time if first else None, torn=torn)


def is_older(time: str, first: str | None, as_of: str | None) -> bool:
    """Whether an instant is older than an active timeline, and not later than a moment.

    Args:
        time: of the instant.
        first: the first write on the active timeline; None if there is none, and then no instant is older.
        as_of: the moment; None for now.
    """
    return first is not None and time < first and (as_of is None or time <= as_of)


def is_unbroken(timeline: Timeline) -> bool:
    """Whether no instant left for the archive while a timeline was listed, so that none is missing from the middle.

    Instants leave in the order of their times. While the first one that was listed is there, no later one has left.
    """
    first = _first_write(timeline.instants)
    return first is None or timeline.storage.exists(timeline.layout.path(first.file_name))


def list_instants(storage: Storage, layout: TimelineLayout) -> list[Instant]:
    """The instants of the active timeline, each in every state of which there is a file.

    Raises:
        CorruptTableError: an instant's file is broken; names the file.
    """
    return _instants_of(storage.list_files(layout.folder), layout)


def _instants_of(files: Iterable[StoredFile], layout: TimelineLayout) -> list[Instant]:
    parsed = (_parse(file, layout) for file in files)
    return [instant for instant in parsed if instant is not None]


@dataclass(frozen=True, slots=True)
class _KeptCommit:
    size: int
    commit: CommitMetadata


_COMMITS: Final = ByteCache[_KeptCommit](_BYTES_OF_COMMITS, lambda kept: kept.size * _MEMORY_OF_BYTE)
"""By layout and content, which tells all that a commit says: a name may be given to another commit after a restore."""


def read_commit(storage: Storage, timeline: Timeline, instant: Instant) -> CommitMetadata:
    """Commit metadata of a completed write. The file is read each time, and decoded again only if it is not kept in memory.

    Look-ups read the last commit again and again: that of a large load takes longer to decode than all the rest.

    Raises:
        CorruptTableError: the file is malformed; names it.
        InstantNotFoundError: the instant is no completed write, or its file has gone (archived or rolled back).
    """
    path = timeline.layout.path(instant.file_name)
    content = storage.read_bytes(path) if instant.is_completed and instant.action in WRITE_ACTIONS else None
    if content is None:
        raise InstantNotFoundError(
            f"no commit metadata for this instant: instant={instant.time} action={instant.action} "
            f"state={instant.state}",
            remedy="load the timeline again, it may have been rolled back or archived",
        )
    key = timeline.layout.version, content
    kept = _COMMITS.get(key)
    if kept is None:
        kept = _KeptCommit(len(content), timeline.layout.decode(content, path))
        _COMMITS.keep(key, kept)
    return kept.commit


@lru_cache(_MOST_PARSED)
def _parse(file: StoredFile, layout: TimelineLayout) -> Instant | None:
    match = _FILE_NAME.fullmatch(file.name)
    if match is None or match["action"] not in {None, *ACTIONS}:
        return None
    state = InstantState(match["state"] or InstantState.COMPLETED) if match["action"] else InstantState.INFLIGHT
    action = match["action"] or Action.COMMIT
    instant = Instant(match["time"], action, state, match["completion"], file.name, file.size)
    problem = _problem(instant, layout)
    if problem:
        raise CorruptTableError(
            f"{problem}: file={file.path} layout_version={layout.version}",
            remedy="restore the file from a backup, or remove it if its writer never finished",
        )
    return instant


def _problem(instant: Instant, layout: TimelineLayout) -> str | None:
    times = [instant.time, *([instant.completion_time] if instant.completion_time else [])]
    if any(len(time) not in _TIME_LENGTHS for time in times):
        return "a file of the timeline has no valid instant time"
    has_completion = instant.completion_time is not None
    if has_completion != (instant.is_completed and layout.keeps_completion_times):
        return "a file of the timeline does not fit the layout of the timeline"
    return None


def _torn(ordered: Iterable[Instant], layout: TimelineLayout) -> tuple[Instant, ...]:
    """The completed writes without content, if none with content comes after any of them.

    Raises:
        CorruptTableError: one does: what later commits built on was there.
    """
    writes = [instant for instant in ordered if instant.is_completed and instant.action in WRITE_ACTIONS]
    torn = tuple(takewhile(lambda instant: instant.size == 0, reversed(writes)))
    for instant in writes[: len(writes) - len(torn)]:
        if instant.size == 0:
            raise CorruptTableError(
                f"a completed commit is empty, and a later one is not: file={layout.path(instant.file_name)}",
                remedy="restore the file from a backup",
            )
    return torn


def _as_pending(instant: Instant) -> Instant:
    return replace(instant, state=InstantState.INFLIGHT, completion_time=None)


def _furthest_states(instants: Iterable[Instant]) -> list[Instant]:
    furthest: dict[tuple[str, str], Instant] = {}
    for instant in instants:
        key = instant.time, instant.completed_action
        known = furthest.get(key)
        if known is None or _STATE_RANK[instant.state] > _STATE_RANK[known.state]:
            furthest[key] = instant
    return list(furthest.values())


def _order(instant: Instant) -> tuple[bool, str, str]:
    pending_last = instant.completion_time is None and not instant.is_completed
    return pending_last, instant.completion_time or instant.time, instant.time


def _first_write(instants: Iterable[Instant]) -> Instant | None:
    # Savepoints keep their instants in the active timeline when newer ones are archived, and pending writes count:
    # nothing newer than a pending instant is ever archived, and files of a dead one must not pass as archived.
    listed = tuple(instants)
    kept = {instant.time for instant in listed if instant.action == Action.SAVEPOINT}
    writes = sorted((instant for instant in listed if instant.is_write), key=lambda instant: instant.time)
    return next((instant for instant in writes if instant.time not in kept), writes[0] if writes else None)
