"""Values that the layers hand to each other: locations, changes and what a commit did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple


class FileGroupId(NamedTuple):
    """Names a file group: all versions of a group of records.

    Attributes:
        partition_path: folder of the table that holds it; "" in a table without partitions.
        file_id: unique in the table.
    """

    partition_path: str
    file_id: str


class KeyMode(StrEnum):
    """How record keys are kept in the index."""

    EXACT = "exact"
    """Lossless and short; two keys are one only if they are equal as text."""

    DIGEST = "digest"
    """A 128-bit hash, under a random key of the index, stands for the key. Among n keys two collide with a chance of n² / 2¹²⁹."""


class Scope(StrEnum):
    """Where a record key is unique."""

    GLOBAL = "global"
    """In the whole table: a record whose partition changes is moved."""

    PARTITION = "partition"
    """In its partition: a record with another partition value is another record."""


class ChangeType(StrEnum):
    """What a row of a table's changes is; each commit has at most one change of a record."""

    INSERT = "insert"
    UPDATE_BEFORE = "update_before"
    UPDATE_AFTER = "update_after"
    DELETE = "delete"


class ChangeImages(StrEnum):
    """Which values of updated records changes have: the new ones, or the former ones too."""

    AFTER = "after"
    BOTH = "both"


class TableType(StrEnum):
    """Where the changes of a table's records go; see docs/table-types.md."""

    COPY_ON_WRITE = "copy_on_write"
    """A write rewrites the base file of each file group that it changes."""

    MERGE_ON_READ = "merge_on_read"
    """A write appends updates and deletes to log files; readers merge them with the base files."""


class Query(StrEnum):
    """Which records of a merge-on-read table a read gives; those of a copy-on-write table are the same."""

    SNAPSHOT = "snapshot"
    """All committed records: base files merged with log files."""

    READ_OPTIMIZED = "read_optimized"
    """Those of the base files alone, as of the last compaction of each file group: faster, and out of date."""


class OnPartitionChange(StrEnum):
    """What an upsert does with a known record key that comes with another partition value."""

    MOVE = "move"
    """The record leaves its old partition and appears in the new one, in one commit."""

    KEEP = "keep"
    """The record is updated where it is and keeps its stored partition values."""

    FAIL = "fail"
    """The upsert raises ``PartitionChangeError`` and writes nothing."""


class OnExisting(StrEnum):
    """What an insert does with a record whose key the table holds."""

    SKIP = "skip"
    """The stored record stays as it is: the first one wins."""

    FAIL = "fail"
    """The insert raises ``RecordExistsError`` and writes nothing."""


class OnDuplicates(StrEnum):
    """What a write does if several of its records have one key, with partition scope in one partition."""

    SKIP = "skip"
    """One of them counts: in an upsert that with the greatest ordering value, in an insert the first."""

    FAIL = "fail"
    """The write raises ``InvalidKeyError`` and writes nothing."""


class OnRepeatedKey(StrEnum):
    """What the bootstrap of an index does with a record key that the table holds more than once."""

    FAIL = "fail"
    """The bootstrap raises ``RepeatedKeyError`` and changes no record."""

    NEWEST = "newest"
    """One record of each key stays in the table, as after ``Table.deduplicate``; a commit removes the others."""


class MissingColumns(StrEnum):
    """What an upsert does with columns of the table that its records lack."""

    FAIL = "fail"
    """The upsert raises ``SchemaError`` and writes nothing."""

    NULL = "null"
    """They become null."""

    KEEP = "keep"
    """A record that is updated or moved keeps its stored values; an inserted one has nulls."""


class LeasePlace(StrEnum):
    """Where the writers of a table agree on which of them commits."""

    INDEX = "index"
    """In the index's store: all writers share one index."""

    TABLE = "table"
    """In the table's folder: several hosts share its file system, and each has an index of its own."""


class Durability(StrEnum):
    """What an acknowledged commit survives."""

    DISK = "disk"
    """A power cut: it is on the disk when it is acknowledged."""

    OS = "os"
    """The death of every process, but no power cut: the operating system writes it to the disk when it likes to."""


