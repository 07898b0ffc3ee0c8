"""The journal: what a commit changes in the index, kept with the table.

For each file group that gains or loses keys, the task that writes its base file also writes a Parquet file with the
keys concerned and where they were before. From it the index is brought up to date after the commit, by any process
and as often as need be, and brought back when the commit is rolled back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from rli.errors import CorruptTableError
from rli.file_group import work_rows
from rli.file_group.work_rows import Change
from rli.locations import LocationUpdate, named_groups
from rli.model import FileGroupId
from rli.storage import Storage
from rli.view.file_slice_reader import READ_BATCH_ROWS
from rli.view.paths import journal_file

Positions: TypeAlias = NDArray[np.int64]

SECTIONS: Final = 16
"""Into how many parts an index's store is divided, so that a large commit is applied to one after the other: a store that
keeps keys sorted, or many of them together, then writes each place once instead of with every batch of keys. The number is
part of the format of journals."""

SectionsOf: TypeAlias = Callable[[str, pa.Array], NDArray[np.uint8]]
"""Partition path and record keys (string array, shape (n,)) → the section of each, less than ``SECTIONS``. Picklable."""

FORMAT_VERSION: Final = "1"
_VERSION_KEY: Final = "rli.journal.version"
_SECTIONS_KEY: Final = "rli.journal.sections"

_FEWEST_ROWS_OF_SECTION: Final = 256
"""On average. Below that, finding the sections costs more than they save."""

_IS_RELOCATING: Final = work_rows.told_apart([Change.INSERT, Change.MOVE_IN, Change.DELETE])

_COLUMNS: Final = (
    work_rows.RECORD_KEY,
    work_rows.CHANGE,
    work_rows.PRIOR_PARTITION_PATH,
    work_rows.PRIOR_FILE_ID,
    work_rows.PRIOR_INSTANT,
)
"""The working columns that a journal keeps, in the order of its own."""

_SCHEMA: Final = pa.schema(
    [
        ("record_key", pa.string()),
        ("change", pa.int8()),
        ("prior_partition_path", pa.string()),
        ("prior_file_id", pa.string()),
        ("prior_instant", pa.string()),
    ]
)

RELOCATION_SCHEMA: Final = pa.schema(
    [
        ("record_key", pa.string()),
        ("prior_partition_path", pa.string()),
        ("prior_file_id", pa.string()),
        ("partition_path", pa.string()),
        ("file_id", pa.string()),
    ]
)
"""Where keys were and where they are: nulls for keys that were absent, or are gone."""


@dataclass(frozen=True, slots=True)
class Journal:
    """One journal file.

    Attributes:
        instant: the commit.
        name: file name in the commit's journal folder.
        group: the file group that it tells of.
        is_in_sections: whether its rows are ordered by the section of their key, so that each section can be read alone.
    """

    instant: str
    name: str
    group: FileGroupId
    is_in_sections: bool = False

    @property
    def path(self) -> str:
        return journal_file(self.instant, self.name)

    def changes(self, storage: Storage, sections: range | None = None) -> Iterator[LocationUpdate]:
        """Where the commit puts the keys.

        Args:
            storage: the table.
            sections: those to read of a journal that is in sections; None for all.
        """
        for batch in self._batches(storage, ["record_key", "change"], sections):
            deleted = pc.equal(batch.column("change"), int(Change.DELETE))
            placed = LocationUpdate.placing(batch.column("record_key"), self.group)
            if not deleted.true_count:
                yield placed
                continue
            file_ids = pc.if_else(deleted, pa.scalar(None, pa.string()), placed.file_ids.dictionary_decode())
            yield replace(placed, file_ids=pc.dictionary_encode(file_ids))

    def relocations(self, storage: Storage) -> Iterator[pa.Table]:
        """Where the keys were before the commit, and where it puts them: tables of ``RELOCATION_SCHEMA``."""
        for told in self._batches(storage):
            batch = told.filter(pc.not_equal(told.column("change"), int(Change.UPDATE)))
            deleted = pc.equal(batch.column("change"), int(Change.DELETE))
            nothing = pa.scalar(None, pa.string())
            columns = [batch.column(name) for name in ("record_key", "prior_partition_path", "prior_file_id")]
            placed = [pc.if_else(deleted, nothing, pa.scalar(name)) for name in self.group]
            yield pa.table([*columns, *placed], schema=RELOCATION_SCHEMA)

    def regrouped(self, storage: Storage, instants: Sequence[str | None]) -> Iterator[tuple[Positions, LocationUpdate]]:
        """Where a clustering puts the keys, each of which stays where it is since the same instant as before.

        Args:
            storage: the table.
            instants: prior instants in a fixed order.

        Yields:
            For each key the position of its prior instant in ``instants``, and the changes.
        """
        for positions, batch in self._with_prior_instants(storage, instants):
            yield positions, LocationUpdate.placing(batch.column("record_key"), self.group)

    def placed_keys(self, storage: Storage) -> Iterator[pa.Array]:
        """The keys that are new in the file group."""
        for batch in self._batches(storage):
            yield batch.filter(pc.not_equal(batch.column("change"), int(Change.DELETE))).column("record_key")

    def deleted_keys(self, storage: Storage) -> Iterator[pa.Array]:
        """The keys that are deleted."""
        for batch in self._batches(storage):
            yield batch.filter(pc.equal(batch.column("change"), int(Change.DELETE))).column("record_key")

    def moved_keys(self, storage: Storage) -> Iterator[tuple[pa.Array, pa.Array, pa.Array]]:
        """The keys whose records moved into the file group, with the partition paths and file ids that they came from."""
        for batch in self._batches(storage):
            moved = batch.filter(pc.equal(batch.column("change"), int(Change.MOVE_IN)))
            yield tuple(moved.column(name) for name in ("record_key", "prior_partition_path", "prior_file_id"))

    def keys_from(self, storage: Storage, groups: Collection[FileGroupId]) -> Iterator[pa.Array]:
        """The keys that come from some other file groups."""
        for batch in self._batches(storage):
            prior = named_groups(batch.column("prior_partition_path"), batch.column("prior_file_id"))
            is_from = np.array([group in groups and group != self.group for group in prior.groups], np.bool_)
            yield batch.column("record_key").filter(pa.array(is_from[prior.codes]))

    def undone(self, storage: Storage, instants: Sequence[str | None]) -> Iterator[tuple[Positions, LocationUpdate]]:
        """Where the keys were before the commit.

        Args:
            storage: the table.
            instants: prior instants in a fixed order; None stands for keys that were absent.

        Yields:
            For each key the position of its prior instant in ``instants``, and the changes that bring the keys back.
        """
        for positions, batch in self._with_prior_instants(storage, instants):
            # Keys that were absent go from here.
            paths = pc.fill_null(batch.column("prior_partition_path"), self.group.partition_path)
            yield positions, LocationUpdate(batch.column("record_key"), paths, batch.column("prior_file_id"))

    def prior_instants(self, storage: Storage) -> set[str]:
        """The instants since which the keys had been where they were; keys that were absent have none."""
        found: set[str] = set()
        for batch in self._batches(storage, ["prior_instant"]):
            found.update(pc.unique(batch.column("prior_instant").drop_null()).to_pylist())
        return found

    def prior_groups(self, storage: Storage) -> set[FileGroupId]:
        """The file groups that the keys were in."""
        found: set[FileGroupId] = set()
        for batch in self._batches(storage, ["prior_partition_path", "prior_file_id"]):
            prior = batch.filter(pc.is_valid(batch.column("prior_file_id")))
            named = named_groups(prior.column("prior_partition_path"), prior.column("prior_file_id"))
            found.update(group for group in named.groups if group is not None)
        return found

    def _with_prior_instants(
        self, storage: Storage, instants: Sequence[str | None]
    ) -> Iterator[tuple[Positions, pa.RecordBatch]]:
        known = pa.array(instants, pa.string())
        for batch in self._batches(storage):
            found = pc.index_in(batch.column("prior_instant"), value_set=known)
            if found.null_count:
                raise CorruptTableError(
                    f"a journal file names an instant that its commit does not: file={self.path}",
                    remedy="bootstrap the index again",
                )
            yield found.to_numpy(zero_copy_only=False).astype(np.int64), batch

    def _batches(
        self, storage: Storage, columns: list[str] | None = None, sections: range | None = None
    ) -> Iterator[pa.RecordBatch]:
        try:
            with storage.filesystem.open_input_file(storage.full_path(self.path)) as source:
                file = pq.ParquetFile(source)
                told = {key.decode(): value.decode() for key, value in (file.metadata.metadata or {}).items()}
                version = told.get(_VERSION_KEY)
                if version != FORMAT_VERSION:
                    raise CorruptTableError(
                        f"a journal file has another version: file={self.path} version={version or 'none'}",
                        remedy="use the version of rli that wrote it",
                    )
                row_groups = None if sections is None else _row_groups(file.metadata, told[_SECTIONS_KEY], sections)
                yield from file.iter_batches(READ_BATCH_ROWS, row_groups, columns)
        except (OSError, KeyError, ValueError) as error:
            raise CorruptTableError(
                f"a journal file is missing or damaged: file={self.path} ({error})", remedy="bootstrap the index again"
            ) from error


@dataclass(frozen=True, slots=True)
class HeldJournal(Journal):
    """A journal file with its content, which the process that has written the file need not read back.

    Attributes:
        content: of the file.
        starts: the first row of each section, and the number of rows, if it is in sections.
    """

    content: pa.Table = field(kw_only=True, repr=False, compare=False)
    starts: tuple[int, ...] = field(kw_only=True, default=(), repr=False, compare=False)

    @property
    def without_content(self) -> Journal:
        """The same, for other processes."""
        return Journal(self.instant, self.name, self.group, self.is_in_sections)

    def _batches(
        self,
        storage: Storage,  # noqa: ARG002
        columns: list[str] | None = None,
        sections: range | None = None,
    ) -> Iterator[pa.RecordBatch]:
        content = self.content if columns is None else self.content.select(columns)
        if sections is not None:
            first, end = self.starts[sections.start], self.starts[sections.stop]
            content = content.slice(first, end - first)
        yield from content.to_batches()


class JournalWriter:
    """Writes a journal file, work rows after work rows."""

    def __init__(self, writer: pq.ParquetWriter) -> None:
        self._writer = writer

    def write(self, rows: pa.Table) -> None:
        """Append work rows; their other columns are passed over."""
        self._writer.write_table(_content_of(rows))

    def write_content(self, content: pa.Table, starts: Sequence[int]) -> None:
        """Write all rows, of the file's schema; a row group for each section that has any.

        Args:
            content: the rows.
            starts: the first row of each section, and the number of rows; empty if the rows are not in sections.
        """
        if not starts:
            self._writer.write_table(content)
            return
        for first, end in pairwise(starts):
            if first < end:
                self._writer.write_table(content.slice(first, end - first), end - first)
        self._writer.add_key_value_metadata({_SECTIONS_KEY: ",".join(map(str, starts))})


@contextmanager
def open_journal(storage: Storage, journal: Journal) -> Iterator[JournalWriter]:
    """Write a journal file; when the context is left it is whole, and its content survives a power cut."""
    storage.make_folder(journal.path.rpartition("/")[0])
    with (
        storage.filesystem.open_output_stream(storage.full_path(journal.path)) as sink,
        pq.ParquetWriter(
            # Keys do not repeat.
            sink,
            _SCHEMA,
            compression="zstd",
            store_schema=False,
            use_dictionary=_SCHEMA.names[1:],
            # Nobody seeks a key in a journal, and to compare strings takes a sixth of the time.
            write_statistics=False,
        ) as writer,
    ):
        yield JournalWriter(writer)
        writer.add_key_value_metadata({_VERSION_KEY: FORMAT_VERSION})
    storage.flush([journal.path])


def write_journal(
    storage: Storage,
    journal: Journal,
    rows: pa.Table,
    updated: Positions | None = None,
    sections_of: SectionsOf | None = None,
) -> HeldJournal | None:
    """Write the journal of a file group's work rows; returns None, and writes nothing, if there is nothing to tell.

    Args:
        storage: of the table.
        journal: its name.
        rows: the work rows; those that bring a key, or take it away, are told.
        updated: positions of the rows that take the place of a stored record, to be told as well; None to leave them out.
        sections_of: by which the rows are put into sections, if they are many; None to leave them as they are.
    """
    changes = rows.column(work_rows.CHANGE).to_numpy()
    is_told = _IS_RELOCATING[changes]
    if updated is not None:
        is_told[updated] = True
    if not is_told.any():
        return None
    told = rows.select(_COLUMNS)
    if not is_told.all():
        told = told.filter(pa.array(is_told))
    starts: tuple[int, ...] = ()
    if sections_of is not None and told.num_rows >= SECTIONS * _FEWEST_ROWS_OF_SECTION:
        sections = sections_of(journal.group.partition_path, told.column(work_rows.RECORD_KEY).combine_chunks())
        told = work_rows.rows_at(told, np.argsort(sections, kind="stable"))
        starts = (0, *np.cumsum(np.bincount(sections, minlength=SECTIONS)).tolist())
    content = _content_of(told)
    with open_journal(storage, journal) as writer:
        writer.write_content(content, starts)
    return HeldJournal(
        journal.instant, journal.name, journal.group, is_in_sections=bool(starts), content=content, starts=starts
    )


def _row_groups(metadata: pq.FileMetaData, starts: str, sections: range) -> list[int]:
    """The row groups of some sections, by the starts of all of them as a journal file tells them.

    Raises:
        ValueError: these are not the sections of its rows.
    """
    rows = [end - first for first, end in pairwise(map(int, starts.split(",")))]
    stored = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    if len(rows) != SECTIONS or [count for count in rows if count] != stored:
        raise ValueError(f"it does not have the sections that it tells of: {starts}")
    number_of = np.cumsum([0, *(count > 0 for count in rows)])
    return [int(number_of[section]) for section in sections if rows[section]]


def _content_of(rows: pa.Table) -> pa.Table:
    return pa.table([rows.column(name) for name in _COLUMNS], schema=_SCHEMA)
