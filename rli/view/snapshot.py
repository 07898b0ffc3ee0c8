"""The state of a table at an instant: its schema, its live file slices, and its records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Final, Protocol

import pyarrow as pa

from rli.errors import InstantNotFoundError, InvalidInputError, UnsupportedTableError
from rli.filters.filter import Filter
from rli.filters.predicates import Predicate
from rli.hudi.meta_columns import COMMIT_TIME, RECORD_KEY, with_meta_columns, without_meta_columns
from rli.hudi.table_keys import TableKeys
from rli.hudi.timeline.instant import UNDOING_ACTIONS, Instant
from rli.hudi.timeline.timeline import Timeline, read_commit
from rli.model import FileGroupId, Query
from rli.view.definition import TableDefinition
from rli.view.file_listing import FileListing, FolderListing, MetadataListing
from rli.view.file_slices import FileSlice, latest_slices
from rli.view.file_system_view import FileSystemView
from rli.view.key_columns import KeyColumns
from rli.view.planned_rewrites import reserved_groups
from rli.view.scan import SnapshotScan, wanted_columns
from rli.view.second_look import Told, read_again
from rli.view.skipping import Skipping
from rli.view.slice_reader import SliceReader
from rli.view.slice_readers import SliceReaders
from rli.view.table_change import TableChange
from rli.view.table_metadata import TableMetadata
from rli.view.told_schema import told_schema


class FindsValues(Protocol):
    """Finds records by values of columns. Picklable."""

    def keys_in(
        self, snapshot: Snapshot, predicate: Predicate, schema: pa.Schema, slices: Sequence[FileSlice]
    ) -> Mapping[FileGroupId, pa.Array] | None:
        """The keys of all records of a filter in some live slices, and perhaps of others, by file group; None if it does not know.

        Args:
            snapshot: the state.
            predicate: of the filter.
            schema: of the records, with meta columns.
            slices: some of the live slices.
        """
        ...


RECENT_WRITES: Final = 20
"""Number of the last commits that tell which engines write the table."""


@dataclass(frozen=True)
class Snapshot:
    """A table as of one moment of its timeline.

    Attributes:
        table: its definition.
        timeline: the instants that count.
        listing: names the data files; None for the folders of the table, or its metadata table.
        metadata: the metadata table, for readers; None where it is off, and for writers, who look at the files themselves.
    """

    table: TableDefinition
    timeline: Timeline
    listing: FileListing | None = None
    metadata: TableMetadata | None = field(default=None, compare=False)

    @classmethod
    def now(cls, table: TableDefinition) -> Snapshot:
        """The table as its timeline shows it at this moment."""
        return cls(table, table.load_timeline())

    @classmethod
    def for_reads(cls, table: TableDefinition) -> Snapshot:
        """The table as its timeline shows it, and where it has a metadata table, what that tells is taken from there.

        The timeline is a ``TableDefinition.listed_timeline``. The properties are read behind it, because writers take a
        partition off the list before a commit that the partition lacks: so a partition on the list has each commit of the
        timeline.

        Raises:
            TableNotFoundError: the table was dropped.
            UnsupportedTableError: the table has become one that rli cannot read.
        """
        while True:
            timeline, now = table.listed_timeline(), table.reloaded()
            # Else the timeline was sought where it is no more.
            if now.timeline_layout == table.timeline_layout:
                break
            table = now
        return cls(now, timeline, metadata=TableMetadata.of(now, timeline))

    def as_of(self, instant: str) -> Snapshot:
        """The table as it was at an instant."""
        timeline = self.timeline.at(instant)
        return replace(self, timeline=timeline, metadata=self.metadata and self.metadata.as_of(timeline))

    def reduced_to(self, instants: frozenset[str]) -> Snapshot:
        """The table as if, of the completed instants, only these existed."""
        kept = tuple(i for i in self.timeline.instants if not i.is_completed or i.time in instants)
        return replace(self, timeline=replace(self.timeline, instants=kept), metadata=None)

    def change(self, instant: Instant) -> TableChange:
        """What a completed write, rollback or restore changed; the last write is read once, all others each time.

        Raises:
            CorruptTableError: the file of the instant cannot be read; names it.
            InstantNotFoundError: the instant is none of these, or is gone (archived or rolled back).
        """
        if instant.is_completed and instant.action in UNDOING_ACTIONS:
            undone = self.timeline.undone_by(instant)
            return TableChange.removing(undone.files, undone.instants)
        last = self.last_change if instant is self.timeline.latest_write else None
        return self._change_of_write(instant) if last is None else last

    def _change_of_write(self, instant: Instant) -> TableChange:
        return TableChange.of_commit(read_commit(self.table.storage, self.timeline, instant))

    def recent_writes_of_others(self) -> list[Instant]:
        """Those of the last ``RECENT_WRITES`` completed writes that another engine made, the oldest first. Raises as ``change``."""
        return [write for write in self.timeline.completed_writes[-RECENT_WRITES:] if not self.change(write).is_native]

    @cached_property
    def last_change(self) -> TableChange | None:
        """What the last completed write changed; None in a table without one. Raises as ``change``."""
        latest = self.timeline.latest_write
        return None if latest is None else self._change_of_write(latest)

    def _last_written(self) -> list[str]:
        return [] if self.last_change is None else [stat.path for stat in self.last_change.stats]

    @cached_property
    def schema(self) -> pa.Schema | None:
        """Schema of the records without meta columns; None in a table that was never written."""
        told = told_schema(self.table, self.timeline, self.change)
        if told is not None:
            return told
        newest = max(self.slices.values(), key=lambda file_slice: file_slice.instant, default=None)
        if newest is None:
            return None
        with SliceReaders(self.table, None).open(newest) as reader:
            return without_meta_columns(reader.schema)

    @property
    def table_keys(self) -> TableKeys:
        """Forms the keys of records that callers give, in the types of the table's columns."""
        return TableKeys.of(self.table.key_generator, self.schema)

    @cached_property
    def slices(self) -> FileSystemView:
        """The live slice of each file group."""
        storage = self.table.storage
        folders = FolderListing(storage)
        listing = self.listing or folders
        # The metadata table has forgotten files of the past that were cleaned since.
        if self.listing is None and self.metadata is not None and not self.metadata.is_of_the_past:
            listing = MetadataListing(self.metadata, folders, self._last_written)
        return FileSystemView(listing, storage, self.live_slices, folders)

    @property
    def is_unwritten(self) -> bool:
        """Whether no write has completed yet, so that the table holds no record."""
        return not self.timeline.completed_writes and not self.table.has_archive()

    def live_slices(self, slices: Sequence[FileSlice]) -> dict[FileGroupId, FileSlice]:
        """The live ones of some slices, as they are listed.

        Raises:
            UnsupportedTableError: a copy-on-write table has records in log files.
        """
        live = latest_slices(slices, self.timeline, self.replaced)
        # Log files of earlier slices stay from the time when it was merge-on-read, until a clean.
        log = next((one for one in live.values() if one.logs), None)
        if log is not None and self.table.properties.is_copy_on_write:
            raise UnsupportedTableError(
                f"a copy-on-write table holds a log file, as merge-on-read tables do: file={log.logs[0].path}",
                remedy="move the file away; tables become copy-on-write by rli table-type, behind a compaction: rli compact TABLE",
            )
        return live

    @cached_property
    def replaced(self) -> dict[FileGroupId, str]:
        """Replaced file groups with the instant of their replacement."""
        found: dict[FileGroupId, str] = {}
        for instant in self.timeline.completed_writes:
            if instant.action == "replacecommit":
                found.update(dict.fromkeys(self.change(instant).replaced, instant.time))
        return found

    @cached_property
    def reserved(self) -> Mapping[FileGroupId, Instant]:
        """File groups that pending clusterings of other engines replace, each with the instant of the clustering.

        Raises:
            CorruptTableError: a plan cannot be read; names the file.
        """
        return reserved_groups(self.timeline)

    def reader(self, file_slice: FileSlice) -> SliceReader:
        """Opens a file slice.

        Raises:
            CorruptTableError: a file is missing or damaged.
            UnsupportedTableError: the slice has log files, and rli does not know how the table merges them.
        """
        # A base file tells its schema itself.
        return SliceReaders(self.table, self.schema if file_slice.logs else None).open(file_slice)

    def require_not_removed(self, file_slices: Iterable[FileSlice]) -> None:
        """Pass slices of this state, unless others have removed a file of one; a file that is lost passes.

        Raises:
            InstantNotFoundError: others have removed a file since the state was that of the table.
            TableNotFoundError: the table was dropped.
        """
        missing = next((one for one in file_slices if not self.slices.has_files(one)), None)
        if missing is not None and told_of_now(self.table.reloaded(), partial(self._is_overtaken, missing.group)):
            raise InstantNotFoundError(
                "the state that is read is gone, others have changed the table and removed a file: "
                f"table={self.table.location} partition={missing.group.partition_path} file_id={missing.group.file_id} "
                f"instant={missing.instant}",
                remedy="read again",
            )

    def _is_overtaken(self, group: FileGroupId, now: Snapshot) -> bool:
        """Whether this state was undone or archived, or a later commit has changed a file group: only then its files may go."""
        latest, writes = self.timeline.latest_write, now.timeline.completed_writes
        seen = self.timeline.write_times
        # The last write tells for all: undoing begins with the newest, and archiving takes the last write last.
        if latest is None or all(write.time != latest.time for write in writes):
            return True
        return any(group in now.change(write).groups for write in writes if write.time not in seen)

    def record_keys(self, file_slice: FileSlice) -> Iterator[pa.Array]:
        """The record keys of a file slice, in batches.

        Raises:
            UnsupportedTableError: the table keeps no meta columns and its keys cannot be formed again.
        """
        with self.reader(file_slice) as reader:
            columns = self.key_columns(reader.schema)
            for batch in reader.batches(columns.schema):
                yield columns.keys_of(batch)

    def written_keys(self, file_slice: FileSlice) -> Iterator[tuple[pa.Array, pa.Array]]:
        """The record keys of a file slice, each with the instant of the commit that wrote its record last, in batches.

        Raises:
            UnsupportedTableError: the table keeps no meta columns.
        """
        if not self.table.properties.populate_meta_fields:
            raise UnsupportedTableError(
                f"the table has no meta columns, so its records do not tell their age: table={self.table.location}",
                remedy="use an index without a time to live",
            )
        schema = pa.schema([pa.field(name, pa.string()) for name in (RECORD_KEY, COMMIT_TIME)])
        with self.reader(file_slice) as reader:
            for batch in reader.batches(schema):
                keys, times = (column.combine_chunks() for column in batch.columns)
                yield keys, times

    def key_columns(self, stored: pa.Schema) -> KeyColumns:
        """Where the record keys stand in a file slice that is stored with a schema; raises as ``record_keys``."""
        return KeyColumns.of(self.table, lambda: self.schema, stored)

    @property
    def key_column_names(self) -> frozenset[str]:
        """The columns that have each record's key; raises as ``record_keys``."""
        return self.key_columns(with_meta_columns(self.schema or pa.schema([]))).copies | {RECORD_KEY}

    @property
    def skipping(self) -> Skipping | None:
        """Asks the metadata table which files may hold records of a filter; None where there is none."""
        if self.metadata is None:
            return None
        columns = self.key_column_names if self.table.properties.populate_meta_fields else frozenset[str]()
        secondary = self.metadata.secondary_indexes if self.table.has_unique_keys else {}
        return Skipping(self.metadata, columns, secondary=secondary)

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filters: object = None,
        query: Query | str = Query.SNAPSHOT,
        values: FindsValues | None = None,
    ) -> SnapshotScan:
        """The records, or some columns of those that pass a filter, to be read in one of several ways.

        Args:
            columns: names, meta columns among them if wanted; by default all columns but the meta columns.
            filters: a ``pyarrow.compute.Expression``, tuples as ``pyarrow.parquet.read_table`` takes them, or a text
                such as ``fare > 10 and city = 'Oslo'``.
            query: "read_optimized" reads the base files alone; see ``Query``.
            values: finds records by values of columns, in key-value stores.

        Raises:
            InvalidInputError: ``columns`` is one text, the filter's text is not understood, or the query is unknown.
            SchemaError: a column does not exist, or the filter is not one.
        """
        reads_base_files = self._reads_base_files(query)
        slices = self._without_logs() if reads_base_files else self.slices
        readers = SliceReaders(self.table, self.schema)
        if self.schema is None:
            # Without columns, there is nothing to check the filter by.
            empty = pa.schema([])
            return SnapshotScan(
                self.table, slices, None, empty, None, self.require_not_removed, readers.open, given=filters
            )
        wanted = wanted_columns(self.schema, columns)
        passes = Filter.of(filters, with_meta_columns(self.schema))
        skipping = self.skipping
        if skipping is not None:
            skipping = replace(skipping, is_of_base_files=reads_base_files)
        # Entries are of merged records: they do not tell all that base files hold.
        by_values = None if values is None or reads_base_files else partial(values.keys_in, self)
        return SnapshotScan(
            self.table, slices, self.schema, wanted, passes, self.require_not_removed, readers.open, skipping, by_values
        )

    def _reads_base_files(self, query: Query | str) -> bool:
        """Whether a query reads base files alone, although the table may have log files."""
        if query not in set(Query):
            raise InvalidInputError(
                f"there is no such query: query={query!r}", remedy=f"choose one of {', '.join(Query)}"
            )
        return query == Query.READ_OPTIMIZED and not self.table.properties.is_copy_on_write

    def _without_logs(self) -> Mapping[FileGroupId, FileSlice]:
        return {group: one.without_logs() for group, one in self.slices.items() if one.base is not None}

    def read(
        self, columns: Sequence[str] | None = None, filters: object = None, query: Query | str = Query.SNAPSHOT
    ) -> pa.Table:
        """All records at once; arguments and errors are those of ``scan`` and ``SnapshotScan.to_table``."""
        return self.scan(columns, filters, query).to_table()


def told_of_now(table: TableDefinition, tell: Callable[[Snapshot], Told]) -> Told:
    """What a function tells of the present state; it is called again if others have overtaken it."""
    return read_again(table, lambda table: tell(Snapshot.now(table)))