class Phase(StrEnum):
    """The parts of a write, in their order, by which ``CommitResult.seconds`` says where the time went."""

    BEGIN = "begin"
    """Recovery after dead writers, sync of the index, a new instant."""

    TAG = "tag"
    """Look-ups of the record keys; late events; the file groups of new records."""

    WRITE = "write"
    """Base files and journals, in the work folder."""

    LEASE = "lease"
    """Waiting for the lease."""

    PUBLISH = "publish"
    """The conflict check, and publication on the timeline."""

    APPLY = "apply"
    """Changes of the index, and the end of the work folder."""

    RETRIES = "retries"
    """Attempts before the last one, with the pauses between them."""


class MigrationStep(StrEnum):
    """The steps of ``Table.migrate_index``, in their order; each is reported when it has been completed."""

    BUILT = "built"
    """The new index holds the table's keys as of a snapshot."""

    CAUGHT_UP = "caught up"
    """It has followed what writers committed meanwhile."""

    VERIFIED = "verified"
    """It says what the table says."""

    LEASED = "leased"
    """Writers wait from here on, until the index is switched."""

    SWITCHED = "switched"
    """The table's settings name the new index."""

    DROPPED = "dropped"
    """The former index is gone; only with ``drop_old``."""


@dataclass(frozen=True, slots=True)
class MigrationResult:
    """What ``Table.migrate_index`` has done.

    Attributes:
        index: URL of the table's index now, without a password.
        former: URL of its index before; None where the table had this index already.
        is_former_kept: whether the former index is still there.
        records: records in the table when the index was verified; None where nothing was left to do.
        lease: where writers agree now.
    """

    index: str
    former: str | None
    is_former_kept: bool
    records: int | None
    lease: str


class Step(StrEnum):
    """The steps of a write, in their order; each is reported when it has been completed.

    ``TAGGED``, ``WRITTEN``, ``PUBLISHED`` and ``FINISHED`` stay as they are. The others are for tests that stop a write
    anywhere, and may change: programs that show progress use ``phase``.
    """

    REQUESTED = "requested"
    INFLIGHT = "inflight"
    TAGGED = "tagged"
    RESOLVED = "resolved"
    FILE_GROUP_WRITTEN = "file group written"
    WRITTEN = "written"
    MANIFESTED = "manifested"
    LEASED = "leased"
    FILE_PROMOTED = "file promoted"
    PROMOTED = "promoted"
    PUBLISHED = "published"
    REGISTERED = "registered"
    CHANGES_APPLIED = "changes applied"
    APPLIED = "applied"
    FINISHED = "finished"

    @property
    def phase(self) -> Phase:
        """The part of the write that the step belongs to."""
        return _PHASES[self]


_PHASES: Final = {
    Step.REQUESTED: Phase.BEGIN,
    Step.INFLIGHT: Phase.BEGIN,
    Step.TAGGED: Phase.TAG,
    Step.RESOLVED: Phase.TAG,
    Step.FILE_GROUP_WRITTEN: Phase.WRITE,
    Step.WRITTEN: Phase.WRITE,
    Step.MANIFESTED: Phase.WRITE,
    Step.LEASED: Phase.LEASE,
    Step.FILE_PROMOTED: Phase.PUBLISH,
    Step.PROMOTED: Phase.PUBLISH,
    Step.PUBLISHED: Phase.PUBLISH,
    Step.REGISTERED: Phase.APPLY,
    Step.CHANGES_APPLIED: Phase.APPLY,
    Step.APPLIED: Phase.APPLY,
    Step.FINISHED: Phase.APPLY,
}


