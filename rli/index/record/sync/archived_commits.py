"""Whether an index has followed the commits that left the timeline for the archive.

An index follows the active timeline, and archives take instants in the order in which they began. So a commit of another engine that
lasted for many commits may go as soon as it has completed, before any sync. An index therefore notes where the timeline began when it had
followed all completed writes. As long as it begins there, nothing has left. Otherwise, the archive tells which writes have left.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Final, Self
from weakref import WeakKeyDictionary

from rli.errors import CorruptIndexError, IndexNotReadyError
from rli.hudi.timeline.timeline import Timeline
from rli.index.record.entries.stored_entries import StoredEntries
from rli.index.record.log.state import LogState
from rli.view.definition import TableDefinition

_NOTE: Final = "timeline"
"""Name of the control record."""
_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where an active timeline begins.

    Attributes:
        first: time of the oldest completed write, but for those that savepoints keep; "" where there is none.
        pending: times of older writes that may complete yet, ascending.
    """

    first: str
    pending: tuple[str, ...]

    @classmethod
    def of(cls, timeline: Timeline) -> Self:
        first = timeline.first or ""
        older = (one.time for one in timeline.pending if one.is_write and (one.time < first or not first))
        return cls(first, tuple(sorted(older)))

    @classmethod
    def from_json(cls, content: bytes) -> Self:
        """Read a note; raises ValueError, TypeError or KeyError where it is none."""
        found = json.loads(content)
        return cls(str(found["first"]), tuple(map(str, found["pending"])))

    def to_json(self) -> bytes:
        return json.dumps({"first": self.first, "pending": self.pending}).encode()

    def has(self, time: str) -> bool:
        """Whether a write could be on the timeline, or come to it later."""
        return time >= self.first or time in self.pending


@dataclass(frozen=True, slots=True)
class _Known:
    """What a process knows of the note of an index.

    Attributes:
        setbacks: of the store when it was read: a store that went back may hold another note.
        stored: the note; None if there is none, as in an index that an earlier version built.
        followed: a beginning of the timeline, up to which no write has left that the index does not know.
    """

    setbacks: int
    stored: Beginning | None
    followed: Beginning | None


_KNOWN: Final = WeakKeyDictionary[StoredEntries, _Known]()


def followed_beginning(index: StoredEntries) -> Beginning | None:
    """A beginning of the timeline since which every write that has left is to be in the log; None if none was noted.

    Raises:
        CorruptIndexError: the note is damaged.
    """
    known = _KNOWN.get(index)
    if known is None or known.setbacks != index.store.setbacks:
        setbacks, stored = index.store.setbacks, _read(index)
        known = _KNOWN[index] = _Known(setbacks, stored, stored)
    return known.followed


def note_beginning(index: StoredEntries, timeline: Timeline) -> None:
    """Note where a timeline begins, all of whose completed writes the index has followed, or is about to follow as one build."""
    followed_beginning(index)
    known, beginning = _KNOWN[index], Beginning.of(timeline)
    if beginning != known.stored:
        # Where another process notes something at the same time, both notes are true.
        expected = None if known.stored is None else known.stored.to_json()
        is_noted = index.store.compare_and_set(_NOTE, expected, beginning.to_json())
        _KNOWN[index] = _Known(known.setbacks, beginning if is_noted else _read(index), beginning)


def require_archived_known(
    table: TableDefinition, timeline: Timeline, followed: Beginning, index: StoredEntries, log: LogState
) -> None:
    """Pass a timeline which no write has left, since it had another beginning, that the index does not know.

    Args:
        table: the table.
        timeline: its timeline.
        followed: the other beginning.
        index: of the table.
        log: of the index.

    Raises:
        IndexNotReadyError: a write was archived that the index has not followed; names it.
        CorruptTableError: the archive cannot be read.
    """
    beginning = Beginning.of(timeline)
    if beginning == followed:
        return
    archived = table.archive.writes_since(min((followed.first, *followed.pending)))
    shown = timeline.write_times
    unknown = sorted(time for time in archived if followed.has(time) and time not in shown and time not in log.instants)
    if unknown:
        raise IndexNotReadyError(
            f"commits were archived before the index could follow them: table={table.location} index={index.url} "
            f"count={len(unknown)} instants={unknown[:_NAMED]}",
            remedy=(
                f"build the index again: {index.rebuilding}. Let the other engine keep more commits on the timeline than complete "
                "during one of its own (hoodie.keep.min.commits)"
            ),
        )
    _KNOWN[index] = replace(_KNOWN[index], followed=beginning)


def _read(index: StoredEntries) -> Beginning | None:
    content = index.store.read_control(_NOTE)
    try:
        return None if content is None else Beginning.from_json(content)
    except (ValueError, TypeError, KeyError) as error:
        raise CorruptIndexError(
            f"what the index notes of the timeline is damaged: index={index.url} ({type(error).__name__}: {error})",
            remedy=f"build the index again: {index.rebuilding}",
        ) from error
