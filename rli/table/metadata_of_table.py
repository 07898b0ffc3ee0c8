"""Hudi's metadata table of a table: what is kept there, whether it is right, and how it comes and goes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from rli.errors import InvalidInputError
from rli.hudi.metadata.reader import MetadataTableReader
from rli.index.kinds import InMetadataTable
from rli.metadata_table.status import MetadataStatus, metadata_status
from rli.metadata_table.verify import Difference, Fault, Verification
from rli.services.metadata_compaction import MetadataCompaction, compact_metadata, foretold_compaction
from rli.services.metadata_table import MetadataChange, disable_metadata, foretold_removal
from rli.services.new_partitions import NewPartitions
from rli.table.births import METADATA_SERVICE, BesideWriters, OnProgress
from rli.table.keys_for_hudi import require_keys_without
from rli.table.opened import OpenTable
from rli.table.patience import patience
from rli.tasks import TaskRunner
from rli.view.definition import TableDefinition
from rli.view.snapshot import Snapshot, told_of_now

_LOOKS_AGAIN: Final = 4


class MetadataOfTable:
    """The metadata table: ``table.metadata``."""

    def __init__(self, opened: OpenTable) -> None:
        self._opened = opened

    def enable(
        self,
        partitions: Sequence[str] | None = None,
        *,
        columns: Sequence[str] | None = None,
        timeout: float | None = None,
        on_progress: OnProgress = lambda _, __: None,
        tasks: TaskRunner | None = None,
    ) -> MetadataChange:
        """Build partitions of the metadata table from the table's files; those that are there already stay.

        They are built beside writers, who wait for the last step alone. If others commit meanwhile, they are built again from what was
        read and from the changed files; the third time, writers wait. If the process dies, the table stays as it was, and the next
        call reads only files that were not read before.

        Args:
            partitions: "files" (always made), "column_stats", "partition_stats" (with "column_stats"), "bloom_filters",
                "record_index". By default the first three, in tables of version 6 the first two.
            columns: that get statistics, those within structures as "column.field"; by default the first 32 that are not nested.
            timeout: as for ``clean``.
            on_progress: called with the number of files read so far, and of all files to read.
            tasks: of an engine, which read the files of the table, up to 64 MiB in each; by default this process does. It
                sorts and writes what they read. ``rli_spark.enable_metadata`` gives those of Spark.

        Returns:
            What was added.

        Example:
            >>> table.metadata.enable(["files", "record_index"]).added
            ('files', 'record_index')
            >>> table.metadata.verify()
            ()

        Raises:
            InvalidInputError: there is no such partition or column, or a record key is in two partitions of the table.
            ConflictError: another engine is writing; nothing was added.
            UnsupportedTableError: tables of this version have no such partitions.
            LeaseBusyError, LeaseLostError: other writers held the lease, or took it over; nothing was added.
        """
        # A text is a sequence of its letters.
        names = [partitions] if isinstance(partitions, str) else partitions
        wanted = NewPartitions(names, self._opened.scope, columns)
        return build_partitions(self._opened, wanted, timeout, on_progress, tasks)

    def disable(
        self, partitions: Sequence[str] | None = None, *, timeout: float | None = None, dry_run: bool = False
    ) -> MetadataChange:
        """Remove partitions of the metadata table; records, files and index of the table stay.

        Args:
            partitions: by default all; "files" stands for all, too. With "column_stats", "partition_stats" goes.
            timeout: as for ``clean``.
            dry_run: only tell what would be removed now.

        Raises:
            InvalidInputError: the metadata table has no such partition, or one of them is the table's index.
            UnsupportedTableError: log files may hold new records, which known writers of Hudi find by "record_index" alone: says what to
                do before.
            CorruptTableError: the plan of an indexing of Hudi cannot be read, and may be of one of these; by default it is removed, too.
            LeaseBusyError, LeaseLostError: as for ``enable``.
        """
        names = [partitions] if isinstance(partitions, str) else partitions
        if dry_run:
            table = self._opened.reloaded()
            change = foretold_removal(table, names)
            self._require_removable(table, change.removed)
            return change
        with self._opened.service(METADATA_SERVICE, patience(timeout)) as (table, fence):
            self._require_removable(table.reloaded(), foretold_removal(table, names).removed)
            return disable_metadata(names, fence)

    def _require_removable(self, table: TableDefinition, partitions: Sequence[str]) -> None:
        """Raise ``InvalidInputError`` if the table's index is one of some partitions; or as ``require_keys_without``."""
        require_keys_without(table, partitions)
        definition = self._opened.definition
        kind = None if definition.settings is None else self._opened.kind
        if isinstance(kind, InMetadataTable) and kind.partition in partitions:
            raise InvalidInputError(
                f"the table's index is this partition: table={definition.location} index={definition.index_url} "
                f"partition={kind.partition}",
                remedy="give the table another index first: rli index migrate TABLE --to URL",
            )

    def compact(self, *, timeout: float | None = None, dry_run: bool = False) -> MetadataCompaction:
        """Merge the log files of the metadata table into base files, and remove files that no reader needs any more.

        Writers do so after every ten commits; the newest two states of each file group stay. Writers wait meanwhile.

        Args:
            timeout: as for ``clean``.
            dry_run: only tell what would be compacted now.

        Returns:
            What was done. ``held_back_by`` is the pending instant, of a dead writer perhaps, that must end before.

        Raises:
            CorruptTableError: a file of the metadata table is damaged.
            LeaseBusyError, LeaseLostError: as for ``enable``.
        """
        if dry_run:
            return foretold_compaction(self._opened.reloaded())
        with self._opened.service(METADATA_SERVICE, patience(timeout)) as (_, fence):
            return compact_metadata(fence)

    def status(self) -> MetadataStatus:
        """The partitions of the metadata table: their state, file groups, and log files since the last compaction.

        Raises:
            CorruptTableError: the metadata table is damaged; names the file or folder.
        """
        return told_of_now(self._opened.reloaded(), status_of)

    def verify(self) -> tuple[Difference, ...]:
        """Compare the metadata table with the folders, footers and record keys of the table.

        If writers change the table meanwhile, the comparison is repeated, up to four times. If they change it each time, only
        differences of every comparison are returned.

        Returns:
            The records that differ; none if the metadata table is right, or there is none.

        Raises:
            CorruptTableError: a file of the table or of the metadata table is damaged.
            UnsupportedTableError: the metadata table has a form that rli does not read.
        """
        found, is_current = told_of_now(self._opened.reloaded(), _differences)
        for _ in range(_LOOKS_AGAIN):
            if is_current or not found:
                break
            again, is_current = told_of_now(self._opened.reloaded(), _differences)
            found = again if is_current else {record: one for record, one in again.items() if record in found}
        return tuple(found.values())


