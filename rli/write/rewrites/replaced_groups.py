"""The file groups of an overwrite: those that take its records, and those that it replaces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from secrets import randbelow
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from rli.file_group import work_rows
from rli.file_group.journal import Journal, write_journal
from rli.file_group.work_rows import Change
from rli.file_group.writer import FileGroupResult, WriteContext
from rli.hudi.meta_columns import COMMIT_TIME, RECORD_KEY
from rli.index.locators import Locator
from rli.model import FileGroupId, WriteCounts
from rli.view.file_slice_reader import FileSliceReader
from rli.view.file_slices import FileSlice
from rli.write.engine.write_plan import FileGroupWriting
from rli.write.rewrites.placed import placed_by_index

_TOKENS: Final = 2**31
"""Of so many numbers, an attempt draws one: it tells its files from those of other attempts."""

_AGE: Final = pa.schema([(RECORD_KEY, pa.string()), (COMMIT_TIME, pa.string())])


class NewGroupWriting(FileGroupWriting):
    """Writes file groups as all writes do, and counts records whose partition held their key as updated. Picklable."""

    __slots__ = ()

    def write_lot(
        self, groups: Sequence[FileGroupId], rows: pa.Table, counts: Sequence[int], tokens: Sequence[str]
    ) -> list[FileGroupResult]:
        results = super().write_lot(groups, rows, counts, tokens)
        known = pc.and_(
            pc.equal(rows.column(work_rows.CHANGE), int(Change.INSERT)),
            pc.is_valid(rows.column(work_rows.PRIOR_FILE_ID)),
        )
        counted, start = [], 0
        for result, count in zip(results, counts, strict=True):
            updated = pc.sum(known.slice(start, count)).as_py() or 0
            start += count
            told = replace(
                result.counts, inserted=result.counts.inserted - updated, updated=result.counts.updated + updated
            )
            counted.append(replace(result, counts=told))
        return counted


@dataclass(frozen=True, slots=True)
class EndOfGroup:
    """Tells which keys of a replaced file group are gone. Picklable.

    Attributes:
        context: of the write.
        locator: as of the state that the write builds on.
        journals: of the file groups that are written: they tell which keys have a new place.
    """

    context: WriteContext
    locator: Locator
    journals: tuple[Journal, ...]

    def __call__(self, file_slice: FileSlice) -> FileGroupResult:
        """Write the journal of the keys that are gone; a dry run counts all keys.

        Memory is bounded by the keys of the file group. Each attempt has a file name of its own, so attempts may be repeated or
        raced.

        Raises:
            ConflictError: another writer has changed a record since.
            CorruptIndexError: the index does not place the records where they are.
            CorruptTableError: a file cannot be read.
        """
        group, storage = file_slice.group, self.context.storage
        with FileSliceReader(storage, file_slice) as reader:
            stored = reader.read_columns(_AGE)
        if self.context.expired_before is not None:
            # To a write, they are as absent; their keys may be elsewhere.
            stored = stored.filter(pc.greater_equal(stored.column(COMMIT_TIME), self.context.expired_before))
        gone = stored
        if self.context.saves:
            kept = [keys for journal in self.journals for keys in journal.keys_from(storage, {group})]
            if kept:
                gone = stored.filter(pc.invert(pc.is_in(stored.column(RECORD_KEY), value_set=pa.concat_arrays(kept))))
        counts = WriteCounts(deleted=gone.num_rows)
        if not gone.num_rows or not self.context.saves:
            return FileGroupResult(group, counts, None, None, (group,))
        journal = Journal(self.context.instant, f"{group.file_id}_{randbelow(_TOKENS)}-0-0.parquet", group)
        held = write_journal(storage, journal, self._deletes(file_slice, gone), sections_of=self.context.sections_of)
        told = held if held is None or self.context.holds_journals else held.without_content
        return FileGroupResult(group, counts, None, told, (group,))

    def _deletes(self, file_slice: FileSlice, gone: pa.Table) -> pa.Table:
        group, count = file_slice.group, gone.num_rows
        keys, times = (gone.column(name).combine_chunks() for name in (RECORD_KEY, COMMIT_TIME))
        # Where keys expire, the record tells their instant.
        instants = times if self.context.expired_before is not None else _repeated(file_slice.instant, count)
        file_ids = _repeated(group.file_id, count)
        found = placed_by_index(self.locator, group, keys, file_ids, instants)
        return pa.table(
            {
                work_rows.RECORD_KEY: keys,
                work_rows.CHANGE: pa.repeat(pa.scalar(int(Change.DELETE), pa.int8()), count),
                work_rows.PRIOR_PARTITION_PATH: found.column("partition_path"),
                work_rows.PRIOR_FILE_ID: found.column("file_id"),
                work_rows.PRIOR_INSTANT: found.column("instant_time"),
            }
        )


def _repeated(text: str, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(text, pa.string()), count)
