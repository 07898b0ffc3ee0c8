"""A distributed record-level index for lakehouse tables, and tables that upsert through it."""

from importlib.metadata import version as _version

from rli.advice import Advice, BatchStatistics, CommitStatistics, KindEstimate, TableStatistics
from rli.advice.advise import advise
from rli.errors import (
    BufferFullError,
    ConflictError,
    CorruptIndexError,
    CorruptTableError,
    ExecutorLostError,
    IndexExistsError,
    IndexMismatchError,
    IndexNotFoundError,
    IndexNotReadyError,
    InstantNotFoundError,
    InvalidInputError,
    InvalidKeyError,
    LeaseBusyError,
    LeaseLostError,
    PartitionChangeError,
    RecordExistsError,
    RliError,
    SchemaError,
    SettingsError,
    StoreReadOnlyError,
    StoreRestartedError,
    StoreUnavailableError,
    TableExistsError,
    TableNotFoundError,
    TransactionMismatchError,
    UndecidedCommitError,
    UnsupportedTableError,
    VoidAttemptError,
)
from rli.hudi.timeline.instant import Instant
from rli.index.record.alone.commits import IndexCommit, PendingTransaction
from rli.index.record.alone.transaction import IndexTransaction
from rli.index.record.entries.self_check import IndexCheck
from rli.index.record.opening import create_index, open_index
from rli.index.record.record_index import RecordIndex
from rli.index.reports import IndexStats, VerifyReport
from rli.metadata_table.status import MetadataStatus, PartitionState, PartitionStatus
from rli.metadata_table.verify import Difference, Fault
from rli.model import (
    ChangeImages,
    ChangeType,
    CommitResult,
    CommittedTransaction,
    Durability,
    KeyMode,
    LeasePlace,
    MigrationResult,
    MigrationStep,
    MissingColumns,
    OnDuplicates,
    OnExisting,
    OnPartitionChange,
    Receipt,
    Scope,
    Step,
)
from rli.reads.changes.table_changes import CommitChanges
from rli.services.archive import ArchiveResult
from rli.services.clean import CleanResult
from rli.services.metadata_compaction import MetadataCompaction
from rli.services.metadata_table import MetadataChange
from rli.services.restore import RestoreResult
from rli.settings import Maintenance, TableSettings
from rli.table import (
    DroppedTable,
    IndexInfo,
    IndexOfTable,
    MetadataOfTable,
    SyncResult,
    Table,
    TableInfo,
    TableMaintenance,
    TableOptions,
    TableVersions,
    create_table,
    drop_table,
    open_table,
)
from rli.tasks import TaskRunner
from rli.view.explanation import PrunedCounts, PruningStep, ScanExplanation
from rli.view.history import HistoryEntry
from rli.view.scan import Scan
from rli.write.buffered.writer import BufferedWriter

__version__ = _version("record-level-index")

__all__ = [
    "Advice",
    "ArchiveResult",
    "BatchStatistics",
    "BufferFullError",
    "BufferedWriter",
    "ChangeImages",
    "ChangeType",
    "CleanResult",
    "CommitChanges",
    "CommitResult",
    "CommitStatistics",
    "CommittedTransaction",
    "ConflictError",
    "CorruptIndexError",
    "CorruptTableError",
    "Difference",
    "DroppedTable",
    "Durability",
    "ExecutorLostError",
    "Fault",
    "HistoryEntry",
    "IndexCheck",
    "IndexCommit",
    "IndexExistsError",
    "IndexInfo",
    "IndexMismatchError",
    "IndexNotFoundError",
    "IndexNotReadyError",
    "IndexOfTable",
    "IndexStats",
    "IndexTransaction",
    "Instant",
    "InstantNotFoundError",
    "InvalidInputError",
    "InvalidKeyError",
    "KeyMode",
    "KindEstimate",
    "LeaseBusyError",
    "LeaseLostError",
    "LeasePlace",
    "Maintenance",
    "MetadataChange",
    "MetadataCompaction",
    "MetadataOfTable",
    "MetadataStatus",
    "MigrationResult",
    "MigrationStep",
    "MissingColumns",
    "OnDuplicates",
    "OnExisting",
    "OnPartitionChange",
    "PartitionChangeError",
    "PartitionState",
    "PartitionStatus",
    "PendingTransaction",
    "PrunedCounts",
    "PruningStep",
    "Receipt",
    "RecordExistsError",
    "RecordIndex",
    "RestoreResult",
    "RliError",
    "Scan",
    "ScanExplanation",
    "SchemaError",
    "Scope",
    "SettingsError",
    "Step",
    "StoreReadOnlyError",
    "StoreRestartedError",
    "StoreUnavailableError",
    "SyncResult",
    "Table",
    "TableExistsError",
    "TableInfo",
    "TableMaintenance",
    "TableNotFoundError",
    "TableOptions",
    "TableSettings",
    "TableStatistics",
    "TableVersions",
    "TaskRunner",
    "TransactionMismatchError",
    "UndecidedCommitError",
    "UnsupportedTableError",
    "VerifyReport",
    "VoidAttemptError",
    "__version__",
    "advise",
    "create_index",
    "create_table",
    "drop_table",
    "open_index",
    "open_table",
]
