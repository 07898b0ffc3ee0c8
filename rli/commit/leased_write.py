"""A write that has the table's lease: it is checked against what others committed, and published in one atomic step.

The order of the steps is decided here. Whether others are in its way is decided by ``rli.commit.conflicts``, whether
a paused writer may still publish by ``rli.publication.fence``, and what becomes of the files of a failed write by
``rli.commit.recovery``.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import partial

from rli.commit.begun_write import BegunWrite
from rli.commit.conflicts import PlannedCommit, ReadSet, require_no_conflict, require_same_deletes
from rli.commit.prepared_write import PreparedWrite
from rli.commit.published_write import PublishedWrite
from rli.commit.write_ahead import write_ahead
from rli.coordination.contract import Held
from rli.errors import ConflictError, UndecidedCommitError
from rli.hudi.avro_schema import to_avro
from rli.hudi.table_features import require_writable
from rli.index.contract import FileIndex, IndexState, SyncOptions
from rli.index.placing import Resizing
from rli.model import FileGroupId, Step
from rli.publication.fence import Fence, NeededFiles, PreparedCommit
from rli.view import paths
from rli.view.caller_transactions import delete_superseded, require_first, save_record
from rli.view.commit_facts import CommitFacts
from rli.view.definition import TableDefinition
from rli.view.file_slices import PARTITION_METADATA, write_partition_metadata
from rli.view.lost_files import require_files, sums_after
from rli.view.slice_sums import SliceSums
from rli.view.snapshot import Snapshot
from rli.view.table_change import TableChange


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
            RepeatedTransactionError, TransactionMismatchError: another writer committed the caller's transaction.
            LeaseLostError: another process took the lease over.
            UndecidedCommitError: nobody knows yet whether the write is published.
        """
        begun = self._begun
        with self._naming_the_loss():
            begun.on_step(Step.LEASED)
            # From here on, only a process that takes the lease over can roll this write back.
            begun.announced.require_not_undone()
            table = _still_writable(begun.table)
            # This sync registers every published commit before this one (P2), and the conflict check then sees the
            # entries of all of them (P5). No other commit follows until the lease is released.
            now = begun.index.sync(table, SyncOptions(begun.tasks))
            # Behind the sync, and before any file is promoted: the record of an earlier publication lies in the table
            # by now, and this timeline shows its commit (P26).
            require_first(table.storage, now.timeline, begun.caller)
            accepted = prepared.giving_way(begun.snapshot, now.snapshot)
            change = self._change(accepted, table)
            self._require_no_conflict(accepted, change, now)
            change = change.with_slice_sums(self._sums_after(change, now, accepted.read))
            records = [*self._transaction_records(now, accepted), *self._files_of_index(accepted.resizing, change, now)]
            files = [*change.files, *records]
            if files != prepared.files:
                # The manifest must list each promoted file before the first promotion: recovery finds them by the
                # manifest alone (P9).
                write_ahead(begun, files, accepted.journals, is_synced=accepted.is_synced)
            # Promoted before the draft is written: the draft is then flushed in one pass with the new names of the
            # promoted files (P17), and nothing slow lies between the check of the lease and the publication.
            self._promote(change.partition_paths, files)
            self._complete(self._prepared(table, change), now)
        return PublishedWrite(begun, table, accepted)

    def _change(self, accepted: PreparedWrite, table: TableDefinition) -> TableChange:
        """What the write changes in the table, still without the sums of the slices after it."""
        begun, schema = self._begun, accepted.schema
        return TableChange.native(
            accepted.stats,
            accepted.replaced,
            # A table that was never written has no schema yet.
            avro_schema=to_avro(schema, table.properties.name) if len(schema) else None,
            operation=accepted.operation,
            extra=begun.caller.extra,
            facts=CommitFacts.of_write(accepted.counts, begun.instant, table.now()),
            deleted_keys=accepted.deleted_keys,
        )

    def _require_no_conflict(self, accepted: PreparedWrite, change: TableChange, now: IndexState) -> None:
        """Raise ``ConflictError`` if what others committed since the write began keeps it from being published."""
        begun, current, read = self._begun, now.snapshot, accepted.read
        changes = now.changes_since(begun.state)
        if changes is not None:
            planned = PlannedCommit(begun.instant, begun.state, change, accepted.journals, accepted.schema, read)
            require_no_conflict(planned, changes, current, begun.tasks)
        require_same_deletes(read, begun.snapshot, current, partial(begun.deleted_keys_of, current))

    def _sums_after(self, change: TableChange, now: IndexState, read: ReadSet) -> SliceSums:
        """The sums of all live slices after the write; raises ``CorruptTableError`` if a file is lost that it builds on."""
        begun = self._begun
        # If nobody else has written, the files that this write has merged are those of the last commit.
        is_last = now.timeline.latest_write == begun.snapshot.timeline.latest_write
        checked = begun.snapshot if is_last else now.snapshot
        require_files_read(begun, read.groups - change.groups, checked)
        return sums_after(checked, now.timeline, begun.instant, change)

    def _transaction_records(self, now: IndexState, accepted: PreparedWrite) -> list[str]:
        """The record of the caller's transaction, which lies among the unpublished files, if there is one (P26)."""
        begun = self._begun
        if begun.caller.transaction is not None:
            transaction, require_held = begun.caller.transaction, self._lease.require_held
            delete_superseded(begun.table.storage, now.timeline, transaction, require_held)
        return save_record(begun.table.storage, begun.instant, begun.caller, accepted.result(begun.instant))

    def _files_of_index(self, resizing: Resizing | None, change: TableChange, now: IndexState) -> list[str]:
        """What the index keeps of a clustering in files of the table, which lie among the unpublished files (P39)."""
        if resizing is None:
            return []
        begun = self._begun
        files = resizing.files(begun.instant, now.snapshot, change.replaced)
        for path, content in files.items():
            begun.table.storage.write_bytes(paths.unpublished_file(begun.instant, path), content)
        return list(files)

    def _promote(self, partition_paths: Iterable[str], files: Iterable[str]) -> None:
        """Move the files of the write to where readers will look, once the instant has completed."""
        begun, storage = self._begun, self._begun.table.storage
        write_partition_metadata(storage, partition_paths, begun.instant)
        for path in files:
            # Noted before the move. A failure of the move leaves open whether the file has arrived; the clean-up then
            # removes it in both cases, and a missing file is no error there.
            self._promoted.append(path)
            storage.move(paths.unpublished_file(begun.instant, path), path)
            begun.on_step(Step.FILE_PROMOTED)
        begun.on_step(Step.PROMOTED)

    def _prepared(self, table: TableDefinition, change: TableChange) -> PreparedCommit:
        """The content of the commit, on the disk together with all that it refers to."""
        # The folders of promoted files are flushed, not the files: a move keeps the content, and that was flushed
        # before the lease was asked for (P17).
        marks = (f"{path}/{PARTITION_METADATA}".lstrip("/") for path in change.partition_paths)
        needed = NeededFiles([*marks], [*map(posixpath.dirname, self._promoted)])
        # The fence writes the draft first and checks the lease second. This order is the heart of P4: if the check
        # succeeds, a later successor finds the draft, and settles it.
        return Fence(table, self._lease.require_held).prepare_commit(self._begun.announced.on_timeline, change, needed)

    def _complete(self, commit: PreparedCommit, now: IndexState) -> None:
        """Publish the commit, or find out who has decided about it."""
        try:
            # Fails once a successor in the lease has retracted the draft. Where the name is taken, an earlier answer
            # was lost: no other write has this instant.
            commit.publish(now.timeline)
        except FileNotFoundError:
            # A successor has retracted the draft, so the outcome is certain, and nothing needs to be settled.
            raise
        except Exception as error:
            # A failed request may have taken effect. To repeat it is wrong here: a successor may have undone the commit
            # meanwhile, and the name would be free again.
            if not self._was_published_nevertheless(error):
                raise
        except BaseException:
            self._leave_if_decided()
            raise

    def _leave_if_decided(self) -> None:
        """Leave the lease to a successor if it is decided, or not known, that the write will be published (P22)."""
        is_retracted = False
        try:
            # An interrupted writer only tries to retract; it does not finish a decided publication. Its successor does,
            # because the lease lapses instead of being released (P22, 2).
            is_retracted = self._begun.announced.retracted()
        finally:
            if not is_retracted:
                # A released lease would let the next writer build on a table without this commit, which may still
                # appear.
                self._lease.leave_to_successor()

    def _was_published_nevertheless(self, error: Exception) -> bool:
        """Whether a publication stands that failed by its answer; False if nobody can publish the draft any more (P22).

        Raises:
            UndecidedCommitError: neither can be told. The lease is left to a successor, which settles it.
        """
        announced = self._begun.announced
        try:
            announced.settle()
            return announced.is_published()
        except BaseException as unsettled:
            self._lease.leave_to_successor()
            if not isinstance(unsettled, Exception):
                raise
            raise UndecidedCommitError(
                f"the storage failed while a commit was published, and it is not known whether the commit stands: "
                f"table={announced.table.location} instant={announced.time}",
                remedy="look for the instant in `rli timeline TABLE` once the storage answers; a write with transaction= "
                "may just be repeated",
            ) from error

    @contextmanager
    def _naming_the_loss(self) -> Iterator[None]:
        """Raise ``LeaseLostError`` where files are missing because a successor in the lease has removed them."""
        try:
            yield
        except FileNotFoundError:
            self._lease.require_held()
            raise


def require_files_read(begun: BegunWrite, groups: Collection[FileGroupId], checked: Snapshot) -> None:
    """Raise ``CorruptTableError`` if a file is lost that a write should have read.

    Args:
        begun: the write, as it began.
        groups: the file groups that it has read and does not write.
        checked: the state that shows the file groups.
    """
    require_files(checked, groups)
    if isinstance(begun.index, FileIndex):
        # A lost file may have held the keys that were found nowhere.
        require_files(begun.snapshot, partition_paths=begun.snapshot.slices.listed)


def _still_writable(began_with: TableDefinition) -> TableDefinition:
    table = began_with.reloaded()
    require_writable(table.properties)
    if table.properties.version != began_with.properties.version:
        raise ConflictError(
            f"another engine changed the version of the table during this write: table={table.location} "
            f"before={began_with.properties.version} now={table.properties.version}",
            remedy="write again",
        )
    return table
