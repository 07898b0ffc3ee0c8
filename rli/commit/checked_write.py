"""A write without conflicts: all files are made that it brings into the table."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from rli.commit.begun_write import BegunWrite
from rli.commit.prepared_write import PreparedWrite
from rli.commit.ready_write import ReadyWrite
from rli.commit.write_ahead import write_ahead
from rli.coordination.contract import Held
from rli.index.contract import FileIndex, IndexState
from rli.metadata_table.announced_partitions import require_none_announced
from rli.metadata_table.upkeep import NOTHING_KEPT, Upkeep, Upkept
from rli.model import FileGroupId
from rli.view import paths
from rli.view.caller_transactions import delete_superseded, save_record
from rli.view.definition import TableDefinition
from rli.view.lost_files import require_files, sums_after
from rli.view.snapshot import Snapshot
from rli.view.table_change import TableChange
from rli.view.table_stamp import TableStamp


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
        listed: the files in the manifest so far.
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

    def made_ready(self, stamp: TableStamp | None) -> ReadyWrite:
        """Make all files that the write brings into the table, among the unpublished ones; needs no lock of Hudi.

        Args:
            stamp: of the table, from before the check; None if no other engine may change the table meanwhile.

        Raises:
            CorruptTableError: a file is lost that the write builds on.
            LeaseLostError: another process took the lease over.
            FileNotFoundError: a successor in the lease has removed files of the write.
        """
        change = self._change_with_sums()
        upkept = self._upkept()
        of_metadata = self._files_of_deltacommit(upkept)
        files = [*self.change.files, *self._transaction_records(), *self._files_of_index(), *of_metadata]
        if files != self.listed or of_metadata:
            # The manifest must list each promoted file before the first promotion: recovery finds them by the
            # manifest alone (P9). Where file groups have given way, their journals leave the list of journals here. The files of
            # the metadata table are new each time, and not yet on the disk.
            self._write_ahead(files, lasts=bool(of_metadata))
        change = change.dropping(upkept.partitions.dropped)
        begun, lease, now = self.begun, self.lease, self.now
        return ReadyWrite(
            begun, lease, self.table, now.timeline, self.accepted, change, upkept, files, self.promoted, stamp
        )

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
        """What becomes of the metadata table; raises ``CorruptTableError`` if it is damaged, and as ``require_none_announced``."""
        # As the lists of its partitions are under the lease: others build and drop partitions.
        if not self.table.properties.metadata_partitions:
            return NOTHING_KEPT
        require_none_announced(self.now.snapshot)
        upkeep = Upkeep(self.now.snapshot, self.begun.index.scope, self.accepted.schema, self._checked.slices)
        return upkeep.of_write(self.begun.instant, self.change, self.accepted.journals, self.accepted.changed_by_group)

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
