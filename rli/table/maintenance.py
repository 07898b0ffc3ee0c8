"""What keeps a table small and fast: cluster, clean, archive, and the settings by which writers do it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rli.errors import InvalidInputError
from rli.model import CommitResult, Step, TableType
from rli.services.archive import ArchiveResult, archive, foretold_archive
from rli.services.clean import CleanResult, clean, foretold_clean
from rli.services.compaction import (
    CompactionResult,
    ScheduledCompaction,
    compaction_choice,
    foretold_schedule,
    schedule_compaction,
)
from rli.services.purge import purge_index
from rli.services.table_type import change_table_type
from rli.settings import Maintenance
from rli.table.log_inserts import change_log_inserts
from rli.table.opened import OpenTable
from rli.table.options import parse_table_type, parse_tombstones
from rli.table.patience import patience
from rli.table.setting_changes import change_lock, change_settings
from rli.tasks import InProcess, InThreads, TaskRunner
from rli.write.engine.local import LocalEngine
from rli.write.operations.deduplicate import Deduplicated, deduplicate
from rli.write.options import WriteOptions, pass_over
from rli.write.rewrites.clustering import ClusteringChoice, cluster
from rli.write.rewrites.compaction import Compactions, foretold_compactions


class TableMaintenance:
    """``table.maintenance``: cluster, clean and archive now, or say how often writers do."""

    def __init__(self, opened: OpenTable) -> None:
        self._opened = opened

    def cluster(
        self,
        *,
        smaller_than: int | None = None,
        sort_by: Sequence[str] = (),
        tasks: TaskRunner | None = None,
        attempts: int | None = None,
        on_step: Callable[[Step], None] = pass_over,
        timeout: float | None = None,
    ) -> CommitResult:
        """Rewrite the small base files of each partition into fewer, of about the table's ``target_file_size``.

        With the index ``consistent-bucket:``, buckets that are too large are split, and small neighbours are merged. With
        ``bucket:`` it is refused, because the number of buckets is fixed.

        No record changes: each keeps its version, and look-ups report the instant that they did before. So it takes no
        transaction: a clustering that is repeated does no harm, and finds nothing more to do. File groups
        that another writer changes meanwhile are left as they are.

        With ``sort_by``, all base files of a partition are rewritten, so that each holds a narrow range of some values: filters on them
        then pass over more files. Records that are sorted so already are left as they are.

        Args:
            smaller_than: bytes from which on a base file is left alone; by default half of ``target_file_size``, and with ``sort_by``
                none is.
            sort_by: columns, or expressions over columns such as ``hour(ts)``, the first of which counts first.
            tasks: runs the work on each new base file; in this process by default.
            attempts: as for ``Table.upsert``; another attempt is made where other writers have changed every file group.
            on_step: as for ``Table.upsert``.
            timeout: as for ``clean``.

        Returns:
            What was committed: ``files_replaced`` base files have become ``files_created``.

        Raises:
            InvalidInputError: ``smaller_than`` is less than 1, ``sort_by`` is a string, or one of its expressions is not understood or
                cannot be computed.
            SettingsError: with ``sort_by``: the index computes the file group of each record.
            RliError: otherwise as for ``Table.upsert``.
        """
        if isinstance(sort_by, str):
            raise InvalidInputError(f"sort_by is no list: sort_by={sort_by!r}", remedy=f"write [{sort_by!r}]")
        if smaller_than is not None and smaller_than < 1:
            raise InvalidInputError(
                f"smaller_than must be at least 1: smaller_than={smaller_than}", remedy="give bytes"
            )
        seconds = patience(timeout)
        return self._opened.write_with(
            lambda definition, index: cluster(
                definition,
                index,
                ClusteringChoice(smaller_than, tuple(sort_by)),
                tasks=tasks or InProcess(),
                attempts=WriteOptions(attempts).attempts_of(definition),
                on_step=on_step,
                patience=seconds,
            )
        )

    def deduplicate(
        self,
        *,
        attempts: int | None = None,
        on_step: Callable[[Step], None] = pass_over,
        timeout: float | None = None,
        dry_run: bool = False,
    ) -> Deduplicated:
        """Remove surplus records of keys that stand in the table more than once; one record of each key stays.

        No write of rli makes such records. Two inserts of one key at the same moment do, if the second one to commit is a writer of
        Hudi: its check of conflicts compares file groups, not keys. The record with the greatest ordering value stays, of equal ones
        the record of the latest commit. All key columns are read; memory grows with the repeated keys.

        With the index ``bucket:``, two writers may also make two file groups of one bucket. They become one new file group: memory grows
        with the records of the largest of such buckets.

        Args:
            attempts: as for ``Table.upsert``.
            on_step: as for ``Table.upsert``.
            timeout: as for ``clean``.
            dry_run: only tell what would be removed.

        Example:
            >>> table.maintenance.deduplicate(dry_run=True).keys
            0

        Raises:
            SettingsError: a key is repeated in a table with the index ``consistent-bucket:``, which no two writers at the same moment do.
            RliError: otherwise as for ``Table.upsert``.
        """
        options = WriteOptions(attempts, on_step=on_step, dry_run=dry_run, patience=patience(timeout))
        return self._opened.write_with(lambda definition, index: deduplicate(definition, index, LocalEngine(), options))

    def compact(
        self,
        *,
        least_share: float = 0.0,
        most_bytes: int | None = None,
        take_over: bool = False,
        tasks: TaskRunner | None = None,
        attempts: int | None = None,
        on_step: Callable[[Step], None] = pass_over,
        timeout: float | None = None,
        dry_run: bool = False,
    ) -> CompactionResult:
        """Merge the log files of a merge-on-read table into new base files, so that reads take less time.

        The compactions that are scheduled are carried out, whichever engine planned them. If none is scheduled, one is, with the
        file slices in which log files are largest beside the base file. No record changes, and none changes its place: the index has
        nothing to follow. Other writers, of rli and of Hudi, append to the same file groups meanwhile.

        Args:
            least_share: bytes of log files for each byte of a base file, below which a file slice is left alone.
            most_bytes: base files and log files that one compaction reads, but at least one file slice; None for no limit.
            take_over: also carry out a compaction that a process of Hudi has begun, and that has died since. While that process
                lives, both would write the same file groups.
            tasks: runs the work on each file group; in this process by default.
            attempts: as for ``Table.upsert``.
            on_step: as for ``Table.upsert``.
            timeout: as for ``clean``.
            dry_run: only tell what would be done now. Nothing is changed, and no lease is waited for.

        Example:
            >>> events = rli.create_table("events", record_key="id", ordering="ts", table_type="merge_on_read")
            >>> for ts in (1, 2):
            ...     _ = events.upsert(pa.table({"id": ["a"], "ts": [ts]}))  # the second goes to a log file
            >>> events.maintenance.compact().file_groups
            1

        Raises:
            InvalidInputError: ``least_share`` is negative, or ``most_bytes`` is less than 1.
            UnsupportedTableError: the table is copy-on-write, or has rules of merging that rli does not know.
            RliError: otherwise as for ``Table.upsert``.
        """
        choice, seconds = compaction_choice(least_share, most_bytes), patience(timeout)
        if dry_run:
            return foretold_compactions(self._opened.reloaded(), choice)
        return self._opened.write_with(
            lambda definition, index: Compactions(
                tasks=tasks or InThreads(),
                attempts=WriteOptions(attempts).attempts_of(definition),
                on_step=on_step,
                choice=choice,
                takes_over=take_over,
                patience=seconds,
            ).run(definition, index)
        )

    def schedule_compaction(
        self,
        *,
        least_share: float = 0.0,
        most_bytes: int | None = None,
        timeout: float | None = None,
        dry_run: bool = False,
    ) -> ScheduledCompaction:
        """Plan a compaction on the timeline, for ``compact`` of another process, or for Hudi, to carry out.

        Args:
            least_share: as for ``compact``.
            most_bytes: as for ``compact``.
            timeout: as for ``clean``.
            dry_run: only tell what would be planned now.

        Raises:
            InvalidInputError, UnsupportedTableError: as for ``compact``.
            IndexNotReadyError: the index was never bootstrapped, or cannot follow the timeline.
            LeaseLostError: another process took the lease over; nothing was scheduled.
        """
        choice = compaction_choice(least_share, most_bytes)
        if dry_run:
            return foretold_schedule(self._opened.reloaded(), choice)
        with self._opened.service("schedule of a compaction", patience(timeout)) as (_, fence):
            return schedule_compaction(fence, choice)

    def clean(self, keep_commits: int = 10, *, timeout: float | None = None, dry_run: bool = False) -> CleanResult:
        """Remove the base files that only readers of older commits need, and what rli kept to roll those back.

        Now and as of each of the last ``keep_commits`` commits, or of any savepoint, the table reads as before. A
        write that began earlier and is still at work keeps what it builds on. A clean that was interrupted is
        finished by the next one, also by Hudi's. In LMDB, Redis and memory, tombstones of older commits leave the index
        if one entry in five is a tombstone.

        Args:
            keep_commits: 1 or more.
            timeout: seconds; for how long to wait for the table's lease, whenever it is needed. None: until it is free.
            dry_run: only tell what would be removed now. Nothing is changed, and no lease is waited for.

        Example:
            >>> table.maintenance.clean(keep_commits=5).instant is None  # there is nothing to remove yet
            True

        Raises:
            InvalidInputError: ``keep_commits`` is less than 1.
            UnsupportedTableError: rli does not write such tables.
            IndexNotReadyError: the index was never bootstrapped, or cannot follow the timeline.
            LeaseLostError: this process was paused so long that another one took over, which finishes the clean if it
                was announced.
        """
        if dry_run:
            return foretold_clean(self._opened.reloaded(), keep_commits)
        with self._opened.service("clean", patience(timeout)) as (definition, fence):
            cleaned = clean(definition, keep_commits, fence)
            purge_index(definition, self._opened.index, keep_commits, fence)
            return cleaned

    def archive(self, keep_commits: int = 30, *, timeout: float | None = None, dry_run: bool = False) -> ArchiveResult:
        """Move old commits from the active timeline to Hudi's archive, so that reading the timeline stays cheap.

        Rows and index stay as they are. The table can no longer be read as of the commits that leave, nor go back to
        them. Savepoints, pending instants, and replaced files that are not cleaned yet keep all that is newer. An
        archive that was interrupted is finished by the next one.

        Args:
            keep_commits: how many commits stay at least, 1 or more; not fewer than cleans keep.
            timeout: as for ``clean``.
            dry_run: only tell what would be archived now. Nothing is changed, and no lease is waited for.

        Raises:
            InvalidInputError: ``keep_commits`` is less than 1.
            UnsupportedTableError: rli does not write such tables.
            IndexNotReadyError: the index was never bootstrapped, or cannot follow the timeline.
            LeaseLostError: this process was paused so long that another one took over, which finishes the archive if it had
                begun.
            ConflictError: another engine archived at the same time; nothing was archived.
        """
        if dry_run:
            return foretold_archive(self._opened.reloaded(), keep_commits)
        with self._opened.service("archive", patience(timeout)) as (definition, fence):
            return archive(definition, keep_commits, fence)

    def set(self, maintenance: Maintenance, *, timeout: float | None = None) -> None:
        """Change what writers do for the table after their commits; running ones follow at the next occasion.

        Args:
            maintenance: the new settings; ``Maintenance.off()`` for nothing.
            timeout: as for ``clean``.
        """
        change_settings(self._opened, "change of the maintenance", {"maintenance": maintenance}, patience(timeout))

    def set_tombstones(self, tombstones: str, *, timeout: float | None = None) -> None:
        """Change for how long deleted keys keep the ordering values of their deletes; what is kept already follows.

        Args:
            tombstones: as the option of ``create_table``: a length of time such as "30d", or "off".
            timeout: as for ``clean``.

        Raises:
            SettingsError: it is neither.
        """
        changes = {"tombstones": parse_tombstones(tombstones)}
        change_settings(self._opened, "change of the tombstones", changes, patience(timeout))

    def set_lock(self, lock: str, *, timeout: float | None = None) -> None:
        """Give the table another lock, which commits share with writers of Hudi. Do this while no writer of Hudi is at work.

        Writes of rli that are under way are repeated, or follow at their next attempt. A present lock that rli refuses is replaced
        without being taken.

        Args:
            lock: as the option of ``create_table``. Properties of the same provider stay, such as its expiry.
            timeout: as for ``clean``.

        Raises:
            SettingsError: there is no such choice, or a library is not installed; or new records of the table go to log files, and its
                metadata table has no record index.
            UnsupportedTableError: Hudi has no such lock for tables on this storage; or log files may hold new records, which writers of
                Hudi find by a record index in the metadata table alone: says what to do before.

        Example:
            >>> import rli
            >>> rli.open_table("trips").set_lock("filesystem")
        """
        change_lock(self._opened, lock, patience(timeout))

    def set_table_type(self, table_type: TableType | str, *, timeout: float | None = None) -> None:
        """Make the table merge-on-read or copy-on-write, beside readers and writers of rli. No file changes.

        A table becomes merge-on-read at once: the next updates append log files. Writes of rli under way are repeated. Writers of
        Hudi must be given the new type, and must not be at work meanwhile.

        A table becomes copy-on-write only without log files, and without deltacommits on its active timeline: readers of such
        tables know neither. ``compact()``, ``metadata.compact()`` and ``archive(keep_commits=1)`` remove both. The states
        before can no longer be read.

        Args:
            table_type: "merge_on_read" or "copy_on_write".
            timeout: as for ``clean``.

        Raises:
            SettingsError: there is no such type.
            UnsupportedTableError: the table cannot have the type, or cannot yet: says what to do before.

        Example:
            >>> import rli
            >>> rli.open_table("trips").set_table_type("merge_on_read")
        """
        wanted = parse_table_type(table_type)
        with self._opened.service("change of the table type", patience(timeout)) as (_, fence):
            change_table_type(fence, wanted)
        self._opened.reloaded()

    def set_log_inserts(self, log_inserts: bool, *, timeout: float | None = None) -> None:  # noqa: FBT001  (as ``set_lock``)
        """Let new records go to log files of small file groups, whose base files are rewritten otherwise; or not any more.

        Records that are in log files stay there until a compaction. Other processes stop with their next write; they begin once they
        open the table again.

        Args:
            log_inserts: as the option of ``create_table``.
            timeout: as for ``clean``.

        Raises:
            SettingsError: the table is copy-on-write, or has an index that finds keys in files; or shares a lock with writers of
                Hudi, and its metadata table has no record index.
            UnsupportedTableError: another engine wrote one of the last commits, and the metadata table has no record index.

        Example:
            >>> import rli
            >>> rli.open_table("trips").set_log_inserts(False)
        """
        change_log_inserts(self._opened, log_inserts=log_inserts, patience=patience(timeout))