@dataclass(frozen=True, slots=True)
class WriteCounts:
    """What became of the rows of a batch: of an upsert, an insert, or a delete with global scope, the counts add up to its rows.

    With partition scope a delete removes a key from all partitions, so that ``deleted`` may exceed the keys given.

    Attributes:
        inserted: record keys that the table did not hold.
        updated: records rewritten in their partition.
        moved: records that changed their partition.
        deleted: records removed.
        unchanged: records that changed nothing: late events, records of file groups in which all are equal to the stored
            ones, known keys of an insert, and deletes of keys that the table does not hold.
        duplicates: rows that did not count, because another row of the batch has the same key.
    """

    inserted: int = 0
    updated: int = 0
    moved: int = 0
    deleted: int = 0
    unchanged: int = 0
    duplicates: int = 0

    def __add__(self, other: WriteCounts) -> WriteCounts:
        return WriteCounts(
            self.inserted + other.inserted,
            self.updated + other.updated,
            self.moved + other.moved,
            self.deleted + other.deleted,
            self.unchanged + other.unchanged,
            self.duplicates + other.duplicates,
        )


@dataclass(frozen=True, slots=True)
class Receipt:
    """What is left in a table's files of the values that ``delete_where`` or ``update_where`` removed.

    Attributes:
        keys: record keys that were deleted, 1,000 at most; none of an update.
        has_all_keys: whether these are all keys.
        files: base files and log files that hold the former versions of the records, relative to the table's folder, the oldest
            first: all older versions of the changed file groups. A clean removes them. The write's own files are left out: a log
            file that deletes records holds their keys alone.
        held_until: an instant. The files, and copies that older moves and clusterings have left elsewhere, are gone after a
            clean whose oldest readable commit (``CleanResult.earliest_kept``) is later.
        savepoints: the savepoints that keep some of the files until they are deleted.
    """

    keys: tuple[str, ...]
    has_all_keys: bool
    files: tuple[str, ...]
    held_until: str
    savepoints: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CommitResult:
    """What a write did.

    Attributes:
        instant: the commit's instant; None when nothing changed, so that nothing was committed.
        inserted, updated, moved, deleted, unchanged, duplicates: see ``WriteCounts``.
        repeated: whether the caller's transaction was committed before: this call wrote nothing, and the other values are
            those of the commit.
        files_created: base files of new file groups.
        files_rewritten: base files that replace an earlier version of their file group.
        files_appended: log files of a merge-on-read table.
        written_bytes: size of all base files and log files written.
        files_replaced: base files whose records are in other file groups from now on, because of a clustering.
        attempts: how often the write was tried.
        conflicts: how many of these attempts lost against other writers.
        seconds: where the time went: a number of seconds for each ``Phase``. A repeated transaction has none.
        index_behind: whether the index could not follow the commit, which stands: the next sync, write or look-up applies it.
        dry_run: whether nothing was written: the values say what the write would do. ``written_bytes`` is 0 then.
        files_to_rewrite: of a dry run, the base files that would be replaced, relative to the table's folder.
        receipt: of ``delete_where`` and ``update_where``: which files still hold what was removed. None if nothing was
            committed, or others have cleaned or archived the commit before this could be told.
    """

    instant: str | None
    inserted: int
    updated: int
    moved: int
    deleted: int
    unchanged: int
    files_created: int
    files_rewritten: int
    written_bytes: int
    files_replaced: int = 0
    duplicates: int = 0
    files_appended: int = 0
    # How it came about is no part of what was done: a repeated transaction returns an equal result.
    attempts: int = field(default=1, compare=False)
    conflicts: int = field(default=0, compare=False)
    seconds: Mapping[str, float] = field(default_factory=dict, compare=False)
    repeated: bool = field(default=False, compare=False)
    index_behind: bool = field(default=False, compare=False)
    dry_run: bool = field(default=False, compare=False)
    files_to_rewrite: tuple[str, ...] = field(default=(), compare=False)
    receipt: Receipt | None = field(default=None, compare=False)

    @property
    def files(self) -> int:
        """How many base files were written, as in the table's history: those created and those rewritten."""
        return self.files_created + self.files_rewritten


@dataclass(frozen=True, slots=True)
class CommittedTransaction:
    """The last transaction of an application that was committed; see ``Table.writer``.

    Attributes:
        number: of the transaction.
        metadata: texts that the caller kept with the commit.
        result: what the commit did.
    """

    number: int
    metadata: Mapping[str, str]
    result: CommitResult
