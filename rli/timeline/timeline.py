"""The timeline of a table, loaded: which instants there are, in which order, and which files they make visible.

Two layouts exist (``hoodie.timeline.layout.version``):

* layout 1 (table version 6), in ``.hoodie/``: ``<time>.<action>.requested``, ``<time>.<action>.inflight`` and
  ``<time>.<action>``, where an inflight commit is just ``<time>.inflight``;
* layout 2 (versions 8 and 9), in ``.hoodie/timeline/``: the same, but the completed file is
  ``<time>_<completion time>.<action>``.

A file for an earlier state stays when a later state is reached.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from rli.errors import CorruptTableError, InstantNotFoundError
from rli.storage import Storage, StoredFile
from rli.timeline.commit_metadata import CommitMetadata
from rli.timeline.instant import ACTIONS, WRITE_ACTIONS, Action, Instant, State

META_FOLDER: Final = ".hoodie"
LAYOUT_OF_VERSION_6: Final = 1
LAYOUT_OF_VERSION_8: Final = 2

_FILE_NAME: Final = re.compile(
    r"(?P<time>\d+)(?:_(?P<completion>\d+))?(?:\.inflight|\.(?P<action>[a-z]+)(?:\.(?P<state>requested|inflight))?)",
    re.ASCII,
)
_STATE_RANK: Final = {State.REQUESTED: 0, State.INFLIGHT: 1, State.COMPLETED: 2}
_TIME_LENGTHS: Final = range(14, 21)


@dataclass(frozen=True)
class Timeline:
    """The instants of a table at the moment of loading; each in the furthest state that it reached.

    Attributes:
        instants: ordered: layout 1 by instant time; layout 2 by completion time, pending ones last by instant time.
        layout_version: 1 or 2.
        folder: where the files of the instants are, relative to the table.
        as_of: newest instant time that this view shows; None for all.
        first: time of the first write that is not only kept for a savepoint: older writes were archived. None where
            the timeline holds no write.
    """

    instants: tuple[Instant, ...]
    layout_version: int
    folder: str
    first: str | None
    as_of: str | None = None

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

    @property
    def latest_write(self) -> Instant | None:
        """The completed write that came last."""
        return self.completed_writes[-1] if self.completed_writes else None

    @property
    def latest_time(self) -> str | None:
        """The greatest time in use, completion times included; a new instant must come after it."""
        times = [time for i in self.instants for time in (i.time, i.completion_time) if time is not None]
        return max(times, default=None)

    def find(self, time: str) -> Instant:
        """The instant of that time.

        Raises:
            InstantNotFoundError: the timeline has none.
        """
        for instant in self.instants:
            if instant.time == time:
                return instant
        raise InstantNotFoundError(
            f"the timeline has no such instant: instant={time}; list the timeline to see those it has"
        )

    def at(self, as_of: str) -> Timeline:
        """The timeline as it shows the table at a time: the instants whose time is at or before it.

        Args:
            as_of: 17 digits, as ``parse_instant_time`` gives them.
        """
        return replace(self, instants=tuple(i for i in self.instants if i.time <= as_of), as_of=as_of)

    def is_visible(self, time: str) -> bool:
        """Whether base files of an instant count: it is a completed write, or one that was archived."""
        return time in self._write_times or self.is_archived(time)

    def is_archived(self, time: str) -> bool:
        """Whether an instant is older than the active timeline, hence long completed."""
        return self.first is not None and time < self.first and (self.as_of is None or time <= self.as_of)

    @cached_property
    def _write_times(self) -> frozenset[str]:
        return frozenset(instant.time for instant in self.completed_writes)


def load_timeline(storage: Storage, layout_version: int, timeline_path: str = "timeline") -> Timeline:
    """Load the active timeline.

    Files that Hudi passes over are passed over here: hidden files, checksums, folders, the properties, and names
    that are no instant's.

    Args:
        storage: the table.
        layout_version: of the table's properties, 1 or 2.
        timeline_path: folder below ``.hoodie`` for layout 2.

    Raises:
        CorruptTableError: an instant's file is broken; names the file.
    """
    folder = META_FOLDER if layout_version == LAYOUT_OF_VERSION_6 else posixpath.join(META_FOLDER, timeline_path)
    parsed = (_parse(file, layout_version) for file in storage.list_files(folder))
    furthest = _furthest_states(instant for instant in parsed if instant is not None)
    instants = tuple(sorted(furthest, key=_order))
    return Timeline(instants, layout_version, folder, _first_write(instants))


def read_commit(storage: Storage, timeline: Timeline, instant: Instant) -> CommitMetadata:
    """Commit metadata of a completed write.

    Raises:
        CorruptTableError: the file is malformed; names it.
        InstantNotFoundError: the instant is no completed write, or its file has gone (archived or rolled back).
    """
    path = posixpath.join(timeline.folder, instant.file_name)
    content = storage.read_bytes(path) if instant.is_completed and instant.action in WRITE_ACTIONS else None
    if content is None:
        raise InstantNotFoundError(
            f"no commit metadata for this instant: instant={instant.time} action={instant.action} "
            f"state={instant.state}; load the timeline again, it may have been rolled back or archived"
        )
    read = CommitMetadata.from_json if timeline.layout_version == LAYOUT_OF_VERSION_6 else CommitMetadata.from_avro
    return read(content, path)


def _parse(file: StoredFile, layout_version: int) -> Instant | None:
    match = _FILE_NAME.fullmatch(file.name)
    if match is None or match["action"] not in {None, *ACTIONS}:
        return None
    state = State(match["state"] or State.COMPLETED) if match["action"] else State.INFLIGHT
    action = match["action"] or Action.COMMIT
    instant = Instant(match["time"], action, state, match["completion"], file.name, file.size)
    problem = _problem(instant, layout_version)
    if problem:
        raise CorruptTableError(
            f"{problem}: file={file.path} layout_version={layout_version}; restore the file from a backup, or "
            "remove it if its writer never finished"
        )
    return instant


def _problem(instant: Instant, layout_version: int) -> str | None:
    times = [instant.time, *([instant.completion_time] if instant.completion_time else [])]
    if any(len(time) not in _TIME_LENGTHS for time in times):
        return "a file of the timeline has no valid instant time"
    has_completion = instant.completion_time is not None
    if has_completion != (instant.is_completed and layout_version != LAYOUT_OF_VERSION_6):
        return "a file of the timeline does not fit the layout of the timeline"
    if instant.is_completed and instant.action in WRITE_ACTIONS and instant.size == 0:
        return "a completed commit is empty"
    return None


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


def _first_write(instants: Iterable[Instant]) -> str | None:
    # Savepoints keep their instants in the active timeline when newer ones are archived, and pending writes count:
    # nothing newer than a pending instant is ever archived, and files of a dead one must not pass as archived.
    listed = tuple(instants)
    kept = {instant.time for instant in listed if instant.action == Action.SAVEPOINT}
    times = [instant.time for instant in listed if instant.is_write]
    return min((time for time in times if time not in kept), default=min(times, default=None))