def build_partitions(
    opened: OpenTable,
    wanted: NewPartitions,
    timeout: float | None,
    on_progress: OnProgress = lambda _, __: None,
    tasks: TaskRunner | None = None,
) -> MetadataChange:
    """Build partitions beside writers; raises as ``MetadataOfTable.enable``."""
    service = partial(opened.service, METADATA_SERVICE, patience(timeout))
    return BesideWriters(opened.refreshed, service, tasks).enable(wanted, on_progress)


def status_of(snapshot: Snapshot) -> MetadataStatus:
    """How the metadata table is; raises as ``MetadataOfTable.status``."""
    return metadata_status(reader_of(snapshot))


def _differences(snapshot: Snapshot) -> tuple[dict[tuple[str, str, Fault], Difference], bool]:
    """The differences by partition, item and fault, and whether the table is still in the state that was compared."""
    told = Verification(snapshot, reader_of(snapshot)).differences()
    found = {(one.partition, one.item, one.fault): one for one in told}
    return found, not found or snapshot.table.load_timeline().instants == snapshot.timeline.instants


def reader_of(snapshot: Snapshot) -> MetadataTableReader:
    """Reads the metadata table of a state."""
    table = snapshot.table
    return MetadataTableReader(table.storage, snapshot.timeline, table.properties)
