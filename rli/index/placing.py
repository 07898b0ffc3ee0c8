"""Roles of kinds that say where records go: into which file groups, and how a clustering puts those together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from rli.model import FileGroupId
from rli.storage import Storage
from rli.view.file_slices import FileSlice
from rli.view.snapshot import Snapshot


class Placement(ABC):
    """Where the new records of one partition go. Picklable; each repetition of a task places a record in the same group."""

    @abstractmethod
    def file_ids_of(self, record_keys: pa.Array) -> pa.Array:
        """The file group of each record: dictionary-encoded string array, shape (n,)."""

    @property
    def only_file_id(self) -> str | None:
        """The file group of all records; None if they go to several."""
        return None

    @abstractmethod
    def records_by_file_id(self) -> Iterator[tuple[str, int]]:
        """Each file group with about how many records it takes."""


@dataclass(frozen=True, slots=True)
class Regrouping:
    """File slices of one partition whose records go to new file groups. Picklable.

    Attributes:
        sources: the file slices, which are replaced.
        file_ids: the new file groups.
        placement: of the records in them.
    """

    sources: tuple[FileSlice, ...]
    file_ids: tuple[str, ...]
    placement: Placement


class Regrouped(ABC):
    """What an index keeps, in files of the table, of a commit that replaces file groups."""

    @abstractmethod
    def files(self, instant: str, now: Snapshot, replaced: frozenset[FileGroupId]) -> Mapping[str, bytes]:
        """Path → content of the files that come into the table with the commit. The caller holds the lease.

        Args:
            instant: of the commit.
            now: what the commit comes on top of.
            replaced: the file groups that are replaced.

        Raises:
            ConflictError: another commit was first.
        """

    @abstractmethod
    def completed(self, storage: Storage, instant: str, replaced: frozenset[FileGroupId]) -> None:
        """Called once the commit is published; what it does may be lost. Arguments as for ``files``."""


class Resizing(Regrouped):
    """A clustering that an index plans itself.

    Attributes:
        regroupings: what is to be written; a part of it may be left out.
        watched: file groups that must not be changed meanwhile, beside those of the sources.
    """

    @property
    @abstractmethod
    def regroupings(self) -> Sequence[Regrouping]: ...

    @property
    @abstractmethod
    def watched(self) -> frozenset[FileGroupId]: ...


class Renewal(Regrouped):
    """New file groups in the place of others, for an overwrite or a drop of partitions."""

    @abstractmethod
    def placements(self, records: Mapping[str, int], *, saves: bool) -> Mapping[str, Placement]:
        """As ``PlacesRecords.placements``: where the records of the overwrite go."""


class PlacesRecords(ABC):
    """The index computes a record's file group from its key.

    Upserts and inserts look nothing up: ``placements`` names the file group of each record that is written, and this file
    group knows whether it holds the key. Such an index has partition scope. Its clusterings are those that it plans
    itself (``PlansClustering``), or are refused.
    """

    @abstractmethod
    def placements(
        self, records: Mapping[str, int], snapshot: Snapshot, replaced: Collection[FileGroupId] = (), *, saves: bool
    ) -> Mapping[str, Placement]:
        """Where the records of a write go.

        Args:
            records: partition path → how many are written to it.
            snapshot: that the write builds on.
            replaced: file groups that the write replaces: they take no record.
            saves: whether the index may write what it keeps of new partitions; a dry run writes nothing.

        Raises:
            IndexMismatchError: the table's file groups are not those that the index computes.
        """


class PlansClustering(ABC):
    """The index plans the clusterings of its table: it keeps the names of file groups, so each commit that replaces some tells it."""

    @abstractmethod
    def resizing(self, snapshot: Snapshot, smaller_than: int | None) -> Resizing:
        """The clustering of a table.

        Args:
            snapshot: the table.
            smaller_than: see ``Table.cluster``.
        """

    @abstractmethod
    def renewal(self, snapshot: Snapshot, replaced: Collection[FileGroupId]) -> Renewal:
        """What takes the place of file groups that an overwrite or a drop of partitions replaces.

        Args:
            snapshot: that the write builds on.
            replaced: the file groups.
        """


@dataclass(frozen=True, slots=True)
class JoinedBucket:
    """A bucket that is written anew.

    Attributes:
        sources: its file slices: one, or several where two writers made its first file group at the same moment.
        group: the new file group that takes the place of theirs.
    """

    sources: tuple[FileSlice, ...]
    group: FileGroupId


class JoinsBuckets(ABC):
    """The role of an index whose buckets have file groups of any name, so that two writers may make two for one bucket."""

    @abstractmethod
    def to_join(self, snapshot: Snapshot, groups: Collection[FileGroupId]) -> Iterator[JoinedBucket]:
        """The buckets that are to be written anew: those with several file groups, and those of some file groups.

        Args:
            snapshot: the table.
            groups: file groups that hold a key more than once.

        Raises:
            IndexMismatchError: a file group is no bucket.
        """
