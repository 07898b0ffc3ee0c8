"""Commits of engines that know nothing of the index: what they changed is found from the files they changed.

For each file group that was rewritten, added or replaced, the record keys of its slice before are compared with
those of its slice after. Only those files are read, and of them only the key column. Where the slice before is gone, the
entries that name the file group tell what it held.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from rli.codec import entries as codec
from rli.codec.key_arrays import joined_strings
from rli.errors import IndexNotReadyError
from rli.file_group.merge import newest_records
from rli.index.record.entries.stored_entries import StoredEntries
from rli.index.record.log.record import LogRecord
from rli.index.record.sync.written_keys import live_records, place_by_commit_time
from rli.locations import LocationUpdate
from rli.model import FileGroupId
from rli.telemetry import events
from rli.view.diff import GroupChange, added_writes, first_changes, was_cleaned
from rli.view.file_slices import FileSlice
from rli.view.snapshot import Snapshot

_SAMPLE: Final = 10


@dataclass(frozen=True, slots=True)
class ForeignChanges:
    """What some commits changed.

    Attributes:
        compared: file groups of which both slices are there, or were never there.
        cleaned: file groups whose slice before is gone; ``before`` is None. If the slice after is gone, too, ``after`` is the present
            one: later records of the log win over what it tells too early.
        lost: a file group of which neither is there, and no later commit tells why; None if there is none.
    """

    compared: tuple[GroupChange, ...]
    cleaned: tuple[GroupChange, ...]
    lost: FileGroupId | None

    @property
    def groups(self) -> tuple[FileGroupId, ...]:
        """All file groups that were changed."""
        return tuple(sorted(change.group for change in (*self.compared, *self.cleaned)))


def foreign_changes(snapshot: Snapshot, before: frozenset[str], after: frozenset[str]) -> ForeignChanges:
    """The file groups that some commits changed.

    Args:
        snapshot: a view of the timeline that holds all commits concerned.
        before: completed writes of the earlier state.
        after: completed writes of the later state: those of ``before`` and the commits in question.
    """
    earlier, later = snapshot.reduced_to(before), snapshot.reduced_to(after)
    # The first change of each file group names the version before the run. Later changes of the same run may name
    # versions that a clean has removed, and nobody needs them.
    touched = first_changes(later, before)
    slices = [
        file_slice
        for file_slice in snapshot.slices.all_versions({group.partition_path for group in touched})
        if file_slice.group in touched
    ]
    old, new = earlier.live_slices(slices), later.live_slices(slices)
    gone = sorted(
        group
        for group in touched.keys() - earlier.replaced.keys()
        if was_cleaned(earlier, old.get(group), touched[group])
    )
    cleaned, unknown = dict[FileGroupId, FileSlice | None](), gone
    for state in (later, snapshot):
        # As a rule, no file group is left for the second look, which reads all commits.
        if unknown:
            told = _Told.of(state, before, slices)
            cleaned |= {group: told.slices.get(group) for group in unknown if told.has(group)}
            unknown = [group for group in unknown if group not in cleaned]
    return ForeignChanges(
        tuple(GroupChange(group, old.get(group), new.get(group)) for group in sorted(touched.keys() - {*gone})),
        tuple(GroupChange(group, None, cleaned[group]) for group in sorted(cleaned)),
        next(iter(unknown), None),
    )


@dataclass(frozen=True, slots=True)
class _Told:
    """What a state tells of file groups.

    Attributes:
        slices: the live ones.
        written: the path of the file that was written last into each file group.
        replaced: file groups that were replaced.
    """

    slices: Mapping[FileGroupId, FileSlice]
    written: Mapping[FileGroupId, str]
    replaced: Collection[FileGroupId]

    @classmethod
    def of(cls, snapshot: Snapshot, seen: frozenset[str], slices: Sequence[FileSlice]) -> _Told:
        """What the completed writes of a snapshot tell, but for those of ``seen``."""
        changes = [snapshot.change(instant) for instant in added_writes(snapshot.timeline, seen)]
        written = {stat.group: stat.path for change in changes for stat in change.stats}
        return cls(snapshot.live_slices(slices), written, snapshot.replaced)

    def has(self, group: FileGroupId) -> bool:
        """Whether the state of a file group is known: the file that was written last is there, or the file group was replaced."""
        file_slice, path = self.slices.get(group), self.written.get(group)
        is_there = file_slice is not None and any(file.path == path for file in file_slice.files)
        return is_there or group in self.replaced


def require_slices_before(changes: ForeignChanges) -> None:
    """Raise ``IndexNotReadyError`` if a slice of the earlier state is gone, so that no file tells what it held."""
    for change in changes.cleaned:
        raise _removed(change.group)
    require_known(changes)


def require_known(changes: ForeignChanges) -> None:
    """Raise ``IndexNotReadyError`` if a slice of the earlier state is gone, and what became of it, too."""
    if changes.lost is not None:
        raise _removed(changes.lost)


def _removed(group: FileGroupId) -> IndexNotReadyError:
    return IndexNotReadyError(
        f"a base file was removed before the index could follow: partition={group.partition_path} file_id={group.file_id}",
        remedy="bootstrap the index again: rli index bootstrap TABLE",
    )


def apply_live_change(snapshot: Snapshot, index: StoredEntries, record: LogRecord, change: GroupChange) -> None:
    """As ``apply_group_change``, where keys expire: a key also comes if its record was written again.

    What has expired is passed over. So of a key that has come again, the old record is, wherever it goes.
    """
    log = index.log.refresh()
    cutoff = index.cutoff(log) or ""
    before, after = (_live(snapshot, file_slice, cutoff) for file_slice in (change.before, change.after))
    went = pc.invert(pc.is_in(before.column("key"), value_set=after.column("key").combine_chunks()))
    keys = before.column("key").filter(went).combine_chunks().unique()
    index.apply(LocationUpdate.removing(keys, change.group.partition_path), log, record.first_sequence)
    if change.after is None:
        return
    known, written = (joined_strings(table.columns) for table in (before, after))
    came = after.filter(pc.invert(pc.is_in(written, value_set=known.combine_chunks())))
    newest = newest_records(came.column("key").combine_chunks(), came.column("time").combine_chunks())
    came = came if newest is None else came.take(pa.array(newest))
    records = [(came.column("key").combine_chunks(), came.column("time").combine_chunks())]
    # The first sequence is that of keys that went.
    sequences = record.first_sequence + 1, record.located_at[1:]
    place_by_commit_time(index, log, change.after, records, sequences)


def _live(snapshot: Snapshot, file_slice: FileSlice | None, cutoff: str) -> pa.Table:
    """Keys that have not expired, and when their records were written."""
    schema = pa.schema([("key", pa.string()), ("time", pa.string())])
    found = () if file_slice is None else live_records(snapshot, file_slice, cutoff)
    return pa.concat_tables([schema.empty_table(), *(pa.table([*columns], schema=schema) for columns in found)])


def apply_group_change(snapshot: Snapshot, index: StoredEntries, record: LogRecord, change: GroupChange) -> None:
    """Bring the change of one file group into the index: a task.

    Keys that went are deleted with the record's first sequence, keys that came are placed with a later one: so a
    key that moved from one file group to another ends in the other, in whichever order the two are applied.
    """
    _bring(snapshot, index, record, change, keys_of(snapshot, change.before))


def apply_cleaned_change(
    snapshot: Snapshot, index: StoredEntries, record: LogRecord, item: tuple[GroupChange, pa.Array]
) -> None:
    """As ``apply_group_change``, of a file group whose slice before is gone: a task.

    Args:
        snapshot: of the table.
        index: the index.
        record: that is applied.
        item: the file group, and the keys that the index has there.
    """
    change, before = item
    _bring(snapshot, index, record, change, before)


def _bring(snapshot: Snapshot, index: StoredEntries, record: LogRecord, change: GroupChange, before: pa.Array) -> None:
    # Keys that stay are not written again: their entry keeps the instant since which they are there, as after a commit
    # of rli.
    after, log = keys_of(snapshot, change.after), index.log.refresh()
    # Writers of Hudi may store a key twice in one file group. A store takes each key once.
    went = before.filter(pc.invert(pc.is_in(before, value_set=after))).unique()
    index.apply(LocationUpdate.removing(went, change.group.partition_path), log, record.first_sequence)
    came = after.filter(pc.invert(pc.is_in(after, value_set=before))).value_counts()
    if change.after is None or not len(came):
        return
    _tell_repeats(snapshot, index, record, change.group, came)
    # A commit that wrote a log file is not the one that wrote the base file below it.
    times = record.located_at
    position = times.index(change.after.instant, 1) if change.after.instant in times[1:] else len(times) - 1
    index.apply(LocationUpdate.placing(came.field("values"), change.group), log, record.first_sequence + position)


def _tell_repeats(
    snapshot: Snapshot, index: StoredEntries, record: LogRecord, group: FileGroupId, came: pa.StructArray
) -> None:
    """Log keys that came into a file group more than once, or that another live file group holds, too.

    Writers of Hudi compare file groups, so two of them may insert one key at the same moment, or one of them and rli. Hudi's inserts
    store what they are given, repeated keys as well.

    Args:
        snapshot: of the table.
        index: of the table.
        record: that is applied.
        group: the file group.
        came: the keys, each once, with ``counts`` of the records that the file group holds of each.
    """
    keys, counts = came.field("values"), came.field("counts")
    held = [keys.filter(pc.greater(counts, 1))]
    entries = index.get(index.codec.stored_keys_in(group.partition_path, keys))
    older = codec.is_live(entries) & (codec.sequences(entries) < record.first_sequence)
    known = index.locations(keys.filter(pa.array(older)), entries[older])
    sought = known.column("record_key")
    places = (known.column(name).to_pylist() for name in ("partition_path", "file_id"))
    for place in sorted({FileGroupId(*place) for place in zip(*places, strict=True)} - {group}):
        # A key that moved has left its former file group.
        file_slice = snapshot.slices.get(place)
        if file_slice is not None:
            held += (some.filter(pc.is_in(some, value_set=sought)) for some in snapshot.record_keys(file_slice))
    repeated = pa.concat_arrays(held).unique()
    if len(repeated):
        events.SYNC_REPEATED.log(
            table=snapshot.table.location,
            instants=record.instants,
            keys=len(repeated),
            sample=repeated.slice(0, _SAMPLE).to_pylist(),
            file_group=f"{group.partition_path}/{group.file_id}",
        )


def keys_of(snapshot: Snapshot, file_slice: FileSlice | None) -> pa.Array:
    """The record keys of a slice: string array, shape (n,)."""
    batches = [] if file_slice is None else [*snapshot.record_keys(file_slice)]
    return pa.concat_arrays(batches) if batches else pa.array([], pa.string())
