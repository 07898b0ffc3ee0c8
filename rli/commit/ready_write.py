"""A checked write whose files are made: they come into the table, and one atomic step publishes it.

Under the lock of Hudi's writers if there is one. Others wait for the lock, so everything that needs the lease alone is done before.
Whether a paused writer may still publish is decided by ``rli.publication.fence``, and what becomes of the files of a failed write by
``rli.commit.recovery``.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from rli.commit.begun_write import BegunWrite
from rli.commit.prepared_write import PreparedWrite
from rli.coordination.contract import Held, HudiLock
from rli.errors import LeaseLostError, UndecidedCommitError
from rli.hudi.timeline.commit_metadata import CLUSTER, COMPACT
from rli.hudi.timeline.timeline import Timeline
from rli.metadata_table.upkeep import Upkept
from rli.model import Step
from rli.publication.fence import Fence, NeededFiles, PreparedCommit
from rli.publication.markers import needs_markers, write_markers
from rli.view import paths
from rli.view.definition import TableDefinition
from rli.view.file_slices import PARTITION_METADATA, write_partition_metadata
from rli.view.table_change import TableChange
from rli.view.table_stamp import TableStamp


@dataclass(frozen=True, slots=True)
class ReadyWrite:
    """A write whose files lie among the unpublished ones.

    Attributes:
        begun: the write, as it began.
        lease: of the table.
        table: the definition, as it was at the check.
        timeline: as it was at the check, or later; the completion time comes after all of its times.
        accepted: the part of the engine's work that is published.
        change: what the write changes in the table.
        upkept: what becomes of the metadata table.
        files: that come into the table; the manifest lists them.
        promoted: gets the path of each file that the write brings into the table.
        stamp: of the table, from before the check; None if no other engine may change the table meanwhile.
    """

    begun: BegunWrite
    lease: Held
    table: TableDefinition
    timeline: Timeline
    accepted: PreparedWrite
    change: TableChange
    upkept: Upkept
    files: Sequence[str]
    promoted: list[str]
    stamp: TableStamp | None

    def unless_overtaken(self) -> Self | None:
        """The write, on top of instants that others have requested since; None if another engine has changed the table since the check."""
        if self.stamp is None:
            return self
        now = TableStamp.of(self.table, self.begun.instant)
        return replace(self, timeline=now.timeline) if now == self.stamp else None

    def publish(self, lock: HudiLock) -> None:
        """Bring the files into the table, and complete the instant; may be called again where the lock was lost before that.

        Args:
            lock: that this process holds.

        Raises:
            LeaseLostError: another process took the lease or the lock over; nothing is published.
            FileNotFoundError: a successor in the lease has removed files of the write, or retracted its draft.
            UndecidedCommitError: nobody knows yet whether the write is published.
        """
        # Promoted before the draft is written: the draft is then flushed in one pass with the new names of the
        # promoted files (P17), and nothing slow lies between the check of the lease and the publication.
        self._promote(self.files)
        self.begun.on_step(Step.PROMOTED)
        prepared = self._prepared()
        # The lock is asked last: whoever took it from this process finds no commit that comes later.
        if not lock.settle():
            raise LeaseLostError(
                f"another writer of the table removed Hudi's lock: table={self.table.location}", remedy="write again"
            )
        lock.require_held()
        self._complete(prepared)

    def promote_before_lock(self) -> None:
        """Bring the data files into the table already, where that takes long and allows another check under the lock."""
        if self.stamp is not None and self._may_promote_early:
            self._promote(self.change.files)

    @property
    def may_be_checked_again(self) -> bool:
        """Whether no file is in the table that another check would look for elsewhere, or make anew."""
        return not self.promoted or (self._may_promote_early and {*self.promoted} <= {*self.change.files})

    @property
    def _may_promote_early(self) -> bool:
        """Whether files are copied, so that a check finds them where they were, and whether checks pass over the copies.

        Names tell the instant, which is pending, but for log files of table version 6. A clustering may give files up at another check.
        A compaction may be another engine's, too: its rollback of this attempt, or its own commit, would meet the files.
        """
        tells_instant = self.table.properties.is_copy_on_write or self.table.timeline_layout.keeps_completion_times
        return not self.table.storage.is_local and tells_instant and self.change.operation not in {CLUSTER, COMPACT}

    def _promote(self, files: Sequence[str]) -> None:
        """Let files of the write be where readers will look, once the instant has completed."""
        begun, storage = self.begun, self.begun.table.storage
        promoted = {*self.promoted}
        if not promoted:
            write_partition_metadata(storage, self.change.partition_paths, begun.instant)
            if needs_markers(self.table):
                write_markers(self.table, begun.instant, self.change.stats)
        for path in [path for path in files if path not in promoted]:
            # Noted before the move. A failure of the move leaves open whether the file has arrived; the clean-up then
            # removes it in both cases, and a missing file is no error there.
            self.promoted.append(path)
            storage.promote(paths.unpublished_file(begun.instant, path), path)
            begun.on_step(Step.FILE_PROMOTED)

    def _prepared(self) -> PreparedCommit:
        """The content of the commit, on the disk together with all that it refers to."""
        # The folders of promoted files are flushed, not the files: a move keeps the content, and that was flushed
        # before the lease was asked for (P17).
        marks = (f"{path}/{PARTITION_METADATA}".lstrip("/") for path in self.change.partition_paths)
        needed = NeededFiles([*marks], [*map(posixpath.dirname, self.promoted)])
        # The fence writes the draft first and checks the lease second. This order is the heart of P4: if the check
        # succeeds, a later successor finds the draft, and settles it.
        table = self.table if self.upkept.deltacommit is None else self.table.durable()
        return Fence(table, self.lease.require_held).prepare_commit(
            self.begun.announced.on_timeline, self.change, needed, self.upkept
        )

    def _complete(self, commit: PreparedCommit) -> None:
        """Publish the commit, or find out who has decided about it."""
        try:
            # Fails once a successor in the lease has retracted the draft. Where the name is taken, an earlier answer
            # was lost: no other write has this instant.
            commit.publish(self.timeline)
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
