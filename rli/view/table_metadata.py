"""What the metadata table of a table tells readers of one state. Where it cannot be read, folders and footers tell instead."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

import pyarrow as pa

from rli.column_index.expressions import IndexedExpression, indexed_expressions
from rli.errors import CorruptTableError, InstantNotFoundError, UnsupportedTableError
from rli.hudi.metadata.index_definitions import IndexDefinition, indexed_column, load_index_definitions
from rli.hudi.metadata.partitions import (
    FIRST_VERSION_OF_PARTITION_STATS,
    OF_KEYS,
    PartitionKind,
    is_of_expression,
    kind_of,
)
from rli.hudi.metadata.reader import MetadataTableReader
from rli.hudi.properties import Key, load_properties
from rli.hudi.schema_history import require_found_by_name
from rli.hudi.timeline.instant import Instant
from rli.hudi.timeline.timeline import Timeline
from rli.telemetry import events, metrics
from rli.view.column_indexes import without_dropped
from rli.view.definition import TableDefinition
from rli.view.metadata_remedies import to_build_again

Told = TypeVar("Told")

_ATTEMPTS: Final = 2
"""A file of the metadata table may go while it is read, after a compaction."""

_HIDING: Final = frozenset({PartitionKind.FILES, PartitionKind.PARTITION_STATS})
"""A lost record of these hides records of the table, or brings older ones back; of other kinds it costs time, or is missed elsewhere."""


class TableMetadata:
    """The metadata table as readers of one state use it, partition by partition, as long as each can be read.

    Args:
        table: the table.
        timeline: of the table, with all its instants, but those behind ``Timeline.as_of``.
        partitions: that the table lists; read after the timeline.
    """

    def __init__(self, table: TableDefinition, timeline: Timeline, partitions: Iterable[str]) -> None:
        self._table = table
        self._timeline = timeline
        self._reader: MetadataTableReader | None = None
        self._complete = set[str]()
        self.partitions = frozenset(partitions)
        """The partitions of the metadata table that can be asked."""

    @classmethod
    def of(cls, table: TableDefinition, timeline: Timeline) -> TableMetadata | None:
        """The metadata table of a table, its properties read after the timeline; None where it is off."""
        listed = {*without_dropped(table.properties.metadata_partitions, table.storage)}
        if table.properties.version < FIRST_VERSION_OF_PARTITION_STATS:
            # A commit of Hudi 0.15 that left them behind has a deltacommit like any other.
            listed.discard(PartitionKind.PARTITION_STATS)
        return cls(table, timeline, listed) if listed else None

    @property
    def location(self) -> str:
        """Where the table is."""
        return self._table.location

    @property
    def was_upgraded(self) -> bool:
        """Whether statistics of partitions may be older than a commit: Hudi 0.15 left them behind, and an upgrade kept them."""
        initial = self._table.properties.raw.get(Key.INITIAL_VERSION, "")
        # Hudi 1.0 writes the word SIX.
        return not initial.isdecimal() or int(initial) < FIRST_VERSION_OF_PARTITION_STATS

    @property
    def is_of_the_past(self) -> bool:
        """Whether the state is an earlier one: then only what is said of single files holds."""
        return self._timeline.as_of is not None

    def as_of(self, timeline: Timeline) -> TableMetadata:
        """For readers of an earlier state."""
        return TableMetadata(self._table, timeline, self.partitions)

    def ask(
        self, partition: str, question: Callable[[MetadataTableReader], Told], beside: Iterable[str] = ()
    ) -> Told | None:
        """The answer of a partition; None if there is no such partition, or it is broken: then a warning is logged.

        Args:
            partition: of the metadata table.
            question: asks the reader.
            beside: further partitions that the answer needs: each must have each commit, too.
        """
        for attempt in range(_ATTEMPTS):
            if partition not in self.partitions:
                return None
            try:
                reader = self._opened()
                self._require_each_commit(reader, (partition, *beside))
                return question(reader)
            except InstantNotFoundError as error:
                self._reader = None
                if attempt + 1 == _ATTEMPTS:
                    self.distrust(partition, error)
            except Exception as error:  # noqa: BLE001  (whatever is broken there, the table itself can be read)
                self.distrust(partition, error)
        return None

    def may_show_later(self, reader: MetadataTableReader, partitions: Iterable[str]) -> bool:
        """Whether partitions may show commits that completed after this state.

        A compaction has merged what had completed by then, and so has the build of a metadata table.

        Args:
            reader: of this state.
            partitions: of the metadata table.
        """
        is_older = reader.born_at <= (self._timeline.latest_time or "")
        if is_older and not any(reader.shown_beyond(name) for name in partitions):
            return False
        return self._table.load_timeline().completed != self._timeline.completed

    @property
    def secondary_indexes(self) -> dict[str, str]:
        """Column → the partition of its secondary index; none if their definitions cannot be read."""
        listed = [name for name in sorted(self.partitions) if kind_of(name) is PartitionKind.SECONDARY_INDEX]
        if not listed:
            return {}
        definitions = self.ask(listed[0], lambda _: self._definitions())
        columns = {name: indexed_column((definitions or {}).get(name)) for name in listed}
        return {column: name for name, column in columns.items() if column is not None}

    @property
    def _keeps_names(self) -> bool:
        try:
            require_found_by_name(self._table.storage)
        except (UnsupportedTableError, CorruptTableError):
            return False
        return True

    def indexed_expressions(self, schema: pa.Schema) -> list[IndexedExpression]:
        """The indexes on expressions over records of a schema; none if their definitions cannot be read."""
        listed = [name for name in sorted(self.partitions) if is_of_expression(name)]
        definitions = self.ask(listed[0], lambda _: self._definitions()) if listed else None
        return indexed_expressions(listed, definitions or {}, schema)

    def indexed_column(self, partition: str) -> str | None:
        """The column of a secondary index as it is now; None if there is none, or a column once had another name.

        Hudi puts in no entries of records that keep their values under a new name.

        Raises:
            CorruptTableError: the definitions of indexes cannot be read.
        """
        return indexed_column(self._definitions().get(partition)) if self._keeps_names else None

    def columns_with_statistics(self) -> tuple[str, ...]:
        """The columns whose statistics commits keep, as they are chosen now; none if they are not listed.

        Raises:
            CorruptTableError: the definitions of indexes cannot be read.
        """
        definition = self._definitions().get(PartitionKind.COLUMN_STATS)
        return () if definition is None else definition.columns

    def _definitions(self) -> dict[str, IndexDefinition]:
        return load_index_definitions(self._table.storage, self._table.properties)

    def distrust(self, partition: str, error: Exception) -> None:
        """Ask a partition no more, because it is broken or the table itself says otherwise; a warning is logged."""
        self.partitions -= {partition}
        # Others may have switched it off meanwhile.
        if partition in load_properties(self._table.storage).metadata_partitions:
            metrics.METADATA_FAILURES.add(1, partition=partition)
            events.METADATA_UNUSED.log(table=self._table.location, partition=partition, cause=error)

    def _require_each_commit(self, reader: MetadataTableReader, partitions: Iterable[str]) -> None:
        """As ``require_each_commit``, of some partitions; what a reader knows of commits never changes, so it is asked once."""
        for partition in partitions:
            if partition not in self._complete:
                require_each_commit(reader, partition, self._table)
                if partition in _HIDING:
                    reader.require_each(partition)
                self._complete.add(partition)

    def _opened(self) -> MetadataTableReader:
        if self._reader is None:
            self._reader = MetadataTableReader(self._table.storage, self._timeline, self._table.properties)
            self._complete = set()
        return self._reader

    def __reduce__(self) -> tuple[type[TableMetadata], tuple[TableDefinition, Timeline, frozenset[str]]]:
        # Another process reads for itself.
        return TableMetadata, (self._table, self._timeline, self.partitions)


def require_each_commit(reader: MetadataTableReader, partition: str, table: TableDefinition) -> None:
    """Pass a partition of the metadata table that has the changes of each commit.

    Args:
        reader: of the metadata table.
        partition: of the metadata table.
        table: that it describes.

    Raises:
        CorruptTableError: another engine has committed without it; names the commit.
    """
    for instant in commits_left_out(reader, partition):
        lacking = [name for name in reader.partitions if any(commits_left_out(reader, name))]
        raise CorruptTableError(
            f"another engine left a commit out of the metadata table: partition={partition} instant={instant.time}",
            remedy=f"build it again: {to_build_again(table, lacking)}; give the jobs of Hudi exactly "
            "the partitions that the table has, see docs/how-to/beside-hudi-writers.md",
        )


def commits_left_out(reader: MetadataTableReader, partition: str) -> Iterator[Instant]:
    """The commits of other engines whose changes a partition of the metadata table lacks."""
    for instant in reader.lacks(partition):
        try:
            commit = reader.commit_of(instant)
        except InstantNotFoundError:
            # Others have undone or archived it.
            continue
        # A commit that changes no file has none. One that replaces file groups alone leaves their files where they are.
        if commit.write_stats or (commit.replaced_file_ids and kind_of(partition) in OF_KEYS):
            yield instant
