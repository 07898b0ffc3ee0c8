"""A table that upserts through a global record-level index: the whole of it for users in plain Python."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import date
from functools import partial
from typing import Any, Final, Self, TypeVar

import pyarrow as pa

from rli.arrow_tables import as_arrow_table
from rli.commit.readiness import await_synced
from rli.commit.step_clock import OnStep
from rli.commit.undo import restore, roll_back
from rli.errors import (
    CorruptIndexError,
    IndexMismatchError,
    IndexNotReadyError,
    InvalidInputError,
    SettingsError,
    StoreUnavailableError,
)
from rli.hudi.timeline.instant import Instant, parse_instant_time
from rli.index.any_index import locate_now, verified
from rli.index.contract import LOOKUP_SECONDS, IndexState, TableIndex
from rli.index.kinds import IndexOptions
from rli.index.reports import VerifyReport
from rli.model import (
    CommitResult,
    KeyMode,
    MigrationResult,
    MissingColumns,
    OnDuplicates,
    OnExisting,
    OnPartitionChange,
)
from rli.reads.point_reads import get_records
from rli.services.archive import ArchiveResult, archive
from rli.services.clean import CleanResult, clean
from rli.services.purge import purge_tombstones
from rli.services.restore import RestoreResult
from rli.services.savepoint import create_savepoint, delete_savepoint
from rli.settings import Maintenance, TableSettings
from rli.store.retries import answers_within
from rli.table import index_upkeep
from rli.table.deletes import requested_deletes
from rli.table.info import TableInfo, table_info
from rli.table.migration import OnMigrationStep
from rli.table.opened import OpenTable
from rli.table.options import parse_tombstones
from rli.tasks import InProcess, TaskRunner
from rli.urls import without_password
from rli.view import paths
from rli.view.deep_check import damaged_files
from rli.view.definition import TableDefinition, load_definition
from rli.view.given_keys import given_keys, key_rows
from rli.view.history import HistoryEntry, history
from rli.view.registration import has_index_of, stored_form
from rli.view.scan import Scan
from rli.view.snapshot import Snapshot, told_of_now
from rli.view.time_travel import told_of_whole
from rli.write.engine.local import LocalEngine
from rli.write.operations.delete import delete
from rli.write.operations.insert import insert
from rli.write.operations.upsert import upsert
from rli.write.options import WriteOptions, pass_over
from rli.write.rewrites.clustering import cluster

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
    def index(self) -> TableIndex:
        """The table's index.

        Raises:
            IndexNotReadyError: it is missing.
            IndexMismatchError: the index at the URL belongs to another table.
            StoreUnavailableError: its store does not answer.
        """
        return self._opened.index

    def refreshed(self) -> tuple[TableDefinition, TableIndex]:
        """For engines: see ``OpenTable``."""
        return self._opened.refreshed()

    def write_with(self, write: Callable[[TableDefinition, TableIndex], Found]) -> Found:
        """For engines: see ``OpenTable``."""
        return self._opened.write_with(write)

    def look_up_with(self, look_up: Callable[[TableDefinition, TableIndex], Found]) -> Found:
        """For engines: see ``OpenTable``."""
        return self._opened.look_up_with(look_up)

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
        on_step: OnStep = pass_over,
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
        return self.write_with(
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
        on_step: OnStep = pass_over,
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
        return self.write_with(
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
        on_step: OnStep = pass_over,
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
        return self.write_with(
            lambda definition, index: delete(definition, index, LocalEngine(), source, options, column)
        )

    def rollback(self, instant: str, *, timeout: float | None = None) -> str:
        """Undo the last completed commit; returns the instant of the rollback.

        Clusterings of rli that came after it change no record, and are undone with it. Files, index and timeline are as
        before the commit, in time proportional to the commit; of a commit of another engine the index is scanned once.
        A rollback that was interrupted may be called again, and is finished.

        Args:
            instant: of the last commit, or "last", which passes over clusterings: a write may make one after its commit. If
                an earlier rollback was interrupted, "last" finishes that one and undoes nothing more.
            timeout: seconds; for how long to wait for the table's lease, whenever it is needed. None: until it is free.

        Example:
            >>> wrong = table.delete(["a"])
            >>> undone_by = table.rollback("last")
            >>> table.lookup(["a"])["file_id"].null_count
            0

        Raises:
            InstantNotFoundError: it is not the last completed commit, or what it replaced was cleaned.
            UnsupportedTableError: the commit is another engine's and replaced whole file groups, a savepoint keeps it, or
                record keys would be in several partitions again, which the index does not allow.
            LeaseBusyError: the lease was not free in that time.
            LeaseLostError: this process was paused so long that another one took over; nothing was rolled back.
        """
        return roll_back(*self.refreshed(), instant, patience=_patience(timeout))

    def savepoint(self, instant: str | None = None, comment: str = "", *, timeout: float | None = None) -> str:
        """Keep the table's state as of a commit, until ``delete_savepoint``; returns the commit's instant.

        No clean removes files that it needs, by any engine, and the commit is not rolled back. A commit that has a
        savepoint keeps that one.

        Args:
            instant: of a completed commit; by default of the last one.
            comment: kept with the savepoint.
            timeout: as for ``rollback``.

        Example:
            >>> saved = table.savepoint(comment="before the import")
            >>> table.delete_savepoint(saved)

        Raises:
            InstantNotFoundError: there is no such commit, or files that it needs were cleaned.
            UnsupportedTableError: rli does not write such tables.
            IndexNotReadyError: the index was never bootstrapped, or cannot follow the timeline.
            LeaseLostError: this process was paused so long that another one took over; there is no savepoint.
        """
        with self._opened.service("savepoint", _patience(timeout)) as (definition, fence):
            return create_savepoint(definition, instant, comment, fence)

    def delete_savepoint(self, instant: str, *, timeout: float | None = None) -> None:
        """Keep the table's state as of a commit no longer; ``timeout`` as for ``rollback``.

        Raises:
            InstantNotFoundError: the commit has no savepoint.
            UnsupportedTableError, IndexNotReadyError, LeaseLostError: as ``savepoint``.
        """
        with self._opened.service("deletion of a savepoint", _patience(timeout)) as (definition, fence):
            delete_savepoint(definition, instant, fence)

    def restore(self, instant: str, *, timeout: float | None = None) -> RestoreResult:
        """Go back to a commit: all later ones are undone, and gone for good.

        Rows, files and index are as they were after that commit, in time proportional to the commits undone; where one
        of them is another engine's, the index is scanned once. Writers at work go on, and meet a conflict where they
        build on what is undone. A restore that was interrupted is finished by the next write, or by the same call.

        Args:
            instant: of a completed commit; a savepoint (``savepoint``) sees to it that its files are kept.
            timeout: as for ``rollback``.

        Example:
            >>> before = table.timeline()[-1].time
            >>> wrong = table.delete(["a", "b"])
            >>> undone = table.restore(before)
            >>> table.read().num_rows
            4

        Raises:
            InstantNotFoundError: there is no such commit, or files that it needs were cleaned.
            UnsupportedTableError: a later commit replaced whole file groups and is another engine's, or a savepoint keeps
                one.
            LeaseLostError: this process was paused so long that another one took over; nothing was undone.
            ConflictError: another writer committed before the restore was done; call it again.
        """
        return restore(*self.refreshed(), instant, patience=_patience(timeout))

    def cluster(
        self,
        *,
        smaller_than: int | None = None,
        tasks: TaskRunner | None = None,
        attempts: int | None = None,
        on_step: OnStep = pass_over,
        timeout: float | None = None,
    ) -> CommitResult:
        """Rewrite the small base files of each partition into fewer, of about the table's ``target_file_size``.

        With the index ``consistent-bucket:``, buckets that are too large are split, and small neighbours are merged. With
        ``bucket:`` it is refused, because the number of buckets is fixed.

        No record changes: each keeps its version, and look-ups report the instant that they did before. So it takes no
        transaction: a clustering that is repeated does no harm, and finds nothing more to do. File groups
        that another writer changes meanwhile are left as they are.

        Args:
            smaller_than: bytes from which on a base file is left alone; by default half of ``target_file_size``.
            tasks: runs the work on each new base file; in this process by default.
            attempts: as for ``upsert``; another attempt is made where other writers have changed every file group.
            on_step: as for ``upsert``.
            timeout: as for ``rollback``.

        Returns:
            What was committed: ``files_replaced`` base files have become ``files_created``.

        Raises:
            InvalidInputError: ``smaller_than`` is less than 1.
            RliError: otherwise as for ``upsert``.
        """
        if smaller_than is not None and smaller_than < 1:
            raise InvalidInputError(f"smaller_than must be at least 1: smaller_than={smaller_than}; give bytes")
        patience = _patience(timeout)
        return self.write_with(
            lambda definition, index: cluster(
                definition,
                index,
                smaller_than,
                tasks=tasks or InProcess(),
                attempts=WriteOptions(attempts).attempts_of(definition),
                on_step=on_step,
                patience=patience,
            )
        )

    def clean(self, keep_commits: int = 10, *, timeout: float | None = None) -> CleanResult:
        """Remove the base files that only readers of older commits need, and what rli kept to roll those back.

        Now and as of each of the last ``keep_commits`` commits, or of any savepoint, the table reads as before. A
        write that began earlier and is still at work keeps what it builds on. A clean that was interrupted is
        finished by the next one, also by Hudi's. In LMDB, Redis and memory, tombstones of older commits leave the index
        if one entry in five is a tombstone.

        Args:
            keep_commits: 1 or more.
            timeout: as for ``rollback``.

        Example:
            >>> table.clean(keep_commits=5).instant is None  # there is nothing to remove yet
            True

        Raises:
            InvalidInputError: ``keep_commits`` is less than 1.
            UnsupportedTableError: rli does not write such tables.
            IndexNotReadyError: the index was never bootstrapped, or cannot follow the timeline.
            LeaseLostError: this process was paused so long that another one took over, which finishes the clean if it
                was announced.
        """
        with self._opened.service("clean", _patience(timeout)) as (definition, fence):
            cleaned = clean(definition, keep_commits, fence)
            purge_tombstones(definition, self.index, keep_commits)
            return cleaned

    def archive(self, keep_commits: int = 30, *, timeout: float | None = None) -> ArchiveResult:
        """Move old commits from the active timeline to Hudi's archive, so that reading the timeline stays cheap.

        Rows and index stay as they are. The table can no longer be read as of the commits that leave, nor go back to
        them. Savepoints, pending instants, and replaced files that are not cleaned yet keep all that is newer. An
        archive that was interrupted is finished by the next one.

        Args:
            keep_commits: how many commits stay at least, 1 or more; not fewer than cleans keep.
            timeout: as for ``rollback``.

        Raises:
            InvalidInputError: ``keep_commits`` is less than 1.
            UnsupportedTableError: rli does not write such tables.
            IndexNotReadyError: the index was never bootstrapped, or cannot follow the timeline.
            LeaseLostError: this process was paused so long that another one took over; nothing was archived.
        """
        with self._opened.service("archive", _patience(timeout)) as (definition, fence):
            return archive(definition, keep_commits, fence)

    def set_maintenance(self, maintenance: Maintenance) -> None:
        """Change what writers do for the table after their commits; running ones follow at the next occasion.

        Args:
            maintenance: the new settings; ``Maintenance.off()`` for nothing.
        """
        self._change_settings("change of the maintenance", {"maintenance": maintenance})

    def set_tombstones(self, tombstones: str) -> None:
        """Change for how long deleted keys keep the ordering values of their deletes; what is kept already follows.

        Args:
            tombstones: as the option of ``create_table``: a length of time such as "30d", or "off".

        Raises:
            SettingsError: it is neither.
        """
        self._change_settings("change of the tombstones", {"tombstones": parse_tombstones(tombstones)})

    def _change_settings(self, service: str, changes: Mapping[str, object]) -> None:
        stored = load_definition(self.definition.storage)
        # This handle may have an index of its own; if it has the table's, it may know a password of it.
        is_same = has_index_of(self.definition, stored)
        opened = OpenTable(replace(stored, given_url=self.definition.given_url) if is_same else stored)
        # Settings are replaced as a whole: under the lease, so that no change of the index is lost.
        with closing(opened), opened.service(service, math.inf) as (_, fence):
            stored = load_definition(self.definition.storage)
            changed = stored.require_settings().model_copy(update=changes)
            fence.replace(paths.SETTINGS, stored_form(stored.with_settings(changed)))
        mine = self.settings.model_copy(update=changes)
        self._opened.definition = self.definition.with_settings(mine)

    # Reading ---------------------------------------------------------------------------------------------------

    def read(
        self, columns: Sequence[str] | None = None, filters: object = None, as_of: str | date | None = None
    ) -> pa.Table:
        """The records of the table, now or as of an instant.

        Args:
            columns: names; by default all but Hudi's meta columns, which can be named.
            filters: a text such as ``fare > 10 and city = 'Oslo'``, a ``pyarrow.compute.Expression``, or tuples as
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
        return self.told(as_of, lambda snapshot: snapshot.scan(columns, filters).to_table())

    def get(
        self,
        keys: Any,
        columns: Sequence[str] | None = None,
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
        return self.look_up_with(
            lambda definition, index: get_records(definition, index, record_keys, columns, timeout)
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
        return self.told(as_of, lambda snapshot: snapshot)

    def told(self, as_of: str | date | None, tell: Callable[[Snapshot], Found]) -> Found:
        """What a function tells of a ``snapshot``; it is called again if others have overtaken it. Raises as ``snapshot``."""
        if not isinstance(as_of, str | date | None):
            raise InvalidInputError(
                f"neither an instant nor a time: as_of={as_of!r}; give a text, a date or a datetime"
            )
        text = as_of.isoformat() if isinstance(as_of, date) else as_of
        return told_of_whole(self._opened.reloaded(), tell, None if text is None else parse_instant_time(text))

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

        return self.look_up_with(locate)

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
            raise InvalidInputError(f"limit must be at least 1: limit={limit}; leave it out for all instants")
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
                return self.look_up_with(table_info)
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
        """Build the index again from the table's files; returns how many records it holds.

        It waits for nobody. A write at work fails with ``IndexNotFoundError`` when it finds the index that it began with
        dropped; what the write left is removed by the next one. With another ``url``, all who have opened the table go
        over to the new index; ``migrate_index`` builds that one first, and lets writers go on meanwhile.

        Args:
            url: where; by default where the table's index is. A table of another engine that has none yet gets it in
                its own folder, if it is on this machine.
            shards: see ``create_index``.
            key_mode: see ``create_index``.
            tasks: runs the work on each base file; in this process by default.

        Raises:
            IndexMismatchError: there is an index of something else at the URL.
            CorruptTableError: a record key lives in more than one place, or a file cannot be read.
            UnsupportedTableError: the records have no keys.
        """
        return index_upkeep.bootstrap(self._opened, url, IndexOptions(shards, key_mode), tasks or InProcess())

    def migrate_index(
        self,
        to: str,
        *,
        shards: int | None = None,
        key_mode: KeyMode | str = KeyMode.EXACT,
        drop_old: bool = False,
        tasks: TaskRunner | None = None,
        timeout: float | None = None,
        on_step: OnMigrationStep = lambda _: None,
    ) -> MigrationResult:
        """Give the table another index, of any kind and in any store, while others write and read it.

        The new index is built from a snapshot, follows the commits made meanwhile, and is compared with the table. Then
        writers wait for a moment, and one change of the table's settings switches to it. Who has opened the table goes
        over to the new index; a write at work is tried again with it. A migration that was interrupted changed nothing
        that others see: call it again, and it goes on. The former index stays until it is dropped.

        Args:
            to: URL of the new index. An index of this table that is there already is used if it agrees with the table.
            shards: see ``create_index``.
            key_mode: see ``create_index``.
            drop_old: drop the former index after the switch; also one that an earlier call to this URL has kept.
            tasks: runs the work on each base file and on shards; in this process by default.
            timeout: as for ``rollback``.
            on_step: called after each step.

        Example:
            >>> table.migrate_index("global-simple:").index
            'global-simple:'

        Raises:
            SettingsError: the URL or an option is wrong, or record keys are in several partitions and the new index wants
                them unique in the table; the table keeps its index.
            IndexMismatchError: there is an index of something else at the URL, or another migration gave the table another
                index first.
            IndexNotReadyError: the table has no index, or the new index could not follow the table.
            LeaseBusyError: the lease was not free in that time, or another migration did not end in it.
            LeaseLostError: this process was paused so long that another one took over; call it again.
        """
        options, patience = IndexOptions(shards, key_mode), _patience(timeout)
        return index_upkeep.change(
            self._opened, to, options, tasks or InProcess(), drop_old=drop_old, patience=patience, on_step=on_step
        )

    def sync_index(self, tasks: TaskRunner | None = None, *, timeout: float | None = None) -> IndexState:
        """Apply all completed instants that the index has not applied, of any writer.

        What dead writers and power cuts left is cleaned up first: a rollback that was interrupted is finished.
        ``timeout`` is as for ``rollback``; only a table that needs such a cleanup needs the lease.
        """
        return index_upkeep.sync(self._opened, tasks or InProcess(), _patience(timeout))

    def verify_index(
        self, tasks: TaskRunner | None = None, *, timeout: float = LOOKUP_SECONDS, deep: bool = False
    ) -> VerifyReport:
        """Compare index and table, key by key, as of one commit sequence. Writers may go on.

        Args:
            tasks: runs the work on each base file and on shards; in this process by default.
            timeout: seconds; for how long to wait until the index has applied all commits of the table, as a look-up does.
            deep: also read every column of every live base file: whether all values can be read, pages fit their
                checksums, and keys, meta columns and partitions fit the values (``VerifyReport.damaged``).

        Example:
            >>> table.verify_index(deep=True).agrees
            True

        Raises:
            CorruptIndexError: the index holds entries of commits that it does not know.
            CorruptTableError: a base file is lost or damaged, or a commit cannot be read.
            IndexNotReadyError: the index has not seen all commits of the table after that time.
        """
        runs = tasks or InProcess()

        def verify(definition: TableDefinition, index: TableIndex) -> VerifyReport:
            return verified(definition, index, runs, partial(await_synced, definition, index, timeout))

        report = self.look_up_with(verify)
        if not deep:
            return report
        return replace(report, damaged=tuple(map(str, damaged_files(self._opened.reloaded(), runs))))

    def repair_index(self, tasks: TaskRunner | None = None, *, timeout: float | None = None) -> VerifyReport:
        """Make the index say what the table says; returns what was wrong. ``timeout`` is as for ``rollback``.

        Raises:
            CorruptTableError: a base file is damaged, or holds a record key twice.
            SettingsError: the index keeps digests, and some of them have no record.
        """
        return index_upkeep.repair(self._opened, tasks or InProcess(), _patience(timeout))

    def relocate(self, *, also: bool = False) -> tuple[str, ...]:
        """Let the index serve the table where it is now, after the table was moved.

        An index in the table's own folder needs no call.

        Args:
            also: keep the locations that the index knows: hosts see the table under different paths.

        Returns:
            The locations that the index knows from now on.

        Raises:
            IndexMismatchError: the table is a copy of one that is still there, or the index is of another table.
            IndexNotFoundError: there is no index at its URL.
            StoreUnavailableError: its store does not answer.
        """
        return index_upkeep.relocate(self._opened, also=also)

    def drop_index(self) -> None:
        """Remove the index; the table stays, and its index can be bootstrapped again.

        An index that has lost what says whose it is can be removed too: the table's settings name it as the table's.
        """
        index_upkeep.drop(self._opened)

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


def _patience(timeout: float | None) -> float:
    """Seconds to wait for the lease.

    Raises:
        InvalidInputError: they are negative, or not a number.
    """
    if timeout is None:
        return math.inf
    if not timeout >= 0:
        raise InvalidInputError(
            f"timeout must be 0 or more seconds: timeout={timeout}; None waits until the lease is free"
        )
    return timeout
