"""Records of the metadata table by columns: a field of many records is decoded at once.

A table of many files has a record for each column of each file, and a plan of a read needs most of them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from rli.errors import CorruptTableError
from rli.hudi.log_file.avro_decoding import decoded
from rli.hudi.log_file.avro_plan import AvroNode, plan_of
from rli.hudi.log_file.avro_rows import Rows, rows_within
from rli.hudi.metadata.schema import METADATA_SCHEMA
from rli.hudi.timeline.schema_parts import Schema, optional, record

_REMEDY: Final = "drop this partition of the metadata table and let it be built anew"
_FILE_LISTS: Final = (1, 2)
_STATISTICS: Final = (3, 6)
"""Types of records."""


def _plan(fields: Sequence[Schema]) -> AvroNode:
    _, plan = plan_of(json.dumps(record("Part", *fields)))
    return plan


def _absent(fields: Sequence[Schema]) -> list[Schema]:
    """Stand for the contents of other kinds of records, which are refused if they have any value."""
    return [optional(field["name"], "boolean") for field in fields]


_FIELDS: Final[list[Schema]] = METADATA_SCHEMA["fields"]
_NAMES: Final = [field["name"] for field in _FIELDS]
_FILES_AT, _STATISTICS_AT = _NAMES.index("filesystemMetadata"), _NAMES.index("ColumnStatsMetadata")
_OF_COLUMN: Final[list[Schema]] = _FIELDS[_STATISTICS_AT]["type"][1]["fields"]
_LEAST, _GREATEST = (
    next(place for place, field in enumerate(_OF_COLUMN) if field["name"] == name) for name in ("minValue", "maxValue")
)
_WRAPPERS: Final[list[Schema]] = _OF_COLUMN[_LEAST]["type"][1:-1]
_LISTED: Final = 2 * (len(_WRAPPERS) + 1)
"""The byte in front of bounds that are lists."""

_FILE_LIST: Final = _plan([*_FIELDS[: _FILES_AT + 1], *_absent(_FIELDS[_FILES_AT + 1 :])])
_HEAD: Final = _plan([*_FIELDS[:_FILES_AT], *_absent(_FIELDS[_FILES_AT:_STATISTICS_AT])])
_NAMED: Final = _plan(_OF_COLUMN[:_LEAST])
_BOUND: Final = _plan(
    [{"name": wrapper["name"].rpartition(".")[2], "type": wrapper["fields"][0]["type"]} for wrapper in _WRAPPERS]
)
_COUNTED: Final = _plan([*_OF_COLUMN[_GREATEST + 1 :], *_absent(_FIELDS[_STATISTICS_AT + 1 :])])


def file_lists(values: pa.BinaryArray) -> pa.MapArray:
    """The lists of files in values of the partition ``files``: name → size in bytes, and whether the file was removed.

    Args:
        values: of cells without removed records, by ``METADATA_SCHEMA``.

    Raises:
        CorruptTableError: a value holds no list of files.
    """
    if not len(values):
        return pa.nulls(0, _FILE_LIST.children[_FILES_AT].arrow)
    rows = _rows_of(values)
    fields = decoded(_FILE_LIST, rows)
    _require_kind(fields, _FILE_LISTS, _NAMES[_FILES_AT + 1 :])
    _require_end(rows)
    lists = fields.field(_NAMES[_FILES_AT])
    if lists.null_count:
        raise _foreign()
    return lists


def statistics_columns(values: pa.BinaryArray) -> pa.RecordBatch:
    """The statistics in values of the partitions ``column_stats`` and ``partition_stats``, a row for each value.

    Args:
        values: of cells without removed records, by ``METADATA_SCHEMA``.

    Returns:
        The fields of statistics from ``minValue`` on, named as in ``METADATA_SCHEMA``. Bounds are structs with a field
        for each wrapper, of which at most one has a value. A row whose bounds are lists is null in all columns.

    Raises:
        CorruptTableError: a value holds no statistics.
    """
    if not len(values):
        return _as_batch(pa.nulls(0, _BOUND.arrow), pa.nulls(0, _BOUND.arrow), pa.nulls(0, _COUNTED.arrow))
    rows = _rows_of(values)
    _require_kind(decoded(_HEAD, rows), _STATISTICS, _NAMES[_FILES_AT:_STATISTICS_AT])
    if (rows.bytes(None) != 2).any():
        raise _foreign()
    decoded(_NAMED, rows)
    # Lists are bounds of columns that have no order here.
    listed = rows.bytes(None) == _LISTED
    rows.move(-1, None)
    chosen = rows.chosen(np.flatnonzero(~listed))
    least, greatest = _bounds(chosen), _bounds(chosen)
    counts = decoded(_COUNTED, chosen)
    _require_absent(counts, _NAMES[_STATISTICS_AT + 1 :])
    _require_end(chosen)
    found = _as_batch(least, greatest, counts)
    return found.take(pa.array(np.cumsum(~listed) - 1, mask=listed)) if listed.any() else found


def _bounds(rows: Rows) -> pa.StructArray:
    """The next bound of each row: a wrapper's number and its value."""
    branches = rows.bytes(None)
    if (branches % 2).any() or branches.max(initial=0) >= _LISTED:
        raise _foreign()
    numbers = np.unique(branches).tolist()
    columns = [
        decoded(node, rows, branches == 2 * number) if 2 * number in numbers else pa.nulls(len(branches), node.arrow)
        for number, node in enumerate(_BOUND.children, 1)
    ]
    return pa.StructArray.from_arrays(columns, fields=list(_BOUND.arrow))


def _as_batch(least: pa.StructArray, greatest: pa.StructArray, counts: pa.StructArray) -> pa.RecordBatch:
    kept = [field["name"] for field in _OF_COLUMN[_GREATEST + 1 :]]
    columns = {_OF_COLUMN[_LEAST]["name"]: least, _OF_COLUMN[_GREATEST]["name"]: greatest}
    return pa.RecordBatch.from_pydict({**columns, **{name: counts.field(name) for name in kept}})


def _rows_of(values: pa.BinaryArray) -> Rows:
    offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1]
    bounds = offsets.astype(np.int64)
    return rows_within(values.buffers()[2].to_pybytes(), bounds[:-1], bounds[1:])


def _require_kind(fields: pa.StructArray, types: tuple[int, ...], absent: Sequence[str]) -> None:
    if not np.isin(fields.field("type").to_numpy(), types).all():
        raise _foreign()
    _require_absent(fields, absent)


def _require_absent(fields: pa.StructArray, names: Sequence[str]) -> None:
    if any(fields.field(name).null_count < len(fields) for name in names):
        raise _foreign()


def _require_end(rows: Rows) -> None:
    if (rows.places != rows.ends).any():
        raise _foreign()


def _foreign() -> CorruptTableError:
    return CorruptTableError(
        "a partition of the metadata table holds a record of another one, or a damaged one", remedy=_REMEDY
    )
