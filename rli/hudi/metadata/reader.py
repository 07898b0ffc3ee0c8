"""The merged state of the partitions of a table's metadata table."""

from __future__ import annotations

import posixpath
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from functools import cached_property
from itertools import chain
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rli.errors import CorruptTableError, UnsupportedTableError
from rli.hudi.hfile.cells import concatenated, removals
from rli.hudi.metadata.group_reader import GroupReader
from rli.hudi.metadata.group_slices import GroupSlice, group_slices, superseded_files
from rli.hudi.metadata.groups import groups_of, placed_groups
from rli.hudi.metadata.index_definitions import load_index_definitions
from rli.hudi.metadata.keys import PARTITION_LIST_KEY
from rli.hudi.metadata.metadata_files import MetadataFiles, metadata_layout
from rli.hudi.metadata.parallel_reads import read_each
from rli.hudi.metadata.partitions import (
    METADATA_FOLDER,
    PartitionKind,
    data_partition_of,
    escaped_partition,
    group_number,
    kind_of,
)
from rli.hudi.metadata.record_codec import decode_record
from rli.hudi.metadata.records import FileList
from rli.hudi.metadata.secondary_keys import begin_of_entries, entry_prefixes
from rli.hudi.metadata.sought import SoughtBegin, SoughtKeys, SoughtValues
from rli.hudi.metadata.valid_instants import ValidInstants
from rli.hudi.metadata.written_logs import WrittenLogs
from rli.hudi.properties import TableProperties
from rli.hudi.timeline.commit_metadata import CommitMetadata
from rli.hudi.timeline.instant import Action, Instant
from rli.hudi.timeline.timeline import Timeline, read_commit
from rli.storage import Storage, StoredFile

_MERGED: Final = frozenset(
    {
        PartitionKind.FILES,
        PartitionKind.COLUMN_STATS,
        PartitionKind.PARTITION_STATS,
        PartitionKind.EXPRESSION_INDEX,
        PartitionKind.OWN_EXPRESSION_INDEX,
    }
)
"""Kinds whose records are merged; of other kinds the newest record of a key stands."""


