"""How the index of a column follows the table: what each instant of the timeline means for its entries.

An entry says that a record has a value. One too many costs a reader the time to test the record; one too few would hide it. So
where the files of a commit are gone before the index could follow, the records of its partitions are put again, as they are now,
and entries of former values are left over.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rli.codec.entries import TOMBSTONE, pack
from rli.codec.key_arrays import joined_strings
from rli.errors import CorruptTableError, InstantNotFoundError
from rli.file_group.changed_values import ChangedValues
from rli.hudi.meta_columns import COMMIT_TIME
from rli.hudi.timeline.instant import UNDOING_ACTIONS, WRITE_ACTIONS, Instant
from rli.index.record.columns.entry_keys import NO_FILE_GROUP, entry_keys
from rli.index.record.entries.shard_puts import each_once
from rli.index.record.entries.stored_entries import StoredEntries
from rli.index.record.log.record import LogRecord, RecordDraft
from rli.index.record.log.state import LogState
from rli.index.record.sync.actions import cannot_follow
from rli.index.record.sync.following import Following, LogAction, TimelineAction
from rli.index.record.sync.read_from_files import ReadFromFiles, UnknownAction
from rli.model import FileGroupId
from rli.tasks import InThreads, TaskRunner
from rli.view.column_values import ColumnValues, copied_records, keyed_values
from rli.view.file_slices import DataFile, FileSlice, SeenInstants
from rli.view.snapshot import Snapshot
from rli.view.table_change import TableChange

_PARTITIONS: Final = "partitions"
_MOST_PARTITIONS: Final = 1_000
_SMALL_CHANGE: Final = 256 << 20
"""Bytes of files that this process reads itself."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """Records of the table by their values, and where their entries go. Picklable.

    Attributes:
        values: reads the column.
        index: of the column.
        removed: sequence of the entries that go.
        placed: sequence of the entries that come; the greater one, because a record that moves has one of each.
    """

    values: ColumnValues
    index: StoredEntries
    removed: int
    placed: int

    def put(self, rows: pa.Table) -> None:
        """Put the entries of some records."""
        self._write(rows, self.placed, NO_FILE_GROUP)

    def remove(self, rows: pa.Table) -> None:
        """Remove the entries of some records."""
        self._write(rows, self.removed, TOMBSTONE)

    def replace(self, before: pa.Table, after: pa.Table, *, is_native: bool) -> None:
        """Remove the entries of records before a change, and put those after it.

        Args:
            before: the records that went or were replaced.
            after: the records that were written.
            is_native: by rli, which has left the entries as they were before; then an entry that stays is not written again.
        """
        before, after = (some.filter(some["value"].is_valid()) for some in (before, after))
        went, came = (_paired(some) for some in (before, after))
        self.remove(before.filter(pc.invert(pc.is_in(went, value_set=came))))
        self.put(after.filter(pc.invert(pc.is_in(came, value_set=went))) if is_native else after)

    def put_slice(self, file_slice: FileSlice) -> int:
        """Put the entries of all records of a slice; returns how many records it has: a task."""
        rows = self.values.of_slice(file_slice)
        self.put(rows)
        return len(rows)

    def _write(self, rows: pa.Table, sequence: int, number: int) -> None:
        values, keys = (rows[name].combine_chunks() for name in ("value", "key"))
        shards = self.index.settings.shard_count
        encoded = entry_keys(values, keys, shards)
        batches = [each_once(batch, pack(sequence, np.full(len(batch), number))) for batch in encoded]
        self.index.store.put_all(batches)


class ColumnActions:
    """The kinds of records in the commit log of a column's index.

    Args:
        column: of the index.
        held: changed values of commits that the caller has just written, by their instants.
    """

    def __init__(self, column: str, held: Mapping[str, ChangedValues]) -> None:
        actions: tuple[LogAction, ...] = (_Change(column, held), _Undoing(column), ReadFromFiles())
        self._by_name = {name: action for action in actions for name in action.names}

    def of(self, record: LogRecord) -> LogAction:
        return self._by_name.get(record.action) or UnknownAction()

    def to_follow(self, snapshot: Snapshot, index: StoredEntries, instant: Instant) -> TimelineAction:  # noqa: ARG002  (other indexes ask it)
        found = self._by_name.get(instant.action)
        if not isinstance(found, TimelineAction):
            raise cannot_follow(instant, index)
        return found


@dataclass(frozen=True, slots=True)
class _OfColumn(TimelineAction):
    """What both kinds have in common."""

    column: str

    def _rows(self, following: Following, record: LogRecord) -> _Rows:
        snapshot = following.snapshot
        values = ColumnValues(snapshot.table, snapshot.schema or pa.schema([]), self.column)
        return _Rows(values, following.index, record.first_sequence, record.last_sequence)

    def _put_all(self, following: Following, record: LogRecord) -> Iterator[None]:
        """Put the entries of all present records of the partitions that a record names."""
        slices, paths = following.snapshot.slices, _partitions_of(record)
        chosen = [one for group, one in slices.items() if paths is None or group.partition_path in paths]
        for _ in _runner(following, chosen).run(self._rows(following, record).put_slice, chosen):
            yield


@dataclass(frozen=True, slots=True)
class _Change(_OfColumn):
    """A commit, of whichever engine.

    Attributes:
        held: changed values of commits that the caller has just written, by their instants.
    """

    held: Mapping[str, ChangedValues]
    names = WRITE_ACTIONS

    def draft(self, following: Following, instants: Sequence[Instant]) -> RecordDraft:
        [instant] = instants
        change = following.snapshot.change(instant)
        return _draft(instant, {group.partition_path for group in change.groups})

    def apply(self, following: Following, record: LogRecord) -> Iterable[None]:
        snapshot = following.snapshot
        changed = self.held.get(record.instant or "")
        if changed is not None and changed.has(self.column):
            before, after = (keyed_values(some, self.column) for some in (changed.before, changed.after))
            self._rows(following, record).replace(before, after, is_native=True)
            return ()
        try:
            change = snapshot.change(snapshot.timeline.find(record.instant or ""))
            return list(self._apply_change(following, record, change))
        except (InstantNotFoundError, CorruptTableError):
            # It was undone or archived since, or others have removed its files.
            return self._put_all(following, record)

    def _apply_change(self, following: Following, record: LogRecord, change: TableChange) -> Iterator[None]:
        if change.keeps_records and change.is_native:
            return
        rows, log, snapshot = self._rows(following, record), following.log, following.snapshot
        before, after = _slices_of(snapshot, log, record, change)
        instant = record.instant if change.is_native else None
        groups = sorted({*before, *after})
        task = partial(_follow_group, rows, instant)
        items = [(before.get(group), after.get(group)) for group in groups]
        files = [one for item in items for one in item if one is not None]
        for _ in _runner(following, files).run(task, items):
            yield


class _Undoing(_OfColumn):
    """A rollback or restore: the entries that the undone commits removed come back."""

    names = UNDOING_ACTIONS

    def draft(self, following: Following, instants: Sequence[Instant]) -> RecordDraft:
        [instant] = instants
        log = following.log
        undone = log.instants.standing(following.snapshot.change(instant).undone)
        paths: set[str] | None = set()
        for time in undone:
            record = log.record_at(log.instants.sequence_of(time) or 0)
            own = None if record is None else _partitions_of(record)
            paths = None if paths is None or own is None else paths | own
        return _draft(instant, paths, undone)

    def apply(self, following: Following, record: LogRecord) -> Iterable[None]:
        return self._put_all(following, record) if record.undoes else ()


def _draft(instant: Instant, paths: set[str] | None, undone: Sequence[str] = ()) -> RecordDraft:
    named = None if paths is None or len(paths) > _MOST_PARTITIONS else sorted(paths)
    return RecordDraft(
        instant=instant.time,
        action=instant.action,
        writer=instant.time,
        located_at=(instant.time, instant.time),
        undoes=tuple(undone),
        metadata=() if named is None else ((_PARTITIONS, json.dumps(named)),),
    )


def _partitions_of(record: LogRecord) -> frozenset[str] | None:
    """The partitions that a record's change touched; None if they may be all."""
    named = dict(record.metadata).get(_PARTITIONS)
    return None if named is None else frozenset(json.loads(named))


