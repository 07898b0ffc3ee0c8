"""Transactions on the index alone, for tables that rli does not write.

The commit log in the store is the timeline. A transaction's changes lie in the store before its record is added to
the log, and adding the record is the commit: whatever dies afterwards, the next transaction applies the changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rli.codec import entries as codec
from rli.errors import ConflictError, CorruptIndexError, InvalidInputError, InvalidKeyError, SchemaError
from rli.index import staging
from rli.index.changes import LocationChanges
from rli.index.key_arrays import as_key_array
from rli.model import FileGroupId
from rli.timeline.instant import new_instant_time

if TYPE_CHECKING:
    from rli.index.log_record import LogRecord
    from rli.index.log_state import LogState
    from rli.index.record_index import RecordIndex
    from rli.store.contract import Applied

_ACTION: Final = "transaction"
_SAMPLE: Final = 10


class IndexTransaction:
    """A snapshot of an index and a set of changes that take effect together, or not at all.

    Use it as a context manager; leaving it without ``commit`` aborts it.

    Attributes:
        instant: the instant that look-ups will report for the staged locations.
    """

    def __init__(self, index: RecordIndex, snapshot: int, instant: str) -> None:
        self._index = index
        self._snapshot = snapshot
        self._writer = uuid4().hex
        self._chunks = 0
        self._file_groups: set[FileGroupId] = set()
        self._open = True
        self.instant = instant

    @classmethod
    def begin(cls, index: RecordIndex) -> IndexTransaction:
        """Bring the index up to its commit log and take a snapshot."""
        log = apply_transactions(index)
        return cls(index, log.head, new_instant_time(datetime.now(UTC), log.last_instant))

    def tag(self, record_keys: Sequence[str] | pa.Array | pa.ChunkedArray) -> pa.Table:
        """Where each record key lives, as of the snapshot; see ``RecordIndex.lookup``.

        Raises:
            ConflictError: a key was changed by a commit after the snapshot; begin again.
        """
        keys = as_key_array(record_keys)
        entries = self._index.get(keys, self._snapshot)
        self._require_unchanged([(keys, entries)])
        return self._index.locations(keys, entries)

    def stage(self, locations: pa.Table) -> None:
        """Stage new locations of record keys.

        Args:
            locations: columns ``record_key``, ``partition_path``, ``file_id``, all text without nulls; a key
                occurs once. A key that was staged before gets the new location.

        Raises:
            SchemaError: a column is missing.
            InvalidKeyError: a value is null or not text, or a key occurs twice.
        """
        columns = [_text_column(locations, name) for name in ("record_key", "partition_path", "file_id")]
        self._stage(LocationChanges(*columns))

    def stage_deletes(self, record_keys: Sequence[str] | pa.Array | pa.ChunkedArray) -> None:
        """Stage the removal of record keys; they may repeat, and keys that the index does not hold are no error."""
        self._stage(LocationChanges.removing(as_key_array(record_keys).unique()))

    def commit(self) -> None:
        """Make all staged changes visible.

        Raises:
            ConflictError: a later commit took one of the keys; nothing of this transaction stays.
        """
        self._require_open()
        if self._chunks:
            try:
                self._append_to_log()
            except ConflictError:
                self.abort()
                raise
        self._open = False

    def abort(self) -> None:
        """Drop everything staged; the index stays as it was."""
        if not self._open:
            return
        self._open = False
        if not self._is_in(self._index.log.refresh()):
            staging.remove_chunks(self._index.store, self._writer, self._chunks)

    def _append_to_log(self) -> None:
        """Add the record of this transaction to the log, which is the commit, and apply it."""
        index = self._index
        while True:
            log = apply_transactions(index)
            if self._is_in(log):
                return
            if log.head > self._snapshot:
                staged = staging.read_chunks(index.store, self._writer, self._chunks)
                self._require_unchanged((keys := changes.record_keys, index.get(keys, log.head)) for changes in staged)
            index.log.append(
                log,
                self.instant,
                _ACTION,
                file_groups=sorted(self._file_groups),
                writer=self._writer,
                located_at=[self.instant],
                staged_chunks=self._chunks,
            )

    def _is_in(self, log: LogState) -> bool:
        # The answer to an append may have been lost, so that only the log can tell whether it was done.
        return any(record.writer == self._writer for record in log.records_after(self._snapshot))

    def _stage(self, changes: LocationChanges) -> None:
        self._require_open()
        if pc.count_distinct(changes.record_keys).as_py() != len(changes.record_keys):
            counts = pc.value_counts(changes.record_keys)
            repeated = counts.filter(pc.greater(counts.field("counts"), 1)).field("values")[0].as_py()
            raise InvalidKeyError(f"a record key occurs more than once: key={repeated}; stage each key once")
        self._file_groups |= changes.file_groups()
        self._chunks = staging.write_chunks(self._index.store, self._writer, self._chunks, changes)

    def _require_unchanged(self, tagged: Iterable[tuple[pa.Array, codec.Entries]]) -> None:
        """Raise ``ConflictError`` if any of the record keys, given with their entries, changed after the snapshot."""
        changed: list[pa.Array] = []
        winners: set[str] = set()
        for keys, entries in tagged:
            sequences = codec.sequences(entries)
            positions = np.flatnonzero(sequences > self._snapshot)
            if len(positions):
                changed.append(keys.take(pa.array(positions)))
                log = self._index.log_of(entries)
                winners.update(log.instants_of(np.unique(sequences[positions])).to_pylist())
        if not changed:
            return
        conflicting = pa.concat_arrays(changed).unique()
        sample = tuple(conflicting.slice(0, _SAMPLE).to_pylist())
        raise ConflictError(
            f"{len(conflicting)} record keys were changed by another commit since this transaction began: "
            f"keys={list(sample)} instants={sorted(winners)}; begin a new transaction and tag again",
            keys=sample,
            key_count=len(conflicting),
            instants=tuple(sorted(winners)),
        )

    def _require_open(self) -> None:
        if not self._open:
            raise InvalidInputError("this transaction has ended; begin a new one")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abort()


def apply_transactions(index: RecordIndex) -> LogState:
    """Bring an index that is used on its own up to its commit log, which is returned; may be repeated and raced."""
    while True:
        applied, log = index.read_progress()
        least = applied.least or 0
        for record in log.records_after(max(0, least - 1)):
            if record.last_sequence <= least:
                # Whoever applied it may have died before it had removed what was staged.
                staging.remove_chunks(index.store, record.writer, record.staged_chunks)
            elif not _apply_record(index, record, applied):
                break
        else:
            return log


def _apply_record(index: RecordIndex, record: LogRecord, since: Applied) -> bool:
    """Apply a transaction of the log; False if the store went back to an earlier state meanwhile."""
    try:
        for changes in staging.read_chunks(index.store, record.writer, record.staged_chunks):
            changes.apply(index, record.first_sequence)
    except staging.ChunksGoneError:
        # Chunks are removed once they are marked as applied, by another process just now.
        if (index.store.applied().least or 0) >= record.last_sequence:
            return True
        raise CorruptIndexError(
            f"the index has lost entries of a transaction: url={index.url} instant={record.instant}; a server went "
            "back to an earlier state, and what the transaction had staged is kept no more: restore all servers "
            "from backups of one time, or build the index anew"
        ) from None
    if not index.store.mark_applied(since, record.last_sequence):
        return False
    staging.remove_chunks(index.store, record.writer, record.staged_chunks)
    return True


def _text_column(table: pa.Table, name: str) -> pa.Array:
    if name not in table.column_names:
        raise SchemaError(f"a column is missing: column={name} found={table.column_names}; stage all three columns")
    column = table.column(name)
    try:
        return as_key_array(column)
    except InvalidKeyError as error:
        raise InvalidKeyError(f"column {name}: {error}") from error
