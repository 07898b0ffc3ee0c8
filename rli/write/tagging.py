"""Tagging: from records to work rows. The same functions serve every engine, a batch at a time."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rli.codec import scoped_keys as scoped_keys_codec
from rli.errors import CorruptIndexError, PartitionChangeError, SchemaError
from rli.file_group import work_rows
from rli.file_group.merge import is_late, newest_records, require_absent
from rli.file_group.work_rows import Change
from rli.file_group.writer import read_stored
from rli.hudi.meta_columns import require_no_reserved_columns
from rli.hudi.schema import conform, written_schema
from rli.hudi.schema_evolution import fitted as fitted_column
from rli.hudi.table_keys import TableKeys
from rli.index.contract import Placement
from rli.index.locators import Locator
from rli.locations import NamedGroups, named_groups
from rli.model import FileGroupId, OnExisting, OnPartitionChange, Scope
from rli.storage import Storage
from rli.view.file_slices import FileSlice
from rli.view.file_system_view import FileSystemView
from rli.write.deletions import Deletions

_SAMPLE: Final = 5
_FEW_KINDS: Final = 1 << 16

Positions: TypeAlias = NDArray[np.intp]

KEY_COLUMNS: Final = (work_rows.RECORD_KEY, work_rows.WANTED_PARTITION_PATH)


@dataclass(frozen=True, slots=True)
class TaggedBatch:
    """Work rows of some keyed rows.

    Attributes:
        rows: of schema ``work_rows.work_schema``; new and moving records have no file group yet.
        left_out: record keys that change nothing.
    """

    rows: pa.Table
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class UpsertTagging:
    """Tags the records of an upsert. Picklable.

    Attributes:
        schema: of the records after the write.
        on_change: what becomes of records whose partition changed.
        deletions: decides about records that are deletes, or older than one.
    """

    schema: pa.Schema
    on_change: OnPartitionChange
    deletions: Deletions

    def __call__(self, keyed: pa.Table, locator: Locator) -> TaggedBatch:
        fitting = fitted(keyed, self.schema)
        keys = fitting.column(work_rows.RECORD_KEY).combine_chunks()
        wanted = fitting.column(work_rows.WANTED_PARTITION_PATH).combine_chunks()
        return TaggedBatch(*self.deletions.applied(to_work_rows(fitting, locator.locate(keys, wanted), self.on_change)))


@dataclass(frozen=True, slots=True)
class InsertTagging:
    """Tags the records of an insert: those of known keys are left out. Picklable.

    Attributes:
        schema: of the records after the write.
        on_existing: what becomes of records of known keys.
        deletions: decides about records that are older than a delete of their key.
    """

    schema: pa.Schema
    on_existing: OnExisting
    deletions: Deletions

    def __call__(self, keyed: pa.Table, locator: Locator) -> TaggedBatch:
        keys = keyed.column(work_rows.RECORD_KEY).combine_chunks()
        locations = locator.locate(keys, keyed.column(work_rows.WANTED_PARTITION_PATH).combine_chunks())
        absent = pc.is_null(locations.column("file_id")).combine_chunks()
        new = absent.true_count
        if new < len(keys) and self.on_existing is OnExisting.FAIL:
            require_absent(keys.filter(pc.invert(absent)))
        if new < len(keys):
            # Before anything else is done with them: most of a batch may be known.
            keyed, locations = keyed.filter(absent), locations.filter(absent)
        fitting = fitted(keyed, self.schema)
        rows, left_out = self.deletions.applied(
            to_work_rows(fitting, locations, OnPartitionChange.FAIL), may_be_late=self.on_existing is OnExisting.SKIP
        )
        return TaggedBatch(rows, len(keys) - new + left_out)


@dataclass(frozen=True, slots=True)
class UndecidedTagging:
    """Tags records without a look-up, where the index computes their file groups: these decide. Picklable.

    Attributes:
        schema: of the records after the write.
        change: what each row does: one of ``work_rows.UNDECIDED``.
        deletions: decides about records that are deletes, or older than one.
    """

    schema: pa.Schema
    change: Change
    deletions: Deletions

    def __call__(self, keyed: pa.Table, locator: Locator) -> TaggedBatch:
        fitting = fitted(keyed, self.schema)
        keys, wanted = (fitting.column(name).combine_chunks() for name in KEY_COLUMNS)
        located = locator.locate(keys, wanted)
        rows = to_work_rows(fitting, located, OnPartitionChange.FAIL, self.change)
        return TaggedBatch(*self.deletions.applied(rows, may_be_late=self.change is not Change.INSERT_OR_FAIL))


@dataclass(frozen=True, slots=True)
class DeleteTagging:
    """Tags record keys to delete. Picklable.

    Attributes:
        schema: of the table's records.
        ordering: the ordering field, if the keys come with ordering values.
    """

    schema: pa.Schema
    ordering: str | None = None

    def __call__(self, keyed: pa.Table, locator: Locator) -> TaggedBatch:
        keys = keyed.column(work_rows.RECORD_KEY).combine_chunks()
        found = locator.locate_all(keys)
        known = pc.count_distinct(found.column("record_key")).as_py()
        rows = delete_rows(found, self.schema)
        # A table that was never written has no columns.
        if self.ordering is not None and self.ordering in self.schema.names:
            positions = pc.index_in(found.column("record_key"), value_set=keys)
            field = self.schema.field(self.ordering)
            values = fitted_column(keyed.column(work_rows.ORDERING), field).take(positions)
            rows = rows.set_column(rows.schema.get_field_index(self.ordering), field, values)
        return TaggedBatch(rows, len(keys) - known)


@dataclass(frozen=True, slots=True)
class LateMoves:
    """Leaves out moving records that are older than the record that is stored in their old partition. Picklable.

    Attributes:
        storage: of the table.
        slices: the live slice of each file group that records leave.
        ordering: the ordering field; None in a table without one, where no record is late.
        kept: columns of which moving records bring their stored values along.
    """

    storage: Storage
    slices: Mapping[FileGroupId, FileSlice]
    ordering: pa.Field | None
    kept: tuple[pa.Field, ...] = ()

    def without(self, group: FileGroupId, moves: pa.Table) -> pa.Table:
        """The moves of one file group that are in time, in their order."""
        if self.ordering is None and not self.kept:
            return moves
        schema = pa.schema([*self.kept, *([self.ordering] if self.ordering else [])])
        keys = moves.column(work_rows.RECORD_KEY).combine_chunks()
        stored = read_stored(self.storage, self.slices[group], schema, keys)
        for field in self.kept:
            position = moves.schema.get_field_index(field.name)
            moves = moves.set_column(position, moves.schema.field(position), stored.column(field.name))
        if self.ordering is None:
            return moves
        name = self.ordering.name
        late = is_late(moves.column(name).combine_chunks(), stored.column(name).combine_chunks())
        return moves.filter(pa.array(~late)) if late.any() else moves


def with_keys(records: pa.Table, keys: TableKeys, ordering_field: str | None, scope: Scope) -> pa.Table:
    """Records as they will be written, behind their record key and wanted partition path.

    Args:
        records: any types that a table can hold.
        keys: of the table.
        ordering_field: must hold a value in every record; None if the table has none.
        scope: where a key is unique.

    Raises:
        SchemaError: a column is missing, has a reserved name or a type that cannot be written, or an ordering value is
            missing.
        InvalidKeyError: a key is null or empty, a partition value cannot name a folder, or one of them would change
            in its column, or would not be told apart from another one.
    """
    require_no_reserved_columns(records.schema)
    data = keys.fitted(records)
    schema = written_schema(data.schema)
    record_keys = keys.record_keys(data)
    partition_paths = keys.partition_paths(data, scope).cast(pa.string())
    if ordering_field is not None:
        require_ordering(data, ordering_field)
    fields = [pa.field(name, pa.string()) for name in KEY_COLUMNS]
    return pa.table(
        [record_keys, partition_paths, *conform(data, schema).columns], schema=pa.schema([*fields, *schema])
    )


def fitted(keyed: pa.Table, schema: pa.Schema) -> pa.Table:
    """Keyed records with exactly the columns and types of a schema; columns that they lack are null."""
    fields = [pa.field(name, pa.string()) for name in KEY_COLUMNS]
    return conform(keyed, pa.schema([*fields, *schema]))


def scoped_keys(keyed: pa.Table, scope: Scope) -> pa.Array:
    """What no two records of a batch may share: their key, with partition scope together with their partition."""
    keys = keyed.column(work_rows.RECORD_KEY).combine_chunks()
    if scope is Scope.GLOBAL:
        return keys
    return scoped_keys_codec.joined(keyed.column(work_rows.WANTED_PARTITION_PATH).combine_chunks(), keys)


def newest_of(keyed: pa.Table, ordering_field: str | None, scope: Scope = Scope.GLOBAL) -> pa.Table:
    """One record for each key of the scope: the one with the greatest ordering value, of equals the last."""
    keys = scoped_keys(keyed, scope)
    ordering = keyed.column(ordering_field).combine_chunks() if ordering_field else None
    positions = newest_records(keys, ordering)
    return keyed if positions is None else keyed.take(pa.array(positions))


def to_work_rows(
    keyed: pa.Table, locations: pa.Table, on_change: OnPartitionChange, absent_change: Change = Change.INSERT
) -> pa.Table:
    """Work rows of keyed records, a row for each.

    New and arriving records have no file group yet; ``place`` gives them one. With ``FAIL``, records that changed
    their partition come as arriving, for ``require_no_moves`` to refuse after late events are gone.

    Args:
        keyed: from ``with_keys``.
        locations: of its keys, row by row.
        on_change: what becomes of records whose partition changed.
        absent_change: what rows without a location do.
    """
    wanted = keyed.column(work_rows.WANTED_PARTITION_PATH)
    prior = locations.column("partition_path")
    absent = pc.is_null(prior)
    stays = pc.fill_null(pc.equal(wanted, prior), False)
    if on_change is OnPartitionChange.KEEP:
        stays = pc.invert(absent)
    change = pc.if_else(absent, int(absent_change), pc.if_else(stays, int(Change.UPDATE), int(Change.MOVE_IN)))
    nothing = pa.scalar(None, pa.string())
    columns = {
        work_rows.CHANGE: change.cast(pa.int8()),
        work_rows.PARTITION_PATH: pc.if_else(stays, prior, wanted),
        work_rows.FILE_ID: pc.if_else(stays, locations.column("file_id"), nothing),
        work_rows.PRIOR_PARTITION_PATH: prior,
        work_rows.PRIOR_FILE_ID: locations.column("file_id"),
        work_rows.PRIOR_INSTANT: locations.column("instant_time"),
    }
    data = pa.schema([field for field in keyed.schema if field.name not in KEY_COLUMNS])
    schema = work_rows.work_schema(data)
    every_column = {**dict(zip(keyed.column_names, keyed.columns, strict=True)), **columns}
    return pa.table([every_column[name] for name in schema.names], schema=schema)


def delete_rows(locations: pa.Table, schema: pa.Schema) -> pa.Table:
    """Work rows that delete the records at some locations; the records' columns are null."""
    where = (locations.column("partition_path"), locations.column("file_id"), locations.column("instant_time"))
    return _bare_rows(Change.DELETE, locations.column("record_key"), where, schema)


