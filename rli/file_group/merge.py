"""Merging work rows into file groups: which records stay, go and win. Pure functions over Arrow arrays.

Many small file groups are merged together, so that they share the fixed cost of each call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rli.codec.distinct import are_surely_distinct
from rli.errors import CorruptIndexError, RecordExistsError
from rli.file_group.work_rows import CHANGE, NOTHING, RECORD_KEY, UNDECIDED, Change, numbers_by_change, told_apart
from rli.model import FileGroupId, WriteCounts

Numbers: TypeAlias = NDArray[np.intp]
"""Of file groups that are merged together, or what is counted of each of them."""

_KEEP: Final = -1
_REMOVE: Final = -2
_SAMPLE: Final = 5
_IS_UNDECIDED: Final = told_apart(UNDECIDED)
_ADDS: Final = told_apart([Change.INSERT, Change.MOVE_IN])
_MAY_BE_LATE: Final = told_apart([Change.UPDATE, Change.DELETE])

_IF_HELD: Final = {
    Change.UPSERT: Change.UPDATE,
    Change.INSERT_OR_SKIP: NOTHING,
    Change.UPDATE_OR_SKIP: Change.UPDATE,
    Change.DELETE_OR_SKIP: Change.DELETE,
}
_IF_ABSENT: Final = {
    Change.UPSERT: Change.INSERT,
    Change.INSERT_OR_SKIP: Change.INSERT,
    Change.INSERT_OR_FAIL: Change.INSERT,
    Change.UPDATE_OR_SKIP: NOTHING,
    Change.DELETE_OR_SKIP: NOTHING,
}
"""What undecided rows do; of the other changes each is what it is."""


Passes: TypeAlias = Callable[[pa.Table, NDArray[np.int64], NDArray[np.intp]], NDArray[np.bool_]]
"""Which of the work rows at some positions a caller's condition lets replace or delete the stored records at some others."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """How arriving records are compared with stored ones.

    Attributes:
        ordering_field: the rows' column of ordering values; None in a table without one.
        stored_ordering: ordering values of the stored records; None likewise.
        expired: which stored records have expired, shape (stored,); None where keys do not expire.
        passes: the caller's condition; None where there is none.
    """

    ordering_field: str | None = None
    stored_ordering: pa.Array | None = None
    expired: NDArray[np.bool_] | None = None
    passes: Passes | None = None


@dataclass(frozen=True, slots=True)
class MergePlan:
    """What becomes of each stored record and each work row of some file groups.

    Attributes:
        rows: the work rows that do something, none of them undecided.
        of_rows: shape (rows,): the number of the file group of each.
        of_stored: shape (stored records,): the number of the file group of each.
        fates: shape (stored records,), int64: the work row that replaces the record, or keep, or remove.
        added: positions of the work rows that add a record.
        counts: of each file group; a record that moves in counts as moved, a record that moves out not at all.
        may_change_nothing: whether the records of each file group are only replaced by records with the same ordering value.
            Only their other values tell whether anything changes.
        refused: the keys of each file group that the caller's condition does not let be deleted.
    """

    rows: pa.Table
    of_rows: Numbers
    of_stored: Numbers
    fates: NDArray[np.int64]
    added: NDArray[np.intp]
    counts: Sequence[WriteCounts]
    may_change_nothing: NDArray[np.bool_]
    refused: Sequence[tuple[str, ...]]

    @property
    def changes_nothing(self) -> NDArray[np.bool_]:
        """Of each file group whether all its records stay as they are, and none is added."""
        return self._counted(self.of_stored[self.fates != _KEEP]) + self.added_to == 0

    @property
    def added_to(self) -> Numbers:
        """Records that each file group gains."""
        return self._counted(self.of_rows[self.added])

    @property
    def replaced(self) -> Numbers:
        """Stored records of each file group that are replaced."""
        return self._counted(self.of_stored[self.fates >= 0])

    @property
    def replaced_records(self) -> NDArray[np.intp]:
        """Positions of the stored records that are replaced."""
        return np.flatnonzero(self.fates >= 0)

    @property
    def removed_records(self) -> NDArray[np.intp]:
        """Positions of the stored records that are removed."""
        return np.flatnonzero(self.fates == _REMOVE)

    @property
    def removed(self) -> Numbers:
        """Stored records of each file group that are removed."""
        return self._counted(self.of_stored[self.fates == _REMOVE])

    @property
    def rows_of(self) -> Numbers:
        """Work rows of each file group."""
        return self._counted(self.of_rows)

    @property
    def replaced_rows(self) -> list[NDArray[np.int64]]:
        """Of each file group the work rows that replace a record, by their positions among its own rows."""
        starts = starts_of(self.rows_of)
        is_replaced = self.fates >= 0
        numbers = self.of_stored[is_replaced]
        return np.split(self.fates[is_replaced] - starts[numbers], np.cumsum(self.replaced)[:-1])

    def added_of(self, records: pa.Table) -> pa.Table:
        """Those of some records, one for each work row, that are added."""
        return records if len(self.added) == len(self.of_rows) else records.take(pa.array(self.added))

    def _counted(self, numbers: Numbers) -> Numbers:
        return np.bincount(numbers, minlength=len(self.counts))


def numbers_of(counts: Sequence[int]) -> Numbers:
    """The number of the file group of each row, if those of one file group follow those of the one before."""
    return np.repeat(np.arange(len(counts)), counts)


def starts_of(counts: Numbers) -> Numbers:
    """The position of the first row of each file group, given how many rows each has."""
    starts: Numbers = np.cumsum(counts) - counts
    return starts


def by_group(rows: pa.Table, counts: Numbers) -> list[pa.Table]:
    """The rows of each file group."""
    return [rows.slice(start, count) for start, count in zip(starts_of(counts).tolist(), counts.tolist(), strict=True)]


def plan_merge(
    groups: Sequence[FileGroupId],
    rows: pa.Table,
    of_rows: Numbers,
    stored_keys: pa.Array,
    of_stored: Numbers,
    *,
    comparison: Comparison,
) -> MergePlan:
    """Decide what work rows do to the stored records of their file groups.

    An update or a delete loses against a stored record with a greater ordering value; on a tie the work row wins. It also loses where
    the caller's condition does not hold. A stored record that has expired counts as absent; if its key comes again, it is removed.

    Args:
        groups: the file groups.
        rows: work rows, one for a key in each file group.
        of_rows: the number of the file group of each, rising, shape (rows,).
        stored_keys: record keys of the stored records, string array of shape (stored,).
        of_stored: the number of the file group of each, rising, shape (stored,).
        comparison: of rows with stored records.

    Raises:
        RecordExistsError: a file group holds a key that must be new.
        CorruptIndexError: the index placed a key in a file group that does not hold it, or did not know one that it
            does hold.
    """
    matches = _matches(rows, of_rows, stored_keys, of_stored, len(groups))
    outdated = None if comparison.expired is None else comparison.expired & (matches >= 0)
    if outdated is not None:
        matches[outdated] = _KEEP
    decided = _decided(rows, matches)
    rows, fates, skipped = decided.rows, decided.fates, np.bincount(of_rows[~decided.kept], minlength=len(groups))
    of_rows = of_rows[decided.kept]
    keys = rows.column(RECORD_KEY).combine_chunks()
    changes = rows.column(CHANGE).to_numpy()
    adds = _ADDS[changes]
    _require_consistent(groups, keys, of_rows, fates, adds)

    stored = np.flatnonzero(fates >= 0)
    of_matched = of_stored[stored]
    matched_rows = fates[stored]
    updates = changes[matched_rows] == Change.UPDATE
    late, same = _late_and_same(comparison, rows, matched_rows, stored)
    refused = _refused(comparison, rows, matched_rows, stored, late)
    late |= refused
    fates[stored[late]] = _KEEP
    fates[stored[~updates & ~late]] = _REMOVE
    if outdated is not None:
        fates[outdated] = _REMOVE
    may_change_nothing = np.ones(len(groups), dtype=bool)
    may_change_nothing[of_matched[~(late | same)]] = False
    may_change_nothing[of_rows[adds]] = False
    updated, left_alone = (np.bincount(of_matched[which], minlength=len(groups)) for which in (updates, updates & late))
    late_deletes = matched_rows[late & ~updates]
    if len(late_deletes):
        # No journal is to tell of them.
        kept = np.ones(len(changes), dtype=bool)
        kept[late_deletes] = False
        rows, fates = _less(rows, fates, kept)
        skipped += np.bincount(of_rows[~kept], minlength=len(groups))
        changes, of_rows, adds = changes[kept], of_rows[kept], adds[kept]
    counts = _write_counts(changes, of_rows, updated - left_alone, left_alone + skipped)
    told = _keys_by_group(keys, matched_rows, of_matched, refused & ~updates, len(groups))
    return MergePlan(rows, of_rows, of_stored, fates, np.flatnonzero(adds), counts, may_change_nothing, told)


def _late_and_same(
    comparison: Comparison, rows: pa.Table, matched: NDArray[np.int64], stored: NDArray[np.intp]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which matched rows are older than their stored records, and which updates may leave everything as it is."""
    changes = rows.column(CHANGE).to_numpy()[matched]
    updates = changes == Change.UPDATE
    name, known = comparison.ordering_field, comparison.stored_ordering
    if name is None or known is None or not len(stored):
        return np.zeros(len(stored), dtype=bool), updates
    arriving = rows.column(name).combine_chunks().take(pa.array(matched))
    before = known.take(pa.array(stored))
    # A delete without ordering value is never late.
    return _MAY_BE_LATE[changes] & is_late(arriving, before), updates & _are_equal(arriving, before)


