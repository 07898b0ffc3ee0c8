"""The contract of index kinds: what writes, conflict checks, table services and engines need to know of any index.

An index answers where the record of a key is. A *point index* looks keys up in batches, for example in a key-value
store. A *file index* names the file slices that may hold the keys, and probes these. Both give a ``Locator`` for one
state of the table, and find the keys that other writers changed since that state. ``rli.index.registry`` knows the
kinds; nothing above it knows more than this contract.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, Self, runtime_checkable

import pyarrow as pa

from rli.file_group.journal import Journal, SectionsOf
from rli.hudi.bloom_filter import FALSE_POSITIVE_RATE
from rli.hudi.timeline.timeline import Timeline
from rli.index.locators import FileLocator, Locator
from rli.index.reports import IndexFacts, IndexStats, SomeKeys, Unseen, VerifyReport
from rli.model import FileGroupId, KeyMode, Scope
from rli.storage import Storage
from rli.store.contract import Store
from rli.tasks import TaskRunner
from rli.view.definition import TableDefinition
from rli.view.file_slices import FileSlice
from rli.view.snapshot import Snapshot

LOOKUP_SECONDS: Final = 60.0
"""For how long a look-up waits for commits to be whole in the index, if nobody says."""


class IndexState(Protocol):
    """The table as an index has followed it, at one moment: what a write builds on, and what it asks."""

    @property
    def snapshot(self) -> Snapshot:
        """The table."""

    @property
    def timeline(self) -> Timeline:
        """The timeline of that snapshot."""

    @property
    def sequence(self) -> int | None:
        """The last commit sequence; None for kinds that do not number commits."""

    @property
    def applied(self) -> tuple[str, ...]:
        """The instants whose changes the index took in by this sync."""

    @property
    def withdrawn(self) -> tuple[str, ...]:
        """Commits that the index has followed and that are being rolled back: only the index still knows them."""

    def locator(self) -> Locator:
        """Locates keys as of this state."""

    def changes_since(self, before: Self) -> ChangedKeys | None:
        """The keys that changed from an earlier state to this one; None if nothing was committed or undone in between.

        The caller holds the lease. This check is what keeps two writers from inserting one key (docs/protocol.md, P36).
        """


@runtime_checkable
class ExpiringState(IndexState, Protocol):
    """A state of an index whose keys may expire. A write's own instant is its clock."""

    def locator_at(self, instant: str) -> Locator:
        """Locates keys as of this state, for the write with this instant."""

    def expired_before(self, instant: str) -> str | None:
        """The instant before which a record was written last if its key has expired; None where keys do not expire.

        The table may hold records of expired keys: the index does not know them, so the same key may be inserted again.

        Args:
            instant: of the write that asks.
        """


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


