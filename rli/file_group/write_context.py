"""What the tasks of a write get, and what they give back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import pyarrow as pa

from rli.file_group.changed_values import ChangedValues
from rli.file_group.conditions import Condition
from rli.file_group.journal import Journal, Positions, SectionsOf, write_journal
from rli.file_group.log_appends import LogAppending
from rli.hudi.bloom_filter import FALSE_POSITIVE_RATE
from rli.hudi.timeline.commit_metadata import AppendedTo, WriteStat
from rli.model import FileGroupId, WriteCounts
from rli.storage import Storage
from rli.view.file_slice_reader import FileSliceReader
from rli.view.file_slices import FileSlice
from rli.view.slice_reader import SliceReader


@dataclass(frozen=True, slots=True)
class WriteContext:
    """What every task of a write needs to know. Picklable.

    Attributes:
        storage: the table.
        instant: the write's instant.
        schema: of the records after the write, without meta columns.
        ordering_field: decides between records of one key; None if the newest arrival wins.
        partition_fields: keep their stored values where a record stays in its partition against its own values.
        compression: Parquet codec.
        kept: columns of which updated records keep their stored values; arriving ones have brought theirs.
        skips_unchanged: whether a file group is left alone in which every record is replaced by an equal one.
        bloom_filter_rate: which share of foreign keys the bloom filters of the files may claim; a file that keeps the filter of
            the one before may claim twice as many.
        holds_journals: whether results bring the content of their journals along: to the process that wrote them.
        noted: columns whose changed values results bring along, to the process that wrote them.
        expired_before: see ``ExpiringState.expired_before`` (``rli.index.contract``).
        sections_of: puts journals in sections; None for writes of few keys.
        when: the caller's condition on records that replace or delete stored ones; None where there is none.
        saves: whether files are made; if not, the results tell which files would be, with no size and no journal.
        held_bytes: size in memory of records merged together; beyond it, no further file is added. Small files may decompress to
            much more.
        appending: how changes of file groups become log files; None if they become base files, as in a copy-on-write table.
    """

    storage: Storage
    instant: str
    schema: pa.Schema
    ordering_field: str | None
    partition_fields: tuple[str, ...]
    compression: str
    kept: tuple[str, ...] = ()
    skips_unchanged: bool = False
    bloom_filter_rate: float = FALSE_POSITIVE_RATE
    holds_journals: bool = False
    noted: tuple[str, ...] = ()
    expired_before: str | None = None
    sections_of: SectionsOf | None = None
    when: Condition | None = None
    saves: bool = True
    held_bytes: int = 32 * 1024 * 1024
    appending: LogAppending | None = None

    def open(self, base: FileSlice) -> SliceReader:
        """Opens a file slice of the table; raises as ``SliceReaders.open``."""
        if self.appending is None:
            return FileSliceReader(self.storage, base)
        return self.appending.readers.open(base)

    def journaled(
        self, group: FileGroupId, token: str, rows: pa.Table, replaced: Positions | None = None
    ) -> Journal | None:
        """The journal of a file group, if a key came or went.

        Args:
            group: the file group.
            token: of the attempt.
            rows: its work rows.
            replaced: of each row, the place of the record that it replaces; None if rows replace none.
        """
        journal = Journal(self.instant, f"{group.file_id}_{token}.parquet", group)
        updated = None if self.expired_before is None else replaced
        held = write_journal(self.storage, journal, rows, updated, self.sections_of)
        return held if held is None or self.holds_journals else held.without_content


@dataclass(frozen=True, slots=True)
class FileGroupTarget:
    """A file group to write, or to append to.

    Attributes:
        group: its name.
        base: its newest slice; None for a new file group.
        write_token: tells this attempt from all others for the same file group: three numbers, ``1-2-3``.
    """

    group: FileGroupId
    base: FileSlice | None
    write_token: str


@dataclass(frozen=True, slots=True)
class FileGroupResult:
    """One accepted attempt, or what would have been written if anything had changed.

    Attributes:
        group: the file group.
        counts: what became of the work rows.
        stat: the base file or log file; None if nothing changed, so that nothing was written.
        journal: the journal file; None if no key came or went.
        replaces: the file groups whose records are all in this one now.
        refused: keys whose delete the caller's condition refused.
        changed: the changed values of ``WriteContext.noted``; None where they were not noted.
    """

    group: FileGroupId
    counts: WriteCounts
    stat: WriteStat | None
    journal: Journal | None
    replaces: tuple[FileGroupId, ...] = ()
    refused: tuple[str, ...] = ()
    changed: ChangedValues | None = None

    @classmethod
    def left_alone(cls, target: FileGroupTarget, counts: WriteCounts) -> Self:
        """The result for a file group of which every record, if any, is replaced by an equal one."""
        unchanged = replace(counts, updated=0, unchanged=counts.unchanged + counts.updated)
        return cls(target.group, unchanged, None, None)

    @classmethod
    def foretold(cls, target: FileGroupTarget, counts: WriteCounts, *, is_appended: bool) -> Self:
        """The result for a file group that a dry run would write: a base file or log file without content."""
        stat = WriteStat(
            file_id=target.group.file_id,
            path="",
            partition_path=target.group.partition_path,
            previous_instant=target.base.instant if target.base else None,
            writes=0,
            inserts=counts.inserted,
            update_writes=counts.updated,
            deletes=counts.deleted,
            written_bytes=0,
            file_size=0,
            appended_to=AppendedTo("", ()) if is_appended else None,
        )
        return cls(target.group, counts, stat, None)


def base_file_path(group: FileGroupId, file_name: str) -> str:
    """Where a base file of a file group is in the table."""
    return f"{group.partition_path}/{file_name}" if group.partition_path else file_name
