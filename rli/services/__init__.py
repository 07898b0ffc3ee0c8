"""Table services: clean, archive, rollback, restore, savepoint."""

from rli.services.archive import ArchiveResult
from rli.services.clean import CleanResult
from rli.services.compaction import CompactionResult, ScheduledCompaction
from rli.services.metadata_compaction import MetadataCompaction
from rli.services.metadata_table import MetadataChange
from rli.services.restore import RestoreResult

__all__ = [
    "ArchiveResult",
    "CleanResult",
    "CompactionResult",
    "MetadataChange",
    "MetadataCompaction",
    "RestoreResult",
    "ScheduledCompaction",
]
