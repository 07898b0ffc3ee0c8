"""The verbs of a table that read its records, its index and its timeline."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date
from functools import partial
from threading import Event
from typing import Any, Final

import pyarrow as pa

from rli.commit.readiness import await_synced
from rli.errors import (
    CorruptIndexError,
    IndexMismatchError,
    IndexNotReadyError,
    InvalidInputError,
    SettingsError,
    StoreUnavailableError,
    UnsupportedTableError,
)
from rli.filters.filter import WithValues
from rli.hudi.timeline.instant import Instant
from rli.index.any_index import locate_now
from rli.index.contract import LOOKUP_SECONDS, TableIndex
from rli.index.values_in_stores import ValuesInStores
from rli.model import ChangeImages, Query
from rli.reads.changes.table_changes import ChangeChoices, CommitChanges, PlannedChanges, follow_changes
from rli.reads.point_reads import get_found, get_records
from rli.store.retries import answers_within
from rli.table.info import TableInfo, table_info
from rli.table.opened import OpenTable
from rli.table.scan import Scan
from rli.view.column_indexes import NamedIndexes
from rli.view.definition import TableDefinition
from rli.view.given_keys import given_keys
from rli.view.history import HistoryEntry, history
from rli.view.snapshot import told_of_now

_INFO_SECONDS: Final = 5.0
"""For how long a report on a table waits for the store of its index."""


class TableReading:
    """Reads of a table; ``Table`` inherits them."""

    _opened: OpenTable

    def read(
        self,
        columns: Sequence[str] | None = None,
        filters: object = None,
        as_of: str | date | None = None,
        query: Query | str = Query.SNAPSHOT,
    ) -> pa.Table:
        """The records of the table, now or as of an instant.

        Args:
            columns: names; by default all but Hudi's meta columns, which can be named.
            filters: SQL such as ``fare > 10 and lower(city) = 'oslo'``, a ``pyarrow.compute.Expression``, or tuples as
                ``pyarrow.parquet.read_table`` takes them.
            as_of: an instant of the timeline, or a time; UTC unless it has an offset.
            query: of merge-on-read tables, "snapshot" merges base files with log files, "read_optimized" reads the base files
                alone.

        Example:
            >>> table.read(columns=["id"], filters=[("city", "=", "Rome")])["id"].to_pylist()
            ['a', 'd']

        Raises:
            InvalidInputError: an argument is of the wrong kind, or the filter's text is not understood.
            SchemaError: a column does not exist, or a filter does not fit.
            InstantNotFoundError: the table had no commit at that time, its files were cleaned, or its commits archived.
            CorruptTableError: a base file, a log file or the timeline cannot be read, and a second look finds the same.
            UnsupportedTableError: log files hold what rli does not merge, such as records of a custom payload.
            TableNotFoundError: the table was dropped.
        """
        return self._opened.told(
            as_of, lambda snapshot: snapshot.scan(columns, filters, query, self._opened.values).to_table()
        )

    def get(
        self,
        keys: Any = None,
        columns: Sequence[str] | None = None,
        filters: object = None,
        *,
        where: Mapping[str, Collection[Any]] | None = None,
        timeout: float = LOOKUP_SECONDS,
    ) -> pa.Table:
        """The records of some keys, found by the index: no other file is opened than those that hold them.

        With ``where`` alone, the records with some values, in any order: found by the secondary index of a column, or by a scan where
        no column has one.

        The records are those of the table at one moment, which shows all commits that were acknowledged before. They
        come in the order of the keys. A key that the table does not hold gives no record, a key that is repeated gives
        its record once. With an index of partition scope a key gives its record in each partition.

        Args:
            keys: as for ``delete``; None with ``where``.
            columns: names; by default all but Hudi's meta columns, which can be named.
            filters: as for ``read``: only those of the records that pass.
            where: column → its values: only records that have one of them, in each of the columns.
            timeout: as for ``lookup``.

        Example:
            >>> table.get(["d", "nobody", "a"], columns=["id", "city"]).to_pylist()
            [{'id': 'd', 'city': 'Rome'}, {'id': 'a', 'city': 'Rome'}]
            >>> sorted(table.get(where={"city": ["Oslo"]}, columns=["id"])["id"].to_pylist())
            ['b', 'c']

        Raises:
            InvalidInputError: an argument is of the wrong kind.
            InvalidKeyError: a key is null or empty, or would change in the table's column.
            SchemaError: a column does not exist, or its type does not fit.
            IndexNotReadyError: the index has not seen all commits of the table after that time.
            CorruptIndexError, CorruptTableError: index or table is damaged.
            UnsupportedTableError: rli does not know the rule by which the table's log files are merged.
        """
        if keys is None and not where:
            raise InvalidInputError(
                "neither record keys nor values of columns are given",
                remedy="pass record keys, or where={'email': ['a@b.org']}; read gives all records",
            )
        chosen = filters if where is None else WithValues(where, filters)
        if keys is None:
            return self._with_values(columns, chosen, timeout)
        record_keys = given_keys(self._opened.definition, keys)
        return self._opened.look_up_with(
            lambda definition, index: get_records(definition, index, record_keys, columns, timeout, filters=chosen)
        )

    def _with_values(self, columns: Sequence[str] | None, filters: object, timeout: float) -> pa.Table:
        """The records that pass a filter: found by their keys if an index of a column in a store tells these, else by a scan."""
        opened, found = self._opened, None
        if NamedIndexes.load(opened.definition.storage).kept_in_stores:
            found = opened.look_up_with(
                lambda definition, index: get_found(
                    definition, index, ValuesInStores(lambda: index).keys_with, columns, filters, timeout=timeout
                )
            )
        if found is not None:
            return found
        return opened.told(None, lambda snapshot: snapshot.scan(columns, filters, values=opened.values).to_table())

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filters: object = None,
        as_of: str | date | None = None,
        query: Query | str = Query.SNAPSHOT,
    ) -> Scan:
        """As ``read``, but nothing is read yet: the result gives batches, a table, or the files that may hold records.

        ``scan().to_batches()`` is a ``pyarrow.RecordBatchReader``, which DuckDB, Polars and others read as a stream.
        All of its records are of one state of the table. Others may remove files of that state before they are read: then
        the scan raises ``InstantNotFoundError``. ``read`` begins again instead.
        """
        return Scan(self._opened.snapshot(as_of).scan(columns, filters, query, self._opened.values))

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
            UnsupportedTableError: the table has no meta columns, or has rules of merging that rli does not know.
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
        record_keys = given_keys(self._opened.definition, keys)
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
            UnsupportedTableError,
        ) as error:
            return table_info(self._opened.reloaded(), error)

    def timeline(self) -> tuple[Instant, ...]:
        """All instants of the active timeline, in order."""
        return self._opened.reloaded().load_timeline().instants

    @property
    def schema(self) -> pa.Schema | None:
        """Schema of the records; None in a table that was never written."""
        return told_of_now(self._opened.reloaded(), lambda snapshot: snapshot.schema)
