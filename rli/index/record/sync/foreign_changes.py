"""Commits of engines that know nothing of the index: what they changed is found from the files they changed.

For each file group that was rewritten, added or replaced, the record keys of its slice before are compared with
those of its slice after. Only those files are read, and of them only the key column. Where the slice before is gone, the
entries that name the file group tell what it held.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rli.codec import entries as codec
from rli.codec.key_arrays import joined_strings
from rli.errors import IndexNotReadyError
from rli.file_group.merge import newest_records
from rli.index.record.entries.stored_entries import StoredEntries
from rli.index.record.log.record import LogRecord
from rli.index.record.sync.comparing_slices import judge
from rli.index.record.sync.repair import removal_of
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
        cleaned: file groups whose slice before is gone; ``before`` is None. If the slice after is gone, too, a file group is in
            neither: a later commit has rewritten it.
    """

    compared: tuple[GroupChange, ...]
    cleaned: tuple[GroupChange, ...]

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
    cleaned = {
        group
        for group in touched.keys() - earlier.replaced.keys()
        if was_cleaned(earlier, old.get(group), touched[group])
    }
    written = _last_files(later, before) if cleaned else {}
    return ForeignChanges(
        tuple(GroupChange(group, old.get(group), new.get(group)) for group in sorted(touched.keys() - cleaned)),
        tuple(
            GroupChange(group, None, new.get(group))
            for group in sorted(cleaned)
            if group in later.replaced or _has_file(new.get(group), written.get(group))
        ),
    )


def _last_files(snapshot: Snapshot, seen: frozenset[str]) -> dict[FileGroupId, str]:
    """The paths of the files that the completed writes of a snapshot wrote last, but for those of ``seen``."""
    return {
        stat.group: stat.path
        for instant in added_writes(snapshot.timeline, seen)
        for stat in snapshot.change(instant).stats
    }


def _has_file(file_slice: FileSlice | None, path: str | None) -> bool:
    return file_slice is not None and any(file.path == path for file in file_slice.files)


def require_slices_before(changes: ForeignChanges) -> None:
    """Raise ``IndexNotReadyError`` if a slice of the earlier state is gone, so that no file tells what it held."""
    if changes.cleaned:
        group = changes.cleaned[0].group
        raise IndexNotReadyError(
            f"a base file was removed before the index could follow: partition={group.partition_path} "
            f"file_id={group.file_id}",
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
    keys = _Keys(snapshot, change)
    # Keys that stay are not written again: their entry keeps the instant since which they are there, as after a commit
    # of rli.
    went = keys.before.filter(pc.invert(pc.is_in(keys.before, value_set=keys.after)))
    log = index.log.refresh()
    index.apply(LocationUpdate.removing(went, change.group.partition_path), log, record.first_sequence)
    if change.after is not None:
        came = keys.after.filter(pc.invert(pc.is_in(keys.after, value_set=keys.before)))
        _place(snapshot, index, record, change.after, came)


def place_unknown_keys(snapshot: Snapshot, index: StoredEntries, record: LogRecord, change: GroupChange) -> None:
    """Place the keys of a cleaned file group that the index does not have there: a task.

    All earlier records of the log are applied. So a key that the index has there was in the slice before (P2).
    """
    if change.after is None:
        return
    keys = _Keys(snapshot, change).after
    number = index.log.refresh().dictionary.number_of(change.group)
    absent, elsewhere = judge(number, index.get(index.codec.stored_keys_in(change.group.partition_path, keys)))
    _place(snapshot, index, record, change.after, keys.filter(pa.array(absent | elsewhere)))


def remove_gone_keys(
    snapshot: Snapshot, index: StoredEntries, record: LogRecord, cleaned: Sequence[GroupChange], shard: int
) -> None:
    """Remove the keys of a shard that the index has in cleaned file groups, and that these hold no more: a task."""
    log = index.log.refresh()
    changes = {log.dictionary.number_of(change.group): change for change in cleaned}
    for number, named in _keys_in(index, [number for number in changes if number is not None], shard):
        change = changes[number]
        held = index.codec.stored_keys_in(change.group.partition_path, _Keys(snapshot, change).after)
        gone = named.filter(pc.invert(pc.is_in(named, value_set=held)))
        index.apply(removal_of(index, gone), log, record.first_sequence)


def _keys_in(index: StoredEntries, groups: Sequence[int], shard: int) -> Iterator[tuple[int, pa.Array]]:
    """The stored keys of a shard whose entries name some file groups, by the numbers of these."""
    batches, numbers = [pa.array([], pa.string())], [np.empty(0, np.uint32)]
    for keys, entries in index.scan(shard):
        named = codec.file_groups(entries)
        chosen = codec.is_live(entries) & np.isin(named, groups)
        batches.append(keys.filter(pa.array(chosen)))
        numbers.append(named[chosen])
    every, number_of = pa.concat_arrays(batches), np.concatenate(numbers)
    for number in np.unique(number_of):
        yield int(number), every.filter(pa.array(number_of == number))


def _place(snapshot: Snapshot, index: StoredEntries, record: LogRecord, target: FileSlice, came: pa.Array) -> None:
    """Place keys that came into a file group with the sequence of the commit that wrote its slice, else the last one."""
    if len(came):
        _tell_repeats(snapshot, index, record, target.group, came)
        times = record.located_at
        # A commit that wrote a log file is not the one that wrote the base file below it.
        position = times.index(target.instant, 1) if target.instant in times[1:] else len(times) - 1
        index.apply(LocationUpdate.placing(came, target.group), index.log.refresh(), record.first_sequence + position)


def _tell_repeats(
    snapshot: Snapshot, index: StoredEntries, record: LogRecord, group: FileGroupId, came: pa.Array
) -> None:
    """Log keys that came into a file group, and that another live file group holds, too.

    Writers of Hudi compare file groups, so two of them may insert one key at the same moment, or one of them and rli.
    """
    entries = index.get(index.codec.stored_keys_in(group.partition_path, came))
    older = codec.is_live(entries) & (codec.sequences(entries) < record.first_sequence)
    if not older.any():
        return
    known = index.locations(came.filter(pa.array(older)), entries[older])
    sought, held = known.column("record_key"), list[pa.Array]()
    places = (known.column(name).to_pylist() for name in ("partition_path", "file_id"))
    for place in sorted({FileGroupId(*place) for place in zip(*places, strict=True)} - {group}):
        # A key that moved has left its former file group.
        file_slice = snapshot.slices.get(place)
        if file_slice is not None:
            held += (keys.filter(pc.is_in(keys, value_set=sought)) for keys in snapshot.record_keys(file_slice))
    repeated = pa.concat_arrays([pa.array([], pa.string()), *held]).unique()
    if len(repeated):
        events.SYNC_REPEATED.log(
            table=snapshot.table.location,
            instants=record.instants,
            keys=len(repeated),
            sample=repeated.slice(0, _SAMPLE).to_pylist(),
            file_group=f"{group.partition_path}/{group.file_id}",
        )


@dataclass(frozen=True)
class _Keys:
    snapshot: Snapshot
    change: GroupChange

    @cached_property
    def before(self) -> pa.Array:
        return self._of(self.change.before)

    @cached_property
    def after(self) -> pa.Array:
        return self._of(self.change.after)

    def _of(self, file_slice: FileSlice | None) -> pa.Array:
        if file_slice is None:
            return pa.array([], pa.string())
        batches = list(self.snapshot.record_keys(file_slice))
        return pa.concat_arrays(batches) if batches else pa.array([], pa.string())
