"""The contract of index kinds: what writes, conflict checks, table services and engines need to know of any index.

An index answers where the record of a key is. A *point index* looks keys up in batches, for example in a key-value
store. A *file index* names the file slices that may hold the keys, and probes these. Both give a ``Locator`` for one
state of the table, and find the keys that other writers changed since that state. ``rli.index.registry`` knows the
kinds; nothing above it knows more than this contract.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from rli.errors import CorruptTableError
from rli.file_group.batches import coalesce_tables
from rli.file_group.journal import Journal
from rli.hudi.timeline.timeline import Timeline
from rli.locations import LOCATION_SCHEMA
from rli.model import KeyMode
from rli.store.contract import Store
from rli.tasks import TaskRunner
from rli.view.definition import TableDefinition
from rli.view.file_slices import FileSlice
from rli.view.snapshot import Snapshot

LOOKUP_SECONDS: Final = 60.0
"""For how long a look-up waits for commits to be whole in the index, if nobody says."""

_SAMPLE: Final = 10

_SEPARATOR: Final = "\0"
"""Stands between a partition path and a key; no name of a folder holds it."""

_LEAST_ROWS: Final = 65_536
_BYTES_AT_ONCE: Final = 64 * 1024 * 1024
"""Of stored keys, which are compared with sought ones."""


class Scope(StrEnum):
    """Where a record key is unique."""

    GLOBAL = "global"
    """In the whole table: a record whose partition changes is moved."""

    PARTITION = "partition"
    """In its partition: a record with another partition value is another record."""


@dataclass(frozen=True, slots=True)
class SomeKeys:
    """Record keys, of which only a few are named.

    Attributes:
        count: how many.
        sample: ten of them at most.
    """

    count: int
    sample: tuple[str, ...]

    @classmethod
    def of(cls, batches: Iterable[pa.Array]) -> SomeKeys:
        return sum_of(cls(len(keys), tuple(keys.slice(0, _SAMPLE).to_pylist())) for keys in batches)


NO_KEYS: Final = SomeKeys(0, ())


def sum_of(parts: Iterable[SomeKeys]) -> SomeKeys:
    """All the keys together."""
    total = NO_KEYS
    for part in parts:
        total = SomeKeys(total.count + part.count, (*total.sample, *part.sample)[:_SAMPLE])
    return total


@dataclass(frozen=True, slots=True)
class Unseen:
    """The instants in which a table and its index differ; false where there are none.

    Attributes:
        unapplied: completed ones, which a sync would bring into the index.
        withdrawn: those that the index has followed and that are pending again: they are being rolled back.
    """

    unapplied: tuple[str, ...] = ()
    withdrawn: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.unapplied or self.withdrawn)


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """How index and table agree, as of one state of the table.

    Attributes:
        records: records in the table.
        entries: keys with a location in the index; of a file index, the table's own records.
        missing: records whose key the index does not hold.
        misplaced: records whose key the index places elsewhere.
        dangling: keys of the index without a record in the table.
        sample: record keys that are wrong, a few of each kind.
        repeated: records with the key of another record: in the same base file, or, for a file index, in its scope.
        newer: records that were not compared, because writers have placed their keys since.
    """

    records: int
    entries: int
    missing: int
    misplaced: int
    dangling: int
    sample: tuple[str, ...]
    repeated: int = 0
    newer: int = 0

    @property
    def agrees(self) -> bool:
        """Whether index and table say the same."""
        return not (self.missing or self.misplaced or self.dangling or self.repeated)


@dataclass(frozen=True, slots=True)
class IndexStats:
    """Size and state of an index. Kinds that keep nothing of their own have None where they have no such thing.

    Attributes:
        entries: record keys with a location.
        tombstones: deleted record keys whose sequence is still kept.
        bytes: all that the index costs its store; None where the store cannot tell.
        bytes_per_entry: ``bytes`` over entries and tombstones; None where unknown or empty.
        shards: how many shards the key space is cut into.
        file_groups: file groups that the index knows.
        last_sequence: the last commit sequence given out.
        applied_sequence: the last one whose changes are all in the index; None before a bootstrap.
        last_instant: the greatest instant that the index knows.
        key_mode: how record keys are kept.
        url: where the index is.
        kind: of the index, such as "record" or "simple".
        scope: where a record key is unique.
    """

    entries: int
    tombstones: int
    bytes: int | None
    bytes_per_entry: float | None
    shards: int | None
    file_groups: int
    last_sequence: int | None
    applied_sequence: int | None
    last_instant: str | None
    key_mode: KeyMode | None
    url: str
    kind: str
    scope: Scope


@dataclass(frozen=True, slots=True)
class IndexFacts:
    """What an index tells of itself at once; None where it has no such thing, or would have to read all of itself.

    Attributes:
        entries, bytes, shards, key_mode: see ``IndexStats``.
        format_version: of its records.
    """

    entries: int | None = None
    bytes: int | None = None
    shards: int | None = None
    key_mode: str | None = None
    format_version: int | None = None


class IndexState(Protocol):
    """The table as an index has followed it, at one moment: what a write builds on."""

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


class Locator(ABC):
    """Locates record keys as of one state of the table. Picklable: executors use it.

    Locations are tables with ``rli.locations.LOCATION_SCHEMA``.
    """

    @abstractmethod
    def locate(self, record_keys: pa.Array, partition_paths: pa.Array) -> pa.Table:
        """The location of each record: a row for each, in order, nulls where the table does not hold it.

        Args:
            record_keys: string array, shape (n,); distinct, with partition scope distinct in each partition.
            partition_paths: string array, shape (n,): where the records belong by their own values. With global scope
                they do not matter.

        Raises:
            ConflictError: a key was changed after the state.
            IndexNotReadyError: the index is behind the state.
        """

    @abstractmethod
    def locate_all(self, record_keys: pa.Array) -> pa.Table:
        """The locations of all records with some keys (distinct, shape (n,)), in any order; absent keys have no row.

        With partition scope a key may have several rows. Raises as ``locate``.
        """

    def trace(self, stored: pa.Table) -> pa.Table:
        """Where the index places records that were read from base files: a row for each, in order.

        Args:
            stored: locations, as the base files tell.
        """
        return stored


@dataclass(frozen=True, slots=True)
class FoundLocations(Locator):
    """Locates keys by a table of all their locations, which somebody has found before.

    ``locate`` raises ``CorruptTableError`` for a key that stands more than once in its scope.

    Attributes:
        found: locations, in any order; those of other keys may be among them.
        scope: where a key is unique.
    """

    found: pa.Table
    scope: Scope

    def locate(self, record_keys: pa.Array, partition_paths: pa.Array) -> pa.Table:
        stored, wanted = self.found.column("record_key"), record_keys
        if self.scope is Scope.PARTITION:
            stored = pc.binary_join_element_wise(self.found.column("partition_path"), stored, _SEPARATOR)
            wanted = pc.binary_join_element_wise(partition_paths, wanted, _SEPARATOR)
        _require_once(stored.filter(pc.is_in(stored, value_set=wanted)), self.scope)
        rows = self.found.take(pc.index_in(wanted, value_set=stored))
        return pa.table([record_keys, *rows.columns[1:]], schema=LOCATION_SCHEMA)

    def locate_all(self, record_keys: pa.Array) -> pa.Table:
        return self.found.filter(pc.is_in(self.found.column("record_key"), value_set=record_keys))


def _require_once(keys: pa.ChunkedArray, scope: Scope) -> None:
    if pc.count_distinct(keys).as_py() == len(keys):
        return
    counts = pc.value_counts(keys)
    several = counts.filter(pc.greater(counts.field("counts"), 1)).field("values").slice(0, _SAMPLE).to_pylist()
    raise CorruptTableError(
        f"record keys stand in the table more than once: scope={scope} "
        f"keys={[key.rpartition(_SEPARATOR)[2] for key in several]}; find them with rli index verify TABLE, delete these "
        "keys and insert their records again"
    )


class FileLocator(Locator):
    """Locates record keys in the table's own files. An engine may plan the probes itself, file by file.

    Attributes:
        scope: where a key is unique.
    """

    scope: Scope

    @abstractmethod
    def candidates(self, partition_paths: Collection[str] | None) -> Sequence[FileSlice]:
        """The file slices that may hold records.

        Args:
            partition_paths: where the records belong by their own values; None for records anywhere.
        """

    @abstractmethod
    def stored(self, file_slices: Sequence[FileSlice]) -> Iterator[pa.Table]:
        """The locations of all records of file slices, a batch at a time.

        Runs in executors; memory is bounded by a part of a file.

        Args:
            file_slices: of the candidates.

        Raises:
            CorruptTableError: a base file is damaged.
        """

    def probe(self, file_slices: Sequence[FileSlice], record_keys: pa.Array) -> pa.Table:
        """The locations of those of some keys that file slices hold: a row for each record, in any order.

        Runs in executors; memory is bounded by the keys and a part of a file.

        Args:
            file_slices: of the candidates.
            record_keys: string array, shape (n,), distinct.

        Raises:
            CorruptTableError: a base file is damaged.
        """
        # Each call hashes all the keys, so batches of about as many records pay.
        batches = coalesce_tables(self.stored(file_slices), max(_LEAST_ROWS, len(record_keys)), _BYTES_AT_ONCE)
        found = (batch.filter(pc.is_in(batch.column("record_key"), value_set=record_keys)) for batch in batches)
        return pa.concat_tables([LOCATION_SCHEMA.empty_table(), *found])

    def locate(self, record_keys: pa.Array, partition_paths: pa.Array) -> pa.Table:
        slices = self.candidates(pc.unique(partition_paths).to_pylist())
        return FoundLocations(self.probe(slices, record_keys), self.scope).locate(record_keys, partition_paths)

    def locate_all(self, record_keys: pa.Array) -> pa.Table:
        return self.probe(self.candidates(None), record_keys)


class ChangedKeys(ABC):
    """Finds the keys that other writers changed since the state that a write builds on. Picklable.

    Attributes:
        instants: what was committed or undone since, for messages.
    """

    instants: tuple[str, ...]

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
    """

    kind: str
    scope: Scope = Scope.GLOBAL

    @property
    @abstractmethod
    def url(self) -> str:
        """Names the index; a password is not shown."""

    @property
    def home(self) -> str | None:
        """Names the machine and the data where all of the index is on one machine; None where others reach it too."""
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
    ) -> IndexState:
        """Follow the timeline to its present end. May be repeated, interrupted and raced.

        Args:
            table: the table.
            tasks: runs the work on each part of the changes.
            on_registered: called when the index knows of every completed instant.
            on_part: called after each part of the changes.

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

    @abstractmethod
    def locator(self, state: IndexState) -> Locator:
        """Locates keys as of a state that ``sync`` returned."""

    @abstractmethod
    def changes(self, before: IndexState, now: IndexState) -> ChangedKeys | None:
        """The keys that changed from one state to a later one; None if nothing was committed or undone in between.

        The caller holds the lease. This check is what keeps two writers from inserting one key (docs/protocol.md, P36).
        """

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
    ) -> pa.Table:
        """Where each key lives now: ``LOCATION_SCHEMA``, in input order, nulls where the table does not hold a key.

        The caller has shown the index all commits of the table. Runs in executors. With partition scope, a key that lives in several partitions has a row for each of them.

        Args:
            table: the table.
            record_keys: string array, shape (n,); keys may repeat.
            timeout: seconds at most.
            await_synced: shows the index all commits of the table, in so many seconds.
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
    def locator(self, state: IndexState) -> FileLocator:
        """As of ``TableIndex``; an engine may plan the probes of it file by file."""


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

    def drop_own(self, url: str, table_id: str) -> bool:  # noqa: ARG002  (for kinds that keep something elsewhere)
        """Drop the index of a table that is gone, damaged or not; leaves an index of another table alone.

        Returns:
            Whether there was one.

        Raises:
            StoreUnavailableError: its store does not answer.
        """
        return False

    @abstractmethod
    def drop_damaged(self, url: str) -> None:
        """Remove what is at a URL although it cannot be read as an index."""
