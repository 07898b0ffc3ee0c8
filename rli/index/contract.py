"""The contract of an index: what writes, conflict checks, table services and engines need to know of any index.

An index answers where the record of a key is. A *point index* keeps an entry for each key, for example in a key-value
store. A *file index* keeps nothing: it names the file slices that may hold the keys, and probes these. Both follow the
table, and their states say where keys are and which of them other writers changed. What only some kinds do is a role:
``rli.index.roles`` and ``rli.index.placing`` have them. ``rli.index.registry`` knows the kinds; nothing above it knows
more than contract and roles.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, Self, runtime_checkable

import pyarrow as pa

from rli.file_group.journal import Journal
from rli.hudi.bloom_filter import FALSE_POSITIVE_RATE
from rli.hudi.timeline.timeline import Timeline
from rli.index.locators import FileLocator, Locator
from rli.index.reports import IndexFacts, IndexStats, SomeKeys, Unseen, VerifyReport
from rli.model import Scope
from rli.tasks import InProcess, TaskRunner
from rli.view.definition import TableDefinition
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
class ExpiringState(Protocol):
    """A state of an index whose keys may expire. A write's own instant is its clock.

    It has methods alone: to ask for this protocol evaluates no property of a state.
    """

    def locator_at(self, instant: str) -> Locator:
        """Locates keys as of this state, for the write with this instant."""

    def expired_before(self, instant: str) -> str | None:
        """The instant before which a record was written last if its key has expired; None where keys do not expire.

        The table may hold records of expired keys: the index does not know them, so the same key may be inserted again.

        Args:
            instant: of the write that asks.
        """


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


@dataclass(frozen=True, slots=True)
class SyncOptions:
    """How an index is to follow its table.

    Attributes:
        tasks: runs the work on each part of the changes.
        held: journals that the caller has just written; those that it holds in memory are not read back.
        on_registered: called when the index knows of every completed instant.
        on_part: called after each part of the changes.
    """

    tasks: TaskRunner = field(default_factory=InProcess)
    held: Sequence[Journal] = ()
    on_registered: Callable[[], None] = lambda: None
    on_part: Callable[[], None] = lambda: None


IN_THIS_PROCESS: Final = SyncOptions()


class TableIndex(ABC):
    """The index of one table, of whatever kind. Threads may share it. Picklable.

    Attributes:
        kind: its name, such as ``record`` or ``simple``.
        scope: where a key is unique.
        bloom_filter_rate: which share of foreign keys the bloom filters of new base files may claim.
    """

    kind: str
    scope: Scope = Scope.GLOBAL
    bloom_filter_rate: float = FALSE_POSITIVE_RATE

    @property
    @abstractmethod
    def url(self) -> str:
        """Names the index; a password is not shown."""

    @abstractmethod
    def sync(self, table: TableDefinition, options: SyncOptions = IN_THIS_PROCESS) -> IndexState:
        """Follow the timeline to its present end. May be repeated, interrupted and raced.

        Args:
            table: the table.
            options: how.

        Raises:
            IndexNotReadyError: the index was never built, or an instant cannot be followed.
            CorruptIndexError: the index is damaged.
        """

    @abstractmethod
    def unseen(self, table: TableDefinition) -> tuple[IndexState, Unseen]:
        """The state of table and index, and the instants in which they differ; raises as ``sync``."""

    @abstractmethod
    def stats(self) -> IndexStats:
        """Size and state; may read the whole index."""

    @abstractmethod
    def close(self) -> None:
        """Give connections and handles back."""


class PointIndex(TableIndex):
    """An index that keeps an entry for each key: its ``Locator`` reads no file of the table."""

    @abstractmethod
    def locate_now(
        self,
        record_keys: pa.Array,
        timeout: float,
        await_synced: Callable[[float], object],
        partition_paths: pa.Array | None = None,
    ) -> pa.Table:
        """As ``rli.index.any_index.locate_now``."""

    @abstractmethod
    def verify_against(
        self, table: TableDefinition, tasks: TaskRunner, await_synced: Callable[[], object]
    ) -> VerifyReport:
        """Compare index and table, key by key, while writers go on; see ``Table.verify_index``.

        Args:
            table: the table.
            tasks: runs the work on each base file and on shards.
            await_synced: shows the index all commits of the table.
        """

    @abstractmethod
    def repair_from(self, table: TableDefinition, tasks: TaskRunner) -> VerifyReport:
        """Make the index say what the table says; returns what was wrong. The caller holds the lease."""

    @abstractmethod
    def facts(self) -> IndexFacts:
        """What the index tells of itself without reading much."""

    @abstractmethod
    def count(self) -> int:
        """How many keys the index holds."""


class FileIndex(TableIndex):
    """An index that finds keys in the table's own files. It keeps nothing, so nothing of it can be repaired."""

    @abstractmethod
    def locator_of(self, snapshot: Snapshot) -> FileLocator:
        """Locates keys as of a state of the table; an engine may plan the probes of it file by file."""

    @abstractmethod
    def verify(self, snapshot: Snapshot) -> VerifyReport:
        """Check what the index relies on: that no key of a scope stands in the files twice.

        Args:
            snapshot: the table, with a list of all its files.

        Raises:
            CorruptTableError: a file is missing or damaged.
        """

    @abstractmethod
    def require_sound(self, table: TableDefinition, report: VerifyReport) -> None:
        """Raise ``CorruptTableError`` if ``verify`` found what no repair of an index can mend."""
