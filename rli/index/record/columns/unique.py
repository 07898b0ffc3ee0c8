"""Whether a write brings a second record with a value into a column whose values are to be unique."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rli.codec.key_codec import key_fingerprints
from rli.errors import IndexNotReadyError, RepeatedValueError
from rli.hudi.meta_columns import COMMIT_TIME
from rli.hudi.timeline.commit_metadata import WriteStat
from rli.index.record.columns.stored_column import StoredColumn
from rli.index.roles import UnpublishedWrite
from rli.locations import named_groups
from rli.model import FileGroupId
from rli.tasks import InProcess
from rli.view.column_values import NAMES, ColumnValues, copied_records, keyed_values
from rli.view.file_slices import FileSlice
from rli.view.merging.log_keys import log_keys
from rli.view.snapshot import Snapshot
from rli.view.written_slices import written_file, written_slice

_SAMPLE: Final = 5
_ROWS_AT_ONCE: Final = 1 << 18
_ROWS: Final = pa.schema([(name, pa.string()) for name in NAMES])


@dataclass(frozen=True, slots=True)
class _Part:
    """One of some parts of all values: those with some hashes."""

    number: int
    count: int

    def rows_of(self, rows: pa.Table) -> pa.Table:
        """Those of some records (without nulls) whose values are in the part."""
        if self.count == 1:
            return rows
        hashes = key_fingerprints(rows["value"].combine_chunks())
        return rows.filter(pa.array(hashes % np.uint64(self.count) == self.number))


class UniqueValues:
    """Looks a write over before it is published, while its process holds the lease.

    Args:
        write: the write.
        locate: where record keys are in the state before it: ``LOCATION_SCHEMA``.
        most: new values that are in memory at a time, about. The values of a larger write are shared out by their hashes, so that
            equal ones meet, and the written files are read once for each part.
    """

    def __init__(self, write: UnpublishedWrite, locate: Callable[[pa.Array], pa.Table], most: int) -> None:
        self._write = write
        self._locate = locate
        self._most = most

    def require(self, name: str, column: StoredColumn) -> None:
        """Pass a write after which no two records have one value.

        Raises:
            RepeatedValueError: two have.
            IndexNotReadyError: the index cannot tell.
        """
        if self._write.change.keeps_records or not (self._write.change.written or self._write.change.appended):
            return
        if column.settings.column not in self._write.schema.names:
            # The commit that added the column was undone: no record has a value.
            return
        values = ColumnValues(self._write.snapshot.table, self._write.schema, column.settings.column)
        parts = max(1, -(-sum(stat.inserts + stat.update_writes for stat in self._write.change.stats) // self._most))
        for part in range(parts):
            self._require_part(name, column, values, _Part(part, parts))

    def _require_part(self, name: str, column: StoredColumn, values: ColumnValues, part: _Part) -> None:
        """As ``require``, of those new values that are in a part."""
        fresh = pa.concat_tables(
            [_ROWS.empty_table(), *(part.rows_of(_with_values(rows)) for rows in self._written(values))]
        )
        # A log file may have a record more than once.
        _raise_repeats(fresh.group_by(NAMES).aggregate([]), name, column.settings.column)
        found = column.keys_with(self._write.snapshot, fresh["value"].combine_chunks().unique(), InProcess())
        if found is None:
            raise IndexNotReadyError(
                f"the index that keeps values unique cannot tell which are taken: index={name} url={column.url}",
                remedy=f"see its state: rli index list TABLE, and make it again, or drop it: rli index drop TABLE {name}",
            )
        # A record of another part has another value behind the write, as ``_present`` shows.
        others = found.filter(pc.invert(pc.is_in(found, value_set=fresh["key"].combine_chunks())))
        taken = [_ROWS.empty_table(), *self._present(values, others)]
        # An entry may be of a former value, or of another value with the same hash.
        repeated = pa.concat_tables(taken)
        repeated = repeated.filter(pc.is_in(repeated["value"], value_set=fresh["value"].combine_chunks()))
        if len(repeated):
            raise _repeated(name, column.settings.column, repeated)

    def _written(self, values: ColumnValues) -> Iterator[pa.Table]:
        """The records that the write has written, without those that it has copied, file by file."""
        changed = self._write.changed
        if changed is not None and changed.has(values.column):
            for start in range(0, len(changed.after), _ROWS_AT_ONCE):
                yield keyed_values(changed.after.slice(start, _ROWS_AT_ONCE), values.column)
        else:
            for stat in self._write.change.stats:
                yield self._fresh(values, stat)

    def _fresh(self, values: ColumnValues, stat: WriteStat) -> pa.Table:
        """The records that the write has written into a file, without those that it has copied."""
        rows = values.of_slice(written_slice(self._write.instant, stat))
        if COMMIT_TIME not in rows.column_names:
            return rows
        return rows.filter(pc.invert(copied_records(rows, self._write.instant))).select(NAMES)

    def _present(self, values: ColumnValues, keys: pa.Array) -> Iterator[pa.Table]:
        """Those records of some keys that the write leaves as they are."""
        change = self._write.change
        for stat in change.appended if len(keys) else ():
            # Its records and deletes win over those before: otherwise the write would have written a base file.
            for gone in log_keys(self._write.snapshot.table.storage, written_file(self._write.instant, stat)):
                keys = keys.filter(pc.invert(pc.is_in(keys, value_set=gone)))
        if not len(keys):
            return
        places = self._locate(keys)
        named = named_groups(places["partition_path"].combine_chunks(), places["file_id"].combine_chunks())
        after = self._slices_after({group for group in named.groups if group is not None})
        for file_slice in after.values():
            rows = values.of_slice(file_slice).select(NAMES)
            yield rows.filter(pc.is_in(rows["key"], value_set=keys))

    def _slices_after(self, wanted: set[FileGroupId]) -> Mapping[FileGroupId, FileSlice]:
        """The slices of some file groups after the write, without its log files."""
        change, instant = self._write.change, self._write.instant
        kept = self._write.snapshot.slices.of_groups(wanted - {*change.replaced})
        written = {stat.group: written_slice(instant, stat) for stat in change.written if stat.group in wanted}
        return {**kept, **written}


def require_no_repeats(name: str, snapshot: Snapshot, column: str) -> None:
    """Pass a table of which no two records have one value in a column; reads the column twice where two may have.

    Raises:
        RepeatedValueError: two have.
    """
    values = ColumnValues(snapshot.table, snapshot.schema or pa.schema([]), column)
    slices = [*snapshot.slices.values()]
    hashes = np.concatenate([np.empty(0, np.uint64), *(key_fingerprints(_values_of(values, one)) for one in slices)])
    distinct, counts = np.unique(hashes, return_counts=True)
    suspected = distinct[counts > 1]
    if not len(suspected):
        return
    parts = [_ROWS.empty_table()]
    for one in slices:
        rows = _with_values(values.of_slice(one))
        parts.append(rows.filter(pa.array(np.isin(key_fingerprints(rows["value"].combine_chunks()), suspected))))
    _raise_repeats(pa.concat_tables(parts), name, column)


def _raise_repeats(rows: pa.Table, name: str, column: str) -> None:
    """Raise ``RepeatedValueError`` if two of some records have one value."""
    counts = pc.value_counts(rows["value"].combine_chunks())
    repeated = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
    if len(repeated):
        raise _repeated(name, column, rows.filter(pc.is_in(rows["value"], value_set=repeated)))


def _repeated(name: str, column: str, rows: pa.Table) -> RepeatedValueError:
    sample = [(row["value"], row["key"]) for row in rows.sort_by("value").slice(0, _SAMPLE).to_pylist()]
    return RepeatedValueError(
        f"another record has the value already, and the index allows one: index={name} column={column} records={len(rows)} "
        f"values and record keys={sample}",
        remedy="give each record a value of its own; rli get TABLE --where shows the record that has it",
    )


def _values_of(values: ColumnValues, file_slice: FileSlice) -> pa.Array:
    return values.of_slice(file_slice)["value"].combine_chunks().drop_null()


def _with_values(rows: pa.Table) -> pa.Table:
    return rows.select(NAMES).filter(rows["value"].is_valid())
