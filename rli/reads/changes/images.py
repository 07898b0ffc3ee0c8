"""The changed records of one file group, as they were before a commit and as they are after it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rli.errors import CorruptTableError, InstantNotFoundError, InvalidInputError, SchemaError, UnsupportedTableError
from rli.filters.filter import Filter
from rli.filters.predicates import columns_of
from rli.hudi.meta_columns import with_meta_columns
from rli.hudi.partition_values import partition_values
from rli.hudi.properties import Key
from rli.model import ChangeImages, ChangeType, FileGroupId
from rli.reads.changes.completions import CompletedWrite
from rli.reads.changes.moves import is_of
from rli.reads.changes.planning import GroupDelta, no_keys
from rli.reads.changes.sides import Side, sides
from rli.view.diff import undone_writes
from rli.view.file_slices import FileSlice
from rli.view.scan import wanted_columns
from rli.view.selection import Selection
from rli.view.snapshot import Snapshot, told_of_now

CHANGE_TYPE: Final = "_change_type"
COMMIT_INSTANT: Final = "_commit_instant"
COMPLETION_TIME: Final = "_completion_time"
CHANGE_COLUMNS: Final = (CHANGE_TYPE, COMMIT_INSTANT, COMPLETION_TIME)
"""Stand behind the table's columns."""

_BATCH_ROWS: Final = 65_536


_TYPES: Final = [kind.value for kind in ChangeType]
_NOTHING: Final = -1
_INSERT, _BEFORE, _AFTER, _DELETE = range(len(_TYPES))


@dataclass(frozen=True)
class ChangeRequest:
    """Which changes are given, and in which form. Picklable.

    Attributes:
        snapshot: the table.
        full: schema of all columns, meta columns included; None in a table that was never written.
        schema: of the columns that are wanted.
        filter: which images are given; None for all.
        images: which images of an updated record.
    """

    snapshot: Snapshot
    full: pa.Schema | None
    schema: pa.Schema
    filter: Filter | None
    images: ChangeImages

    @classmethod
    def of(
        cls, snapshot: Snapshot, images: ChangeImages | str, columns: Sequence[str] | None, filters: object
    ) -> ChangeRequest:
        """The request that a caller makes.

        Raises:
            InvalidInputError: ``images`` is neither "after" nor "both", or ``columns`` a single text.
            SchemaError: a column does not exist, has the name of a column of changes, or the filter does not fit.
            UnsupportedTableError: the records do not tell which commit wrote them.
        """
        wanted = _images(images)
        if snapshot.schema is None:
            return cls(snapshot, None, pa.schema([]), None, wanted)
        if not snapshot.table.properties.populate_meta_fields:
            raise UnsupportedTableError(
                "the table has no meta columns, so its records do not tell which commit wrote them: "
                f"table={snapshot.table.location}",
                remedy="compare two states of it: table.read(as_of=...)",
            )
        schema = wanted_columns(snapshot.schema, columns)
        taken = [name for name in schema.names if name in CHANGE_COLUMNS]
        if taken:
            raise SchemaError(
                f"columns of the table have names of the columns of changes: columns={taken}",
                remedy="choose others with columns=",
            )
        full = with_meta_columns(snapshot.schema)
        # Tasks need not what was read for the plan.
        return cls(replace(snapshot), full, schema, Filter.of(filters, full), wanted)

    @property
    def result_schema(self) -> pa.Schema:
        """Of the changes."""
        return pa.schema([*self.schema, *(pa.field(name, pa.string()) for name in CHANGE_COLUMNS)])

    def wanted(self, groups: Sequence[GroupDelta]) -> list[GroupDelta]:
        """Those of some file groups that may have changes that pass the filter."""
        if self.filter is None or self.full is None:
            return list(groups)
        slices = [one for group in groups for one in (group.before, group.after) if one is not None]
        selection = Selection(self.snapshot.table, self.full, self.filter)
        with _naming_removed(self.snapshot, slices):
            kept = {one.file_slice for some in selection.among(slices) for one in some}
        return [group for group in groups if group.before in kept or group.after in kept]

    def rows(
        self, write: CompletedWrite, group: GroupDelta, *, former: bool = True, new: bool = True
    ) -> Iterator[pa.RecordBatch]:
        """The changes of one file group by one commit: first the rows with former values, then those with new ones.

        Args:
            write: the commit.
            group: what it did to the file group.
            former: whether rows with former values are given.
            new: whether rows with new values are given.

        Raises:
            InstantNotFoundError: others have removed a file since the range was planned.
            CorruptTableError: a file is lost or damaged.
        """
        slices = [one for one in (group.before, group.after) if one is not None]
        with _naming_removed(self.snapshot, slices):
            before, after = _classified(sides(self.snapshot, group), write.time, group, self.images)
            if former:
                yield from self._images_of(write, group, before)
            if new:
                yield from self._images_of(write, group, after)

    def _images_of(self, write: CompletedWrite, group: GroupDelta, found: _Classified) -> Iterator[pa.RecordBatch]:
        positions = np.flatnonzero(found.types != _NOTHING)
        for part, places in found.side.records(found.keys, positions, self._read_schema):
            yield from self._result(write, self._with_partition(part, group.group), found.types[places])

    def _result(self, write: CompletedWrite, found: pa.Table, types: NDArray[np.int8]) -> Iterator[pa.RecordBatch]:
        rows = found.append_column(CHANGE_TYPE, pa.array(_TYPES).take(pa.array(types)))
        if self.filter is not None:
            rows = rows.filter(self.filter.expression)
        constants = [pa.repeat(pa.scalar(value, pa.string()), len(rows)) for value in (write.time, write.completed)]
        columns = [*(rows.column(name) for name in (*self.schema.names, CHANGE_TYPE)), *constants]
        yield from pa.table(columns, schema=self.result_schema).combine_chunks().to_batches(max_chunksize=_BATCH_ROWS)

    @property
    def _read_schema(self) -> pa.Schema:
        """Of the columns that are read: those wanted, and those of the filter."""
        full = self.full or pa.schema([])
        wanted = self.schema.names
        if self.filter is None:
            # One column in any case: without one, nothing would say how many records there are.
            return pa.schema([full.field(name) for name in dict.fromkeys(wanted)] or [full.field(0)])
        needed = {column[0] for column in columns_of(self.filter.predicate)}
        reduced = pa.schema([field for field in full if field.name in needed or field.name in wanted])
        try:
            reduced.empty_table().filter(self.filter.expression)
        except pa.ArrowException:
            # What is not known of a filter may name any column.
            return full
        return reduced

    def _with_partition(self, rows: pa.Table, group: FileGroupId) -> pa.Table:
        """The records with the columns that the table leaves out of its files, because the partition path tells them."""
        properties = self.snapshot.table.properties
        if not properties.is_set(Key.DROP_PARTITION_COLUMNS):
            return rows
        values = partition_values(properties, rows.schema, group.partition_path)
        for name, value in values.items():
            place = rows.schema.get_field_index(name)
            rows = rows.set_column(place, rows.schema.field(place), pa.repeat(value, len(rows)))
        return rows


