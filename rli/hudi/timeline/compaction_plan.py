"""Content of a requested compaction (``HoodieCompactionPlan``)."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from rli.errors import CorruptTableError
from rli.hudi.timeline.avro_files import MALFORMED, read_record, write_record
from rli.hudi.timeline.schema_parts import STRING, STRINGS, VERSION, array_of, map_of, optional, record
from rli.model import FileGroupId

_FORMAT_VERSION: Final = 2
_MEBIBYTE: Final = 1 << 20
_LOG_BYTES: Final = "TOTAL_LOG_FILES_SIZE"
_READ: Final = "TOTAL_IO_READ_MB"

_OPERATION: Final = record(
    "HoodieCompactionOperation",
    optional("baseInstantTime", STRING),
    optional("deltaFilePaths", STRINGS),
    optional("dataFilePath", STRING),
    optional("fileId", STRING),
    optional("partitionPath", STRING),
    optional("metrics", map_of("double")),
    optional("bootstrapFilePath", STRING),
)
_STRATEGY: Final = record(
    "HoodieCompactionStrategy",
    optional("compactorClassName", STRING),
    optional("strategyParams", map_of(STRING)),
    VERSION,
)
_COMPACTION_PLAN: Final = record(
    "HoodieCompactionPlan",
    optional("operations", array_of(_OPERATION)),
    optional("extraMetadata", map_of(STRING)),
    VERSION,
    optional("strategy", _STRATEGY),
    {"name": "preserveHoodieMetadata", "type": ["boolean", "null"], "default": False},
    optional("missingSchedulePartitions", STRINGS),
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

    @property
    def group(self) -> FileGroupId:
        """The file group."""
        return FileGroupId(self.partition_path, self.file_id)

    @property
    def files(self) -> tuple[str, ...]:
        """Paths within the table of the base file and the log files."""
        base = () if self.base_file is None else (self.base_file,)
        return tuple(posixpath.join(self.partition_path, name) for name in (*base, *self.log_files))

    @property
    def read_bytes(self) -> int:
        """Bytes that the compaction reads."""
        return self.log_bytes + self.base_bytes


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """Content of a requested compaction.

    Attributes:
        operations: one for each file group.
        keeps_meta_columns: whether records keep their meta columns but for the name of their file.
    """

    operations: tuple[CompactionOperation, ...]
    keeps_meta_columns: bool

    @property
    def groups(self) -> frozenset[FileGroupId]:
        """The file groups."""
        return frozenset(operation.group for operation in self.operations)

    @property
    def files(self) -> frozenset[str]:
        """Paths within the table of all files that are merged."""
        return frozenset(path for operation in self.operations for path in operation.files)

    def to_avro(self) -> bytes:
        """The content."""
        return write_record(
            _COMPACTION_PLAN,
            {
                "operations": [_fields(operation) for operation in self.operations],
                "extraMetadata": {},
                "version": _FORMAT_VERSION,
                "strategy": None,
                "preserveHoodieMetadata": self.keeps_meta_columns,
                "missingSchedulePartitions": None,
            },
        )

    @classmethod
    def from_avro(cls, content: bytes, file_name: str) -> Self:
        """Read a requested compaction or log compaction, of any engine.

        Raises:
            CorruptTableError: the content is no plan; names the file.
        """
        try:
            plan = read_record(content)
            operations = tuple(_operation(fields) for fields in plan["operations"] or ())
            return cls(operations, bool(plan["preserveHoodieMetadata"]))
        except MALFORMED as error:
            raise CorruptTableError(
                f"a requested compaction cannot be read: file={file_name} ({type(error).__name__}: {error})",
                remedy="restore the file from a backup, or unschedule the compaction with Hudi",
            ) from error


def _operation(fields: Mapping[str, Any]) -> CompactionOperation:
    metrics = fields["metrics"] or {}
    log_bytes = int(metrics.get(_LOG_BYTES, 0))
    return CompactionOperation(
        partition_path=fields["partitionPath"] or "",
        file_id=fields["fileId"],
        base_file=posixpath.basename(fields["dataFilePath"] or "") or None,
        base_instant=fields["baseInstantTime"],
        # A plan of an early version has full paths.
        log_files=tuple(posixpath.basename(path) for path in fields["deltaFilePaths"] or ()),
        log_bytes=log_bytes,
        base_bytes=max(0, int(metrics.get(_READ, 0.0) * _MEBIBYTE) - log_bytes),
    )


def _fields(operation: CompactionOperation) -> dict[str, object]:
    read, written = operation.read_bytes / _MEBIBYTE, operation.base_bytes / _MEBIBYTE
    return {
        "baseInstantTime": operation.base_instant,
        "deltaFilePaths": [*operation.log_files],
        "dataFilePath": operation.base_file,
        "fileId": operation.file_id,
        "partitionPath": operation.partition_path,
        # Hudi fails to run a plan without them.
        "metrics": {
            "TOTAL_LOG_FILES": float(len(operation.log_files)),
            _LOG_BYTES: float(operation.log_bytes),
            _READ: read,
            "TOTAL_IO_WRITE_MB": written,
            "TOTAL_IO_MB": read + written,
        },
        "bootstrapFilePath": None,
    }
