"""Work rows: the form in which a write's records travel to the file group that they change.

A work row is a record (its columns null where it only leaves or is deleted) with the working columns below. Engines
move work rows about as they like; what they mean is decided here and in ``rli.file_group.merge``, for all engines.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rli.hudi.schema import RESERVED_PREFIX

PREFIX: Final = RESERVED_PREFIX

RECORD_KEY: Final = "_rli_record_key"
CHANGE: Final = "_rli_change"
PARTITION_PATH: Final = "_rli_partition_path"
FILE_ID: Final = "_rli_file_id"
WANTED_PARTITION_PATH: Final = "_rli_wanted_partition_path"
PRIOR_PARTITION_PATH: Final = "_rli_prior_partition_path"
PRIOR_FILE_ID: Final = "_rli_prior_file_id"
PRIOR_INSTANT: Final = "_rli_prior_instant"

ORDERING: Final = "_rli_ordering"
"""The ordering value of a delete, beside its key; not among the working columns of work rows."""

IS_DELETED: Final = "_rli_is_deleted"
"""Whether a change deletes its record; not among the working columns of work rows, where ``CHANGE`` tells."""

FILE_GROUP: Final = (PARTITION_PATH, FILE_ID)
PRIOR_FILE_GROUP: Final = (PRIOR_PARTITION_PATH, PRIOR_FILE_ID)


class Change(IntEnum):
    """What a work row does to its file group."""

    INSERT = 1
    """The table does not hold the key: the record is added."""

    UPDATE = 2
    """The file group holds the key: the record is replaced, unless the stored one is newer."""

    MOVE_IN = 3
    """The record moves into the file group from another one: it is added."""

    MOVE_OUT = 4
    """The record moves out of the file group: it is removed."""

    DELETE = 5
    """The record is removed from the table, unless the row has an ordering value and the stored record is newer."""

    UPSERT = 6
    """Where the file group holds the key, the row is an ``UPDATE``, else an ``INSERT``: the merge decides."""

    INSERT_OR_SKIP = 7
    """Where the file group holds the key, the row does nothing, else it is an ``INSERT``."""

    INSERT_OR_FAIL = 8
    """Where the file group holds the key, the write fails, else the row is an ``INSERT``."""

    UPDATE_OR_SKIP = 9
    """Where the file group holds the key, the row is an ``UPDATE``, else it does nothing."""

    DELETE_OR_SKIP = 10
    """Where the file group holds the key, the row is a ``DELETE``, else it does nothing."""


UNDECIDED: Final = (
    Change.UPSERT,
    Change.INSERT_OR_SKIP,
    Change.INSERT_OR_FAIL,
    Change.UPDATE_OR_SKIP,
    Change.DELETE_OR_SKIP,
)
"""What rows do that were not looked up: only their file group knows whether it holds their keys."""

NEW: Final = (Change.INSERT, *UNDECIDED)
"""What rows do that have no file group before they are placed, and leave none."""


def told_apart(kinds: Iterable[Change]) -> NDArray[np.bool_]:
    """For each change, by its number, whether it is one of some kinds; ``numpy.isin`` takes 50 times as long for few rows."""
    is_kind = np.zeros(len(Change) + 1, np.bool_)
    is_kind[[int(kind) for kind in kinds]] = True
    return is_kind


NOTHING: Final = 0
"""The number of no change, for rows that turn out to do nothing."""


def numbers_by_change(decisions: Mapping[Change, int]) -> NDArray[np.int8]:
    """For each change, by its number, the number of what rows do instead: what they did where nothing is decided."""
    numbers = np.arange(len(Change) + 1, dtype=np.int8)
    for change, decided in decisions.items():
        numbers[change] = decided
    return numbers


WORKING_FIELDS: Final = (
    pa.field(RECORD_KEY, pa.string()),
    pa.field(CHANGE, pa.int8()),
    pa.field(PARTITION_PATH, pa.string()),
    pa.field(FILE_ID, pa.string()),
    pa.field(WANTED_PARTITION_PATH, pa.string()),
    pa.field(PRIOR_PARTITION_PATH, pa.string()),
    pa.field(PRIOR_FILE_ID, pa.string()),
    pa.field(PRIOR_INSTANT, pa.string()),
)
"""Working columns: the key; what the row does; the file group that it does it to; the partition that the record's
own values name; and where and since when the record was before (null for an insert)."""

WORKING_COLUMNS: Final = tuple(field.name for field in WORKING_FIELDS)


def work_schema(schema: pa.Schema) -> pa.Schema:
    """Schema of work rows with records of ``schema``."""
    return pa.schema([*WORKING_FIELDS, *schema])


def rows_at(rows: pa.Table, positions: NDArray[np.integer]) -> pa.Table:
    """A copy of the rows at some positions.

    Columns of strings that are one array, as the record key and the only column that it is formed of, are copied once, and those
    without any value not at all: strings take most of the time.
    """
    places, copied = pa.array(positions), dict[tuple[object, ...], pa.ChunkedArray]()
    columns = []
    for column in rows.columns:
        if column.type != pa.string():
            columns.append(column.take(places))
        elif column.null_count == len(column):
            columns.append(pa.nulls(len(places), pa.string()))
        else:
            array = tuple(_place_of(chunk) for chunk in column.chunks)
            if array not in copied:
                copied[array] = column.take(places)
            columns.append(copied[array])
    return pa.table(columns, schema=rows.schema)


def _place_of(array: pa.Array) -> tuple[object, ...]:
    """What two arrays of one type have in common only if they are the same memory."""
    return array.offset, len(array), *(None if buffer is None else buffer.address for buffer in array.buffers())
