"""A write that has the table's lease: it is checked against what others committed meanwhile, and published.

Whether others are in its way is decided by ``rli.commit.conflicts``; how it is published, by ``rli.commit.ready_write``. Writers of Hudi
do not know the lease, so on a table with a lock of theirs, the check is made before the lock is taken, and again under the lock if the
table has changed meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

from rli.commit.begun_write import BegunWrite
from rli.commit.checked_write import CheckedWrite
from rli.commit.conflicts import PlannedCommit
from rli.commit.prepared_write import PreparedWrite
from rli.commit.published_write import PublishedWrite
from rli.commit.ready_write import ReadyWrite
from rli.commit.unique_values import require_unique
from rli.coordination.contract import Held, HudiLock
from rli.errors import ConflictError, CorruptTableError, InstantNotFoundError, LeaseLostError
from rli.hudi.avro_schema import to_avro
from rli.hudi.lock_settings import is_lock_named
from rli.hudi.metadata.partitions import PartitionKind
from rli.hudi.table_features import require_writable
from rli.hudi.timeline.timeline import Timeline
from rli.index.contract import SyncOptions
from rli.index.roles import UnpublishedWrite
from rli.model import Step
from rli.view.caller_transactions import require_first
from rli.view.commit_facts import CommitFacts, WriteEffort
from rli.view.definition import TableDefinition
from rli.view.table_change import TableChange
from rli.view.table_stamp import TableStamp

_MOST_HOLDINGS: Final = 5
"""Times that a write takes the lock of Hudi: a release by Hudi may delete the lock file of the next holder."""


class LeasedWrite:
    """A prepared write while this process has the lease.

    Args:
        begun: the write, as it began.
        lease: of the table.
        promoted: gets the path of each file that the write brings into the table.
    """

    def __init__(self, begun: BegunWrite, lease: Held, promoted: list[str]) -> None:
        self._begun = begun
        self._lease = lease
        self._promoted = promoted

    def publish(self, prepared: PreparedWrite) -> PublishedWrite:
        """Publish a write without the file groups that lost a conflict, where it may give way.

        Raises:
            ConflictError: another writer got there first.
            RepeatedValueError: a second record would have a value of a column with a unique index.
            IndexNotReadyError: a unique index cannot tell.
            RepeatedTransactionError, TransactionMismatchError: another writer committed the caller's transaction.
            LeaseLostError: another process took the lease over.
            UndecidedCommitError: nobody knows yet whether the write is published.
        """
        try:
            self._begun.on_step(Step.LEASED)
            return self._published(prepared)
        except FileNotFoundError:
            # Files are missing. A successor in the lease may have removed them.
            self._lease.require_held()
            raise

    def _published(self, prepared: PreparedWrite) -> PublishedWrite:
        ready = self._ready_before_lock(prepared)
        if ready is not None:
            ready.promote_before_lock()
        for _ in range(_MOST_HOLDINGS):
            with self._lease.locked(is_tentative=True) as lock, self._passing_over_its_loss(lock):
                ready = self._ready_under_lock(prepared, ready)
                ready.publish(lock)
                return PublishedWrite(self._begun, ready.table, ready.accepted)
        raise LeaseLostError(
            f"others took Hudi's lock each time that this writer had it: table={self._begun.table.location}",
            remedy="this writer is paused for too long, or its machine too busy: write again",
        )

    @contextmanager
    def _passing_over_its_loss(self, lock: HudiLock) -> Iterator[None]:
        """Run a block that publishes the write. If the block fails because the lock was lost, retract the draft, and go on."""
        try:
            yield
        except LeaseLostError:
            if _is_held(lock):
                raise
            self._begun.announced.retracted()

    def _ready_before_lock(self, prepared: PreparedWrite) -> ReadyWrite | None:
        """The write as ``_ready``; None if the state of the table may be one that a writer of Hudi is about to change."""
        try:
            return self._ready(prepared, prepared.files)
        except (CorruptTableError, InstantNotFoundError, FileNotFoundError):
            # Under its lock, Hudi creates the files of instants before it writes them, archives instants, and cleans.
            if not is_lock_named(self._begun.table.properties.raw):
                raise
            return None

    def _ready_under_lock(self, prepared: PreparedWrite, checked: ReadyWrite | None) -> ReadyWrite:
        """The write as ``_ready``, checked again if another engine has changed the table since."""
        ready = None if checked is None else checked.unless_overtaken()
        if ready is None:
            _require_repeatable(checked)
            # No commit follows until the lock is released.
            ready = self._ready(prepared, prepared.files if checked is None else checked.files)
        return ready

    def _ready(self, prepared: PreparedWrite, listed: Sequence[str]) -> ReadyWrite:
        """The write after its check, with all files made; the manifest lists ``listed`` so far."""
        table = self._begun.table
        # Taken first: a writer of Hudi may roll this write back at any moment, and a later rollback changes the stamp.
        stamp = TableStamp.of(table, self._begun.instant) if is_lock_named(table.properties.raw) else None
        # From here on, of writers of rli only a process that takes the lease over can roll this write back.
        self._begun.announced.require_not_undone()
        return self._checked(prepared, listed).made_ready(stamp)

    def _checked(self, prepared: PreparedWrite, listed: Sequence[str]) -> CheckedWrite:
        """The write on top of all commits before it; raises ``ConflictError`` if one of them is in its way."""
        begun = self._begun
        table = _still_writable(begun.table)
        # This sync registers every published commit before this one (P2), and the conflict check then sees the
        # entries of all of them (P5). No other commit follows until the lease is released.
        now = begun.index.sync(table, SyncOptions(begun.tasks))
        # Behind the sync, and before any file is promoted: the record of an earlier publication lies in the table
        # by now, and this timeline shows its commit (P26).
        require_first(table.storage, now.timeline, begun.caller)
        _require_pending(begun.instant, now.timeline)
        accepted = prepared.giving_way(begun.snapshot, now.snapshot)
        change = self._change(accepted, table)
        planned = PlannedCommit(begun.instant, begun.state, change, accepted.journals, accepted.schema, accepted.read)
        planned.require_no_conflict(now, begun.tasks)
        planned.require_no_planned_rewrite(now.snapshot)
        planned.require_same_deletes(now.snapshot, partial(begun.deleted_keys_of, now.snapshot))
        schema = accepted.schema if len(accepted.schema) else now.snapshot.schema or accepted.schema
        written = UnpublishedWrite(now.snapshot, begun.instant, change, schema, accepted.changed_values)
        require_unique(begun.index, written, lambda keys: now.locator().locate_all(keys))
        return CheckedWrite(begun, self._lease, table, now, accepted, change, listed, self._promoted)

    def _change(self, accepted: PreparedWrite, table: TableDefinition) -> TableChange:
        """What the write changes in the table, still without the sums of the slices after it."""
        begun, schema = self._begun, accepted.schema
        effort = WriteEffort(begun.clock.attempts, begun.clock.conflicts, begun.clock.seconds)
        return TableChange.native(
            accepted.stats,
            accepted.replaced,
            # A table that was never written has no schema yet.
            avro_schema=to_avro(schema, table.properties.name) if len(schema) else None,
            operation=accepted.operation,
            extra=begun.caller.extra,
            facts=CommitFacts.of_write(accepted.counts, effort, begun.instant, table.now()),
            deleted_keys=accepted.deleted_keys,
        )


def _require_repeatable(checked: ReadyWrite | None) -> None:
    """Raise ``ConflictError`` if files have come into the table that another check would make anew."""
    if checked is not None and not checked.may_be_checked_again:
        raise ConflictError(
            f"another engine took Hudi's lock from this write, and changed the table: table={checked.table.location}",
            remedy="write again",
        )


def _is_held(lock: HudiLock) -> bool:
    try:
        lock.require_held()
    except LeaseLostError:
        return False
    return True


def _require_pending(instant: str, timeline: Timeline) -> None:
    """Pass an instant that nobody has completed: Hudi may have carried out the compaction that this process took up."""
    if instant in timeline.write_times:
        raise ConflictError(
            f"another engine has carried out the same compaction: instant={instant}", remedy="nothing is left to do"
        )


def _still_writable(began_with: TableDefinition) -> TableDefinition:
    table = began_with.reloaded()
    require_writable(table.properties)
    if table.properties.version != began_with.properties.version:
        raise ConflictError(
            f"another engine changed the version of the table during this write: table={table.location} "
            f"before={began_with.properties.version} now={table.properties.version}",
            remedy="write again",
        )
    if table.properties.table_type != began_with.properties.table_type:
        raise ConflictError(
            f"the type of the table was changed during this write: table={table.location} "
            f"before={began_with.properties.table_type} now={table.properties.table_type}",
            remedy="write again",
        )
    if is_lock_named(table.properties.raw) and not is_lock_named(began_with.properties.raw):
        raise ConflictError(
            f"the table was given a lock that it shares with writers of Hudi during this write: table={table.location}",
            remedy="write again",
        )
    if _needs_record_index(began_with) and PartitionKind.RECORD_INDEX not in table.properties.metadata_partitions:
        raise ConflictError(
            f"the record index was removed from the metadata table during this write: table={table.location}",
            remedy="write again",
        )
    return table


def _needs_record_index(table: TableDefinition) -> bool:
    """Whether a write may have put new records into log files because a record index tells writers of Hudi of them."""
    return table.require_settings().log_inserts and PartitionKind.RECORD_INDEX in table.properties.metadata_partitions