class Resizing(ABC):
    """A clustering that an index plans itself, and what the index keeps of it in files of the table.

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


class ChangedKeys(ABC):
    """Finds the keys that other writers changed since the state that a write builds on. Picklable.

    Attributes:
        instants: what was committed or undone since, for messages.
        keys_expire: whether a key of a file group may have come again in another one.
    """

    instants: tuple[str, ...]
    keys_expire: bool = False

    @abstractmethod
    def placed_by(self, journals: Sequence[Journal], tasks: TaskRunner) -> SomeKeys:
        """Of the keys that journals of a write place, those that others changed."""

    @abstractmethod
    def among(self, record_keys: pa.Array) -> SomeKeys:
        """Of some keys (distinct, shape (n,)) that a write looked up anywhere, those that others changed.

        Runs in executors.
        """


class TableIndex(ABC):
    """The index of one table, of whatever kind. Threads may share it. Picklable.

    Attributes:
        kind: its name, such as ``record`` or ``simple``.
        scope: where a key is unique.
        ttl: seconds for which a key is known after the last commit that wrote its record; None: for ever.
        computes_file_groups: whether the index computes a record's file group from its key. Then upserts and inserts
            look nothing up: ``placements`` names the file group of each record that is written, and this file group
            knows whether it holds the key. Clusterings are those that the index plans itself, or are refused.
            Such an index has partition scope.
        bloom_filter_rate: which share of foreign keys the bloom filters of new base files may claim.
    """

    kind: str
    scope: Scope = Scope.GLOBAL
    ttl: int | None = None
    computes_file_groups: bool = False
    bloom_filter_rate: float = FALSE_POSITIVE_RATE

    @property
    @abstractmethod
    def url(self) -> str:
        """Names the index; a password is not shown."""

    @property
    def home(self) -> str | None:
        """Names the machine and the data where all of the index is on one machine; None where others reach it too."""
        return None

    @property
    def identity(self) -> str | None:
        """Tells the index from every other one, also under another URL of its store; None for kinds that keep nothing."""
        return None

    @property
    def shared_store(self) -> Store | None:
        """The store that all writers share through the index: it may keep their lease. None for kinds without one."""
        return None

    # Following the table ---------------------------------------------------------------------------------------

    @abstractmethod
    def sync(
        self,
        table: TableDefinition,
        tasks: TaskRunner,
        on_registered: Callable[[], None] = lambda: None,
        on_part: Callable[[], None] = lambda: None,
        held: Sequence[Journal] = (),
    ) -> IndexState:
        """Follow the timeline to its present end. May be repeated, interrupted and raced.

        Args:
            table: the table.
            tasks: runs the work on each part of the changes.
            on_registered: called when the index knows of every completed instant.
            on_part: called after each part of the changes.
            held: journals that the caller has just written; those that it holds in memory are not read back.

        Raises:
            IndexNotReadyError: the index was never built, or an instant cannot be followed.
            CorruptIndexError: the index is damaged.
        """

    @abstractmethod
    def unseen(self, table: TableDefinition) -> tuple[IndexState, Unseen]:
        """The state of table and index, and the instants in which they differ; raises as ``sync``."""

    def prepare_for_writing(self) -> None:  # noqa: B027  (most kinds need nothing)
        """Called before each write begins."""

    # Questions of a writer -------------------------------------------------------------------------------------

    @property
    def sections_of(self) -> SectionsOf | None:
        """Puts the keys of a large commit into sections, one of which after the other is applied; None if nothing is."""
        return None

    def placements(
        self,
        new_records: Mapping[str, int],  # noqa: ARG002  (for kinds that decide)
        state: IndexState,  # noqa: ARG002
        *,
        saves: bool = True,  # noqa: ARG002
    ) -> Mapping[str, Placement] | None:
        """Where new records must go, for kinds that decide it; None where the sizes of file groups decide.

        Args:
            new_records: partition path → how many records it gains; with ``computes_file_groups``, how many are
                written to it.
            state: that the write builds on.
            saves: whether the index may write what it keeps of new partitions; a dry run writes nothing.

        Raises:
            IndexMismatchError: the table's file groups are not those that the index computes.
        """
        return None

    def resizing(
        self,
        snapshot: Snapshot,  # noqa: ARG002  (for kinds that plan)
        smaller_than: int | None,  # noqa: ARG002
    ) -> Resizing | None:
        """The clustering of a table, for kinds that plan it; None where the sizes of file groups decide.

        Args:
            snapshot: the table.
            smaller_than: see ``Table.cluster``.
        """
        return None

    # Questions of a recovery -----------------------------------------------------------------------------------

    @property
    @abstractmethod
    def is_built(self) -> bool:
        """Whether the index can follow the table; False before a bootstrap."""

    @abstractmethod
    def standing(self, instants: Iterable[str]) -> list[str]:
        """Those of some instants whose changes the index holds and has not taken back, the newest first."""

    @abstractmethod
    def knows(self, instant: str) -> bool:
        """Whether a commit may have been acknowledged, as far as the index tells."""

    @abstractmethod
    def last_followed(self) -> list[tuple[str, str]]:
        """Instant and action of the last commits of rli that the index holds and that stand, the newest first."""

    # Look-ups of readers ---------------------------------------------------------------------------------------

    @abstractmethod
    def locate_now(
        self,
        table: TableDefinition,
        record_keys: pa.Array,
        timeout: float,
        await_synced: Callable[[float], object],
        partition_paths: pa.Array | None = None,
    ) -> pa.Table:
        """Where each key lives now: ``LOCATION_SCHEMA``, in input order, nulls where the table does not hold a key.

        The caller has shown the index all commits of the table. Runs in executors. With partition scope, a key that
        lives in several partitions has a row for each of them, if the caller does not say in which one to look.

        Args:
            table: the table.
            record_keys: string array, shape (n,); keys may repeat.
            timeout: seconds at most.
            await_synced: shows the index all commits of the table, in so many seconds.
            partition_paths: string array, shape (n,): where the records belong by their own values; None if the caller
                does not know. With global scope they do not matter.
        """

    # Table services --------------------------------------------------------------------------------------------

    def forget_deletes(self, kept: Sequence[str]) -> int:  # noqa: ARG002  (for kinds that keep tombstones)
        """Remove what the index keeps of deletes before some commits, if that pays; returns of how many keys.

        Args:
            kept: the instants of all commits that readers may still read the table as of.
        """
        return 0

    @abstractmethod
    def relocate(self, table: TableDefinition, *, also: bool) -> tuple[str, ...]:
        """Serve the table where it is now; see ``Table.relocate``."""

    @abstractmethod
    def verify_against(
        self, table: TableDefinition, tasks: TaskRunner, await_synced: Callable[[], IndexState]
    ) -> VerifyReport:
        """Compare index and table, key by key, while writers go on; see ``Table.verify_index``."""

    @abstractmethod
    def repair_from(self, table: TableDefinition, tasks: TaskRunner) -> VerifyReport:
        """Make the index say what the table says; returns what was wrong. The caller holds the lease."""

    # The index as a whole --------------------------------------------------------------------------------------

    @abstractmethod
    def stats(self) -> IndexStats:
        """Size and state; may read the whole index."""

    def facts(self) -> IndexFacts:
        """What the index tells of itself without reading much."""
        return IndexFacts()

    @abstractmethod
    def count(self) -> int | None:
        """How many keys the index holds; None for kinds that hold none of their own."""

    @abstractmethod
    def is_gone(self) -> bool:
        """Whether the index has been dropped since it was opened, so that another one may be in its place."""

    @abstractmethod
    def drop(self) -> None:
        """Remove the index with all that it holds; the table is not touched."""

    @abstractmethod
    def close(self) -> None:
        """Give connections and handles back."""


class PointIndex(TableIndex):
    """An index that looks keys up in batches: its ``Locator`` reads no file of the table."""


class FileIndex(TableIndex):
    """An index that finds keys in the table's own files."""

    @abstractmethod
    def locator_of(self, snapshot: Snapshot) -> FileLocator:
        """Locates keys as of a state of the table; an engine may plan the probes of it file by file."""