def departures(arriving: pa.Table) -> pa.Table:
    """For each arriving record the work row by which it leaves the file group where it was."""
    data = pa.schema([field for field in arriving.schema if field.name not in work_rows.WORKING_COLUMNS])
    return _bare_rows(
        Change.MOVE_OUT,
        arriving.column(work_rows.RECORD_KEY),
        (
            arriving.column(work_rows.PRIOR_PARTITION_PATH),
            arriving.column(work_rows.PRIOR_FILE_ID),
            arriving.column(work_rows.PRIOR_INSTANT),
        ),
        data,
    )


def require_no_moves(count: int, sample: Sequence[str]) -> None:
    """Raise ``PartitionChangeError`` if there are arriving records, given their number and some of their keys."""
    if count:
        raise PartitionChangeError(
            f"{count} records have another partition value than their stored versions: keys={list(sample)}; "
            'correct them, or upsert with on_partition_change="move" or on_partition_change="keep"'
        )


def place(new_rows: pa.Table, placements: Mapping[str, Placement]) -> pa.Table:
    """New and arriving work rows with the file group that takes each."""
    named = placed_groups(new_rows, placements)
    file_ids = pa.array([group and group.file_id for group in named.groups], pa.string()).take(pa.array(named.codes))
    position = new_rows.schema.get_field_index(work_rows.FILE_ID)
    return new_rows.set_column(position, new_rows.schema.field(position), file_ids)


