"""Deletes by mark and deletes that came before: what they make of the work rows of records, and what is kept of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rli.codec.scoped_keys import joined
from rli.errors import RecordExistsError
from rli.file_group import deleted_keys, work_rows
from rli.file_group.deleted_keys import DeletedKeys
from rli.file_group.work_rows import Change
from rli.hudi.meta_columns import IS_DELETED
from rli.hudi.schema_evolution import fitted
from rli.model import Scope
from rli.storage import Storage

_SAMPLE: Final = 5
_IS_NEW: Final = work_rows.told_apart(work_rows.NEW)

_IF_MARKED: Final = {
    Change.INSERT: work_rows.NOTHING,
    Change.UPDATE: Change.DELETE,
    Change.MOVE_IN: Change.DELETE,
    Change.UPSERT: Change.DELETE_OR_SKIP,
}
_IF_LATE: Final = {
    Change.INSERT: work_rows.NOTHING,
    Change.UPSERT: Change.UPDATE_OR_SKIP,
    Change.INSERT_OR_SKIP: work_rows.NOTHING,
}
"""What rows do instead: a late record replaces a stored one, if that is older, but is not inserted."""

_PRIOR: Final = {work_rows.PARTITION_PATH: work_rows.PRIOR_PARTITION_PATH, work_rows.FILE_ID: work_rows.PRIOR_FILE_ID}


@dataclass(frozen=True, slots=True)
class Deletions:
    """Decides about records that are marked as deleted, or older than a delete of their key. Picklable.

    Attributes:
        known: the deleted keys that count.
        ordering: the ordering field; None in a table without one, where no record is late.
    """

    known: DeletedKeys
    ordering: str | None

    def applied(self, rows: pa.Table, marks: NDArray[np.bool_], *, may_be_late: bool = True) -> tuple[pa.Table, int]:
        """Work rows of records as they are to be written, and how many rows were left out because they change nothing.

        Args:
            rows: as their look-up tells.
            marks: which of them are deletes, shape (n,).
            may_be_late: whether late records are left out; if not, they are an error.

        Raises:
            RecordExistsError: a record that must be inserted is older than a delete of its key.
        """
        changes = rows.column(work_rows.CHANGE).to_numpy()
        late = self._late(rows, changes)
        if not (marks.any() or late.any()):
            return rows, 0
        if not may_be_late:
            _require_in_time(rows, late)
        decided = np.where(late, work_rows.numbers_by_change(_IF_LATE)[changes], changes)
        decided = np.where(marks, work_rows.numbers_by_change(_IF_MARKED)[changes], decided)
        rows = _with_changes(rows, decided, moved=marks & (decided == Change.DELETE))
        kept = decided != work_rows.NOTHING
        return (rows, 0) if kept.all() else (rows.filter(pa.array(kept)), int((~kept).sum()))

    def _late(self, rows: pa.Table, changes: NDArray[np.int8]) -> NDArray[np.bool_]:
        late = np.zeros(rows.num_rows, dtype=bool)
        # A stored record is compared with the arriving one itself.
        new = np.flatnonzero(_IS_NEW[changes])
        if not self.known or self.ordering is None or not len(new):
            return late
        some = rows.select([work_rows.RECORD_KEY, work_rows.WANTED_PARTITION_PATH, self.ordering]).take(pa.array(new))
        keys, partition_paths, ordering = (column.combine_chunks() for column in some.columns)
        late[new] = self.known.overtake(keys, partition_paths, ordering)
        return late


@dataclass(frozen=True, slots=True)
class DeleteKeeping:
    """Keeps the deleted keys of a request, as far as they are not known with greater ordering values. Picklable.

    Attributes:
        storage: of the table.
        instant: of the write.
        known: the deleted keys that count.
        ordering: the column of ordering values.
        field: the ordering field in the table's schema; None in a table that was never written.
        scope: where a marked record deletes its key; keys alone are deleted in every partition.
        by_mark: whether only marked rows are deletes.
        refused: partition paths with keys whose delete took no effect, and is not kept.
    """

    storage: Storage
    instant: str
    known: DeletedKeys
    ordering: str
    field: pa.Field | None
    scope: Scope
    by_mark: bool
    refused: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def __call__(self, keyed: pa.Table, token: str) -> str | None:
        """Write the deleted keys of some keyed rows; returns the file's path, None if there is nothing new to keep."""
        rows = keyed.filter(pa.array(marked(keyed) & ~self._refused_in(keyed))) if self.by_mark else keyed
        keys, values = rows.column(work_rows.RECORD_KEY).combine_chunks(), rows.column(self.ordering)
        ordering = (values if self.field is None else fitted(values, self.field)).combine_chunks()
        in_partition = self.by_mark and self.scope is Scope.PARTITION
        partition_paths = rows.column(work_rows.WANTED_PARTITION_PATH).combine_chunks() if in_partition else None
        is_new = pa.array(~self.known.include(keys, partition_paths, ordering))
        kept = {
            deleted_keys.RECORD_KEY: keys,
            deleted_keys.PARTITION_PATH: pa.nulls(len(keys), pa.string())
            if partition_paths is None
            else partition_paths,
            deleted_keys.ORDERING: ordering,
        }
        new = pa.table(kept).filter(is_new)
        return deleted_keys.saved(self.storage, self.instant, token, new) if new.num_rows else None

    def _refused_in(self, keyed: pa.Table) -> NDArray[np.bool_]:
        named = [(partition_path, key) for partition_path, keys in self.refused for key in keys]
        if not named:
            return np.zeros(keyed.num_rows, dtype=bool)
        partition_paths, keys = (pa.array(values, pa.string()) for values in zip(*named, strict=True))
        sought = keyed.column(work_rows.RECORD_KEY).combine_chunks()
        if self.scope is Scope.PARTITION:
            keys = joined(partition_paths, keys)
            sought = joined(keyed.column(work_rows.WANTED_PARTITION_PATH).combine_chunks(), sought)
        refused: NDArray[np.bool_] = pc.is_in(sought, value_set=keys).to_numpy(zero_copy_only=False)
        return refused


