"""Transactions on the index alone, for tables that rli does not write.

The commit log in the store is the timeline. A transaction's changes lie in the store before its record is added to
the log, and adding the record is the commit: whatever dies afterwards, the next transaction applies the changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, NoReturn, Self

import pyarrow as pa
import pyarrow.compute as pc

from rli.arrow_tables import as_arrow_table
from rli.codec.key_arrays import as_key_array
from rli.errors import ConflictError, InvalidInputError, LeaseLostError
from rli.hudi.timeline.instant import new_instant_time
from rli.index.record.alone import staging
from rli.index.record.alone.applying import apply_transactions
from rli.index.record.alone.changed_keys import ChangedKeys
from rli.index.record.alone.commits import NOTHING_COMMITTED, IndexCommit, abort_prepared, commit_prepared
from rli.index.record.alone.key_watch import KeyWatch, Verdict
from rli.index.record.alone.prepared import (
    advance,
    finish_decided,
    require_not_held,
    transaction_draft,
    write_preparing,
)
from rli.index.record.alone.prepared_record import Prepared, State
from rli.index.record.alone.staged_counts import StagedCounts
from rli.index.record.alone.sweeping import SILENT_SECONDS, sweep
from rli.index.record.alone.transaction_tasks import StagedPart, TransactionTasks, placing, require_distinct, tag_as_of
from rli.index.record.entries.stored_entries import StoredEntries
from rli.index.record.log.actions import PREPARE, TRANSACTION
from rli.index.record.log.record import LogRecord, RecordDraft
from rli.index.record.log.staged import Staged
from rli.index.record.log.state import LogState
from rli.locations import LocationUpdate
from rli.model import FileGroupId
from rli.processes import ProcessId
from rli.view.caller_metadata import CallerMetadata

_KEYS_LOOKED_UP: Final = 16_384
"""Keys that are looked up between two looks at the commit log; fewer where more transactions are committed (P29)."""

_FEWEST_LOOKED_UP: Final = 1024


class IndexTransaction:
    """A snapshot of an index and a set of changes that take effect together, or not at all.

    Use it as a context manager; leaving it without ``commit`` aborts it, unless it was prepared.

    A table of another format has a commit of its own. Prepare the transaction, commit to the table, then commit the
    transaction. Whatever dies in between, ``RecordIndex.pending`` has the transaction, and the table knows whether it is to
    be committed.

    Example:
        >>> with index.begin() as txn:
        ...     known = txn.tag(["k1"])
        ...     txn.stage(pa.table({"record_key": ["k1"], "partition_path": ["p"], "file_id": ["f-0"]}))
        ...     committed = txn.commit(metadata={"delta.version": "17"})
        >>> committed.placed, index.last_commit().metadata
        (1, {'delta.version': '17'})
        >>> index.lookup(["k1"])["file_id"].to_pylist()
        ['f-0']

    Attributes:
        id: names the transaction, and no other one. Keep it with the commit to the table: by it the table tells later
            whether it has this very commit.
        instant: the instant that look-ups will report for the staged locations.
    """

    def __init__(self, index: StoredEntries, snapshot: int, instant: str) -> None:
        self._index = index
        self._snapshot = snapshot
        self.id = index.owner.new_writer()
        self._chunk_sizes: dict[str, int] = {}
        self._watch = KeyWatch(index.store, snapshot)
        self._counts = StagedCounts()
        self._file_groups: set[FileGroupId] = set()
        self._has_parts = False
        self._has_unwatched_keys = False
        self._open = True
        self._preparing: Prepared | None = None
        self._is_prepared = False
        self.instant = instant

    @classmethod
    def begin(cls, index: StoredEntries) -> IndexTransaction:
        """Bring the index up to its commit log and take a snapshot."""
        finish_decided(index)
        log = apply_transactions(index)
        return cls(index, log.head, new_instant_time(datetime.now(UTC), log.last_instant))

    def tag(self, record_keys: Sequence[str] | pa.Array | pa.ChunkedArray) -> pa.Table:
        """Where each record key lives, as of the snapshot; see ``RecordIndex.lookup``.

        Raises:
            ConflictError: a key was changed by a commit after the snapshot: begin again. Or a prepared transaction holds
                it: its table may have changes that the index does not show yet.
        """
        return tag_as_of(self._index, self._snapshot, self.id, as_key_array(record_keys))

    def stage(self, locations: Any) -> None:
        """Stage new locations of record keys.

        Args:
            locations: columns ``record_key``, ``partition_path``, ``file_id``, all text without nulls; a key
                occurs once. A key that was staged before gets the new location. A ``pyarrow.Table``, or anything that
                Arrow makes one of: record batches and their readers, data frames.

        Raises:
            InvalidInputError: Arrow makes no table of it.
            SchemaError: a column is missing.
            InvalidKeyError: a value is null or not text, or a key occurs twice.
        """
        self._stage(placing(as_arrow_table(locations)))

    def stage_deletes(self, record_keys: Sequence[str] | pa.Array | pa.ChunkedArray) -> None:
        """Stage the removal of record keys; they may repeat, and keys that the index does not hold are no error."""
        self._stage(LocationUpdate.removing(as_key_array(record_keys).unique()))

    def for_tasks(self) -> TransactionTasks:
        """This transaction for the tasks of an engine, in other processes; ``accept`` takes what they staged."""
        self._require_unprepared()
        self._announce()
        self._has_parts = True
        return TransactionTasks(self._index, self._snapshot, self.id)

    def accept(self, parts: Iterable[StagedPart]) -> None:
        """Take the changes that tasks have staged: one attempt of each task, and no key in two of them."""
        self._require_unprepared()
        for part in parts:
            self._chunk_sizes.update(part.chunk_sizes)
            self._file_groups |= part.file_groups
            self._counts.add_unseen(part.placed, part.deleted)
            self._has_unwatched_keys = True

    def prepare(self, metadata: Mapping[str, str] | None = None) -> None:
        """Make all staged changes durable and hold their keys, so that ``commit`` meets no conflict any more.

        Afterwards commit to the table of the other format, with ``id``, and then ``commit``, or ``abort`` if the table
        refused. Other transactions that take one of the keys fail meanwhile. If this process dies, the transaction stays:
        see ``RecordIndex.pending``. Leaving the context manager does not abort a prepared transaction, because an error of
        the table may hide that it has the commit.

        Args:
            metadata: names and texts to keep with the commit, such as the version that the table will have.

        Raises:
            ConflictError: a later commit took one of the keys, or a prepared transaction holds it; nothing of this
                transaction stays.
            LeaseLostError: this process was taken for dead, and the staged changes were removed.
        """
        self._require_unprepared()
        texts = CallerMetadata.of(None, metadata).texts
        self._announce()
        self._remove_others()
        self._preparing = write_preparing(self._index, self._as_prepared(texts))
        try:
            announcement = RecordDraft(instant=None, action=PREPARE, writer=self.id, located_at=(self.instant,))
            fence = self._appended(announcement).first_sequence
            if advance(self._index, self._preparing, State.PREPARED, fence=fence) is None:
                raise self._taken_for_dead()
        except ConflictError:
            self.abort()
            raise
        self._is_prepared = True

    def commit(self, metadata: Mapping[str, str] | None = None) -> IndexCommit:
        """Make all staged changes visible.

        Args:
            metadata: names and texts to keep with the commit, such as the version of the table that it belongs to; in
                addition to those of ``prepare``.

        Returns:
            What was committed. Without changes and without metadata, nothing is.

        Raises:
            ConflictError: a later commit took one of the keys, or a prepared transaction holds it; nothing of this
                transaction stays. A prepared transaction meets this error only if another process aborted it.
            LeaseLostError: this process was taken for dead, and the staged changes were removed.
        """
        self._require_open()
        texts = CallerMetadata.of(None, metadata).texts
        self._remove_others()
        if self._preparing is not None:
            if not self._is_prepared:
                raise InvalidInputError("this transaction failed to be prepared; abort it, and begin a new one")
            committed = commit_prepared(self._index, self._preparing, texts)
        elif self._chunk_sizes or texts:
            try:
                committed = self._committed(texts)
            except ConflictError:
                self.abort()
                raise
        else:
            committed = NOTHING_COMMITTED
        self._open = False
        return committed

    def abort(self) -> None:
        """Drop everything staged; the index stays as it was.

        Raises:
            ConflictError: the transaction was prepared, and another process has committed it.
        """
        if not self._open:
            return
        self._open = False
        if self._preparing is not None:
            abort_prepared(self._index, self._preparing)
        elif self._record_in(self._index.log.refresh()) is None:
            staging.remove_chunks(self._index.store, self.id, tuple(self._chunk_sizes))
            self._remove_others()

    def _committed(self, texts: Mapping[str, str]) -> IndexCommit:
        """Add the record of this transaction to the log, which is the commit, and apply it."""
        draft = transaction_draft(self.id, self.instant, self._file_groups, self._staged(), texts)
        return IndexCommit.of(self._appended(draft))

    def _appended(self, draft: RecordDraft) -> LogRecord:
        """Append a record of this transaction right behind all others, once its keys are free; returns it."""
        index = self._index
        free: set[str] = set()
        while True:
            log = apply_transactions(index)
            record = self._record_in(log, draft.action)
            if record is not None:
                return record
            try:
                checked = self._checked(log)
                if any(self.id in record.swept for record in checked.records_after(self._snapshot)):
                    raise self._taken_for_dead()
                require_not_held(index, self._shared, self.id, checked, free)
            except staging.ChunksGoneError:
                record = self._record_in(index.log.refresh(), draft.action)
                if record is not None:
                    return record
                raise self._taken_for_dead() from None
            index.log.append(checked, draft)

    def _checked(self, log: LogState) -> LogState:
        """The log up to where nobody else has changed a staged key since the snapshot; at least up to ``log``.

        Raises:
            ConflictError: somebody has.
        """
        if not self._chunk_sizes:
            return log
        if log.head > self._snapshot:
            self._watch_all()
        if self._watch.follow(log) is Verdict.UNCHANGED:
            return log
        keys_at_once = _KEYS_LOOKED_UP
        while (checked := self._looked_up(log, keys_at_once)) is None:
            log = apply_transactions(self._index)
            keys_at_once = max(keys_at_once // 4, _FEWEST_LOOKED_UP)
        return checked

    def _watch_all(self) -> None:
        """Watch the keys that tasks have staged, too: they are hashed once they have to be compared."""
        if self._has_unwatched_keys:
            for changes in staging.read_chunks(self._index.store, self.id, tuple(self._chunk_sizes)):
                self._watch.add(changes.record_keys)
            self._has_unwatched_keys = False

    def _shared(self, record_keys: pa.Array) -> pa.Array:
        """Those of some keys that this transaction has staged, too; its chunks are read only if it seems so."""
        self._watch_all()
        found = self._watch.among(record_keys)
        if not len(found):
            return found
        own = (keys.filter(pc.is_in(keys, value_set=found)) for keys in self._staged_keys(_KEYS_LOOKED_UP))
        return pa.concat_arrays(list(own))

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
        for changes in staging.read_chunks(self._index.store, self.id, tuple(self._chunk_sizes)):
            for start in range(0, len(changes.record_keys), count):
                yield changes.record_keys.slice(start, count)

    def _record_in(self, log: LogState, action: str = TRANSACTION) -> LogRecord | None:
        # The answer to an append may have been lost, so that only the log can tell whether it was done.
        found = (r for r in log.records_after(self._snapshot) if r.writer == self.id and r.action == action)
        return next(found, None)

    def _taken_for_dead(self) -> LeaseLostError:
        return LeaseLostError(
            f"the staged changes of this transaction were removed: url={self._index.url} instant={self.instant}; "
            "this process was taken for dead: begin a new transaction and tag again"
        )

    def _stage(self, changes: LocationUpdate) -> None:
        self._require_unprepared()
        require_distinct(changes.record_keys)
        self._file_groups |= changes.file_groups()
        self._announce()
        chunks = staging.write_chunks(self._index.store, self.id, changes, first=len(self._chunk_sizes))
        self._chunk_sizes.update(chunks)
        self._counts.add(self._watch.add(changes.record_keys), is_deleted=changes.file_ids.null_count > 0)

    def _announce(self) -> None:
        """Show a sign of life, and look for processes that died, before anything is staged."""
        if self._index.owner.announce():
            sweep(self._index, SILENT_SECONDS)

    def _remove_others(self) -> None:
        """Remove the chunks of attempts that no task's result names."""
        if self._has_parts:
            staging.remove_others(self._index.store, self.id, tuple(self._chunk_sizes))

    def _staged(self) -> Staged:
        keeps_chunks = staging.may_stay(list(self._chunk_sizes.values()))
        return Staged(tuple(self._chunk_sizes), keeps_chunks, *self._counts.totals())

    def _as_prepared(self, texts: Mapping[str, str]) -> Prepared:
        return Prepared(
            writer=self.id,
            state=State.PREPARING,
            instant=self.instant,
            snapshot=self._snapshot,
            fence=0,
            staged=self._staged(),
            metadata=tuple(sorted(texts.items())),
            prepared_at=0.0,
            process=ProcessId.current(),
        )

    def _require_open(self) -> None:
        if not self._open:
            raise InvalidInputError("this transaction has ended; begin a new one")

    def _require_unprepared(self) -> None:
        self._require_open()
        if self._preparing is not None:
            raise InvalidInputError(
                "this transaction is prepared, or failed to be; commit or abort it, and begin a new one"
            )

    def __reduce__(self) -> NoReturn:
        # A copy would stage under the same names, and compare hashes that have no meaning in another process.
        raise InvalidInputError(
            f"a transaction belongs to one process, and cannot be pickled: url={self._index.url}; to stage from Spark, call "
            "rli_spark.stage in the driver, or begin a transaction of its own in the other process"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Of a prepared transaction only the table of the caller knows whether it is to be committed.
        if not self._is_prepared:
            self.abort()