def placed_groups(new_rows: pa.Table, placements: Mapping[str, Placement]) -> NamedGroups:
    """The file group that takes each of some new and arriving work rows."""
    paths = pc.dictionary_encode(new_rows.column(work_rows.PARTITION_PATH).combine_chunks())
    keys = new_rows.column(work_rows.RECORD_KEY).combine_chunks()
    groups: list[FileGroupId | None] = []
    codes = np.empty(len(keys), np.intp)
    for path, positions in zip(
        paths.dictionary.to_pylist(), positions_by_code(paths.indices.to_numpy(), len(paths.dictionary)), strict=True
    ):
        placement = placements[path]
        if placement.only_file_id is not None:
            codes[positions] = len(groups)
            groups.append(FileGroupId(path, placement.only_file_id))
            continue
        file_ids = placement.file_ids_of(keys.take(pa.array(positions)))
        codes[positions] = len(groups) + file_ids.indices.to_numpy()
        groups.extend(FileGroupId(path, file_id) for file_id in file_ids.dictionary.to_pylist())
    return NamedGroups(groups, codes)


def groups_of(rows: pa.Table, columns: tuple[str, str] = work_rows.FILE_GROUP) -> list[tuple[FileGroupId, pa.Table]]:
    """Work rows by the file group that two of their columns name: the one that they change, unless said otherwise."""
    named = named_groups(*(rows.column(name).combine_chunks() for name in columns))
    parts = split_by_code(rows, named.codes, len(named.groups))
    return [(group, part) for group, part in zip(named.groups, parts, strict=True) if group is not None]


