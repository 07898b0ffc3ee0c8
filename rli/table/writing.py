"""The verbs of a table that write records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from rli.arrow_tables import as_arrow_table
from rli.model import (
    CommitResult,
    MissingColumns,
    OnDuplicates,
    OnExisting,
    OnPartitionChange,
    Step,
)
from rli.settings import MEBIBYTE
from rli.table.deletes import requested_deletes
from rli.table.opened import OpenTable
from rli.table.writers import TableTarget, buffered_writer
from rli.view.given_keys import key_rows
from rli.write.buffered.buffer import WriterLimits
from rli.write.buffered.writer import BufferedWriter
from rli.write.engine.local import LocalEngine
from rli.write.operations.by_condition import delete_where, update_where
from rli.write.operations.delete import delete
from rli.write.operations.drop_partitions import drop_partitions
from rli.write.operations.insert import insert
from rli.write.operations.merge import MergeChoices, merge
from rli.write.operations.overwrite import overwrite_partitions
from rli.write.operations.replacing import Partitions
from rli.write.operations.upsert import upsert
from rli.write.options import WriteOptions, pass_over


class TableWriting:
    """Writes of a table; ``Table`` inherits them."""

    _opened: OpenTable

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
            metadata: strings that are kept with the commit, which is made even if no record changes. Names do not begin
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
            LeaseLostError: this process was paused so long that another one took over, or another engine rolled the write back;
                nothing was written.
            IndexNotReadyError: the index was never bootstrapped.
            CorruptIndexError, CorruptTableError: index or table is damaged.
            StoreUnavailableError: the index's store does not answer. What was committed before is kept; whether
                this write was committed, the timeline tells.
            UnsupportedTableError: rli does not write such tables, or refuses the lock of Hudi in the table's properties.
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
            keys: whole record keys as strings (a sequence, an Arrow array or column, a series), of composite keys in
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
            key_rows(self._opened.definition, keys), ordering, self._opened.definition.properties.ordering_field
        )
        options = WriteOptions.of(attempts, transaction, metadata, on_step, dry_run=dry_run)
        return self._opened.write_with(
            lambda definition, index: delete(definition, index, LocalEngine(), source, options, column)
        )

    def writer(  # noqa: PLR0913  (the choices of a write)
        self,
        *,
        max_rows: int = 100_000,
        max_bytes: int = 64 * MEBIBYTE,
        max_seconds: float | None = 10.0,
        transaction: str | None = None,
        op: str | None = None,
        when: str | None = None,
        schema: pa.Schema | None = None,
        on_partition_change: OnPartitionChange | str | None = None,
        missing: MissingColumns | str = MissingColumns.FAIL,
        attempts: int | None = None,
    ) -> BufferedWriter:
        """Gather rows, and upsert or merge many of them in one commit. Use the writer in ``with`` or ``async with``.

        A background thread commits the buffer once it has ``max_rows`` or ``max_bytes``, or its first row is ``max_seconds``
        old. Meanwhile, a second buffer takes rows; once both are full, ``write`` waits. If the block ends by an exception,
        the buffer is not written.

        Args:
            max_rows: in the buffer.
            max_bytes: of the rows' values in the buffer. A single ``write`` is never divided, and may exceed the limits.
            max_seconds: for how long a row waits for its commit to begin; None for no limit.
            transaction: the id of an application that writes with one writer at a time. Its commits are numbered, and each
                is made once, however often it is tried. ``writer.committed`` tells the last one, with the metadata that came
                with its rows: go on from there after a restart.
            op: the operation column, as for ``merge``: the rows are merged.
            when: a condition, as for ``merge``: the rows are merged.
            schema: the columns of the rows and their types; by default those of the table, or of the first rows of a table
                that was never written.
            on_partition_change: as for ``upsert``.
            missing: what becomes of columns that a row lacks: "fail" refuses the row, "null" makes them null. With "keep", the
                columns of the table that ``schema`` does not name keep the stored values.
            attempts: as for ``upsert``.

        Example:
            >>> with table.writer(transaction="trips") as writer:
            ...     writer.write({"id": "f", "city": "Bern", "ts": 3}, metadata={"offset": "17"})
            >>> table.writer(transaction="trips").committed.metadata["offset"]
            '17'

        Raises:
            SettingsError: a limit is not positive.
            InvalidInputError: a choice is unknown.
        """
        target = TableTarget(self._opened, MergeChoices(op, when, on_partition_change, missing), transaction, attempts)
        return buffered_writer(target, WriterLimits(max_rows, max_bytes, max_seconds), schema)

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

    def overwrite_partitions(  # noqa: PLR0913  (the choices of a write)
        self,
        records: Any,
        *,
        partitions: Partitions | None = None,
        on_partition_change: OnPartitionChange | str | None = None,
        on_duplicates: OnDuplicates | str = OnDuplicates.SKIP,
        attempts: int | None = None,
        transaction: tuple[str, int] | None = None,
        metadata: Mapping[str, str] | None = None,
        dry_run: bool = False,
        on_step: Callable[[Step], None] = pass_over,
    ) -> CommitResult:
        """Replace the partitions of the records by the records, in one commit; Hudi's ``insert_overwrite``.

        What these partitions held is gone, but for the records of the batch: their keys count as updated, those that are gone
        as deleted. A key of the records that is in a partition that stays moves. No ordering value is compared with stored
        records. Nothing is kept of keys that are gone: a late event of such a key is inserted again. If others write into one of
        the partitions meanwhile, the next attempt replaces what they have written.

        Args:
            records: as for ``upsert``, with all columns of the table, and without deletes.
            partitions: paths of partitions that are replaced also if the records have none of them, such as
                ``["day=2026-11-25"]``; "all" for the whole table. Without records, they end up empty.
            on_partition_change: "move", or "fail" to refuse keys that are in another partition than their records say.
            on_duplicates: as for ``upsert``.
            attempts: as for ``upsert``.
            transaction: as for ``upsert``. A repeat names the same partitions, too.
            metadata: as for ``upsert``.
            dry_run: as for ``upsert``.
            on_step: as for ``upsert``.

        Example:
            >>> rome = pa.table({"id": ["a", "r"], "city": ["Rome", "Rome"], "ts": [1, 1]})
            >>> done = table.overwrite_partitions(rome)
            >>> done.inserted, done.updated, done.deleted
            (1, 1, 1)

        Raises:
            InvalidInputError: there are no records, and no partitions are named; or records are marked as deleted.
            RliError: otherwise as for ``upsert``.
        """
        source = as_arrow_table(records)
        options = WriteOptions.of(attempts, transaction, metadata, on_step, on_duplicates, dry_run=dry_run)
        return self._opened.write_with(
            lambda definition, index: overwrite_partitions(
                definition,
                index,
                LocalEngine(),
                source,
                options,
                partitions=partitions,
                on_partition_change=on_partition_change,
            )
        )

    def drop_partitions(
        self,
        partitions: Sequence[str],
        *,
        missing_ok: bool = False,
        attempts: int | None = None,
        transaction: tuple[str, int] | None = None,
        metadata: Mapping[str, str] | None = None,
        dry_run: bool = False,
        on_step: Callable[[Step], None] = pass_over,
    ) -> CommitResult:
        """Remove all records of some partitions; Hudi's ``delete_partition``.

        The files go with a later clean. A partition that was dropped is absent.

        Args:
            partitions: their paths, such as ``["day=2026-11-25"]``.
            missing_ok: whether partitions may be absent. By default an absent one is an error, and nothing is dropped.
            attempts: as for ``upsert``.
            transaction: as for ``upsert``. A repeat names the same partitions.
            metadata: as for ``upsert``.
            dry_run: as for ``upsert``.
            on_step: as for ``upsert``.

        Example:
            >>> table.drop_partitions(["Rome"]).deleted
            2

        Raises:
            InvalidInputError: no partitions are named, or the table lacks one of them.
            RliError: otherwise as for ``upsert``.
        """
        options = WriteOptions.of(attempts, transaction, metadata, on_step, dry_run=dry_run)
        return self._opened.write_with(
            lambda definition, index: drop_partitions(
                definition, index, LocalEngine(), partitions, options, missing_ok=missing_ok
            )
        )
