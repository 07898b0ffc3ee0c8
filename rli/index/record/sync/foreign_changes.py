"""Commits of engines that know nothing of the index: what they changed is found from the files they changed.

For each file group that was rewritten, added or replaced, the record keys of its slice before are compared with
those of its slice after. Only those files are read, and of them only the key column.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from rli.errors import IndexNotReadyError
from rli.index.record.log_record import LogRecord
from rli.index.record.record_index import RecordIndex
from rli.locations import LocationUpdate
from rli.model import FileGroupId
from rli.view.file_slices import FileSlice
from rli.view.slice_diff import first_changes
from rli.view.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class GroupChange:
    """One file group before and after some commits.

    Attributes:
        group: the file group.
        before: its live slice before; None if it was not there.
        after: its live slice after; None if it was replaced.
    """

    group: FileGroupId
    before: FileSlice | None
    after: FileSlice | None


def changed_groups(snapshot: Snapshot, before: frozenset[str], after: frozenset[str]) -> list[GroupChange]:
    """The file groups that some commits changed.

    Args:
        snapshot: a view of the timeline that holds all commits concerned.
        before: completed writes of the earlier state.
        after: completed writes of the later state: those of ``before`` and the commits in question.

    Raises:
        IndexNotReadyError: a base file of the earlier state is gone, so that nobody can tell what it held.
    """
    earlier, later = snapshot.reduced_to(before), snapshot.reduced_to(after)
    touched = first_changes(later, before)
    base_files = [
        file_slice
        for file_slice in snapshot.slices.all_versions({group.partition_path for group in touched})
        if file_slice.group in touched
    ]
    old, new = earlier.live_slices(base_files), later.live_slices(base_files)
    for group in sorted(touched.keys() - old.keys() - earlier.replaced.keys()):
        prior = touched[group].built_on
        if touched[group].is_replacement or (prior is not None and earlier.timeline.is_visible(prior)):
            raise IndexNotReadyError(
                f"a base file was removed before the index could follow: partition={group.partition_path} "
                f"file_id={group.file_id} instant={prior}; bootstrap the index again: rli index bootstrap TABLE"
            )
    return [GroupChange(group, old.get(group), new.get(group)) for group in sorted(touched)]


def apply_group_change(snapshot: Snapshot, index: RecordIndex, record: LogRecord, change: GroupChange) -> None:
    """Bring the change of one file group into the index: a task.

    Keys that went are deleted with the record's first sequence, keys that came are placed with a later one: so a
    key that moved from one file group to another ends in the other, in whichever order the two are applied.
    """
    keys = _Keys(snapshot, change)
    went = keys.before.filter(pc.invert(pc.is_in(keys.before, value_set=keys.after)))
    log = index.log.refresh()
    index.apply(LocationUpdate.removing(went, change.group.partition_path), log, record.first_sequence)
    if change.after is None:
        return
    came = keys.after.filter(pc.invert(pc.is_in(keys.after, value_set=keys.before)))
    if not len(came):
        return
    position = record.located_at.index(change.after.instant, 1)
    index.apply(LocationUpdate.placing(came, change.group), log, record.first_sequence + position)


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
