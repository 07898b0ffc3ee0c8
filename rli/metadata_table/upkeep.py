"""What a change of the table means for its metadata table: a deltacommit, and partitions that must go before it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from types import MappingProxyType
from typing import Final

import pyarrow as pa

from rli.file_group.changed_values import ChangedValues
from rli.file_group.journal import Journal
from rli.hudi.metadata.index_definitions import load_index_definitions
from rli.hudi.metadata.partitions import OF_KEYS, PartitionKind
from rli.hudi.metadata.reader import MetadataTableReader
from rli.hudi.timeline.commit_metadata import COMPACT
from rli.hudi.timeline.timeline import Timeline
from rli.metadata_table.column_entries import ColumnEntries
from rli.metadata_table.contents import Contents
from rli.metadata_table.deltacommit import Deltacommit
from rli.metadata_table.file_changes import FileChanges, data_files
from rli.metadata_table.former_filters import FormerFilters
from rli.metadata_table.indexed_columns import IndexedColumns
from rli.metadata_table.kept_partitions import KeptPartitions
from rli.metadata_table.location_changes import placed, put_back, touched_partitions, undone_journals
from rli.metadata_table.next_deltacommit import next_deltacommit
from rli.metadata_table.partition_change import PartitionChange
from rli.model import FileGroupId, Scope
from rli.view.file_slices import FileSlice, is_behind
from rli.view.file_system_view import FileSystemView
from rli.view.snapshot import Snapshot
from rli.view.table_change import TableChange


@dataclass(frozen=True, slots=True)
class Upkept:
    """What becomes of the metadata table with one change of the table.

    Attributes:
        partitions: those that the change keeps, and those that must be dropped before the change shows.
        deltacommit: brings the change into the kept ones; None if nothing changes there.
    """

    partitions: KeptPartitions
    deltacommit: Deltacommit | None


NOTHING_KEPT: Final = Upkept(KeptPartitions(()), None)
"""Of a table without a metadata table."""


class Upkeep:
    """Keeps a metadata table right, one change of its table at a time.

    Args:
        snapshot: of the table, its properties as they are now. For a write, the state before it; for a table service, the state
            when its files are gone and its instant is not completed. The caller holds the lease.
        scope: in which the writer's index keeps record keys unique.
        schema: of the records after the change, without meta columns; None for that of the snapshot.
        slices: the live file slices, if they are listed already; None for those of the snapshot.

    Raises:
        CorruptTableError: the metadata table, the definitions of its indexes, or the plan of an indexing are damaged.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        scope: Scope = Scope.GLOBAL,
        schema: pa.Schema | None = None,
        slices: FileSystemView | None = None,
    ) -> None:
        table = snapshot.table
        self._snapshot = snapshot
        self._scope = scope
        self._schema = schema
        self._slices = snapshot.slices if slices is None else slices
        self._storage = table.storage
        self._reader = MetadataTableReader(table.storage, snapshot.timeline, table.properties)
        self._definitions = load_index_definitions(table.storage, table.properties)

    @property
    def timeline(self) -> Timeline:
        """Of the metadata table."""
        return self._reader.timeline

    def of_write(
        self,
        instant: str,
        change: TableChange,
        journals: Sequence[Journal],
        changed: Mapping[FileGroupId, ChangedValues] = MappingProxyType({}),
    ) -> Upkept:
        """What a write means whose files are not in the table yet.

        Args:
            instant: of the write.
            change: of the table.
            journals: of the write.
            changed: the changed values of its file groups that its process has noted.

        Raises:
            CorruptTableError: a file of the table or of the metadata table is damaged.
        """
        kept = self._always_of(change)
        if kept.keeps_nothing:
            return Upkept(kept, None)
        files = FileChanges.of_write(self._storage, instant, change, self._columns)
        if not files.has_all_bloom_filters:
            # Hudi fails where it finds none for a file.
            kept = kept.without({PartitionKind.BLOOM_FILTERS: "a base file has no bloom filter"})
        live = self._live(change.partition_paths | {group.partition_path for group in change.replaced})
        appended = {stat.partition_path for stat in change.appended}
        left = {
            path: None if path in appended else [*self._left(slices, instant, change)] for path, slices in live.items()
        }
        # A compaction changes no record.
        of_records = kept if change.operation != COMPACT else KeptPartitions(())
        of_all = ChangedValues.joined(changed.values())
        secondary = self._of_columns.secondary(
            of_records.kept, lambda entries: entries.of_write(instant, change, of_all)
        )
        former = FormerFilters.of(self._reader, chain.from_iterable(live.values()), changed)
        expressions = self._of_columns.expressions(
            kept.kept, lambda entries: entries.of_write(instant, change, left.keys(), former)
        )
        locations = self._locations(placed, journals)
        return self._upkept(instant, kept, Contents(files, left, locations, {**secondary, **expressions}))

    def _left(self, slices: Iterable[FileSlice], instant: str, change: TableChange) -> Iterator[FileSlice]:
        """What readers still read of some slices after a write: of those with a new base file, the log files behind that."""
        for part in slices:
            if part.group not in change.superseded:
                yield part
            elif logs := [log for log in part.logs if is_behind(log, instant, self._snapshot.timeline)]:
                yield replace(part, base=None, logs=tuple(logs))

    def kept_by_service(self, change: TableChange) -> KeptPartitions:
        """What becomes of the partitions with a table service; raises as ``of_write``.

        Args:
            change: that the service is about to make; the newest undone commit first.
        """
        return self._undoing(change)[0]

    def of_service(self, instant: str, change: TableChange, attempt: int) -> Upkept:
        """What a table service means that has removed files, and perhaps undone commits; raises as ``of_write``.

        Args:
            instant: of the table service.
            change: of the table; the newest undone commit first.
            attempt: to carry it out: a number of 31 bits that no other attempt has.
        """
        kept, undone = self._undoing(change)
        if kept.keeps_nothing:
            return Upkept(kept, None)
        files = FileChanges(gone=data_files(change.removed))
        # A partition may have been built over an undone commit: then its records say what the commit wrote, without a deltacommit.
        older = [
            time
            for time in change.undone
            if not self._reader.may_show(time) and self._reader.is_older_than_builds(time)
        ]
        built_in = undone_journals(self._storage, older, [True] * len(older))
        has_journals = len(undone) == len(change.undone)
        told, is_told = [*undone, *built_in], has_journals and len(built_in) == len(older)
        live = self._live(self._touched(change, told, is_told=is_told))
        brought_back = [part for slices in live.values() for part in slices] if any(told) or not is_told else []
        secondary = self._of_columns.secondary(
            kept.kept, lambda entries: PartitionChange(entries.partition, [*entries.cells_of(brought_back)])
        )
        gone = data_files(change.removed)
        expressions = self._of_columns.expressions(kept.kept, lambda entries: entries.of_service(gone, live.keys()))
        locations = self._locations(put_back, undone) if has_journals else partial(self._taken_back, change)
        return self._upkept(instant, kept, Contents(files, live, locations, {**secondary, **expressions}), attempt)

    def _taken_back(self, change: TableChange) -> list[PartitionChange]:
        """The change of the record index by undoing commits of which some have no journals: what it held before them."""
        partition = PartitionKind.RECORD_INDEX
        return [PartitionChange(partition, [*self._reader.taken_back(partition, frozenset(change.undone))])]

    def _touched(self, change: TableChange, undone: Sequence[Sequence[Journal]], *, is_told: bool) -> set[str]:
        """The partitions of the table in which a table service changes the live files.

        Args:
            change: that it has made.
            undone: the journals of the undone commits.
            is_told: whether these are the journals of all that the metadata table may hold of the commits.
        """
        # What a clean removes was not live.
        if not change.undone:
            return set()
        touched = {*change.removed, *touched_partitions(self._storage, undone)}
        # Only journals tell of replaced file groups: the commit is gone.
        return touched if is_told else touched | {group.partition_path for group in self._slices}

    @cached_property
    def _always(self) -> KeptPartitions:
        """What becomes of the partitions with every change."""
        kept = KeptPartitions.of(self._snapshot, self._reader, self._definitions, self._scope)
        return kept.without(self._of_columns.reasons(kept.kept))

    def _always_of(self, change: TableChange) -> KeptPartitions:
        """What becomes of the partitions with a write; one that changes no key, nor its place, leaves those of keys as they are."""
        if change.operation != COMPACT:
            return self._always
        return KeptPartitions.of(self._snapshot, self._reader, self._definitions, self._scope, unchanged=OF_KEYS)

    @cached_property
    def _of_columns(self) -> ColumnEntries:
        return ColumnEntries(self._definitions, self._snapshot, self._schema_after)

    @cached_property
    def _columns(self) -> IndexedColumns:
        return IndexedColumns.of_kept(self._always.kept, self._definitions, self._schema_after)

    @property
    def _schema_after(self) -> pa.Schema | None:
        return self._schema or self._snapshot.schema

    def _undoing(self, change: TableChange) -> tuple[KeptPartitions, list[list[Journal]]]:
        """What becomes of the partitions with a table service, and the journals of the commits that it undoes."""
        # The index says nothing of a write that never got as far as its deltacommit: other engines write no journals.
        shown = [self._reader.may_show(time) for time in change.undone]
        undone = undone_journals(self._storage, change.undone, shown)
        partition, kept = PartitionKind.RECORD_INDEX, self._always
        if partition in kept.kept and not self._reader.built_over(partition).isdisjoint(change.undone):
            # The journals of a commit that has failed would look alike when its instant is no longer completed.
            return kept.without({partition: "it was built from a commit that is undone"}), undone
        if len(undone) == len(shown) or partition not in kept.kept:
            return kept, undone
        definition = self._definitions.get(partition)
        is_partitioned = definition is not None and definition.is_partitioned
        if not is_partitioned and self._reader.may_take_back(partition, change.undone):
            return kept, undone
        reason = "no journals tell which keys an undone commit placed, nor does the metadata table"
        return kept.without({partition: reason}), undone

    def _upkept(self, instant: str, kept: KeptPartitions, contents: Contents, attempt: int = 0) -> Upkept:
        deltacommit = next_deltacommit(
            self._snapshot,
            self._reader,
            instant,
            contents,
            partitions=kept.kept,
            columns=self._columns,
            attempt=attempt,
        )
        return Upkept(kept, deltacommit)

    def _locations(
        self, change_of: Callable[..., Sequence[PartitionChange]], journals: Sequence[object]
    ) -> Callable[[], Sequence[PartitionChange]]:
        definition = self._definitions.get(PartitionKind.RECORD_INDEX)
        is_partitioned = definition is not None and definition.is_partitioned
        return partial(change_of, self._storage, journals, is_partitioned=is_partitioned)

    def _live(self, touched: Collection[str]) -> dict[str, Sequence[FileSlice]]:
        """The live file slices of some partitions of the table."""
        found: dict[str, list[FileSlice]] = {path: [] for path in touched}
        for part in self._slices.of_partitions(touched):
            found[part.group.partition_path].append(part)
        return {**found}