def _runner(following: Following, files: Sequence[FileSlice]) -> TaskRunner:
    size = sum(file.size for one in files for file in one.files)
    return InThreads() if size <= _SMALL_CHANGE else following.tasks


Slices = dict[FileGroupId, FileSlice]


def _slices_of(snapshot: Snapshot, log: LogState, record: LogRecord, change: TableChange) -> tuple[Slices, Slices]:
    """The slices that a commit replaces, and those that hold what it wrote: of a native log file, that file alone."""
    writes = (write.time for write in snapshot.timeline.completed_writes)
    known = frozenset(time for time in writes if log.instants.is_before(time, record.first_sequence))
    own = record.instant or ""
    groups = change.superseded if change.is_native else change.groups
    versions = [
        one for one in snapshot.slices.all_versions({group.partition_path for group in groups}) if one.group in groups
    ]
    found = snapshot.reduced_to(known).live_slices(versions)
    before = {group: one for group, one in found.items() if _is_predecessor(snapshot, change, one)}
    if not change.is_native:
        after = snapshot.reduced_to(known | {own}).live_slices(versions)
        _require_written(change, after)
        return before, after
    written = {stat.group: FileSlice(stat.group, own, DataFile(stat.path, stat.file_size)) for stat in change.written}
    seen = SeenInstants(frozenset([own]), None, None, frozenset())
    appended = {
        stat.group: FileSlice(stat.group, own, None, (DataFile(stat.path, stat.file_size),), seen)
        for stat in change.appended
    }
    return before, written | appended


