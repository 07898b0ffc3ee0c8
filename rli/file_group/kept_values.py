"""Stored values that records keep when they are updated."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rli.file_group import work_rows
from rli.file_group.merge import MergePlan
from rli.file_group.stored_records import StoredRecords
from rli.file_group.work_rows import Change
from rli.file_group.write_context import WriteContext


def kept_values(
    context: WriteContext, plan: MergePlan, stored: StoredRecords
) -> Iterator[tuple[pa.Table, NDArray[np.int64]]]:
    """The stored columns of which records keep values, in batches, with the fates of their records; nothing if there are none."""
    if not len(plan.replaced_records):
        # Deletes alone keep no values.
        return
    names = {*context.kept, *(context.partition_fields if pc.any(_staying(plan.rows)).as_py() else ())}
    start = 0
    if names:
        for batch in stored.batches(pa.schema([field for field in context.schema if field.name in names])):
            yield batch, plan.fates[start : start + batch.num_rows]
            start += batch.num_rows


def keeping_stored(
    context: WriteContext, stored: pa.Table, records: pa.Table, rows: pa.Table, fates: NDArray[np.int64]
) -> pa.Table:
    """Records with the stored values that they keep, as far as these are in one batch of stored records.

    These are the partition values of records that stay against their own, and the kept columns of all that are updated.
    """
    replaced = np.flatnonzero(fates >= 0)
    if not (context.partition_fields or context.kept) or not len(replaced):
        return records
    updated = pc.equal(rows.column(work_rows.CHANGE), int(Change.UPDATE))
    staying = _staying(rows)
    of_partitions = context.partition_fields if pc.any(staying).as_py() else ()
    keeping = dict.fromkeys(of_partitions, staying) | dict.fromkeys(context.kept, updated)
    origin = np.full(rows.num_rows, -1, dtype=np.int64)
    origin[fates[replaced]] = replaced
    positions, found = pa.array(origin, mask=origin < 0), pa.array(origin >= 0)
    for name, kept in keeping.items():
        column = pc.if_else(pc.and_(kept, found), stored.column(name).take(positions), records.column(name))
        records = records.set_column(records.schema.get_field_index(name), records.schema.field(name), column)
    return records


def _staying(rows: pa.Table) -> pa.ChunkedArray:
    """Which work rows update a record that stays in its partition against their own values, shape (n,)."""
    wanted, placed = rows.column(work_rows.WANTED_PARTITION_PATH), rows.column(work_rows.PARTITION_PATH)
    updated = pc.equal(rows.column(work_rows.CHANGE), int(Change.UPDATE))
    return pc.and_(updated, pc.fill_null(pc.not_equal(wanted, placed), False))
