"""A distributed record-level index for lakehouse tables, and tables that upsert through it."""

from importlib import import_module as _import_module
from importlib.metadata import version as _version
from typing import TYPE_CHECKING
from typing import Final as _Final

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
    RepeatedKeyError,
    RepeatedValueError,
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
from rli.hudi.timeline.instant import Instant, InstantState
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
    OnRepeatedKey,
    Query,
    Receipt,
    Scope,
    Step,
    TableType,
)
from rli.reads.changes.table_changes import CommitChanges
from rli.services import (
    ArchiveResult,
    CleanResult,
    CompactionResult,
    MetadataChange,
    MetadataCompaction,
    RestoreResult,
    ScheduledCompaction,
)
from rli.settings import Maintenance, TableSettings
from rli.table import (
    Deduplicated,
    DroppedTable,
    IndexInfo,
    IndexOfTable,
    MetadataOfTable,
    RepeatedKey,
    Scan,
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
from rli.view.column_indexes import ColumnIndex, ColumnIndexState, IndexHome, IndexUse
from rli.view.explanation import PrunedCounts, PruningStep, ScanExplanation
from rli.view.history import HistoryEntry
from rli.write.buffered.writer import BufferedWriter

if TYPE_CHECKING:
    from rli.advice import Advice, BatchStatistics, CommitStatistics, KindEstimate, Reach, TableStatistics
    from rli.advice.advise import advise
else:
    # Few processes ask for advice, and every task of Spark imports this module.
    _MODULES_OF_ADVICE: _Final = {
        **dict.fromkeys(
            ["Advice", "BatchStatistics", "CommitStatistics", "KindEstimate", "Reach", "TableStatistics"], "rli.advice"
        ),
        "advise": "rli.advice.advise",
    }

    def __getattr__(name: str) -> object:
        if name == "advice":
            return _import_module("rli.advice")
        if name not in _MODULES_OF_ADVICE:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(_import_module(_MODULES_OF_ADVICE[name]), name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__, "advice"})


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
    "ColumnIndex",
    "ColumnIndexState",
    "CommitChanges",
    "CommitResult",
    "CommitStatistics",
    "CommittedTransaction",
    "CompactionResult",
    "ConflictError",
    "CorruptIndexError",
    "CorruptTableError",
    "Deduplicated",
    "Difference",
    "DroppedTable",
    "Durability",
    "ExecutorLostError",
    "Fault",
    "HistoryEntry",
    "IndexCheck",
    "IndexCommit",
    "IndexExistsError",
    "IndexHome",
    "IndexInfo",
    "IndexMismatchError",
    "IndexNotFoundError",
    "IndexNotReadyError",
    "IndexOfTable",
    "IndexStats",
    "IndexTransaction",
    "IndexUse",
    "Instant",
    "InstantNotFoundError",
    "InstantState",
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
    "OnRepeatedKey",
    "PartitionChangeError",
    "PartitionState",
    "PartitionStatus",
    "PendingTransaction",
    "PrunedCounts",
    "PruningStep",
    "Query",
    "Reach",
    "Receipt",
    "RecordExistsError",
    "RecordIndex",
    "RepeatedKey",
    "RepeatedKeyError",
    "RepeatedValueError",
    "RestoreResult",
    "RliError",
    "Scan",
    "ScanExplanation",
    "ScheduledCompaction",
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
    "TableType",
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