def _require_written(change: TableChange, slices: Slices) -> None:
    """Raise ``CorruptTableError`` if a clean has removed a file that a commit of another engine wrote."""
    held = {file.path for one in slices.values() for file in one.files}
    gone = next((stat for stat in change.stats if stat.path not in held and stat.group not in change.replaced), None)
    if gone is not None:
        raise CorruptTableError(f"a file of the commit is gone: {gone.path}", remedy="put the present records instead")


def _is_predecessor(snapshot: Snapshot, change: TableChange, old: FileSlice) -> bool:
    """Whether a slice is the last one before a commit. A savepoint keeps older ones, when the last one has been cleaned."""
    if not snapshot.timeline.savepoints:
        return True
    built_on = {stat.group: stat.previous_instant for stat in change.stats}
    return old.group not in change.replaced and built_on.get(old.group) == old.instant


def _follow_group(rows: _Rows, instant: str | None, item: tuple[FileSlice | None, FileSlice | None]) -> None:
    """Bring the change of one file group into the index: a task.

    Args:
        rows: where entries go.
        instant: of a commit of rli, whose new records have it as their commit time; None for other engines.
        item: the slices before and after.
    """
    old, new = item
    after = rows.values.of_slice(new)
    before = _unless_gone(rows.values, old)
    if old is not None and new is not None and instant is not None and COMMIT_TIME in after.column_names:
        before, after = _without_copied(before, after, instant)
    rows.replace(before, after, is_native=instant is not None)


def _without_copied(before: pa.Table, after: pa.Table, instant: str) -> tuple[pa.Table, pa.Table]:
    """The records that a commit has replaced or removed, and those that it has written: what it has only copied has its entry."""
    is_copied = copied_records(after, instant)
    written = after.filter(pc.invert(is_copied))
    is_replaced = pc.is_in(before["key"], value_set=written["key"].combine_chunks())
    if len(before) == (pc.sum(is_copied).as_py() or 0) + (pc.sum(is_replaced).as_py() or 0):
        # No record went, so the keys of the copied ones need not be compared.
        return before.filter(is_replaced), written
    copied = after["key"].filter(is_copied).combine_chunks()
    return before.filter(pc.invert(pc.is_in(before["key"], value_set=copied))), written


def _unless_gone(values: ColumnValues, file_slice: FileSlice | None) -> pa.Table:
    """The records before a change; none if their file was cleaned: their entries are left over then."""
    try:
        return values.of_slice(file_slice)
    except CorruptTableError:
        return values.of_slice(None)


def _paired(rows: pa.Table) -> pa.Array:
    """Value and record key of each record as one string; no two pairs have the same."""
    lengths = pc.binary_length(rows["value"]).cast(pa.string())
    return joined_strings([lengths, rows["value"], rows["key"]]).combine_chunks()
