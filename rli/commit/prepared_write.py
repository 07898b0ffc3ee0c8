"""The result of an engine's work, which a commit publishes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import pyarrow as pa

from rli.commit.conflicts import ReadSet
from rli.file_group.changed_values import ChangedValues
from rli.file_group.journal import Journal
from rli.file_group.write_context import FileGroupResult
from rli.hudi.timeline.commit_metadata import CLUSTER, WriteStat
from rli.index.placing import Regrouped
from rli.model import CommitResult, FileGroupId, WriteCounts
from rli.view.diff import changed_groups
from rli.view.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class PreparedWrite:
    """The result of an engine's work, ready to be committed.

    Attributes:
        results: of the accepted tasks.
        schema: of the table from now on.
        operation: Hudi's name of the operation, such as ``UPSERT``.
        apart: what became of rows that reached no file group: unchanged ones and duplicates.
        read: what the write depends on beside what it writes.
        regrouped: what the index keeps of the file groups that are replaced; None if it keeps nothing.
        deleted_keys: files of deleted keys, which lie among the unpublished files.
        is_flushed: whether the tasks have waited until their files were on the disk; if not, the commit does.
    """

    results: Sequence[FileGroupResult]
    schema: pa.Schema
    operation: str
    apart: WriteCounts
    read: ReadSet
    regrouped: Regrouped | None = None
    deleted_keys: Sequence[str] = ()
    is_flushed: bool = True

    @property
    def counts(self) -> WriteCounts:
        """What became of the records."""
        return sum((result.counts for result in self.results), self.apart)

    @property
    def stats(self) -> list[WriteStat]:
        """The base files and log files."""
        return [result.stat for result in self.results if result.stat is not None]

    @property
    def journals(self) -> list[Journal]:
        """The journals: the changes to the index."""
        return [result.journal for result in self.results if result.journal is not None]

    @property
    def changed_by_group(self) -> dict[FileGroupId, ChangedValues]:
        """The changed values of the columns that this process has noted; empty if they are not known of all records."""
        written = [result for result in self.results if result.stat is not None]
        noted = {result.group: result.changed for result in written if result.changed is not None}
        return {} if self.replaced or len(noted) < len(written) else noted

    @property
    def changed_values(self) -> ChangedValues | None:
        """The same of all file groups together; None if they are not known."""
        return ChangedValues.joined(self.changed_by_group.values())

    @property
    def files(self) -> list[str]:
        """The files that become part of the table, by their paths in it."""
        return [*(stat.path for stat in self.stats), *self.deleted_keys]

    @property
    def replaced(self) -> frozenset[FileGroupId]:
        """The file groups that are replaced."""
        return frozenset(group for result in self.results for group in result.replaces)

    def giving_way(self, before: Snapshot, now: Snapshot) -> PreparedWrite:
        """This write without results that replace file groups changed by others in between, or planned to be (P57).

        If no result would be left, all stay, and the check of conflicts names the other commits.
        """
        # Only a clustering may shrink like this: each of its results replaces file groups of its own, and no record is
        # lost if they stay as they are. Another write without one of its file groups would be half a request.
        if self.operation != CLUSTER:
            return self
        changed = {change.group for change in changed_groups(before, now, self.replaced)} | now.reserved.keys()
        kept = [result for result in self.results if changed.isdisjoint(result.replaces)]
        return replace(self, results=kept or self.results)

    def result(
        self,
        instant: str | None,
        seconds: Mapping[str, float] = MappingProxyType({}),
        *,
        index_behind: bool = False,
    ) -> CommitResult:
        """What the caller is told of the commit.

        Args:
            instant: of the commit; None if nothing was committed.
            seconds: of each step.
            index_behind: whether the next sync has to apply the commit.
        """
        counts, stats = self.counts, self.stats
        appended = sum(stat.appended_to is not None for stat in stats)
        created = sum(stat.previous_instant is None for stat in stats)
        return CommitResult(
            instant=instant,
            inserted=counts.inserted,
            updated=counts.updated,
            moved=counts.moved,
            deleted=counts.deleted,
            unchanged=counts.unchanged,
            files_created=created,
            files_rewritten=len(stats) - created - appended,
            files_appended=appended,
            written_bytes=sum(stat.written_bytes for stat in stats),
            files_replaced=len(self.replaced),
            duplicates=counts.duplicates,
            seconds=dict(seconds),
            index_behind=index_behind,
        )
