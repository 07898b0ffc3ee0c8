"""The records of keys that stand in a table more than once, and which of them stays."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rli.commit.write_basis import WriteBasis
from rli.file_group import work_rows
from rli.file_group.merge import newest_records
from rli.filters.filter import Filter
from rli.hudi.meta_columns import COMMIT_TIME, RECORD_KEY, with_meta_columns
from rli.index.repeats import Repeats
from rli.model import FileGroupId
from rli.view.file_slices import FileSlice

_COPY: Final = (RECORD_KEY, COMMIT_TIME)
PLACE: Final = (work_rows.PRIOR_PARTITION_PATH, work_rows.PRIOR_FILE_ID, work_rows.PRIOR_INSTANT)
"""Columns that tell where a record is."""


@dataclass(frozen=True, slots=True)
class RepeatedKey:
    """A record key that stood in the table more than once.

    Attributes:
        key: the record key.
        kept: partition path of the record that stays.
        kept_instant: the commit that wrote this record.
        removed: partition path and commit of each record that goes.
    """

    key: str
    kept: str
    kept_instant: str
    removed: tuple[tuple[str, str], ...]


def copies_of(write: WriteBasis, schema: pa.Schema, found: Repeats) -> pa.Table:
    """The records of repeated keys: key, commit time, ``PLACE`` and the columns of the table."""
    if not len(found.keys):
        return _record_schema(schema).empty_table()
    passes = Filter.of(pc.field(RECORD_KEY).isin(found.keys), with_meta_columns(schema))
    copies = records_of(write, schema, found.slices, passes)
    counts = pc.value_counts(copies.column(RECORD_KEY).combine_chunks())
    several = counts.filter(pc.greater(counts.field("counts"), 1)).field("values")
    return copies.filter(pc.is_in(copies.column(RECORD_KEY), value_set=several))


def records_of(write: WriteBasis, schema: pa.Schema, slices: Sequence[FileSlice], passes: Filter | None) -> pa.Table:
    """The records of file slices that pass a filter, in the form of ``copies_of``."""
    whole = _record_schema(schema)
    scan = write.snapshot.scan([*_COPY, *schema.names])
    parts = [whole.empty_table()]
    for file_slice in slices:
        read = replace(scan, slices={file_slice.group: file_slice}, filter=passes).to_table()
        place = (
            pa.repeat(pa.scalar(name, pa.string()), read.num_rows) for name in (*file_slice.group, file_slice.instant)
        )
        columns = dict(zip((*read.column_names, *PLACE), (*read.columns, *place), strict=True))
        parts.append(pa.table([columns[name] for name in whole.names], schema=whole))
    records = pa.concat_tables(parts).combine_chunks()
    if write.expired_before is None:
        return records
    # To a write, they are as absent.
    return records.filter(pc.greater_equal(records.column(COMMIT_TIME), write.expired_before))


def _record_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([*(pa.field(name, pa.string()) for name in (*_COPY, *PLACE)), *schema])


def newest(copies: pa.Table, write: WriteBasis) -> pa.Table:
    """The records that stay: the greatest ordering value, then the latest commit; of equals, the last file."""
    ordering = write.table.properties.ordering_field
    names = [COMMIT_TIME, work_rows.PRIOR_FILE_ID]
    compared = copies
    if ordering is not None:
        # A record without an ordering value is older than all others.
        is_valid = pc.is_valid(copies.column(ordering)).cast(pa.int8())
        compared, names = copies.append_column(work_rows.ORDERING, is_valid), [work_rows.ORDERING, ordering, *names]
    order = pc.sort_indices(compared, sort_keys=[(name, "ascending") for name in names]).to_numpy()
    # Of each key the last one in this order.
    last = newest_records(copies.column(RECORD_KEY).combine_chunks().take(pa.array(order)), None)
    return copies.take(pa.array(np.sort(order if last is None else order[last])))


def told(stays: pa.Table, copies: pa.Table) -> Iterator[RepeatedKey]:
    """The repeated keys, in their order.

    Args:
        stays: the records that stay, as ``newest`` chooses them.
        copies: all records of the keys.
    """
    path = work_rows.PRIOR_PARTITION_PATH
    names = (RECORD_KEY, path, COMMIT_TIME, work_rows.PRIOR_FILE_ID)
    others: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    for key, *place in zip(*(copies.column(name).to_pylist() for name in names), strict=True):
        others[key].append(tuple(place))
    for key, *place in sorted(zip(*(stays.column(name).to_pylist() for name in names), strict=True)):
        others[key].remove(tuple(place))
        yield RepeatedKey(key, place[0], place[1], tuple((where, commit) for where, commit, _ in others[key]))


def by_group(copies: pa.Table) -> Iterator[tuple[FileGroupId, pa.Table]]:
    """The records of each file group."""
    names = copies.select(list(PLACE[:2])).group_by(list(PLACE[:2])).aggregate([])
    for path, file_id in zip(*(names.column(name).to_pylist() for name in PLACE[:2]), strict=True):
        is_here = pc.and_(pc.equal(copies.column(PLACE[0]), path), pc.equal(copies.column(PLACE[1]), file_id))
        yield FileGroupId(path, file_id), copies.filter(is_here)
