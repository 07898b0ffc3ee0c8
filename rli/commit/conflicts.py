"""Conflicts: may a write still commit, although others committed after the snapshot that it builds on?

It may if it would have done the same on top of them: nobody changed a file group that it read or wrote, nor a record
key that it looked up and found absent, nor the table's schema while columns were added. Nor may another engine have planned to
rewrite a file group that it writes.

Two states are compared here, and nothing else is decided. The caller holds the lease and has synced the index, so
that no commit is missing between the two. Whether a write in conflict is repeated is decided by
``rli.commit.retries``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from rli.errors import ConflictError
from rli.file_group.deleted_keys import DeletedKeys
from rli.file_group.journal import Journal
from rli.hudi.meta_columns import COMMIT_TIME, RECORD_KEY
from rli.hudi.metadata.partitions import PartitionKind
from rli.hudi.timeline.commit_metadata import COMPACT, WriteStat
from rli.index.contract import ChangedKeys, IndexState
from rli.index.reports import NO_KEYS, SomeKeys, sum_of
from rli.model import FileGroupId
from rli.storage import Storage
from rli.tasks import TaskRunner
from rli.view.diff import GroupChange, changed_groups, undone_writes
from rli.view.file_slice_reader import FileSliceReader
from rli.view.file_slices import FileSlice
from rli.view.merging.log_keys import keys_of_logs, log_keys
from rli.view.planned_rewrites import compacted_groups
from rli.view.snapshot import Snapshot
from rli.view.table_change import TableChange
from rli.view.written_slices import written_file

_SAMPLE: Final = 10


def no_keys(_: object) -> SomeKeys:
    """For writes that act on all that they look up."""
    return NO_KEYS


@dataclass(frozen=True, slots=True)
class ReadSet:
    """What a write has looked at, without which it might have done something else.

    Attributes:
        groups: the file groups that hold its keys: also those where every record came too late to change anything.
        changed_keys: finds the keys that it looked up, and did nothing about, among those that others changed.
        deleted_keys: finds its keys among those that others deleted with ordering values.
        known_deletes: the deleted keys that it compared its records with; None if it did not.
        partitions: the paths of partitions that it replaces as a whole: also file groups that are new there count as read.
            None for all partitions.
        requested_keys: finds its keys among some others; None if more than single keys decided about its work, as by a condition.
    """

    groups: frozenset[FileGroupId]
    changed_keys: Callable[[ChangedKeys], SomeKeys] = no_keys
    deleted_keys: Callable[[DeletedKeys], SomeKeys] = no_keys
    known_deletes: DeletedKeys | None = None
    partitions: frozenset[str] | None = frozenset()
    requested_keys: Callable[[pa.Array], SomeKeys] | None = None

    def groups_among(self, now: Snapshot) -> frozenset[FileGroupId]:
        """The file groups that it depends on, with those that are in its partitions by now (P51)."""
        if self.partitions is None:
            return self.groups | frozenset(now.slices)
        return self.groups | {file_slice.group for file_slice in now.slices.of_partitions(self.partitions)}


@dataclass(frozen=True, slots=True)
class PlannedCommit:
    """A write as it is about to be published.

    Attributes:
        instant: of the write.
        state: the state of table and index that it builds on.
        change: of the table; its data files lie in the work folder of the write.
        journals: its journals.
        schema: of the table from then on.
        read: what it depends on beside what it writes.
    """

    instant: str
    state: IndexState
    change: TableChange
    journals: Sequence[Journal]
    schema: pa.Schema
    read: ReadSet

    def require_no_conflict(self, now: IndexState, tasks: TaskRunner) -> None:
        """Check the write against what was committed since its snapshot. The caller holds the lease.

        Args:
            now: the state of table and index now.
            tasks: runs the look-ups of each journal.

        Raises:
            ConflictError: it may not be published.
        """
        changes = now.changes_since(self.state)
        if changes is None:
            return
        instants = changes.instants
        self._require_same_schema(now.snapshot, instants)
        self._require_same_groups(now.snapshot, instants)
        self._require_last_statistics(now.snapshot, instants)
        # What a clustering places was in the file groups that it replaces: those tell, unless a key has come again elsewhere.
        journals = [] if self.change.keeps_records and not changes.keys_expire else self.journals
        # The keys that a write places are among those that it looked up.
        taken = self.read.changed_keys(changes)
        # Most writes act on all keys that they look up. Their read set finds none, and the keys that they place decide.
        if not taken.count:
            taken = changes.placed_by(journals, tasks)
        if taken.count:
            raise ConflictError(
                f"another commit inserted or changed record keys of this write: count={taken.count} "
                f"keys={list(taken.sample)} instants={list(instants)}",
                keys=taken.sample,
                key_count=taken.count,
                instants=instants,
                remedy="write again",
            )

    def require_no_planned_rewrite(self, current: Snapshot) -> None:
        """Check the write against pending clusterings and compactions of other engines (P57). The caller holds the lease.

        Args:
            current: the state of the table now.

        Raises:
            ConflictError: one of them is going to rewrite a file group of this write.
        """
        # A plan may become visible after the snapshot although its instant is older. The write has not looked for it, and its log
        # files would count as merged.
        known = {instant.time for instant in self.state.snapshot.timeline.pending if instant.time <= self.instant}
        planned = {**current.reserved, **compacted_groups(current.timeline, known)}
        contested = sorted(self.change.groups & planned.keys())
        if not contested:
            return
        instants = tuple(sorted({planned[group].time for group in contested}))
        raise ConflictError(
            "a pending clustering or compaction of another engine is going to rewrite file groups of this write: file "
            f"groups={[f'{group.partition_path}/{group.file_id}' for group in contested[:_SAMPLE]]} "
            f"instants={list(instants)}",
            instants=instants,
            remedy="let Hudi run that instant or roll it back, and write again",
        )

    def require_same_deletes(self, current: Snapshot, now: Callable[[], DeletedKeys]) -> None:
        """Check the write, if it asked for deleted keys, against deletes that were committed or undone since (P42).

        Index and file groups do not tell of a delete of a key that the table did not hold. The caller holds the lease.

        Args:
            current: the state of the table now.
            now: the deleted keys of that state.

        Raises:
            ConflictError: the write may not be published.
        """
        known, before = self.read.known_deletes, self.state.snapshot
        # Equal timelines have equal files of deleted keys: each comes and goes with a commit. This saves the listing.
        if known is None or current.timeline.completed_writes == before.timeline.completed_writes:
            return
        undone = tuple(undone_writes(current.timeline, {file.instant for file in known.files}))
        if undone:
            raise ConflictError(
                f"deletes that this write builds on were undone meanwhile: instants={list(undone)}",
                instants=undone,
                remedy="write again",
            )
        # Files, not keys, are compared first: a write has seen all keys of a file that it knew.
        later = now().without(known)
        deleted = self.read.deleted_keys(later) if later else NO_KEYS
        if deleted.count:
            instants = tuple(file.instant for file in later.files)
            raise ConflictError(
                f"another commit deleted record keys of this write: count={deleted.count} keys={list(deleted.sample)} "
                f"instants={list(instants)}",
                keys=deleted.sample,
                key_count=deleted.count,
                instants=instants,
                remedy="write again",
            )

    def _require_same_schema(self, current: Snapshot, instants: tuple[str, ...]) -> None:
        # The table's schema is the schema of its newest instant, which need not be the last commit. So a write may change the
        # schema only if nobody committed in between, or if the table has the same schema by now (P6).
        if not self.schema.equals(current.schema or pa.schema([])):
            raise ConflictError(
                f"another commit added or changed columns of the table: columns={self.schema.names} "
                f"now={current.schema and current.schema.names} instants={list(instants)}",
                instants=instants,
                remedy="write again",
            )

    def _require_last_statistics(self, current: Snapshot, instants: tuple[str, ...]) -> None:
        """Pass a write whose statistics of partitions stand: of two commits, readers take those with the greater instant (P52)."""
        timeline = current.timeline
        properties = current.table.properties
        names = {*properties.metadata_partitions, *properties.metadata_partitions_inflight}
        # A compaction takes its instant from the plan. Others have kept no statistics of a partition with its log files.
        if (
            PartitionKind.PARTITION_STATS not in names
            or not timeline.layout.keeps_completion_times
            or self.change.operation == COMPACT
        ):
            return
        paths = {group.partition_path for group in self.change.groups}
        later = tuple(
            write.time
            for write in timeline.completed_writes
            if write.time in instants
            and write.time > self.instant
            and not paths.isdisjoint(group.partition_path for group in current.change(write).groups)
        )
        if later:
            raise ConflictError(
                "another commit with a greater instant has kept statistics of partitions of this write: "
                f"partitions={sorted(paths)[:_SAMPLE]} instants={list(later)}",
                instants=later,
                remedy="write again",
            )

    def _is_only_appended(self, change: GroupChange) -> bool:
        """Whether others have only appended to a slice that this compaction merges: their log files count behind it."""
        before, after = change.before, change.after
        return (
            self.change.operation == COMPACT
            and before is not None
            and after is not None
            and before.base == after.base
            and before.logs == after.logs[: len(before.logs)]
        )

    def _require_same_groups(self, current: Snapshot, instants: tuple[str, ...]) -> None:
        written = {stat.group: stat for stat in self.change.stats}
        # File groups that were read count, even without any change to them: a record that came too late there would come in
        # time if another commit had removed the newer one (P5).
        groups = self.read.groups_among(current) | self.change.groups
        changed = changed_groups(self.state.snapshot, current, groups)
        storage = current.table.storage
        contested = [
            change.group
            for change in changed
            if not (self._is_only_appended(change) or self._is_beside(change, storage))
        ]
        if not contested:
            return
        ours = [written[group] for group in contested if group in written]
        gone = (_gone_keys(storage, journal, contested) for journal in self.journals)
        # A clustering changes no key.
        keys = sum_of([_written_keys(storage, self.instant, ours), *([] if self.change.keeps_records else gone)])
        named = f"count={keys.count} keys={list(keys.sample)} " if keys.count else ""
        raise ConflictError(
            "another commit rewrote file groups that this write builds on: file "
            f"groups={[f'{group.partition_path}/{group.file_id}' for group in contested[:_SAMPLE]]} "
            f"{named}instants={list(instants)}",
            keys=keys.sample,
            key_count=keys.count,
            instants=instants,
            remedy="write again",
        )

    def _is_beside(self, change: GroupChange, storage: Storage) -> bool:
        """Whether others have only appended records of other keys to a file group, and this write does no more (P6)."""
        before, after, requested = change.before, change.after, self.read.requested_keys
        if requested is None or change.group in self.change.superseded or before is None or after is None:
            return False
        if before.base != after.base or not set(before.logs) <= set(after.logs):
            return False
        new = [log for log in after.logs if log not in before.logs]
        keys = None if not new else keys_of_logs(storage, new)
        return keys is not None and not requested(keys).count


def _written_keys(storage: Storage, instant: str, stats: Iterable[WriteStat]) -> SomeKeys:
    """The keys of the records that a write adds or replaces in some of its base files and log files."""
    schema = pa.schema([(RECORD_KEY, pa.string()), (COMMIT_TIME, pa.string())])

    def keys_of(stat: WriteStat) -> Iterable[pa.Array]:
        file = written_file(instant, stat)
        if stat.appended_to is not None:
            yield from log_keys(storage, file)
            return
        with FileSliceReader(storage, FileSlice(stat.group, instant, file)) as reader:
            for batch in reader.batches(schema):
                yield batch.filter(pc.equal(batch.column(COMMIT_TIME), instant)).column(RECORD_KEY)

    return SomeKeys.of(keys for stat in stats for keys in keys_of(stat))


def _gone_keys(storage: Storage, journal: Journal, contested: Collection[FileGroupId]) -> SomeKeys:
    """The keys that a journal takes out of contested file groups, without those that it puts into one of them."""
    if journal.group in contested:
        return SomeKeys.of(journal.deleted_keys(storage))
    return SomeKeys.of(journal.keys_from(storage, contested))
