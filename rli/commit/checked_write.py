"""A write without conflicts: its files come into the table, and one atomic step publishes it.

The order of the steps is decided here. Whether a paused writer may still publish is decided by ``rli.publication.fence``,
and what becomes of the files of a failed write by ``rli.commit.recovery``.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from rli.commit.begun_write import BegunWrite
from rli.commit.prepared_write import PreparedWrite
from rli.commit.published_write import PublishedWrite
from rli.commit.write_ahead import write_ahead
from rli.coordination.contract import Held
from rli.errors import UndecidedCommitError
from rli.index.contract import FileIndex, IndexState
from rli.metadata_table.upkeep import NOTHING_KEPT, Upkeep, Upkept
from rli.model import FileGroupId, Step
from rli.publication.fence import Fence, NeededFiles, PreparedCommit
from rli.publication.markers import write_markers
from rli.view import paths
from rli.view.caller_transactions import delete_superseded, save_record
from rli.view.definition import TableDefinition
from rli.view.file_slices import PARTITION_METADATA, write_partition_metadata
from rli.view.lost_files import require_files, sums_after
from rli.view.snapshot import Snapshot
from rli.view.table_change import TableChange


@dataclass(frozen=True, slots=True)
class CheckedWrite:
    """A write that may be published for as long as its process holds the lease: no other commit comes meanwhile.

    Attributes:
        begun: the write, as it began.
        lease: of the table.
        table: the definition, as it is now.
        now: the state of table and index that the write was checked against.
        accepted: the part of the engine's work that is published.
        change: what the write changes in the table, still without the sums of the slices after it.
        listed: the files in the manifest so far: those of the whole work of the engine.
        promoted: gets the path of each file that the write brings into the table.
    """

    begun: BegunWrite
    lease: Held
    table: TableDefinition
    now: IndexState
    accepted: PreparedWrite
    change: TableChange
    listed: Sequence[str]
    promoted: list[str]

    def publish(self) -> PublishedWrite:
        """Bring the files of the write into the table, and complete its instant.

        Raises:
            CorruptTableError: a file is lost that the write builds on; nothing was promoted.
            LeaseLostError: another process took the lease over.
            FileNotFoundError: a successor in the lease has removed files of the write, or retracted its draft.
            UndecidedCommitError: nobody knows yet whether the write is published.
        """
        change = self._change_with_sums()
        upkept = self._upkept()
        of_metadata = self._files_of_deltacommit(upkept)
        files = [*self.change.files, *self._transaction_records(), *self._files_of_index(), *of_metadata]
        if files != self.listed:
            # The manifest must list each promoted file before the first promotion: recovery finds them by the
            # manifest alone (P9). Where file groups have given way, their journals leave the list of journals here.
            self._write_ahead(files, lasts=bool(of_metadata))
        # Promoted before the draft is written: the draft is then flushed in one pass with the new names of the
        # promoted files (P17), and nothing slow lies between the check of the lease and the publication.
        self._promote(files)
        self._complete(self._prepared(change.dropping(upkept.partitions.dropped), upkept))
        return PublishedWrite(self.begun, self.table, self.accepted)

    def _change_with_sums(self) -> TableChange:
        """The change with the sums of all live slices after it; raises ``CorruptTableError`` if a file is lost that it builds on."""
        begun, now, change = self.begun, self.now, self.change
        require_files_read(begun, self.accepted.read.groups - change.groups, self._checked)
        return change.with_slice_sums(sums_after(self._checked, now.timeline, begun.instant, change))

    @property
    def _checked(self) -> Snapshot:
        """The state before the write, with what is listed of it already."""
        # If nobody else has written, the files that this write has merged are those of the last commit. An archive that came
        # meanwhile leaves them the same, but may have taken commits away that are read here.
        begun, now = self.begun.snapshot, self.now.snapshot
        return begun if now.timeline.completed_writes == begun.timeline.completed_writes else now

    def _transaction_records(self) -> list[str]:
        """The record of the caller's transaction, which lies among the unpublished files, if there is one (P26)."""
        begun = self.begun
        if begun.caller.transaction is not None:
            transaction, require_held = begun.caller.transaction, self.lease.require_held
            delete_superseded(begun.table.storage, self.now.timeline, transaction, require_held)
        return save_record(begun.table.storage, begun.instant, begun.caller, self.accepted.result(begun.instant))

    def _files_of_index(self) -> list[str]:
        """What the index keeps of replaced file groups in files of the table, which lie among the unpublished files (P39)."""
        begun, regrouped = self.begun, self.accepted.regrouped
        if regrouped is None:
            return []
        files = regrouped.files(begun.instant, self.now.snapshot, self.change.replaced)
        for path, content in files.items():
            begun.table.storage.write_bytes(paths.unpublished_file(begun.instant, path), content)
        return list(files)

    def _upkept(self) -> Upkept:
        """What becomes of the metadata table; raises ``CorruptTableError`` if it is damaged."""
        # As the lists of its partitions are under the lease: others build and drop partitions.
        if not self.table.properties.metadata_partitions:
            return NOTHING_KEPT
        upkeep = Upkeep(self.now.snapshot, self.begun.index.scope, self.accepted.schema, self._checked.slices)
        return upkeep.of_write(self.begun.instant, self.change, self.accepted.journals)

    def _files_of_deltacommit(self, upkept: Upkept) -> list[str]:
        """The files of the metadata table, which lie among the unpublished files (P52)."""
        if upkept.deltacommit is None:
            return []
        storage, files = self.begun.table.storage.unflushed(), upkept.deltacommit.files
        for path, content in files.items():
            storage.write_bytes(paths.unpublished_file(self.begun.instant, path), content)
        # A writer that was displaced makes them anew: where no base files come before them, nothing else would stop it from
        # bringing them into the metadata table.
        self.lease.require_held()
        return [*files]

    def _write_ahead(self, files: Sequence[str], *, lasts: bool) -> None:
        """Bring to the disk what the commit will refer to; if it lasts, whatever the table's settings say."""
        # A deltacommit that survives a power cut without its commit counts, unless the timeline shows the instant as pending.
        storage = self.begun.table.storage
        flushed = storage.flushed() if lasts else storage
        is_flushed = self.accepted.is_flushed and not lasts
        write_ahead(self.begun, flushed, files, self.accepted.journals, is_flushed=is_flushed)

    def _promote(self, files: Iterable[str]) -> None:
        """Move the files of the write to where readers will look, once the instant has completed."""
        begun, storage = self.begun, self.begun.table.storage
        write_partition_metadata(storage, self.change.partition_paths, begun.instant)
        if not self.table.properties.is_copy_on_write:
            write_markers(self.table, begun.instant, self.change.stats)
        for path in files:
            # Noted before the move. A failure of the move leaves open whether the file has arrived; the clean-up then
            # removes it in both cases, and a missing file is no error there.
            self.promoted.append(path)
            storage.move(paths.unpublished_file(begun.instant, path), path)
            begun.on_step(Step.FILE_PROMOTED)
        begun.on_step(Step.PROMOTED)

    def _prepared(self, change: TableChange, upkept: Upkept) -> PreparedCommit:
        """The content of the commit, on the disk together with all that it refers to."""
        # The folders of promoted files are flushed, not the files: a move keeps the content, and that was flushed
        # before the lease was asked for (P17).
        marks = (f"{path}/{PARTITION_METADATA}".lstrip("/") for path in change.partition_paths)
        needed = NeededFiles([*marks], [*map(posixpath.dirname, self.promoted)])
        # The fence writes the draft first and checks the lease second. This order is the heart of P4: if the check
        # succeeds, a later successor finds the draft, and settles it.
        table = self.table if upkept.deltacommit is None else self.table.durable()
        return Fence(table, self.lease.require_held).prepare_commit(
            self.begun.announced.on_timeline, change, needed, upkept
        )

    def _complete(self, commit: PreparedCommit) -> None:
        """Publish the commit, or find out who has decided about it."""
        try:
            # Fails once a successor in the lease has retracted the draft. Where the name is taken, an earlier answer
            # was lost: no other write has this instant.
            commit.publish(self.now.timeline)
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
            is_retracted = self.begun.announced.retracted()
        finally:
            if not is_retracted:
                # A released lease would let the next writer build on a table without this commit, which may still
                # appear.
                self.lease.leave_to_successor()

    def _was_published_nevertheless(self, error: Exception) -> bool:
        """Whether a publication stands that failed by its answer; False if nobody can publish the draft any more (P22).

        Raises:
            UndecidedCommitError: neither can be told. The lease is left to a successor, which settles it.
        """
        announced = self.begun.announced
        try:
            announced.settle()
            return announced.is_published()
        except BaseException as unsettled:
            self.lease.leave_to_successor()
            if not isinstance(unsettled, Exception):
                raise
            raise UndecidedCommitError(
                f"the storage failed while a commit was published, and it is not known whether the commit stands: "
                f"table={announced.table.location} instant={announced.time}",
                remedy="look for the instant in `rli timeline TABLE` once the storage answers; a write with transaction= "
                "may just be repeated",
            ) from error


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