@dataclass(frozen=True, slots=True)
class IndexOptions:
    """How an index is to be built.

    Attributes:
        shards: see ``rli.create_index``.
        key_mode: see ``rli.create_index``.
    """

    shards: int | None = None
    key_mode: KeyMode | str = KeyMode.EXACT


class IndexKind(ABC):
    """One kind of index: how the index of a table is made, opened and removed. The table's settings hold its URL."""

    @property
    @abstractmethod
    def has_store(self) -> bool:
        """Whether indexes of this kind are kept in a store of their own, which may keep the lease too."""

    @abstractmethod
    def require_valid(self, url: str, options: IndexOptions) -> None:
        """Raise ``SettingsError`` for a URL or options that this kind does not take."""

    @abstractmethod
    def create(self, table: TableDefinition, options: IndexOptions) -> TableIndex:
        """Make the empty index of a new table.

        Raises:
            IndexExistsError: there is one already.
            StoreUnavailableError: its store does not answer.
        """

    @abstractmethod
    def open(self, table: TableDefinition) -> TableIndex:
        """Open the index of a table.

        Raises:
            IndexNotReadyError: it is missing.
            IndexMismatchError: the index at the URL belongs to another table, or to another place of this one.
            StoreUnavailableError: its store does not answer.
        """

    @abstractmethod
    def require_own(self, table: TableDefinition, url: str) -> None:
        """Pass a URL with no index, or with the table's own; raises ``IndexMismatchError`` for another one."""

    @abstractmethod
    def rebuild(self, table: TableDefinition, options: IndexOptions, tasks: TaskRunner) -> tuple[TableIndex, int]:
        """Build the index again from the table's files; returns it, and how many records it holds.

        Raises:
            CorruptTableError: a record key lives in more than one place of its scope, or a file cannot be read.
        """

    @abstractmethod
    def open_to_relocate(self, table: TableDefinition) -> TableIndex:
        """Open the index of a table that may have been moved; raises as ``open``, but for the place."""

    @abstractmethod
    def drop_unfinished(self, url: str, table_id: str) -> None:
        """Drop the index of a table that was never completed; leaves indexes of others, or with commits, alone."""

    def drop_own(self, url: str, table_id: str, storage: Storage) -> bool:  # noqa: ARG002  (for kinds that keep something)
        """Drop the index of a table that is gone, damaged or not; leaves an index of another table, or of a copy, alone.

        Args:
            url: of the index.
            table_id: identity of the table.
            storage: of the table.

        Returns:
            Whether there was one.

        Raises:
            StoreUnavailableError: its store does not answer.
        """
        return False

    @abstractmethod
    def drop_damaged(self, url: str) -> None:
        """Remove what is at a URL although it cannot be read as an index."""