def _refused(
    comparison: Comparison,
    rows: pa.Table,
    matched: NDArray[np.int64],
    stored: NDArray[np.intp],
    late: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Which matched rows that are not late the caller's condition refuses."""
    refused = np.zeros(len(stored), dtype=bool)
    if comparison.passes is None:
        return refused
    # The record of a departure was decided on where it arrives.
    asked = np.flatnonzero(_MAY_BE_LATE[rows.column(CHANGE).to_numpy()[matched]] & ~late)
    if len(asked):
        refused[asked] = ~comparison.passes(rows, matched[asked], stored[asked])
    return refused


def _keys_by_group(
    keys: pa.Array, matched: NDArray[np.int64], of_matched: Numbers, chosen: NDArray[np.bool_], groups: int
) -> list[tuple[str, ...]]:
    if not chosen.any():
        return [()] * groups
    return [
        tuple(keys.take(pa.array(matched[chosen & (of_matched == number)])).to_pylist()) for number in range(groups)
    ]


def _write_counts(
    changes: NDArray[np.int8], of_rows: Numbers, all_updated: Numbers, all_unchanged: Numbers
) -> list[WriteCounts]:
    """What becomes of the records of each file group, given its updates and what changes nothing in it."""
    groups, kinds = len(all_updated), len(Change) + 1
    of_change = np.bincount(of_rows * kinds + changes, minlength=groups * kinds).reshape(groups, kinds)
    return [
        WriteCounts(inserted=inserted, updated=updated, moved=moved, deleted=deleted, unchanged=unchanged)
        for inserted, updated, moved, deleted, unchanged in zip(
            of_change[:, Change.INSERT].tolist(),
            all_updated.tolist(),
            of_change[:, Change.MOVE_IN].tolist(),
            of_change[:, Change.DELETE].tolist(),
            all_unchanged.tolist(),
            strict=True,
        )
    ]


def require_absent(known: pa.Array) -> None:
    """Raise ``RecordExistsError`` if there are record keys, of records to insert, that the table holds."""
    if len(known):
        raise RecordExistsError(
            f"records to insert are in the table already: count={len(known)} "
            f"keys={known.slice(0, _SAMPLE).to_pylist()}",
            remedy='leave them out, or insert with on_existing="skip"',
        )


def is_late(arriving: pa.Array, stored: pa.Array) -> NDArray[np.bool_]:
    """Where an arriving ordering value is less than the stored one; a stored null is less than everything."""
    late: NDArray[np.bool_] = pc.fill_null(pc.less(arriving, stored), False).to_numpy(zero_copy_only=False)
    return late


def _are_equal(arriving: pa.Array, stored: pa.Array) -> NDArray[np.bool_]:
    equal: NDArray[np.bool_] = pc.fill_null(pc.equal(arriving, stored), False).to_numpy(zero_copy_only=False)
    return equal


def merge_batch(stored: pa.Table, rows: pa.Table, fates: NDArray[np.int64]) -> pa.Table:
    """The records of one batch of stored records after the merge, in their order.

    Args:
        stored: a batch of stored records.
        rows: replacements as records of the same schema, one for each work row.
        fates: of the batch, as ``MergePlan.fates``.
    """
    if (fates == _KEEP).all():
        return stored
    return pa.concat_tables([stored, rows]).take(pa.array(_merged_positions(fates)))


def changed_records(fates: NDArray[np.int64]) -> NDArray[np.intp]:
    """Positions of the stored records that are replaced or removed.

    Args:
        fates: of stored records, as ``MergePlan.fates``.
    """
    return np.flatnonzero(fates != _KEEP)


def merge_all(stored: pa.Table, rows: pa.Table, plan: MergePlan) -> tuple[pa.Table, Numbers]:
    """All records of all file groups after the merge, and how many each of them has.

    The records are ordered by file group: of each group first the stored records in their order, then the added ones.

    Args:
        stored: the stored records.
        rows: as records of the same schema, one for each work row of the plan.
        plan: of the merge.
    """
    of_merged = np.concatenate([plan.of_stored[plan.fates != _REMOVE], plan.of_rows[plan.added]])
    positions = np.concatenate([_merged_positions(plan.fates), len(plan.fates) + plan.added])
    order = np.argsort(of_merged, kind="stable")
    merged = pa.concat_tables([stored, rows]).take(pa.array(positions[order]))
    return merged, np.bincount(of_merged, minlength=len(plan.counts))


def _merged_positions(fates: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where the merged records are among the stored records and, behind them, the work rows."""
    positions: NDArray[np.int64] = np.where(fates >= 0, len(fates) + fates, np.arange(len(fates)))[fates != _REMOVE]
    return positions


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


def _matches(
    rows: pa.Table, of_rows: Numbers, stored_keys: pa.Array, of_stored: Numbers, groups: int
) -> NDArray[np.int64]:
    """The position of the work row with the key and file group of each stored record, or keep: shape (stored records,)."""
    if not len(stored_keys):
        return np.empty(0, np.int64)
    keys = rows.column(RECORD_KEY).combine_chunks()
    if groups == 1:
        return _positions_in(keys, stored_keys)
    # A record that moves between two of the file groups has a row in each.
    codes = pc.dictionary_encode(keys)
    stored_codes = _positions_in(codes.dictionary, stored_keys)
    places = codes.indices.to_numpy().astype(np.int64) * groups + of_rows
    stored_places = np.where(stored_codes >= 0, stored_codes * groups + of_stored, _KEEP)
    return _positions_in(pa.array(places), pa.array(stored_places))


def _positions_in(known: pa.Array, sought: pa.Array) -> NDArray[np.int64]:
    """The position of each value among the known ones, or keep."""
    positions = pc.fill_null(pc.index_in(sought, value_set=known), _KEEP).to_numpy(zero_copy_only=False)
    found: NDArray[np.int64] = positions.astype(np.int64)
    return found


@dataclass(frozen=True, slots=True)
class _Decided:
    """Work rows that say what they do.

    Attributes:
        rows: all work rows but those that do nothing.
        fates: of the stored records, by these rows.
        kept: which of all rows these are, shape (all rows,).
    """

    rows: pa.Table
    fates: NDArray[np.int64]
    kept: NDArray[np.bool_]


def _decided(rows: pa.Table, fates: NDArray[np.int64]) -> _Decided:
    changes = rows.column(CHANGE).to_numpy()
    undecided = _IS_UNDECIDED[changes]
    if not undecided.any():
        return _Decided(rows, fates, np.ones(len(changes), dtype=bool))
    held = np.zeros(len(changes), dtype=bool)
    held[fates[fates >= 0]] = True
    refused = held & (changes == Change.INSERT_OR_FAIL)
    require_absent(rows.column(RECORD_KEY).combine_chunks().filter(pa.array(refused)))
    decided = np.where(held, numbers_by_change(_IF_HELD)[changes], numbers_by_change(_IF_ABSENT)[changes])
    position = rows.schema.get_field_index(CHANGE)
    rows = rows.set_column(position, rows.schema.field(position), pa.array(decided, pa.int8()))
    kept = decided != NOTHING
    return _Decided(*_less(rows, fates, kept), kept)


def _less(rows: pa.Table, fates: NDArray[np.int64], kept: NDArray[np.bool_]) -> tuple[pa.Table, NDArray[np.int64]]:
    """Work rows without those that do nothing, and the fates of the stored records by the rows that are left."""
    if kept.all():
        return rows, fates
    moved = np.where(kept, np.cumsum(kept) - 1, _KEEP)
    return rows.filter(pa.array(kept)), np.where(fates >= 0, moved[np.maximum(fates, 0)], fates)


def _require_consistent(
    groups: Sequence[FileGroupId],
    keys: pa.Array,
    of_rows: Numbers,
    fates: NDArray[np.int64],
    adds: NDArray[np.bool_],
) -> None:
    held = np.zeros(len(keys), dtype=bool)
    held[fates[fates >= 0]] = True
    for wrong, problem in (
        (adds & held, "holds keys that the index does not place in it"),
        (~adds & ~held, "does not hold keys that the index places in it"),
    ):
        if wrong.any():
            number = of_rows[np.argmax(wrong)]
            positions = np.flatnonzero(wrong & (of_rows == number))
            sample = keys.take(positions[:_SAMPLE]).to_pylist()
            raise CorruptIndexError(
                f"a file group {problem}: partition={groups[number].partition_path} file_id={groups[number].file_id} "
                f"count={len(positions)} keys={sample}",
                remedy="verify the index, then repair or bootstrap it",
            )