class MetadataTableReader:
    """Reads the metadata table of one state of a table.

    Args:
        storage: of the table.
        timeline: of the table, loaded before, with all its instants.
        properties: of the table.

    Raises:
        CorruptTableError: the timeline of the metadata table is broken; names the file.

    Example:
        >>> reader = MetadataTableReader(storage, timeline, properties)  # doctest: +SKIP
        >>> cells = reader.lookup("files", pa.array(["city=Rome"]))  # doctest: +SKIP
    """

    def __init__(self, storage: Storage, timeline: Timeline, properties: TableProperties) -> None:
        self._storage = storage
        self._properties = properties
        self._data = timeline
        self._commits: dict[str, CommitMetadata] = {}
        self._files = MetadataFiles(storage, metadata_layout(timeline.layout))
        self.timeline = self._files.timeline
        self._instants = ValidInstants(timeline, self.timeline)
        self._written = WrittenLogs(storage, self.timeline, self._instants)
        self._groups: dict[str, tuple[GroupSlice, ...]] = {}

    @property
    def partitions(self) -> tuple[str, ...]:
        """Partitions that readers rely on."""
        return self._properties.metadata_partitions

    @property
    def all_partitions(self) -> tuple[str, ...]:
        """These, and those that are being built: writers keep all of them."""
        return self._properties.all_metadata_partitions

    @property
    def unknown_partitions(self) -> tuple[str, ...]:
        """Partitions, built or being built, of a kind that rli does not know."""
        return tuple(name for name in self.all_partitions if kind_of(name) is None)

    @property
    def is_ahead(self) -> bool:
        """True if the metadata table has changes of commits that came after the timeline was loaded.

        Lists of files are still complete for the timeline. Load the table again before relying on locations of records.
        """
        return self._instants.are_ahead

    def lacks(self, partition: str) -> tuple[Instant, ...]:
        """Completed writes of the table that a partition should have, and whose deltacommits are missing.

        Hudi 1.2.0 leaves a commit out of the metadata table if it wants to build a partition while writes of others are pending.

        Raises:
            CorruptTableError: a deltacommit cannot be read; names the file.
        """
        covered = self._covered_in(partition)
        return tuple(
            write for write in self._instants.without_deltacommit if self._instants.covering_time(write) > covered
        )

    def built_over(self, partition: str) -> frozenset[str]:
        """Completed writes of the table whose changes a partition has from its last build: they have no deltacommit.

        Raises:
            CorruptTableError: a deltacommit cannot be read; names the file.
        """
        covered = self._covered_in(partition)
        return frozenset(
            write.time for write in self._instants.without_deltacommit if self._instants.covering_time(write) <= covered
        )

    def _covered_in(self, partition: str) -> str:
        """The time up to which the last build of a partition covers the table; "" where all writes have a deltacommit."""
        # The first deltacommit may have built the metadata table under the instant of a commit.
        return self._covered.get(partition, self._instants.born_at) if self._instants.without_deltacommit else ""

    def commit_of(self, write: Instant) -> CommitMetadata:
        """What a write of the table says of itself; read once, however many partitions are asked. Raises as ``read_commit``."""
        if write.time not in self._commits:
            self._commits[write.time] = read_commit(self._storage, self._data, write)
        return self._commits[write.time]

    @cached_property
    def _covered(self) -> dict[str, str]:
        """Partition → the time up to which its last build covers the table, as far as the active timeline tells."""
        found: dict[str, str] = {}
        for build in self._instants.builds:
            for stat in read_commit(self._storage, self.timeline, build).write_stats:
                last = self._instants.covered_by(build)
                found[stat.partition_path] = max(found.get(stat.partition_path, ""), last)
        return found

    def shown_beyond(self, partition: str) -> frozenset[str]:
        """Deltacommits whose changes may be in the files of a partition, although the loaded timeline lacks their instants.

        A compaction may have merged them; or they built partitions, with instants of their own. Raises as ``groups``.
        """
        newest = max((group.base_instant for group in self.groups(partition)), default="")
        return self._instants.shown_beyond(newest)

    @property
    def born_at(self) -> str:
        """When the first deltacommit that the timeline of the metadata table shows was completed; "" without one.

        A metadata table that was built later than a state of the table shows commits of which it has no deltacommit.
        """
        return self._instants.born_at

    def may_show(self, instant: str) -> bool:
        """Whether the metadata table may have changes of an instant of the table: its deltacommit completed, or was archived.

        Changes that the build of a partition found in the table are not meant: ``built_over`` and ``is_older_than_builds`` tell.
        """
        return self._instants.is_committed(instant)

    def is_older_than_builds(self, instant: str) -> bool:
        """Whether the build of a partition may have found the changes of an instant of the table, if that had completed."""
        return instant <= max([self.born_at, *self._covered.values()])

    def groups(self, partition: str) -> tuple[GroupSlice, ...]:
        """The file groups of a partition, ordered by file id; listed once.

        Raises:
            CorruptTableError: a file group is missing, or a file has no name of a file of the partition.
            UnsupportedTableError: the partition is of an unknown kind, or has files in a form of later versions.
        """
        if partition not in self._groups:
            self._groups[partition] = self._list(partition)
        return self._groups[partition]

    def require_whole(self, partition: str) -> None:
        """Pass a partition if its files are there as its completed commits wrote them; reads these commits.

        Raises:
            CorruptTableError: a file is missing, or a log file too short; or as ``groups``.
            InstantNotFoundError: others have compacted the metadata table since.
        """
        self._written.require_whole(partition, self.groups(partition))

    def require_each(self, partition: str) -> None:
        """As ``require_whole``, but of log files only that they are there and not empty: most often no commit is read for that."""
        self._written.require_each(partition, self.groups(partition))

    def require_readable(self, partition: str) -> None:
        """Pass a partition unless one of its files is missing or damaged.

        All of small file groups is read, of others the heads, ends and indexes of files: damage between may stay unseen.

        Raises:
            CorruptTableError: a file is missing or damaged; names the file.
            InstantNotFoundError: others have compacted the metadata table since.
            UnsupportedTableError: a file has a form that rli does not read.
        """
        self.require_whole(partition)
        for group in self.groups(partition):
            self._reader(partition, group).require_readable()

    def superseded(self, partition: str) -> tuple[StoredFile, ...]:
        """The files of a partition that no reader needs any more; raises as ``groups``."""
        return superseded_files(
            self._files.of(partition), self._instants, by_completion=self.timeline.layout.keeps_completion_times
        )

    def scan(self, partition: str) -> Iterator[pa.RecordBatch]:
        """All cells of a partition, sorted within each file group, without removed records: batches of ``CELLS``."""
        for group in self.groups(partition):
            yield from self.scan_group(partition, group)

    def scan_with_places(self, partition: str) -> Iterator[tuple[str | None, pa.RecordBatch, NDArray[np.bool_]]]:
        """As ``scan``; each batch with the partition of the table whose keys its file group holds, and which keys belong there.

        A look-up finds no cell in a file group to which its key does not belong.
        """
        owners = [data_partition_of(group.file_id, partition) for group in self.groups(partition)]
        counts, numbers = Counter(owners), Counter[str | None]()
        for group, owner in zip(self.groups(partition), owners, strict=True):
            for cells in self.scan_group(partition, group):
                yield owner, cells, placed_groups(partition, cells["key"], counts[owner]) == numbers[owner]
            numbers[owner] += 1

    def scan_group(self, partition: str, group: GroupSlice) -> Iterator[pa.RecordBatch]:
        """All cells of a file group, sorted by key, without removed records: batches of ``CELLS``.

        Memory holds the cells of the group's log files and one block of the base file.

        Raises:
            CorruptTableError: a file is damaged or missing.
            UnsupportedTableError: a log file has a block that rli does not read.
        """
        yield from self._reader(partition, group).scan()

    def lookup(self, partition: str, keys: pa.Array, data_partition: str | None = None) -> pa.RecordBatch:
        """The cells of some keys; only the file groups and blocks that may hold them are read.

        Args:
            partition: of the metadata table.
            keys: string or binary array of UTF-8, without nulls; repeated keys count once.
            data_partition: partition path of the table, for a partitioned record index; None otherwise.

        Returns:
            Batch of ``CELLS`` without removed records and without keys that are not there, sorted within each file
            group.

        Raises:
            CorruptTableError: a file is damaged or missing.
            UnsupportedTableError: a log file has a block that rli does not read.
        """
        owner = "" if data_partition is None else escaped_partition(data_partition)
        return self._lookup(partition, _distinct(keys), owner)

    def lookup_filters(self, partition: str, keys: pa.Array) -> pa.RecordBatch:
        """As ``lookup``, of keys of bloom filters: of these the newest record stands, whatever else the partition holds."""
        return self._lookup(partition, _distinct(keys), "", merges=False)

    def lookup_everywhere(self, partition: str, keys: pa.Array) -> pa.RecordBatch:
        """As ``lookup``, in the file groups of all partitions of the table, if each partition has its own."""
        wanted = _distinct(keys)
        owners = dict.fromkeys(data_partition_of(group.file_id, partition) for group in self.groups(partition))
        return concatenated([self._lookup(partition, wanted, owner) for owner in owners])

    def entries_of(self, partition: str, values: pa.Array) -> Iterator[pa.RecordBatch]:
        """The cells of a secondary index that are entries of some values, as they are read: batches of ``CELLS``.

        Args:
            partition: of the secondary index, which places its entries by their values.
            values: as ``rli.hudi.metadata.secondary_keys.index_form`` gives them.

        Raises:
            CorruptTableError: a file is damaged or missing.
            UnsupportedTableError: a log file has a block that rli does not read.
        """
        prefixes, groups = _distinct(entry_prefixes(values)), self.groups(partition)
        chosen = groups_of(prefixes, len(groups))
        for number in np.unique(chosen).tolist():
            some = prefixes.filter(pa.array(chosen == number))
            yield from self._reader(partition, groups[number]).lookup(SoughtValues(some))

    def entries_beginning(self, partition: str, prefix: str) -> Iterator[pa.RecordBatch]:
        """The entries of strings with a prefix in a secondary index: cells as ``entries_of`` gives them, from all file groups.

        Args:
            partition: of the secondary index.
            prefix: of the strings, not empty.
        """
        for group in self.groups(partition):
            yield from self._reader(partition, group).lookup(SoughtBegin(begin_of_entries(prefix)))

    def may_take_back(self, partition: str, instants: Collection[str]) -> bool:
        """Whether log files alone hold what some instants changed in a partition, and nobody changed it since; raises as ``lacks``."""
        newest = max((group.base_instant for group in self.groups(partition)), default="")
        covered = self._covered.get(partition, "")
        shown = [instant for instant in instants if self.may_show(instant)]
        are_apart = all(self._instants.is_later(instant, newest, covered) for instant in shown)
        return are_apart and not any(self._changes_since(partition, min(shown, default=""), instants))

    def _changes_since(self, partition: str, time: str, without: Collection[str]) -> Iterator[Instant]:
        """The completed deltacommits later than an instant, but some, that have changed a partition."""
        for instant in self.timeline.completed:
            if instant.action == Action.DELTA_COMMIT and instant.time > time and instant.time not in without:
                commit = read_commit(self._storage, self.timeline, instant)
                if any(stat.partition_path == partition for stat in commit.write_stats):
                    yield instant

    def taken_back(self, partition: str, instants: Collection[str]) -> Iterator[pa.RecordBatch]:
        """What takes the changes of some instants back: batches of ``CELLS``, in which an empty value removes a record.

        Args:
            partition: of the metadata table, whose records are not merged.
            instants: of the table; no base file has merged them (``may_take_back``).

        Raises:
            CorruptTableError: a file is damaged or missing.
            UnsupportedTableError: a log file has a block that rli does not read.
        """
        shown, before = (self._instants.deciding(instants, count=count) for count in (True, False))
        for group in self.groups(partition):
            keys = _distinct(self._reader(partition, group, shown).keys_changed_by(instants))
            if len(keys):
                former = concatenated(list(self._reader(partition, group, before).lookup(SoughtKeys(keys))))
                yield former
                yield removals(keys.filter(pc.invert(pc.is_in(keys, value_set=former["key"]))))

    def _lookup(
        self, partition: str, wanted: pa.Array, owner: str | None, *, merges: bool | None = None
    ) -> pa.RecordBatch:
        groups = [group for group in self.groups(partition) if data_partition_of(group.file_id, partition) == owner]
        if not groups or not len(wanted):
            return concatenated([])
        chosen = placed_groups(partition, wanted, len(groups))

        def look_up(number: int) -> list[pa.RecordBatch]:
            some = wanted.filter(pa.array(chosen == number))
            return list(self._reader(partition, groups[number], merges=merges).lookup(SoughtKeys(some)))

        found = read_each(self._storage, look_up, np.unique(chosen).tolist())
        return concatenated(list(chain.from_iterable(found)))

    def _reader(
        self, partition: str, group: GroupSlice, instants: ValidInstants | None = None, *, merges: bool | None = None
    ) -> GroupReader:
        counting = instants or self._instants
        are_merged = kind_of(partition) in _MERGED if merges is None else merges
        return GroupReader(self._storage, group, counting, self._written, merges=are_merged)

    def _list(self, partition: str) -> tuple[GroupSlice, ...]:
        if kind_of(partition) is None:
            raise UnsupportedTableError(
                f"the metadata table has a partition of a kind that rli does not know: partition={partition}",
                remedy="drop this partition with Hudi, or read the table without its metadata table",
            )
        by_completion = self.timeline.layout.keeps_completion_times
        groups = group_slices(self._files.of(partition), self._instants, by_completion=by_completion)
        if groups or not self._may_lack_groups(partition):
            _require_all_groups(partition, groups)
        return groups

    def _may_lack_groups(self, partition: str) -> bool:
        """Whether a partition is a partitioned record index of a table without files: it has no file groups yet."""
        if kind_of(partition) is not PartitionKind.RECORD_INDEX:
            return False
        definition = load_index_definitions(self._storage, self._properties).get(partition)
        return definition is not None and definition.is_partitioned and not self._lists_partitions()

    def _lists_partitions(self) -> bool:
        """Whether the table has, or had, partitions with files."""
        found = self.lookup(PartitionKind.FILES, pa.array([PARTITION_LIST_KEY]))["value"].to_pylist()
        records = map(decode_record, found)
        return any(isinstance(record, FileList) and record.files for record in records)


def _distinct(keys: pa.Array) -> pa.Array:
    """Each key once, in the order of HFiles."""
    distinct = keys.cast(pa.binary()).unique()
    return distinct.take(pc.sort_indices(distinct))


def _require_all_groups(partition: str, groups: tuple[GroupSlice, ...]) -> None:
    """Raise ``CorruptTableError`` unless the numbers of groups are complete: their count places the keys."""
    numbers: dict[str | None, list[int]] = defaultdict(list)
    for group in groups:
        numbers[data_partition_of(group.file_id, partition)].append(group_number(group.file_id))
    is_complete = all(found == list(range(len(found))) for found in numbers.values())
    if not groups or None in numbers or not is_complete:
        raise CorruptTableError(
            f"a partition of the metadata table lacks file groups, or has those of another one: "
            f"folder={posixpath.join(METADATA_FOLDER, partition)} groups={len(groups)}",
            remedy="drop this partition of the metadata table and let it be built anew",
        )