@contextmanager
def _naming_removed(snapshot: Snapshot, slices: Sequence[FileSlice]) -> Iterator[None]:
    """Say of a file that is gone whether others have removed it: a clean, or a rollback."""
    try:
        yield
    except (CorruptTableError, OSError) as error:
        gone = [one for one in slices if not snapshot.slices.has_files(one)]
        if gone and not told_of_now(snapshot.table.reloaded(), partial(_shows_any, snapshot, gone)):
            raise InstantNotFoundError(
                f"others have removed a file of these changes since they were planned: table={snapshot.table.location} "
                f"partition={gone[0].group.partition_path} file_id={gone[0].group.file_id} instant={gone[0].instant}",
                remedy="read the changes again",
            ) from error
        raise


def _shows_any(planned: Snapshot, slices: Sequence[FileSlice], now: Snapshot) -> bool:
    """Whether any of some slices are those that the table shows now, so that nobody may have removed them."""
    if undone_writes(now.timeline, planned.timeline.write_times):
        return False
    live = now.slices.of_groups({one.group for one in slices})
    timeline = now.timeline
    return any(
        one.group not in live or live[one.group].instant <= one.instant
        for one in slices
        if one.group not in now.replaced and one.instant in timeline.write_times
    )


def _images(given: ChangeImages | str) -> ChangeImages:
    try:
        return ChangeImages(given)
    except ValueError:
        raise InvalidInputError(
            f"not a choice of images: images={given!r}", remedy=f"one of {', '.join(ChangeImages)}"
        ) from None


@dataclass(frozen=True)
class _Classified:
    """One side of a file group: the keys (shape (n,)), and what each record is: a position in ``_TYPES``, or nothing (shape (n,))."""

    side: Side
    keys: pa.Array
    types: NDArray[np.int8]


def _classified(
    compared: tuple[Side, Side], instant: str, group: GroupDelta, images: ChangeImages
) -> tuple[_Classified, _Classified]:
    """What each record of a file group is, before a commit and after it.

    The keys before the commit are read, and compared, only as far as the commit may have added or removed some.
    """
    both = images is ChangeImages.BOTH
    needs_before = group.before is not None and (group.adds or group.removes or both)
    known, known_times = compared[0].written_keys() if needs_before else (no_keys(), no_keys())
    keys, times = compared[1].written_keys()
    is_written = is_of(times, instant)
    if group.appended and group.adds:
        # A delete that readers compare with log files alone may bring an older record of its key back.
        former = known_times.take(pc.index_in(keys, value_set=known))
        is_written = pc.or_(is_written, pc.fill_null(pc.not_equal(times, former), False))
    is_held = _is_among(keys, known) if group.adds else np.ones(len(keys), np.bool_)
    after = np.full(len(keys), _NOTHING, np.int8)
    after[~is_held & ~_is_among(keys, group.carried)] = _INSERT
    after[(is_held & _mask(is_written)) | _is_among(keys, group.moved)] = _AFTER
    before = np.full(len(known), _NOTHING, np.int8)
    if both:
        before[_is_among(known, keys.filter(is_written)) | _is_among(known, group.moved)] = _BEFORE
    if group.removes:
        elsewhere = _is_among(known, group.moved) | _is_among(known, group.carried)
        before[~_is_among(known, keys) & ~elsewhere] = _DELETE
    return _Classified(compared[0], known, before), _Classified(compared[1], keys, after)


def _is_among(keys: pa.Array, others: pa.Array) -> NDArray[np.bool_]:
    return _mask(pc.is_in(keys, value_set=others)) if len(others) else np.zeros(len(keys), np.bool_)


def _mask(values: pa.Array) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = values.to_numpy(zero_copy_only=False)
    return found.astype(np.bool_)