def marked(rows: pa.Table) -> NDArray[np.bool_]:
    """Which rows are marked as deleted: by the working column of changes, or as Hudi does, with true in ``_hoodie_is_deleted``."""
    name = work_rows.IS_DELETED if work_rows.IS_DELETED in rows.column_names else IS_DELETED
    if name not in rows.column_names:
        return np.zeros(rows.num_rows, dtype=bool)
    marks = rows.column(name).cast(pa.bool_()).combine_chunks()
    found: NDArray[np.bool_] = pc.fill_null(marks, False).to_numpy(zero_copy_only=False)
    return found


def _require_in_time(rows: pa.Table, late: NDArray[np.bool_]) -> None:
    if late.any():
        keys = rows.column(work_rows.RECORD_KEY).combine_chunks().filter(pa.array(late))
        raise RecordExistsError(
            f"records to insert are older than a delete of their key: count={len(keys)} "
            f"keys={keys.slice(0, _SAMPLE).to_pylist()}",
            remedy='leave them out, or insert with on_existing="skip"',
        )


def _with_changes(rows: pa.Table, changes: NDArray[np.int8], moved: NDArray[np.bool_]) -> pa.Table:
    """Rows with other changes; those that are deleted where they are stored, whatever partition they name."""
    position = rows.schema.get_field_index(work_rows.CHANGE)
    rows = rows.set_column(position, rows.schema.field(position), pa.array(changes, pa.int8()))
    for name, prior in _PRIOR.items():
        position = rows.schema.get_field_index(name)
        column = pc.if_else(pa.array(moved), rows.column(prior), rows.column(name))
        rows = rows.set_column(position, rows.schema.field(position), column)
    return rows
