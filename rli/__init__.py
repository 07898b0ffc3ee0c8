"""A distributed record-level index for lakehouse tables, and tables that upsert through it."""

from importlib.metadata import version as _version

from rli.errors import (
    ConflictError,
    CorruptIndexError,
    CorruptTableError,
    IndexExistsError,
    IndexMismatchError,
    IndexNotFoundError,
    IndexNotReadyError,
    InstantNotFoundError,
    InvalidInputError,
    InvalidKeyError,
    LeaseLostError,
    PartitionChangeError,
    RliError,
    SchemaError,
    SettingsError,
    StoreUnavailableError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedTableError,
    VoidAttemptError,
)
from rli.index.record_index import IndexStats, RecordIndex, create_index, open_index
from rli.index.transaction import IndexTransaction
from rli.model import CommitResult, Durability, KeyMode, LeasePlace, OnPartitionChange, Step
from rli.settings import Maintenance
from rli.table.catalog import create_table, open_table
from rli.table.following.verify import VerifyReport
from rli.table.services.archive import ArchiveResult
from rli.table.services.clean import CleanResult
from rli.table.services.restore import RestoreResult
from rli.table.state.scan import Scan
from rli.table.table import Table

__version__ = _version("record-level-index")

__all__ = [
    "ArchiveResult",
    "CleanResult",
    "CommitResult",
    "ConflictError",
    "CorruptIndexError",
    "CorruptTableError",
    "Durability",
    "IndexExistsError",
    "IndexMismatchError",
    "IndexNotFoundError",
    "IndexNotReadyError",
    "IndexStats",
    "IndexTransaction",
    "InstantNotFoundError",
    "InvalidInputError",
    "InvalidKeyError",
    "KeyMode",
    "LeaseLostError",
    "LeasePlace",
    "Maintenance",
    "OnPartitionChange",
    "PartitionChangeError",
    "RecordIndex",
    "RestoreResult",
    "RliError",
    "Scan",
    "SchemaError",
    "SettingsError",
    "Step",
    "StoreUnavailableError",
    "Table",
    "TableExistsError",
    "TableNotFoundError",
    "UnsupportedTableError",
    "VerifyReport",
    "VoidAttemptError",
    "__version__",
    "create_index",
    "create_table",
    "open_index",
    "open_table",
]
