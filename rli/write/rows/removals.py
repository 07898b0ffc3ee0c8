"""Work rows that take a key from its place, without its record: deletes, and the departures of moves."""

from __future__ import annotations

import pyarrow as pa

from rli.file_group import work_rows
from rli.file_group.work_rows import Change


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
