"""What one instant changes in a table: the description that its writer gives, and that everybody else reads.

A commit keeps it as Hudi's commit metadata, a rollback, a restore or a clean as the metadata of its own. What rli keeps
with its commits beyond Hudi's fields are entries whose names begin with ``rli.``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final, Self

from rli.hudi.timeline.by_partition import by_partition
from rli.hudi.timeline.commit_metadata import CLUSTER, COMPACT, CommitMetadata, WriteStat
from rli.json_text import parse_json
from rli.model import FileGroupId
from rli.view.commit_facts import CommitFacts
from rli.view.slice_sums import SliceSums

RESERVED_PREFIX: Final = "rli."
"""Begins the names of entries that are not the caller's."""

TRANSACTION_ID: Final = "rli.transaction.id"
TRANSACTION_NUMBER: Final = "rli.transaction.number"

NATIVE_ENTRY: Final = "rli.journal"
"""Entry of a commit of rli; there is a journal of it."""

_NATIVE_VERSION: Final = "1"
_DELETED_KEYS: Final = "rli.deletedKeys"
_SLICE_SUMS: Final = "rli.slices"
_DROPPED: Final = "rli.metadata.dropped"


@dataclass(frozen=True, slots=True)
class TableChange:
    """A change of a table.

    Attributes:
        written: the base files that come, with their sizes and statistics.
        appended: the log files that come, likewise: their file slices are appended to.
        replaced: the file groups that go as a whole.
        removed: partition path → names of the data files that go.
        undone: the instants that are taken back.
        avro_schema: of the table as of this change, without meta columns; None if the change names none.
        operation: Hudi's name of the operation, such as ``UPSERT``.
        extra: further strings, those of the caller and those of rli. A property tells what these say: a reader of many
            commits parses no sums that nobody asks for.
    """

    written: tuple[WriteStat, ...] = ()
    replaced: frozenset[FileGroupId] = frozenset()
    removed: Mapping[str, frozenset[str]] = field(default_factory=dict)
    undone: tuple[str, ...] = ()
    avro_schema: str | None = None
    operation: str = "UNKNOWN"
    extra: Mapping[str, str] = field(default_factory=dict)
    appended: tuple[WriteStat, ...] = ()

    @classmethod
    def native(
        cls,
        stats: Iterable[WriteStat],
        replaced: Iterable[FileGroupId],
        *,
        avro_schema: str | None,
        operation: str,
        extra: Mapping[str, str],
        facts: CommitFacts,
        deleted_keys: Iterable[str],
    ) -> Self:
        """The change of a write of rli, which keeps journals of the keys that come and go.

        Args:
            stats: the base files and log files.
            replaced: the file groups that are replaced.
            avro_schema: as the attribute.
            operation: as the attribute.
            extra: the caller's strings.
            facts: of the write.
            deleted_keys: the files of deleted keys that the change needs, relative to the table's folder.
        """
        kept = "\n".join(deleted_keys)
        entries = {**extra, **facts.entries, **({_DELETED_KEYS: kept} if kept else {}), NATIVE_ENTRY: _NATIVE_VERSION}
        written, appended = _by_kind(stats)
        return cls(
            written,
            frozenset(replaced),
            avro_schema=avro_schema,
            operation=operation,
            extra=entries,
            appended=appended,
        )

    def with_slice_sums(self, sums: SliceSums) -> Self:
        """This change with the sums of the live file slices after it."""
        return replace(self, extra={**self.extra, _SLICE_SUMS: sums.to_string()})

    def dropping(self, partitions: Mapping[str, str]) -> Self:
        """This change with the partitions of the metadata table that it does not keep: name → reason."""
        return replace(self, extra={**self.extra, _DROPPED: json.dumps(dict(partitions))}) if partitions else self

    @classmethod
    def of_commit(cls, commit: CommitMetadata) -> Self:
        """The change that a completed write of any engine describes."""
        written, appended = _by_kind(commit.write_stats)
        return cls(
            written,
            frozenset(FileGroupId(path, file_id) for path, ids in commit.replaced_file_ids.items() for file_id in ids),
            avro_schema=commit.avro_schema,
            operation=commit.operation,
            extra=commit.extra,
            appended=appended,
        )

    @classmethod
    def removing(cls, files: Mapping[str, Iterable[str]], undone: Iterable[str] = ()) -> Self:
        """The change of a clean, a rollback or a restore.

        Args:
            files: partition path → paths or names of the files that go.
            undone: the instants that are taken back.
        """
        names = {path: frozenset(file.rpartition("/")[2] for file in of_one) for path, of_one in files.items()}
        return cls(removed=names, undone=tuple(undone))

    @property
    def commit_metadata(self) -> CommitMetadata:
        """The change of a write as its completed instant keeps it."""
        return CommitMetadata(
            self.stats,
            by_partition((group.partition_path, [group.file_id]) for group in sorted(self.replaced)),
            self.avro_schema,
            self.operation,
            self.extra,
        )

    @property
    def is_native(self) -> bool:
        """Whether rli has made the change, so that journals tell which keys came and went."""
        return NATIVE_ENTRY in self.extra

    @property
    def facts(self) -> CommitFacts:
        """Rows, writer and duration of the write, as far as the commit tells."""
        return CommitFacts.of_entries(self.extra)

    @property
    def slice_sums(self) -> SliceSums | None:
        """The sums of the live file slices after the change; None if none are kept, as by other engines, or are damaged."""
        text = self.extra.get(_SLICE_SUMS) if self.is_native else None
        return None if text is None else SliceSums.from_string(text)

    @property
    def dropped_partitions(self) -> dict[str, str]:
        """The partitions of the metadata table that the change did not keep, each with the reason."""
        with suppress(ValueError, AttributeError):
            # A damaged entry must not keep the rest of a history from being shown.
            return {name: str(reason) for name, reason in parse_json(self.extra.get(_DROPPED, "{}")).items()}
        return {}

    @property
    def keeps_records(self) -> bool:
        """Whether no record comes or goes, as in a clustering or a compaction. An overwrite ends the records of replaced file groups."""
        return self.operation in {CLUSTER, COMPACT}

    @property
    def changes_files(self) -> bool:
        """Whether data files come or go."""
        return bool(self.stats or self.replaced or self.removed)

    @property
    def concerns_metadata(self) -> bool:
        """Whether the metadata table may say something else after the change."""
        return self.changes_files or bool(self.undone)

    @property
    def stats(self) -> tuple[WriteStat, ...]:
        """The data files that come: base files and log files."""
        return (*self.written, *self.appended)

    @property
    def groups(self) -> set[FileGroupId]:
        """The file groups that are written, appended to or replaced."""
        return {stat.group for stat in self.stats} | self.replaced

    @property
    def superseded(self) -> set[FileGroupId]:
        """The file groups whose slices end: those that are written, where they are not new, or replaced."""
        return {stat.group for stat in self.written} | self.replaced

    @property
    def files(self) -> list[str]:
        """The files that come, by their paths in the table: data files, and files of deleted keys."""
        return [*(stat.path for stat in self.stats), *self.deleted_keys]

    @property
    def partition_paths(self) -> set[str]:
        """Of the files that come."""
        return {stat.partition_path for stat in self.stats}

    @property
    def deleted_keys(self) -> list[str]:
        """The files of deleted keys that the change needs, relative to the table's folder."""
        return self.extra.get(_DELETED_KEYS, "").splitlines()

    @property
    def transaction(self) -> tuple[str, int] | None:
        """Application id and number of the caller's transaction; None if there is none."""
        number = self.extra.get(TRANSACTION_NUMBER, "")
        return (self.extra.get(TRANSACTION_ID, ""), int(number)) if number.isdecimal() else None

    @property
    def caller_metadata(self) -> dict[str, str]:
        """The strings that the caller of the write has kept with the commit."""
        return {name: value for name, value in self.extra.items() if not name.startswith(RESERVED_PREFIX)}


def _by_kind(stats: Iterable[WriteStat]) -> tuple[tuple[WriteStat, ...], tuple[WriteStat, ...]]:
    """The base files and the log files."""
    written, appended = list[WriteStat](), list[WriteStat]()
    for stat in stats:
        (written if stat.appended_to is None else appended).append(stat)
    return tuple(written), tuple(appended)


NO_CHANGE: Final = TableChange()
"""What a savepoint changes in the table's files: nothing."""
