"""A table that upserts through a global record-level index: the whole of it for users in plain Python."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from functools import partial
from threading import Event
from typing import Any, Final, Self, TypeVar

import pyarrow as pa

from rli.arrow_tables import as_arrow_table
from rli.commit.readiness import await_synced
from rli.errors import (
    CorruptIndexError,
    IndexMismatchError,
    IndexNotReadyError,
    InvalidInputError,
    SettingsError,
    StoreUnavailableError,
)
from rli.hudi.timeline.instant import Instant
from rli.index.any_index import locate_now
from rli.index.contract import LOOKUP_SECONDS, TableIndex
from rli.index.reports import VerifyReport
from rli.model import (
    ChangeImages,
    CommitResult,
    KeyMode,
    MigrationResult,
    MigrationStep,
    MissingColumns,
    OnDuplicates,
    OnExisting,
    OnPartitionChange,
    Step,
)
from rli.reads.changes.table_changes import ChangeChoices, CommitChanges, PlannedChanges, follow_changes
from rli.reads.point_reads import get_records
from rli.services.archive import ArchiveResult
from rli.services.clean import CleanResult
from rli.services.restore import RestoreResult
from rli.settings import Maintenance, TableSettings
from rli.store.retries import answers_within
from rli.table.deletes import requested_deletes
from rli.table.index_of_table import IndexOfTable, SyncResult
from rli.table.info import TableInfo, table_info
from rli.table.maintenance import TableMaintenance
from rli.table.opened import OpenTable
from rli.table.versions import TableVersions
from rli.tasks import TaskRunner
from rli.urls import without_password
from rli.view.definition import TableDefinition
from rli.view.given_keys import given_keys, key_rows
from rli.view.history import HistoryEntry, history
from rli.view.scan import Scan
from rli.view.snapshot import Snapshot, told_of_now
from rli.write.engine.local import LocalEngine
from rli.write.operations.by_condition import delete_where, update_where
from rli.write.operations.delete import delete
from rli.write.operations.insert import insert
from rli.write.operations.merge import MergeChoices, merge
from rli.write.operations.upsert import upsert
from rli.write.options import WriteOptions, pass_over

Found = TypeVar("Found")

_INFO_SECONDS: Final = 5.0
"""For how long a report on a table waits for the store of its index."""


class Table:
    """A table and its index. Use ``create_table`` or ``open_table`` to get one. Picklable.

    Threads may share it: their writes, look-ups, reads and services are as those of processes. ``close`` it,
    bootstrap its index and drop that while no other thread uses it.

    """

    def __init__(self, definition: TableDefinition) -> None:
        self._opened = OpenTable(definition)

    @property
    def definition(self) -> TableDefinition:
        """What the table is, as it was read last."""
        return self._opened.definition

    @property
    def location(self) -> str:
        return self.definition.location

    @property
    def settings(self) -> TableSettings:
        """The settings that rli keeps with the table; raises ``IndexNotReadyError`` for a table without an index."""
        return self.definition.require_settings()

    @property
    def maintenance(self) -> TableMaintenance:
        """Cluster, clean and archive, and how often writers do: ``table.maintenance.clean()``."""
        return TableMaintenance(self._opened)

    @property
    def versions(self) -> TableVersions:
        """Savepoints, rollback and restore: ``table.versions.savepoint()``."""
        return TableVersions(self._opened)

    @property
    def index(self) -> IndexOfTable:
        """The table's index: ``table.index.verify()``."""
        return IndexOfTable(self._opened)

    # Writing ---------------------------------------------------------------------------------------------------

    def upsert(  # noqa: PLR0913  (the choices of a write)
        self,
        records: Any,
        *,
        on_partition_change: OnPartitionChange | str | None = None,
        missing: MissingColumns | str = MissingColumns.FAIL,
        on_duplicates: OnDuplicates | str = OnDuplicates.SKIP,
        attempts: int | None = None,
        transaction: tuple[str, int] | None = None,
        metadata: Mapping[str, str] | None = None,
        dry_run: bool = False,
        on_step: Callable[[Step], None] = pass_over,
    ) -> CommitResult:
        """Insert records with new keys, update those with known keys, move those whose partition changed.

        Of several records with one key the one with the greatest ordering value counts; a record that is older than
        the stored one changes nothing. A file group is not rewritten if all records that arrive for it are older, or equal
        to the stored ones; they count as unchanged.

        Args:
            records: a ``pyarrow.Table``, or anything that Arrow makes one of: record batches and their readers,
                data frames.
            on_partition_change: "move", "keep" or "fail"; by default what the table's settings say.
            missing: what becomes of columns of the table that the records lack: "fail" raises, "null" makes them null,
                and "keep" keeps the stored values of records that are updated or moved; inserted records have nulls.
                Of several records with one key, the one that counts is the only one that is merged.
            on_duplicates: what happens if several records have one key: "skip" writes the one that counts, and reports the
                others as ``duplicates``; "fail" raises, and writes nothing.
            attempts: how often to write at most, where other writers get there first; by default what the table's
                settings say.
            transaction: the id of an application and a number that grows from one of its writes to the next. A write
                whose number the application has committed changes nothing: it returns the result of that commit, with
                ``repeated``. A repeat has the same verb and the same records, in any order; anything else is an error, and
                so is a number that is less than a committed one and not known. A write with a transaction commits even if
                it changes no record.
            metadata: texts that are kept with the commit, which is made even if no record changes. Names do not begin
                with ``rli.``.
            dry_run: only tell what the write would do: its result has no instant, and ``dry_run``. Nothing is written into the
                table, the index or the lease; others may write before the write itself is made.
            on_step: called after each step of the write; each attempt begins with the first step again.

        Example:
            >>> moved = pa.table({"id": ["a"], "city": ["Bern"], "ts": [2]})
            >>> table.upsert(moved).moved
            1

        Raises:
            SchemaError, InvalidKeyError, PartitionChangeError: the records do not fit; nothing was written.
            TransactionMismatchError: the transaction was committed with another verb or other records, or a transaction of a
                greater number was committed; nothing was written.
            ConflictError: other writers got there first in every attempt; nothing was written.
            IndexNotReadyError: the index was never bootstrapped.
            CorruptIndexError, CorruptTableError: index or table is damaged.
            StoreUnavailableError: the index's store does not answer. What was committed before is kept; whether
                this write was committed, the timeline tells.
        """
        source = as_arrow_table(records)
        options = WriteOptions.of(attempts, transaction, metadata, on_step, on_duplicates, dry_run=dry_run)
        return self._opened.write_with(
            lambda definition, index: upsert(
                definition,
                index,
                LocalEngine(),
                source,
                options,
                on_partition_change=on_partition_change,
                missing=missing,
            )
        )

    def merge(  # noqa: PLR0913  (the choices of a write)
        self,
        records: Any,
        op: str | None = None,
        when: str | None = None,
        *,
        on_partition_change: OnPartitionChange | str | None = None,
        missing: MissingColumns | str = MissingColumns.FAIL,
        on_duplicates: OnDuplicates | str = OnDuplicates.SKIP,
        attempts: int | None = None,
        transaction: tuple[str, int] | None = None,
        metadata: Mapping[str, str] | None = None,
        dry_run: bool = False,
        on_step: Callable[[Step], None] = pass_over,
    ) -> CommitResult:
        """Apply a batch of changes in one commit: inserts, updates, moves and deletes.

        The newest change of each key counts: the one with the greatest ordering value, of equals the last. It writes its record as
        an upsert does, whatever the table holds, or deletes the key as ``delete`` does with ordering values: a late change
        changes nothing, and an unknown key that is deleted counts as unchanged, and is remembered. A delete needs the record key and
        the ordering value, and with partition scope the partition.

        The rows say what became of their records in one of these forms:

        - an operation column beside the columns of the records. In any case of letters, ``c``, ``r``, ``i``, ``insert``, ``u``,
          ``update`` and ``upsert`` write, ``d`` and ``delete`` delete. The column is written only if the table has it.
        - the changes that ``changes`` reads from another table, with ``_change_type``.
        - Debezium's flattened events, with ``__op`` or ``__deleted``.
        - Debezium's envelope: ``before`` and ``after``, ``op``, ``source`` and times. The ordering column may be one of the
          image, of the envelope (``ts_ms``), or of its source (``lsn``). An update that changes the key also deletes the former key.
        - Hudi's mark ``_hoodie_is_deleted``, alone or beside an operation column.

        Rows in which everything is null are tombstones of a log. They are passed over, and not counted.

        Args:
            records: the changes, as for ``upsert``.
            op: the operation column. By default that of Debezium's forms, or none where marks tell.
            when: a condition on changes of records in the table, as ``read`` takes filters, over the columns of the change
                (``source.price``) and of the stored record (``target.price``). Where it is not true, the change counts as
                unchanged. New keys are inserted without being asked.
            on_partition_change: as for ``upsert``; deletes may name any partition.
            missing: as for ``upsert``; deletes need no other columns.
            on_duplicates: as for ``upsert``.
            attempts: as for ``upsert``.
            transaction: as for ``upsert``.
            metadata: as for ``upsert``.
            dry_run: as for ``upsert``.
            on_step: as for ``upsert``.

        Example:
            >>> changes = pa.table({"id": ["a", "b", "f"], "city": ["Rome", None, "Bern"], "ts": [9] * 3, "op": ["u", "d", "c"]})
            >>> done = table.merge(changes, op="op")
            >>> done.inserted, done.updated, done.deleted
            (1, 1, 1)
            >>> gone = pa.table({"id": ["a"], "ts": [10], "op": ["d"]})
            >>> table.merge(gone, op="op", when="target.city != 'Rome'").unchanged
            1

        Raises:
            InvalidInputError: an operation is missing or unknown, no column tells the operations, or the condition is not
                understood.
            RliError: otherwise as for ``upsert``.
        """
        source = as_arrow_table(records)
        options = WriteOptions.of(attempts, transaction, metadata, on_step, on_duplicates, dry_run=dry_run)
        choices = MergeChoices(op, when, on_partition_change, missing)
        return self._opened.write_with(
            lambda definition, index: merge(definition, index, LocalEngine(), source, options, choices=choices)
        )

    def insert(
        self,
        records: Any,
        *,
        on_existing: OnExisting | str = OnExisting.SKIP,
        on_duplicates: OnDuplicates | str = OnDuplicates.SKIP,
        attempts: int | None = None,
        transaction: tuple[str, int] | None = None,
        metadata: Mapping[str, str] | None = None,
        dry_run: bool = False,
        on_step: Callable[[Step], None] = pass_over,
    ) -> CommitResult:
        """Insert the records whose keys are new to the whole table: the first record of a key wins.

        This removes repeated events: a record of a known key changes nothing, in whatever partition the known one is,
        and touches no file. Of several records with one key in the batch the first one in order counts. With an
        ``ordering`` column, too: no value of it is compared.

        Args:
            records: as for ``upsert``.
            on_existing: "skip" counts records of known keys as unchanged; "fail" raises, and writes nothing.
            on_duplicates: as for ``upsert``.
            attempts: as for ``upsert``. Where another writer inserts the same key first, the next attempt skips it.
            transaction: as for ``upsert``.
            metadata: as for ``upsert``.
            dry_run: as for ``upsert``.
            on_step: as for ``upsert``.

        Example:
            >>> events = pa.table({"id": ["a", "e", "e"], "city": ["Rome", "Bern", "Oslo"], "ts": [5, 5, 6]})
            >>> done = table.insert(events)
            >>> done.inserted, done.unchanged, done.duplicates
            (1, 1, 1)

        Raises:
            RecordExistsError: with ``on_existing="fail"``, the table holds a key of the records.
            RliError: otherwise as for ``upsert``.
        """
        source = as_arrow_table(records)
        options = WriteOptions.of(attempts, transaction, metadata, on_step, on_duplicates, dry_run=dry_run)
        return self._opened.write_with(
            lambda definition, index: insert(definition, index, LocalEngine(), source, options, on_existing=on_existing)
        )

    def delete(
        self,
        keys: Any,
        *,
        ordering: str | Sequence[Any] | pa.Array | pa.ChunkedArray | None = None,
        attempts: int | None = None,
        transaction: tuple[str, int] | None = None,
        metadata: Mapping[str, str] | None = None,
        dry_run: bool = False,
        on_step: Callable[[Step], None] = pass_over,
    ) -> CommitResult:
        """Remove records by their keys; keys that the table does not hold are counted as unchanged.

        With ordering values, deletes that come late lose, as updates do: a delete that is older than the stored record changes
        nothing, and counts as unchanged. The key keeps the value for the time that the table's option ``tombstones`` says,
        also if the table did not hold it: an older record that is upserted or inserted in that time changes nothing. Of equal
        values the later write wins. A delete without ordering values removes whatever is stored, and nothing is kept of it.

        A key that is given again counts as a duplicate. With partition scope a key is removed from all partitions, and
        ``deleted`` counts the records.

        Args:
            keys: whole record keys as texts (a sequence, an Arrow array or column, a series), of composite keys in
                the form ``a:1,b:2``; values of the record-key column, such as ints, decimals or dates; or anything that
                ``upsert`` takes, with the record-key columns or with whole keys in ``_hoodie_record_key``.
            ordering: the name of a column of the rows, or a value for each key. By default the table's ordering column, if the
                rows have it: leave it out to delete whatever is stored.
            attempts: as for ``upsert``.
            transaction: as for ``upsert``.
            metadata: as for ``upsert``.
            dry_run: as for ``upsert``.
            on_step: as for ``upsert``.

        Example:
            >>> table.delete(["b", "nobody"]).deleted
            1
            >>> late = table.delete(["a"], ordering=[0])
            >>> late.deleted, late.unchanged
            (0, 1)

        Raises:
            InvalidInputError: the table has no ordering column, and ordering values are given.
            RliError: otherwise as for ``upsert``.
        """
        source, column = requested_deletes(
            key_rows(self.definition, keys), ordering, self.definition.properties.ordering_field
        )
        options = WriteOptions.of(attempts, transaction, metadata, on_step, dry_run=dry_run)
        return self._opened.write_with(
            lambda definition, index: delete(definition, index, LocalEngine(), source, options, column)
        )

    def delete_where(
        self,
        where: Any,
        *,
        attempts: int | None = None,
        transaction: tuple[str, int] | None = None,
        metadata: Mapping[str, str] | None = None,
        dry_run: bool = False,
        on_step: Callable[[Step], None] = pass_over,
    ) -> CommitResult:
        """Remove the records that meet a condition, and tell which files still hold them.

        Each attempt decides by the records of its own snapshot: records that others insert meanwhile stay. If others
        change a record or a file group that is rewritten, the condition is asked again. File groups are rewritten one by
        one; partitions, column statistics and the index leave out those without a matching record. Nothing is kept of the
        keys: a record that comes later is inserted, whatever its ordering value.

        Args:
            where: as the filters of ``read``, such as ``country = 'X'``; "true" for all records.
            attempts: as for ``upsert``.
            transaction: as for ``upsert``. A repeat has the same condition, and returns the first result.
            metadata: as for ``upsert``.
            dry_run: as for ``upsert``.
            on_step: as for ``upsert``.

        Example:
            >>> done = table.delete_where("city = 'Oslo' and id > 'b'")
            >>> done.deleted, done.receipt.keys
            (1, ('c',))

        Raises:
            InvalidInputError: the condition is not understood, or there is none.
            SchemaError: the condition does not fit the table, or cannot be computed for a record.
            RliError: otherwise as for ``upsert``.
        """
        options = WriteOptions.of(attempts, transaction, metadata, on_step, dry_run=dry_run)
        return self._opened.write_with(
            lambda definition, index: delete_where(definition, index, LocalEngine(), where, options)
        )

    def update_where(
        self,
        where: Any,
        values: Mapping[str, str],
        *,
        attempts: int | None = None,
        transaction: tuple[str, int] | None = None,
        metadata: Mapping[str, str] | None = None,
        dry_run: bool = False,
        on_step: Callable[[Step], None] = pass_over,
    ) -> CommitResult:
        """Set columns of the records that meet a condition.

        All values are computed of the stored record. No ordering value is compared: the record has its new values, also if
        these make it older. A record whose partition column is set moves, as by an upsert; this takes memory for all
        records that move, and is refused with partition scope, where a key belongs to its partition.

        Args:
            where: as for ``delete_where``; decided in the same way.
            values: column → expression in SQL, such as ``{"fare": "fare * 2"}``, with the functions of filters. A value that
                does not fit its column without loss is an error. Record keys stay.
            attempts: as for ``upsert``.
            transaction: as for ``upsert``. A repeat has the same condition and values.
            metadata: as for ``upsert``.
            dry_run: as for ``upsert``.
            on_step: as for ``upsert``.

        Example:
            >>> table.update_where("city = 'Rome'", {"ts": "ts + 1"}).updated
            2

        Raises:
            InvalidInputError: the condition or a value is not understood; a column is not there, or is a key column; or a
                value does not fit its column.
            SchemaError: the condition cannot be computed, or a column that must not be null would be null.
            RliError: otherwise as for ``upsert``.
        """
        options = WriteOptions.of(attempts, transaction, metadata, on_step, dry_run=dry_run)
        return self._opened.write_with(
            lambda definition, index: update_where(definition, index, LocalEngine(), where, values, options)
        )

    def rollback(self, instant: str, *, timeout: float | None = None) -> str:
        """As ``versions.rollback``."""
        return self.versions.rollback(instant, timeout=timeout)

    def savepoint(self, instant: str | None = None, comment: str = "", *, timeout: float | None = None) -> str:
        """As ``versions.savepoint``."""
        return self.versions.savepoint(instant, comment, timeout=timeout)

    def delete_savepoint(self, instant: str, *, timeout: float | None = None) -> None:
        """As ``versions.delete_savepoint``."""
        self.versions.delete_savepoint(instant, timeout=timeout)

    def restore(self, instant: str, *, timeout: float | None = None, dry_run: bool = False) -> RestoreResult:
        """As ``versions.restore``."""
        return self.versions.restore(instant, timeout=timeout, dry_run=dry_run)

    def cluster(
        self,
        *,
        smaller_than: int | None = None,
        tasks: TaskRunner | None = None,
        attempts: int | None = None,
        on_step: Callable[[Step], None] = pass_over,
        timeout: float | None = None,
    ) -> CommitResult:
        """As ``maintenance.cluster``."""
        return self.maintenance.cluster(
            smaller_than=smaller_than, tasks=tasks, attempts=attempts, on_step=on_step, timeout=timeout
        )

    def clean(self, keep_commits: int = 10, *, timeout: float | None = None, dry_run: bool = False) -> CleanResult:
        """As ``maintenance.clean``."""
        return self.maintenance.clean(keep_commits, timeout=timeout, dry_run=dry_run)

    def archive(self, keep_commits: int = 30, *, timeout: float | None = None, dry_run: bool = False) -> ArchiveResult:
        """As ``maintenance.archive``."""
        return self.maintenance.archive(keep_commits, timeout=timeout, dry_run=dry_run)

    def set_maintenance(self, maintenance: Maintenance, *, timeout: float | None = None) -> None:
        """As ``maintenance.set``."""
        self.maintenance.set(maintenance, timeout=timeout)

    def set_tombstones(self, tombstones: str, *, timeout: float | None = None) -> None:
        """As ``maintenance.set_tombstones``."""
        self.maintenance.set_tombstones(tombstones, timeout=timeout)

    # Reading ---------------------------------------------------------------------------------------------------

    def read(
        self, columns: Sequence[str] | None = None, filters: object = None, as_of: str | date | None = None
    ) -> pa.Table:
        """The records of the table, now or as of an instant.

        Args:
            columns: names; by default all but Hudi's meta columns, which can be named.
            filters: SQL such as ``fare > 10 and lower(city) = 'oslo'``, a ``pyarrow.compute.Expression``, or tuples as
                ``pyarrow.parquet.read_table`` takes them.
            as_of: an instant of the timeline, or a time; UTC unless it has an offset.

        Example:
            >>> table.read(columns=["id"], filters=[("city", "=", "Rome")])["id"].to_pylist()
            ['a', 'd']

        Raises:
            InvalidInputError: an argument is of the wrong kind, or the filter's text is not understood.
            SchemaError: a column does not exist, or a filter does not fit.
            InstantNotFoundError: the table had no commit at that time, its files were cleaned, or its commits archived.
            CorruptTableError: a base file or the timeline cannot be read, and a second look finds the same.
            TableNotFoundError: the table was dropped.
        """
        return self._opened.told(as_of, lambda snapshot: snapshot.scan(columns, filters).to_table())

    def get(
        self,
        keys: Any,
        columns: Sequence[str] | None = None,
        filters: object = None,
        *,
        timeout: float = LOOKUP_SECONDS,
    ) -> pa.Table:
        """The records of some keys, found by the index: no other file is opened than those that hold them.

        The records are those of the table at one moment, which shows all commits that were acknowledged before. They
        come in the order of the keys. A key that the table does not hold gives no record, a key that is repeated gives
        its record once. With an index of partition scope a key gives its record in each partition.

        Args:
            keys: as for ``delete``.
            columns: names; by default all but Hudi's meta columns, which can be named.
            filters: as for ``read``: only those of the records that pass.
            timeout: as for ``lookup``.

        Example:
            >>> table.get(["d", "nobody", "a"], columns=["id", "city"]).to_pylist()
            [{'id': 'd', 'city': 'Rome'}, {'id': 'a', 'city': 'Rome'}]

        Raises:
            InvalidInputError: an argument is of the wrong kind.
            InvalidKeyError: a key is null or empty, or would change in the table's column.
            SchemaError: a column does not exist, or its type does not fit.
            IndexNotReadyError: the index has not seen all commits of the table after that time.
            CorruptIndexError, CorruptTableError: index or table is damaged.
        """
        record_keys = given_keys(self.definition, keys)
        return self._opened.look_up_with(
            lambda definition, index: get_records(definition, index, record_keys, columns, timeout, filters=filters)
        )

    def scan(
        self, columns: Sequence[str] | None = None, filters: object = None, as_of: str | date | None = None
    ) -> Scan:
        """As ``read``, but nothing is read yet: the result gives batches, a table, or the files that may hold records.

        ``scan().to_batches()`` is a ``pyarrow.RecordBatchReader``, which DuckDB, Polars and others read as a stream.
        All of its records are of one state of the table. Others may remove files of that state before they are read: then
        the scan raises ``InstantNotFoundError``. ``read`` begins again instead.
        """
        return self.snapshot(as_of).scan(columns, filters)

    def snapshot(self, as_of: str | date | None = None) -> Snapshot:
        """The state of the table, now or as of an instant or a time, with a list of all its files.

        Raises:
            InvalidInputError: ``as_of`` is neither an instant nor a time.
            InstantNotFoundError: the table had no commit at that time, its files were cleaned, or its commits archived.
        """
        return self._opened.told(as_of, lambda snapshot: snapshot)

    def changes(
        self,
        since: str | date | None = None,
        until: str | date | None = None,
        *,
        images: ChangeImages | str = ChangeImages.AFTER,
        columns: Sequence[str] | None = None,
        filters: object = None,
    ) -> pa.RecordBatchReader:
        """What the commits changed that completed after ``since``, up to ``until``, record by record.

        The commits come in the order in which they completed, each with all its changes. Behind the table's columns stand
        ``_change_type`` ("insert", "update_before", "update_after", "delete"), ``_commit_instant`` and ``_completion_time``. A
        record that moves to another partition is an update. Deletes have the values that the record had. Clustering, compaction
        and table services show no changes.

        The metadata of the reader's schema has the position to go on from, ``rli.position``: the next ``since``, once all these
        changes are handled. It is absent if no commit completed in the range.

        Args:
            since: the commits up to this one are left out: its instant, its completion time, or any time. By default all
                commits are shown, from the first one on.
            until: the last commit that is shown; by default the last one of the table.
            images: of updated records, "after" gives the new values, "both" the former ones, too.
            columns: names; by default all but Hudi's meta columns, which can be named.
            filters: as for ``read``; which images are given.

        Example:
            >>> table.upsert(pa.table({"id": ["a"], "city": ["Rome"], "ts": [2]})).updated
            1
            >>> changes = table.changes(since=table.history()[0].time, columns=["id", "ts"])
            >>> changes.read_all().select(["id", "ts", "_change_type"]).to_pylist()
            [{'id': 'a', 'ts': 2, '_change_type': 'update_after'}]

        Raises:
            InvalidInputError, SchemaError: an argument is of the wrong kind, or does not fit the table.
            InstantNotFoundError: commits of the range were archived or their files cleaned, which names the first instant that
                still serves as ``since``; or a commit was undone that a reader at this position may have seen. The reader
                raises it if others remove files before they are read.
            CorruptTableError: a file is lost or damaged.
        """
        definition = self._opened.follow()
        choices = ChangeChoices(self._opened.scope, images, columns, filters)
        return PlannedChanges.of(definition.reloaded(), since, until, choices).to_batches()

    def follow_changes(
        self,
        since: str | date | None = None,
        *,
        images: ChangeImages | str = ChangeImages.AFTER,
        columns: Sequence[str] | None = None,
        filters: object = None,
        poll_seconds: float = 1.0,
        stop: Event | None = None,
    ) -> Iterator[CommitChanges]:
        """The changes of each commit behind a position, and of each commit that follows, as it completes.

        It never ends by itself: leave the loop, or set ``stop`` from another thread. Keep the ``instant`` of a commit when all
        its changes are handled, and begin there again.

        Args:
            since: as for ``changes``.
            images: as for ``changes``.
            columns: as for ``changes``.
            filters: as for ``changes``.
            poll_seconds: the pause between two looks at the timeline that show no new commit.
            stop: ends the iteration, and a pause at once.

        Example:
            >>> for commit in table.follow_changes():
            ...     print(sorted(commit.to_table()["id"].to_pylist()))
            ...     break
            ['a', 'b', 'c', 'd']

        Raises:
            InvalidInputError: the pause is not positive.
            RliError: otherwise as for ``changes``, from the iterator and from each commit.
        """

        def current() -> TableDefinition:
            return self._opened.follow().reloaded()

        choices = ChangeChoices(self._opened.scope, images, columns, filters)
        return follow_changes(current, since, choices, poll_seconds=poll_seconds, stop=stop or Event())

    def lookup(self, keys: Any, *, timeout: float = LOOKUP_SECONDS) -> pa.Table:
        """Where each record key lives, in the table as it is at one moment; see ``RecordIndex.lookup``.

        All commits that were acknowledged before are shown. A writer is given a moment to bring its commit into the
        index; then the look-up does it. It also finishes a rollback or restore whose process died.

        Args:
            keys: as for ``delete``; they may repeat.
            timeout: seconds; for how long to wait for writers, and to apply their commits.

        Example:
            >>> table.lookup(["a", "nobody"])["partition_path"].to_pylist()
            ['Rome', None]

        Raises:
            InvalidKeyError: a key is null or empty, or would change in the table's column: no table holds such a key.
            SchemaError: a column is missing, or its type does not fit.
            IndexNotReadyError: the index has not seen all commits of the table after that time.
        """
        record_keys = given_keys(self.definition, keys)
        latest = time.monotonic() + timeout

        def locate(definition: TableDefinition, index: TableIndex) -> pa.Table:
            await_synced(definition, index, max(0.0, latest - time.monotonic()))
            left = max(0.0, latest - time.monotonic())
            wait = partial(await_synced, definition, index)
            return locate_now(definition, index, record_keys, timeout=left, await_synced=wait)

        return self._opened.look_up_with(locate)

    def history(self, limit: int | None = None) -> tuple[HistoryEntry, ...]:
        """What has become of the table: the instants of the active timeline, the oldest first.

        Args:
            limit: at most so many, the last ones; by default all.

        Example:
            >>> table.history(limit=1)[0].operation
            'UPSERT'

        Raises:
            InvalidInputError: ``limit`` is less than 1.
            CorruptTableError: the content of a commit cannot be read.
        """
        if limit is not None and limit < 1:
            raise InvalidInputError(f"limit must be at least 1: limit={limit}", remedy="leave it out for all instants")
        return told_of_now(self._opened.reloaded(), lambda snapshot: tuple(history(snapshot, limit)))

    def info(self) -> TableInfo:
        """What the table is and how it is: schema, settings, sizes, index, problems.

        It lists files and reads the timeline, but no records. A missing index is one of the ``problems``, and so is a store that
        does not answer within five seconds.

        Example:
            >>> table.info().record_key
            ('id',)

        Raises:
            CorruptTableError: the timeline cannot be read.
        """
        try:
            with answers_within(_INFO_SECONDS):
                return self._opened.look_up_with(table_info)
        except (
            IndexNotReadyError,
            IndexMismatchError,
            CorruptIndexError,
            StoreUnavailableError,
            SettingsError,
        ) as error:
            return table_info(self._opened.reloaded(), error)

    def timeline(self) -> tuple[Instant, ...]:
        """All instants of the active timeline, in order."""
        return self._opened.reloaded().load_timeline().instants

    @property
    def schema(self) -> pa.Schema | None:
        """Schema of the records; None in a table that was never written."""
        return told_of_now(self._opened.reloaded(), lambda snapshot: snapshot.schema)

    # The index -------------------------------------------------------------------------------------------------

    def bootstrap_index(
        self,
        url: str | None = None,
        *,
        shards: int | None = None,
        key_mode: KeyMode | str = KeyMode.EXACT,
        tasks: TaskRunner | None = None,
    ) -> int:
        """As ``index.bootstrap``."""
        return self.index.bootstrap(url, shards=shards, key_mode=key_mode, tasks=tasks)

    def migrate_index(
        self,
        to: str,
        *,
        shards: int | None = None,
        key_mode: KeyMode | str = KeyMode.EXACT,
        drop_old: bool = False,
        tasks: TaskRunner | None = None,
        timeout: float | None = None,
        on_step: Callable[[MigrationStep], None] = lambda _: None,
    ) -> MigrationResult:
        """As ``index.migrate``."""
        return self.index.migrate(
            to,
            shards=shards,
            key_mode=key_mode,
            drop_old=drop_old,
            tasks=tasks,
            timeout=timeout,
            on_step=on_step,
        )

    def sync_index(self, tasks: TaskRunner | None = None, *, timeout: float | None = None) -> SyncResult:
        """As ``index.sync``."""
        return self.index.sync(tasks, timeout=timeout)

    def verify_index(
        self, tasks: TaskRunner | None = None, *, timeout: float = LOOKUP_SECONDS, deep: bool = False
    ) -> VerifyReport:
        """As ``index.verify``."""
        return self.index.verify(tasks, timeout=timeout, deep=deep)

    def repair_index(
        self, tasks: TaskRunner | None = None, *, timeout: float | None = None, dry_run: bool = False
    ) -> VerifyReport:
        """As ``index.repair``."""
        return self.index.repair(tasks, timeout=timeout, dry_run=dry_run)

    def relocate(self, *, also: bool = False) -> tuple[str, ...]:
        """As ``index.relocate``."""
        return self.index.relocate(also=also)

    def drop_index(self) -> None:
        """As ``index.drop``."""
        self.index.drop()

    def close(self) -> None:
        """Give the index's connections back."""
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        settings = self.definition.settings
        index = None if settings is None else without_password(settings.index_url)
        keys = ",".join(self.definition.properties.record_key_fields)
        return f"<rli.Table {self.location!r} record_key={keys!r} index={index!r}>"

    def __reduce__(self) -> tuple[object, ...]:
        return Table, (self.definition,)


def opened_table(table: Table) -> OpenTable:
    """For engines and operators' tools: definition and index of a table, as they are now."""
    return table._opened  # noqa: SLF001  (users of a table need none of it)
