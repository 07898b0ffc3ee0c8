"""Headings of tagged rows: what the driver learns of them, from which it plans.

Each task counts its rows by file group. Where tasks are many, other tasks add their counts up: the driver gets a few bytes
for each file group, not for each file group of each task.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from rli.codec.key_codec import hash_keys
from rli.file_group import work_rows
from rli.model import FileGroupId
from rli.write.engine.workload import WorkloadProfile
from rli.write.rows.by_file_group import split_by_code
from rli.write.rows.tally import Tally
from rli_spark.rows.row_batches import HASHES, ROWS, SHUFFLE_KEY, packed, sent, shuffle_keys, unpack
from rli_spark.rows.row_files import RowFile
from rli_spark.session.batches import map_tables
from rli_spark.session.connect import rows_of


class Kind(IntEnum):
    """What a heading tells of."""

    READ = 1
    """The keys that a task has read; of those that occur more than once, each occurrence."""

    LEFT_OUT = 2
    """Keys that change nothing."""

    COUNTED = 3
    """No keys; the rows by file group."""

    STAYING = 4
    """A file of records that are changed where they are stored, or inserted."""

    LEAVING = 5
    """A file of records that move, as far as late ones are not left out yet."""

    ARRIVING = 6
    """A file of records that move in time."""

    DISTINCT = 7
    """The rows that were tagged, one for each key: how many."""


KIND: Final = "kind"
COUNTS: Final = "counts"

HEADINGS: Final = pa.schema(
    [
        (KIND, pa.int8()),
        (SHUFFLE_KEY, pa.int32()),
        (ROWS, pa.int64()),
        (HASHES, pa.int64()),
        ("path", pa.string()),
        ("size", pa.int64()),
        (COUNTS, pa.binary()),
    ]
)
"""A kind; which task adds it up; the tally of the keys that it tells of; of those in a file its path and size, see ``RowFile``;
counts, as a row batch of ``_COUNTS``."""

Heading = tuple[int, int, int, int, str | None, int | None, bytes | None]
"""A row of ``HEADINGS``."""

_COUNTS: Final = pa.schema(
    [(KIND, pa.int8()), *((name, pa.string()) for name in work_rows.FILE_GROUP), (ROWS, pa.int64())]
)
"""How many rows of a kind a file group has (of ``LEAVING`` the one that they leave), or a partition gains."""

_SEED: Final = 0x68656164


@dataclass(frozen=True, slots=True)
class Headings:
    """The headings of some work rows, added up.

    Attributes:
        tallies: of each kind, without those of files.
        counts: of ``_COUNTS``, each file group at most once for a kind.
        files: of each kind.
    """

    tallies: Mapping[Kind, Tally]
    counts: pa.Table
    files: Mapping[Kind, Sequence[RowFile]]

    @classmethod
    def summed(cls, rows: Iterable[Sequence[Any]]) -> Headings:
        """The sum of rows of ``HEADINGS``."""
        tallies = dict.fromkeys(Kind, Tally())
        files: dict[Kind, list[RowFile]] = {kind: [] for kind in Kind}
        counts = [_COUNTS.empty_table()]
        for kind, _, keys, hashes, path, size, content in rows:
            tally = Tally(keys, hashes)
            if path is None:
                tallies[Kind(kind)] += tally
            else:
                files[Kind(kind)].append(RowFile(path, tally, size))
            if content is not None:
                counts.append(unpack(bytes(content)))
        return cls(tallies, _summed(pa.concat_tables(counts)), files)

    @property
    def profile(self) -> WorkloadProfile:
        """Of all rows that they tell of."""
        changed, leaving = dict[FileGroupId, int](), dict[FileGroupId, int]()
        inserted, arriving = dict[str, int](), dict[str, int]()
        for kind, path, file_id, rows in zip(*(column.to_pylist() for column in self.counts.columns), strict=True):
            if file_id is not None:
                (leaving if kind == Kind.LEAVING else changed)[FileGroupId(path, file_id)] = rows
            else:
                (arriving if kind == Kind.ARRIVING else inserted)[path] = rows
        return WorkloadProfile(inserted, changed, leaving, arriving, self.tallies[Kind.LEFT_OUT].keys)


def headings_of(headings: DataFrame, sums: int) -> Headings:
    """The headings of a frame of ``HEADINGS``, added up by ``sums`` tasks."""
    if sums > 1:
        headings = map_tables(sent(headings, sums), added_up, HEADINGS)
    return Headings.summed(headings.collect())


def added_up(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """The sum of headings, as headings again: what a task gives that adds up those of others."""
    summed = Headings.summed(rows_of(tables))
    rows = [tally_heading(kind, tally) for kind, tally in summed.tallies.items() if tally.keys]
    rows.extend(file_heading(kind, file) for kind, files in summed.files.items() for file in files)
    rows.extend(count_headings(summed.counts, 1))
    yield pa.Table.from_pylist([dict(zip(HEADINGS.names, row, strict=True)) for row in rows], HEADINGS)


def counts_of(kind: Kind, rows: pa.Table) -> pa.Table:
    """How many work rows of one kind there are for each file group, as a table of ``_COUNTS``."""
    names = work_rows.PRIOR_FILE_GROUP if kind is Kind.LEAVING else work_rows.FILE_GROUP
    ones = pa.repeat(pa.scalar(1, pa.int64()), rows.num_rows)
    kinds = pa.repeat(pa.scalar(int(kind), pa.int8()), rows.num_rows)
    return _summed(pa.table([kinds, *(rows.column(name) for name in names), ones], schema=_COUNTS))


def tally_heading(kind: Kind, tally: Tally) -> Heading:
    """A heading that tells of some keys."""
    return int(kind), 0, tally.keys, tally.hashes, None, None, None


def file_heading(kind: Kind, file: RowFile) -> Heading:
    """A heading that tells of a file of work rows."""
    return int(kind), 0, file.tally.keys, file.tally.hashes, file.path, file.size, None


def count_headings(counts: pa.Table, sums: int) -> Iterator[Heading]:
    """Headings with counts, one for each of the ``sums`` tasks that add them up."""
    names = pc.coalesce(counts.column(work_rows.FILE_ID), counts.column(work_rows.PARTITION_PATH)).combine_chunks()
    for key, part in zip(shuffle_keys(sums), split_by_code(counts, hash_keys(names, _SEED) % sums, sums), strict=True):
        if part.num_rows:
            yield int(Kind.COUNTED), key, 0, 0, None, None, packed(part)


def _summed(counts: pa.Table) -> pa.Table:
    summed = counts.group_by([KIND, *work_rows.FILE_GROUP]).aggregate([(ROWS, "sum")])
    return pa.table([summed.column(name) for name in (KIND, *work_rows.FILE_GROUP, f"{ROWS}_sum")], schema=_COUNTS)
