"""Appending: the changes of a file group become a log file of its newest slice."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rli.file_group import work_rows
from rli.file_group.changed_values import ChangeNotes
from rli.file_group.kept_values import keeping_stored, kept_values
from rli.file_group.log_appends import LogAppending, PlacedRecords
from rli.file_group.merge import MergePlan
from rli.file_group.stored_records import StoredRecords
from rli.file_group.write_context import FileGroupResult, FileGroupTarget, WriteContext, base_file_path
from rli.hudi.log_file.base_rows import UNKNOWN, BaseRows
from rli.hudi.timeline.commit_metadata import WriteStat
from rli.view.file_slices import FileSlice
from rli.view.paths import unpublished_file, unpublished_files


@dataclass(frozen=True, slots=True)
class Append:
    """A slice that gets a log file.

    Attributes:
        appending: how the write appends.
        base: the slice.
        token: of the attempt.
    """

    appending: LogAppending
    base: FileSlice
    token: str

    @classmethod
    def of(
        cls, context: WriteContext, targets: Sequence[FileGroupTarget], plan: MergePlan, stored: StoredRecords
    ) -> Append | None:
        """The append to a single file group; None if next base files are to be written.

        Args:
            context: the write.
            targets: the file groups.
            plan: of the merge.
            stored: the stored records that the plan is about.
        """
        appending, base = context.appending, targets[0].base
        if appending is None or base is None or len(targets) > 1:
            return None
        changes = plan.rows.column(work_rows.CHANGE).to_numpy()
        reader = stored.readers[0]
        if reader is None or not appending.may_append(base, reader, changes):
            return None
        return cls(appending, base, targets[0].write_token) if appending.wins(plan, stored.known, reader) else None

    def write(
        self, context: WriteContext, plan: MergePlan, stored: StoredRecords, records: pa.Table
    ) -> FileGroupResult:
        """Write the log file, and the journal.

        Args:
            context: the write.
            plan: of the merge.
            stored: the stored records.
            records: the work rows as records (``with_record_meta_columns``).
        """
        group = self.base.group
        for batch, fates in kept_values(context, plan, stored):
            records = keeping_stored(context, batch, records, plan.rows, fates)
        chosen = np.concatenate([plan.fates[plan.replaced_records], plan.added])
        removed = stored.known.take(pa.array(plan.removed_records))
        written = records.take(pa.array(chosen))
        content = self.appending.content(
            context.instant,
            group,
            PlacedRecords(written, self._base_rows(stored, plan.replaced_records, len(plan.added))),
            PlacedRecords(removed, self._base_rows(stored, plan.removed_records)),
        )
        name, appended_to = self.appending.name(self.base, context.instant, self.token)
        stat = WriteStat(
            file_id=group.file_id,
            path=base_file_path(group, str(name)),
            partition_path=group.partition_path,
            previous_instant=name.instant,
            writes=len(chosen),
            inserts=len(plan.added),
            update_writes=len(plan.replaced_records),
            deletes=removed.num_rows,
            written_bytes=len(content),
            file_size=len(content),
            appended_to=appended_to,
        )
        context.storage.make_folder(unpublished_files(context.instant))
        path = unpublished_file(context.instant, stat.path)
        context.storage.write_bytes(path, content)
        (replaced,) = plan.replaced_rows
        journal = context.journaled(group, self.token, plan.rows, replaced)
        changed = ChangeNotes(context.noted).changed(written)
        return FileGroupResult(group, plan.counts[0], stat, journal, changed=changed)

    def _base_rows(self, stored: StoredRecords, chosen: NDArray[np.intp], added: int = 0) -> BaseRows | None:
        """The positions in the base file of some stored records, and of so many new ones behind them; None if they are not known."""
        if stored.base_rows is None or self.base.base is None:
            return None
        rows = np.concatenate([stored.base_rows[chosen], np.full(added, UNKNOWN)])
        return BaseRows(posixpath.basename(self.base.base.path), rows)
