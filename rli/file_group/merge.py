"""Merging work rows into a file group: who stays, who goes, who wins. Pure functions over Arrow arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rli.codec.distinct import are_surely_distinct
from rli.errors import CorruptIndexError, RecordExistsError
from rli.file_group.work_rows import CHANGE, RECORD_KEY, UNDECIDED, Change, told_apart
from rli.model import FileGroupId, WriteCounts

_KEEP: Final = -1
_REMOVE: Final = -2
_SAMPLE: Final = 5
_IS_UNDECIDED: Final = told_apart(UNDECIDED)
_ADDS: Final = told_apart([Change.INSERT, Change.MOVE_IN])


@dataclass(frozen=True, slots=True)
class MergePlan:
    """What becomes of each stored record and each work row of one file group.

    Attributes:
        rows: the work rows that do something, none of them undecided.
        fates: shape (stored records,), int64: the work row that replaces the record, or keep, or remove.
        added: positions of the work rows that add a record.
        counts: what that does to the table; an arriving record counts as moved, a departing one not at all.
        may_change_nothing: whether records are only replaced by others with the same ordering value, so that it takes
            a look at their other values to know whether anything changes.
    """

    rows: pa.Table
    fates: NDArray[np.int64]
    added: NDArray[np.intp]
    counts: WriteCounts
    may_change_nothing: bool

    @property
    def changes_nothing(self) -> bool:
        return bool((self.fates == _KEEP).all()) and not len(self.added)

    @property
    def counts_of_nothing(self) -> WriteCounts:
        """The counts if every record is replaced by an equal one."""
        return replace(self.counts, updated=0, unchanged=self.counts.unchanged + self.counts.updated)

    @property
    def replaced(self) -> int:
        """Stored records that are replaced."""
        return int((self.fates >= 0).sum())

    @property
    def removed(self) -> int:
        """Stored records that are removed."""
        return int((self.fates == _REMOVE).sum())


def plan_merge(
    group: FileGroupId,
    rows: pa.Table,
    stored_keys: pa.Array,
    stored_ordering: pa.Array | None,
    ordering_field: str | None,
    *,
    expired: NDArray[np.bool_] | None = None,
) -> MergePlan:
    """Decide what work rows do to the stored records of their file group.

    A work row loses against a stored record with a greater ordering value; on a tie the work row wins. A stored record that
    has expired counts as absent; where its key comes again, it goes.

    Args:
        group: the file group, for messages.
        rows: work rows, one for a key.
        stored_keys: record keys of the stored records, string array of shape (stored,).
        stored_ordering: ordering values of the stored records; None in a table without ordering field.
        ordering_field: the rows' column of ordering values; None likewise.
        expired: which stored records have expired, shape (stored,); None where keys do not expire.

    Raises:
        RecordExistsError: the file group holds a key that must be new.
        CorruptIndexError: the index placed a key here that the file group does not hold, or did not know one that
            it does hold.
    """
    matches = _matches(rows, stored_keys)
    outdated = None if expired is None else expired & (matches >= 0)
    if outdated is not None:
        matches[outdated] = _KEEP
    rows, fates, skipped = _decided(rows, matches)
    keys = rows.column(RECORD_KEY).combine_chunks()
    changes = rows.column(CHANGE).to_numpy()
    adds = _ADDS[changes]
    _require_consistent(group, keys, fates, adds)

    stored = np.flatnonzero(fates >= 0)
    matched_rows = fates[stored]
    updates = changes[matched_rows] == Change.UPDATE
    late, same = np.zeros(len(stored), dtype=bool), updates
    if stored_ordering is not None and ordering_field is not None and len(stored):
        arriving = rows.column(ordering_field).combine_chunks().take(pa.array(matched_rows))
        before = stored_ordering.take(pa.array(stored))
        late = updates & is_late(arriving, before)
        same = pc.fill_null(pc.equal(arriving, before), False).to_numpy(zero_copy_only=False) & updates
    fates[stored[late]] = _KEEP
    fates[stored[~updates]] = _REMOVE
    if outdated is not None:
        fates[outdated] = _REMOVE
    of_change = np.bincount(changes, minlength=len(Change) + 1).tolist()
    left_alone = int(late.sum())
    counts = WriteCounts(
        inserted=of_change[Change.INSERT],
        updated=int(updates.sum()) - left_alone,
        moved=of_change[Change.MOVE_IN],
        deleted=of_change[Change.DELETE],
        unchanged=left_alone + skipped,
    )
    return MergePlan(rows, fates, np.flatnonzero(adds), counts, bool((late | same).all()) and not adds.any())


def require_absent(known: pa.Array) -> None:
    """Raise ``RecordExistsError`` if there are record keys, of records to insert, that the table holds."""
    if len(known):
        raise RecordExistsError(
            f"records to insert are in the table already: count={len(known)} keys={known.slice(0, _SAMPLE).to_pylist()}; "
            'leave them out, or insert with on_existing="skip"'
        )


def is_late(arriving: pa.Array, stored: pa.Array) -> NDArray[np.bool_]:
    """Where an arriving ordering value is less than the stored one; a stored null is less than everything."""
    late: NDArray[np.bool_] = pc.fill_null(pc.less(arriving, stored), False).to_numpy(zero_copy_only=False)
    return late


def merge_batch(stored: pa.Table, rows: pa.Table, fates: NDArray[np.int64]) -> pa.Table:
    """The records of one batch of stored records after the merge, in their order.

    Args:
        stored: a batch of stored records.
        rows: replacements as records of the same schema, one for each work row.
        fates: of the batch, as ``MergePlan.fates``.
    """
    if (fates == _KEEP).all():
        return stored
    positions = np.where(fates >= 0, stored.num_rows + fates, np.arange(stored.num_rows))[fates != _REMOVE]
    return pa.concat_tables([stored, rows]).take(pa.array(positions))


def newest_records(record_keys: pa.Array, ordering: pa.Array | None) -> NDArray[np.intp] | None:
    """Which records of a batch stay when each key keeps one: that with the greatest ordering value, of equals the last.

    Returns:
        Positions in rising order, or None if no key occurs twice.
    """
    if are_surely_distinct(record_keys):
        return None
    codes = pc.dictionary_encode(record_keys)
    if len(codes.dictionary) == len(record_keys):
        return None
    order = np.arange(len(record_keys))
    if ordering is not None:
        order = pc.sort_indices(ordering).to_numpy()
    newest_first = codes.indices.to_numpy()[order][::-1]
    _, first = np.unique(newest_first, return_index=True)
    return np.sort(order[len(order) - 1 - first])


def first_records(record_keys: pa.Array) -> NDArray[np.intp] | None:
    """Which records of a batch stay when each key keeps its first one: positions in rising order, None for all."""
    if are_surely_distinct(record_keys):
        return None
    codes = pc.dictionary_encode(record_keys)
    return np.sort(np.unique(codes.indices.to_numpy(), return_index=True)[1])


def _matches(rows: pa.Table, stored_keys: pa.Array) -> NDArray[np.int64]:
    """The position of the work row with the key of each stored record, or keep: shape (stored records,)."""
    if not len(stored_keys):
        return np.empty(0, np.int64)
    keys = rows.column(RECORD_KEY).combine_chunks()
    matches = pc.fill_null(pc.index_in(stored_keys, value_set=keys), _KEEP).to_numpy(zero_copy_only=False)
    found: NDArray[np.int64] = matches.astype(np.int64)
    return found


def _decided(rows: pa.Table, fates: NDArray[np.int64]) -> tuple[pa.Table, NDArray[np.int64], int]:
    """Work rows that say what they do, without those that do nothing; the fates by these rows; how many are left out."""
    changes = rows.column(CHANGE).to_numpy()
    undecided = _IS_UNDECIDED[changes]
    if not undecided.any():
        return rows, fates, 0
    held = np.zeros(len(changes), dtype=bool)
    held[fates[fates >= 0]] = True
    refused = held & (changes == Change.INSERT_OR_FAIL)
    require_absent(rows.column(RECORD_KEY).combine_chunks().filter(pa.array(refused)))
    known = np.where(changes == Change.UPSERT, int(Change.UPDATE), int(Change.INSERT_OR_SKIP))
    decided = np.where(undecided, np.where(held, known, int(Change.INSERT)), changes)
    position = rows.schema.get_field_index(CHANGE)
    rows = rows.set_column(position, rows.schema.field(position), pa.array(decided, pa.int8()))
    kept = decided != Change.INSERT_OR_SKIP
    if kept.all():
        return rows, fates, 0
    moved = np.where(kept, np.cumsum(kept) - 1, _KEEP)
    return rows.filter(pa.array(kept)), np.where(fates >= 0, moved[fates], fates), int((~kept).sum())


def _require_consistent(group: FileGroupId, keys: pa.Array, fates: NDArray[np.int64], adds: NDArray[np.bool_]) -> None:
    held = np.zeros(len(keys), dtype=bool)
    held[fates[fates >= 0]] = True
    for wrong, problem in (
        (adds & held, "holds keys that the index does not place in it"),
        (~adds & ~held, "does not hold keys that the index places in it"),
    ):
        if wrong.any():
            sample = keys.take(np.flatnonzero(wrong)[:_SAMPLE]).to_pylist()
            raise CorruptIndexError(
                f"a file group {problem}: partition={group.partition_path} file_id={group.file_id} "
                f"count={int(wrong.sum())} keys={sample}; verify the index, then repair or bootstrap it"
            )
