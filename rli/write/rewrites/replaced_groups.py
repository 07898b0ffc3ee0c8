"""The file groups of an overwrite: those that take its records, and those that it replaces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rli.file_group import work_rows
from rli.file_group.journal import Journal
from rli.file_group.work_rows import Change
from rli.file_group.write_context import FileGroupResult, WriteContext
from rli.hudi.file_names import new_write_token
from rli.hudi.meta_columns import COMMIT_TIME, RECORD_KEY
from rli.index.locators import Locator
from rli.model import FileGroupId, WriteCounts
from rli.view.file_slices import FileSlice
from rli.write.engine.write_plan import FileGroupWriting
from rli.write.rewrites.placed import placed_by_index

_MOST_OF_LOT: Final = 256
"""Replaced file groups that a task looks at together."""

_LOT_BYTES: Final = 128 * 1024 * 1024
"""Of their base files, unless a single one has more: a bound to the keys in memory."""

_NUMBER: Final = "number"
"""Position of a key's file slice in its lot."""

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
class ReplacedLot:
    """Replaced file groups of one partition that a task looks at together. Picklable.

    Attributes:
        partition_path: of the partition.
        slices: their live slices.
    """

    partition_path: str
    slices: tuple[FileSlice, ...]

    @classmethod
    def of(cls, slices: Iterable[FileSlice]) -> list[ReplacedLot]:
        """The lots of some slices: each journal of a partition is read once for each of its lots, so lots are large."""
        lots: list[list[FileSlice]] = []
        size = 0
        for one in sorted(slices, key=lambda file_slice: file_slice.group):
            size += one.size
            is_of_last = lots and lots[-1][0].group.partition_path == one.group.partition_path
            if not is_of_last or size > _LOT_BYTES or len(lots[-1]) == _MOST_OF_LOT:
                lots.append([])
                size = one.size
            lots[-1].append(one)
        return [cls(lot[0].group.partition_path, tuple(lot)) for lot in lots]


@dataclass(frozen=True, slots=True)
class EndOfGroups:
    """Tells which keys of replaced file groups are gone. Picklable.

    Attributes:
        context: of the write.
        locator: as of the state that the write builds on.
        written: partition path → the journals of its new file groups: they tell which keys have a new place.
        arrivals: of these journals, those into whose file groups records moved from other partitions.
    """

    context: WriteContext
    locator: Locator
    written: Mapping[str, Sequence[Journal]]
    arrivals: Sequence[Journal]

    @classmethod
    def of(cls, context: WriteContext, locator: Locator, results: Iterable[FileGroupResult]) -> EndOfGroups:
        """After file groups were written, with these results."""
        written: dict[str, list[Journal]] = {}
        arrivals: list[Journal] = []
        for result in results:
            if result.journal is not None:
                written.setdefault(result.group.partition_path, []).append(result.journal)
                if result.counts.moved:
                    arrivals.append(result.journal)
        return cls(context, locator, written, arrivals)

    def __call__(self, lot: ReplacedLot) -> list[FileGroupResult]:
        """Write the journals of the keys that are gone; a dry run counts all keys.

        Memory is bounded by the keys of the lot. Each attempt has file names of its own, so attempts may be repeated or raced.

        Raises:
            ConflictError: another writer has changed a record since.
            CorruptIndexError: the index does not place the records where they are.
            CorruptTableError: a file cannot be read.
        """
        stored = pa.concat_tables([self._stored(file_slice, number) for number, file_slice in enumerate(lot.slices)])
        gone = stored.filter(self._are_gone(lot, stored))
        bounds = np.searchsorted(gone.column(_NUMBER).to_numpy(), np.arange(len(lot.slices) + 1)).tolist()
        deletes = self._deletes(lot, gone) if self.context.saves else gone
        return [
            self._ended(file_slice.group, deletes.slice(start, end - start))
            for file_slice, (start, end) in zip(lot.slices, pairwise(bounds), strict=True)
        ]

    def _stored(self, file_slice: FileSlice, number: int) -> pa.Table:
        with self.context.open(file_slice) as reader:
            stored = reader.read_columns(_AGE)
        if self.context.expired_before is not None:
            # To a write, they are as absent; their keys may be elsewhere.
            stored = stored.filter(pc.greater_equal(stored.column(COMMIT_TIME), self.context.expired_before))
        return stored.append_column(_NUMBER, pa.repeat(pa.scalar(number, pa.int32()), stored.num_rows))

    def _are_gone(self, lot: ReplacedLot, stored: pa.Table) -> pa.ChunkedArray:
        """Whether each stored key is in no new file group; in a dry run all are, as there are no journals."""
        own = self.written.get(lot.partition_path, ())
        elsewhere = (journal for journal in self.arrivals if journal.group.partition_path != lot.partition_path)
        groups = {file_slice.group for file_slice in lot.slices}
        # A key is once in a partition: its own file group need not be asked for.
        kept = [keys for journal in (*own, *elsewhere) for keys in journal.keys_from(self.context.storage, groups)]
        return pc.invert(pc.is_in(stored.column(RECORD_KEY), value_set=pa.chunked_array(kept, pa.string())))

    def _deletes(self, lot: ReplacedLot, gone: pa.Table) -> pa.Table:
        """Work rows of the keys that are gone, in their order."""
        keys, times, numbers = (column.combine_chunks() for column in gone.columns)
        file_ids = pa.array([one.group.file_id for one in lot.slices], pa.string()).take(numbers)
        # Where keys expire, the record tells their instant.
        since = pa.array([one.instant for one in lot.slices], pa.string()).take(numbers)
        instants = since if self.context.expired_before is None else times
        found = placed_by_index(self.locator, lot.slices[0].group, keys, file_ids, instants)
        return pa.table(
            {
                work_rows.RECORD_KEY: keys,
                work_rows.CHANGE: pa.repeat(pa.scalar(int(Change.DELETE), pa.int8()), len(keys)),
                work_rows.PRIOR_PARTITION_PATH: found.column("partition_path"),
                work_rows.PRIOR_FILE_ID: found.column("file_id"),
                work_rows.PRIOR_INSTANT: found.column("instant_time"),
            }
        )

    def _ended(self, group: FileGroupId, gone: pa.Table) -> FileGroupResult:
        counts = WriteCounts(deleted=gone.num_rows)
        if not gone.num_rows or not self.context.saves:
            return FileGroupResult(group, counts, None, None, (group,))
        told = self.context.journaled(group, new_write_token(), gone)
        return FileGroupResult(group, counts, None, told, (group,))
