"""Tagging: from records to work rows. The same functions serve every engine, a batch at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from rli.errors import InvalidInputError
from rli.file_group import work_rows
from rli.file_group.merge import require_absent
from rli.file_group.work_rows import Change
from rli.hudi.meta_columns import IS_DELETED
from rli.hudi.schema_evolution import fitted as fitted_column
from rli.hudi.schema_evolution import require_columns
from rli.index.locators import Locator
from rli.model import MissingColumns, OnExisting, OnPartitionChange
from rli.write.rows.deletions import Deletions, marked
from rli.write.rows.keyed_records import KEY_COLUMNS, fitted
from rli.write.rows.removals import delete_rows

_SAMPLE: Final = 5


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
        rows = to_work_rows(fitting, locator.locate(keys, wanted), self.on_change)
        return TaggedBatch(*self.deletions.applied(rows, marked(keyed)))


@dataclass(frozen=True, slots=True)
class CompleteTagging:
    """Tags the changes of a merge, of which some columns are needed by records that are written, and not by deletes. Picklable.

    Attributes:
        tagging: of complete rows.
        stored: schema of the table.
        incoming: of the changes.
        missing: what becomes of columns that they lack.
    """

    tagging: Callable[[pa.Table, Locator], TaggedBatch]
    stored: pa.Schema
    incoming: pa.Schema
    missing: MissingColumns

    def __call__(self, keyed: pa.Table, locator: Locator) -> TaggedBatch:
        if not marked(keyed).all():
            require_columns(self.stored, self.incoming, self.missing)
        return self.tagging(keyed, locator)


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
            to_work_rows(fitting, locations, OnPartitionChange.FAIL),
            marked(keyed),
            may_be_late=self.on_existing is OnExisting.SKIP,
        )
        return TaggedBatch(rows, len(keys) - new + left_out)


@dataclass(frozen=True, slots=True)
class OverwriteTagging:
    """Tags the records of an overwrite: the partitions that they name take all of them anew. Picklable.

    Records whose key is in their partition are inserts with a prior location: the file group there is replaced.

    Attributes:
        schema: of the records after the write.
    """

    schema: pa.Schema

    def __call__(self, keyed: pa.Table, locator: Locator) -> TaggedBatch:
        if marked(keyed).any():
            raise InvalidInputError(
                f"an overwrite takes no deletes: column={IS_DELETED}",
                remedy="leave these rows out: what is not among the records goes",
            )
        fitting = fitted(keyed, self.schema)
        keys, wanted = (fitting.column(name).combine_chunks() for name in KEY_COLUMNS)
        rows = to_work_rows(fitting, locator.locate(keys, wanted), OnPartitionChange.MOVE)
        stays = pc.equal(rows.column(work_rows.CHANGE), int(Change.UPDATE))
        changes = pc.if_else(stays, pa.scalar(int(Change.INSERT), pa.int8()), rows.column(work_rows.CHANGE))
        for name, column in ((work_rows.CHANGE, changes), (work_rows.FILE_ID, pa.nulls(rows.num_rows, pa.string()))):
            position = rows.schema.get_field_index(name)
            rows = rows.set_column(position, rows.schema.field(position), column)
        return TaggedBatch(rows)


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
        may_be_late = self.change is not Change.INSERT_OR_FAIL
        return TaggedBatch(*self.deletions.applied(rows, marked(keyed), may_be_late=may_be_late))


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
        if found.num_rows > known:
            found = _once_in_each_group(found)
        rows = delete_rows(found, self.schema)
        # A table that was never written has no columns.
        if self.ordering is not None and self.ordering in self.schema.names:
            positions = pc.index_in(found.column("record_key"), value_set=keys)
            field = self.schema.field(self.ordering)
            values = fitted_column(keyed.column(work_rows.ORDERING), field).take(positions)
            rows = rows.set_column(rows.schema.get_field_index(self.ordering), field, values)
        return TaggedBatch(rows, len(keys) - known)


def _once_in_each_group(found: pa.Table) -> pa.Table:
    """Locations without those of further records of a key in its file group: another engine may have stored it more than once there."""
    names = ["record_key", "partition_path", "file_id"]
    distinct = found.group_by(names, use_threads=False).aggregate([("instant_time", "max")])
    return distinct.select([*names, "instant_time_max"]).rename_columns(found.column_names)


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