def split_by_code(rows: pa.Table, codes: NDArray[np.integer], kinds: int) -> list[pa.Table]:
    """Rows by a code, in their order.

    Args:
        rows: any.
        codes: shape (rows,), each less than ``kinds``.
        kinds: how many there are.

    Returns:
        Shape (kinds,).
    """
    if kinds == 1:
        return [rows]
    parts = positions_by_code(codes, kinds)
    arranged = rows.take(pa.array(np.concatenate([np.empty(0, np.intp), *parts])))
    bounds = np.cumsum([0, *map(len, parts)]).tolist()
    return [arranged.slice(start, end - start) for start, end in pairwise(bounds)]


def rows_at(rows: pa.Table, positions: Positions) -> pa.Table:
    """The rows at some positions; not copied if these follow each other."""
    if not len(positions):
        return rows.slice(0, 0)
    start = int(positions[0])
    if len(positions) == positions[-1] - start + 1 and (np.diff(positions) == 1).all():
        return rows.slice(start, len(positions))
    return rows.take(pa.array(positions))


def positions_by_code(codes: NDArray[np.integer], kinds: int) -> list[Positions]:
    """The positions of each code, in rising order.

    Args:
        codes: shape (n,), each less than ``kinds``.
        kinds: how many there are.
    """
    # Numbers of two bytes are sorted several times as fast as others.
    narrow = codes.astype(np.uint16) if kinds <= _FEW_KINDS else codes
    order = np.argsort(narrow, kind="stable")
    return np.split(order, np.cumsum(np.bincount(codes, minlength=kinds))[:-1]) if kinds else []


def require_slice(slices: Mapping[FileGroupId, FileSlice], group: FileGroupId) -> FileSlice:
    """The live slice of a file group that the index names; raises ``CorruptIndexError`` if there is none."""
    try:
        return slices[group]
    except KeyError:
        raise CorruptIndexError(
            f"the index names a file group that is not in the table: partition={group.partition_path} "
            f"file_id={group.file_id}; verify the index, then repair or bootstrap it"
        ) from None


def require_slices(live: FileSystemView, groups: Collection[FileGroupId]) -> dict[FileGroupId, FileSlice]:
    """The live slices of file groups that the index names; raises ``CorruptIndexError`` if one has none."""
    found = live.of_groups(groups)
    return {group: require_slice(found, group) for group in groups}


def _bare_rows(
    change: Change,
    record_keys: pa.Array,
    where: tuple[pa.Array, pa.Array, pa.Array],
    schema: pa.Schema,
) -> pa.Table:
    """Rows without records, of keys that are where it says: partition path, file id and instant of each."""
    count = len(record_keys)
    partition_paths, file_ids, instants = where
    working = [
        record_keys,
        pa.repeat(pa.scalar(int(change), pa.int8()), count),
        partition_paths,
        file_ids,
        pa.nulls(count, pa.string()),
        partition_paths,
        file_ids,
        instants,
    ]
    return pa.table(
        [*working, *(pa.nulls(count, field.type) for field in schema)], schema=work_rows.work_schema(schema)
    )


def require_ordering(records: pa.Table, ordering_field: str) -> None:
    """Raise ``SchemaError`` if the column of ordering values is missing, has no order, or lacks a value."""
    if ordering_field not in records.column_names:
        raise SchemaError(
            f"the ordering column is missing: column={ordering_field} found={records.column_names}; "
            "add it to the records"
        )
    column = records.column(ordering_field)
    if pa.types.is_nested(column.type):
        raise SchemaError(
            f"the ordering column has a type without an order: column={ordering_field} type={column.type}; "
            "use a number, a time or text"
        )
    missing = pc.is_null(column, nan_is_null=True)
    if pc.any(missing).as_py():
        row = pc.index(missing, True).as_py()
        raise SchemaError(
            f"an ordering value is missing: column={ordering_field} row={row}; give each record an ordering value"
        )
