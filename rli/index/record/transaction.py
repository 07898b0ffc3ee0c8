"""Transactions on the index alone, for tables that rli does not write.

The commit log in the store is the timeline. A transaction's changes lie in the store before its record is added to
the log, and adding the record is the commit: whatever dies afterwards, the next transaction applies the changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Final, Self

import pyarrow as pa
import pyarrow.compute as pc

from rli.codec.key_arrays import as_key_array
from rli.errors import ConflictError, InvalidInputError, InvalidKeyError, LeaseLostError, SchemaError
from rli.hudi.timeline.instant import new_instant_time
from rli.index.record import staging
from rli.index.record.applying import apply_transactions
from rli.index.record.changed_keys import ChangedKeys
from rli.index.record.key_watch import KeyWatch, Verdict
from rli.index.record.log_state import LogState
from rli.index.record.stored_entries import StoredEntries
from rli.index.record.sweeping import SILENT_SECONDS, sweep
from rli.locations import LocationUpdate
from rli.model import FileGroupId

_ACTION: Final = "transaction"
_KEYS_LOOKED_UP: Final = 16_384
"""Keys that are looked up between two looks at the commit log; fewer where more transactions are committed (P29)."""

_FEWEST_LOOKED_UP: Final = 1024


class IndexTransaction:
    """A snapshot of an index and a set of changes that take effect together, or not at all.

    Use it as a context manager; leaving it without ``commit`` aborts it.

    Example:
        >>> with index.begin() as txn:
        ...     known = txn.tag(["k1"])
        ...     txn.stage(pa.table({"record_key": ["k1"], "partition_path": ["p"], "file_id": ["f-0"]}))
        ...     committed = txn.commit()
        >>> index.lookup(["k1"])["file_id"].to_pylist()
        ['f-0']

    Attributes:
        instant: the instant that look-ups will report for the staged locations.
    """

    def __init__(self, index: StoredEntries, snapshot: int, instant: str) -> None:
        self._index = index
        self._snapshot = snapshot
        self._writer = index.owner.new_writer()
        self._chunk_sizes: list[int] = []
        self._watch = KeyWatch(index.store, snapshot)
        self._file_groups: set[FileGroupId] = set()
        self._open = True
        self.instant = instant

    @classmethod
    def begin(cls, index: StoredEntries) -> IndexTransaction:
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
        changed = ChangedKeys(self._index, self._snapshot)
        changed.add(keys, entries)
        changed.require_none()
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
        self._stage(LocationUpdate(*columns))

    def stage_deletes(self, record_keys: Sequence[str] | pa.Array | pa.ChunkedArray) -> None:
        """Stage the removal of record keys; they may repeat, and keys that the index does not hold are no error."""
        self._stage(LocationUpdate.removing(as_key_array(record_keys).unique()))

    def commit(self) -> None:
        """Make all staged changes visible.

        Raises:
            ConflictError: a later commit took one of the keys; nothing of this transaction stays.
            LeaseLostError: this process was taken for dead, and the staged changes were removed.
        """
        self._require_open()
        if self._chunk_sizes:
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
            staging.remove_chunks(self._index.store, self._writer, len(self._chunk_sizes))

    def _append_to_log(self) -> None:
        """Add the record of this transaction to the log, which is the commit, and apply it."""
        index = self._index
        while True:
            log = apply_transactions(index)
            if self._is_in(log):
                return
            try:
                checked = self._checked(log)
            except staging.ChunksGoneError:
                if self._is_in(index.log.refresh()):
                    return
                raise self._taken_for_dead() from None
            if any(self._writer in record.swept for record in checked.records_after(self._snapshot)):
                raise self._taken_for_dead()
            index.log.append(
                checked,
                self.instant,
                _ACTION,
                file_groups=sorted(self._file_groups),
                writer=self._writer,
                located_at=[self.instant],
                staged_chunks=len(self._chunk_sizes),
                keeps_chunks=staging.may_stay(self._chunk_sizes),
            )

    def _checked(self, log: LogState) -> LogState:
        """The log up to where nobody else has changed a staged key since the snapshot; at least up to ``log``.

        Raises:
            ConflictError: somebody has.
        """
        if self._watch.follow(log) is Verdict.UNCHANGED:
            return log
        keys_at_once = _KEYS_LOOKED_UP
        while (checked := self._looked_up(log, keys_at_once)) is None:
            log = apply_transactions(self._index)
            keys_at_once = max(keys_at_once // 4, _FEWEST_LOOKED_UP)
        return checked

    def _looked_up(self, log: LogState, keys_at_once: int) -> LogState | None:
        """Look all staged keys up as of the log, and follow it meanwhile; None if it grew too fast for that."""
        self._watch.restart(log.head)
        reached = log
        changed = ChangedKeys(self._index, self._snapshot)
        for keys in self._staged_keys(keys_at_once):
            changed.add(keys, self._index.get(keys, log.head))
            # Once there is a conflict, the rest is looked up to count it.
            if not changed:
                reached = self._index.log.refresh()
                if self._watch.follow(reached) is not Verdict.UNCHANGED:
                    return None
        changed.require_none()
        return reached

    def _staged_keys(self, count: int) -> Iterator[pa.Array]:
        for changes in staging.read_chunks(self._index.store, self._writer, len(self._chunk_sizes)):
            for start in range(0, len(changes.record_keys), count):
                yield changes.record_keys.slice(start, count)

    def _is_in(self, log: LogState) -> bool:
        # The answer to an append may have been lost, so that only the log can tell whether it was done.
        return any(record.writer == self._writer for record in log.records_after(self._snapshot))

    def _taken_for_dead(self) -> LeaseLostError:
        return LeaseLostError(
            f"the staged changes of this transaction were removed: url={self._index.url} instant={self.instant}; "
            "this process was taken for dead: begin a new transaction and tag again"
        )

    def _stage(self, changes: LocationUpdate) -> None:
        self._require_open()
        if pc.count_distinct(changes.record_keys).as_py() != len(changes.record_keys):
            counts = pc.value_counts(changes.record_keys)
            repeated = counts.filter(pc.greater(counts.field("counts"), 1)).field("values")[0].as_py()
            raise InvalidKeyError(f"a record key occurs more than once: key={repeated}; stage each key once")
        self._file_groups |= changes.file_groups()
        if self._index.owner.announce():
            sweep(self._index, SILENT_SECONDS)
        self._chunk_sizes += staging.write_chunks(self._index.store, self._writer, len(self._chunk_sizes), changes)
        self._watch.add(changes.record_keys)

    def _require_open(self) -> None:
        if not self._open:
            raise InvalidInputError("this transaction has ended; begin a new one")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abort()


def _text_column(table: pa.Table, name: str) -> pa.Array:
    if name not in table.column_names:
        raise SchemaError(f"a column is missing: column={name} found={table.column_names}; stage all three columns")
    column = table.column(name)
    try:
        return as_key_array(column)
    except InvalidKeyError as error:
        raise InvalidKeyError(f"column {name}: {error}") from error
