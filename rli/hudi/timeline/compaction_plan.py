"""Content of a requested compaction (``HoodieCompactionPlan``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rli.hudi.timeline.avro_files import write_record
from rli.hudi.timeline.schema_parts import TEXT, TEXTS, VERSION, array_of, map_of, optional, record

_FORMAT_VERSION: Final = 2
_MEBIBYTE: Final = 1 << 20

_OPERATION: Final = record(
    "HoodieCompactionOperation",
    optional("baseInstantTime", TEXT),
    optional("deltaFilePaths", TEXTS),
    optional("dataFilePath", TEXT),
    optional("fileId", TEXT),
    optional("partitionPath", TEXT),
    optional("metrics", map_of("double")),
    optional("bootstrapFilePath", TEXT),
)
_STRATEGY: Final = record(
    "HoodieCompactionStrategy", optional("compactorClassName", TEXT), optional("strategyParams", map_of(TEXT)), VERSION
)
_COMPACTION_PLAN: Final = record(
    "HoodieCompactionPlan",
    optional("operations", array_of(_OPERATION)),
    optional("extraMetadata", map_of(TEXT)),
    VERSION,
    optional("strategy", _STRATEGY),
    {"name": "preserveHoodieMetadata", "type": ["boolean", "null"], "default": False},
    optional("missingSchedulePartitions", TEXTS),
)


@dataclass(frozen=True, slots=True)
class CompactionOperation:
    """The compaction of one file group.

    Attributes:
        partition_path: of the file group.
        file_id: of the file group.
        base_file: name of its base file; None if it has log files alone.
        base_instant: of the base file, or of the oldest log file.
        log_files: names, the oldest first.
        log_bytes: of the log files.
        base_bytes: of the base file.
    """

    partition_path: str
    file_id: str
    base_file: str | None
    base_instant: str
    log_files: tuple[str, ...]
    log_bytes: int
    base_bytes: int


def compaction_plan(operations: Sequence[CompactionOperation]) -> bytes:
    """The content of a requested compaction.

    Args:
        operations: one for each file group.
    """
    return write_record(
        _COMPACTION_PLAN,
        {
            "operations": [_fields(operation) for operation in operations],
            "extraMetadata": {},
            "version": _FORMAT_VERSION,
            "strategy": None,
            "preserveHoodieMetadata": False,
            "missingSchedulePartitions": None,
        },
    )


def _fields(operation: CompactionOperation) -> dict[str, object]:
    read, written = (operation.log_bytes + operation.base_bytes) / _MEBIBYTE, operation.base_bytes / _MEBIBYTE
    return {
        "baseInstantTime": operation.base_instant,
        "deltaFilePaths": [*operation.log_files],
        "dataFilePath": operation.base_file,
        "fileId": operation.file_id,
        "partitionPath": operation.partition_path,
        # Hudi fails to run a plan without them.
        "metrics": {
            "TOTAL_LOG_FILES": float(len(operation.log_files)),
            "TOTAL_LOG_FILES_SIZE": float(operation.log_bytes),
            "TOTAL_IO_READ_MB": read,
            "TOTAL_IO_WRITE_MB": written,
            "TOTAL_IO_MB": read + written,
        },
        "bootstrapFilePath": None,
    }
