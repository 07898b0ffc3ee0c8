"""Commit metadata: what a completed write says about the files it wrote and replaced.

Table version 6 keeps it as JSON, versions 8 and 9 as an Avro container file; both hold the same fields, whose names
are Hudi's (``HoodieCommitMetadata`` and ``HoodieReplaceCommitMetadata``).
"""

from __future__ import annotations

import json
import posixpath
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from rli.errors import CorruptTableError
from rli.hudi.file_names import LogFileName, is_log_file
from rli.hudi.timeline.avro_files import MALFORMED, read_record, write_record
from rli.hudi.timeline.commit_schemas import COMMIT_METADATA, REPLACE_COMMIT_METADATA
from rli.json_text import parse_json
from rli.model import FileGroupId

CLUSTER: Final = "CLUSTER"
"""Hudi's name of the operation that replaces small file groups by larger ones."""

COMPACT: Final = "COMPACT"
"""Hudi's name of the operation that merges log files into base files."""

BULK_INSERT: Final = "BULK_INSERT_PREPPED"
"""Hudi's name of the operation that fills a new partition of the metadata table."""

SCHEMA_KEY: Final = "schema"
"""Entry of the extra metadata that holds the table's Avro schema."""

_NO_INSTANT: Final = "null"

_ALWAYS_ZERO: Final = (
    "totalWriteErrors",
    "totalLogRecords",
    "totalLogFilesCompacted",
    "totalLogSizeCompacted",
    "totalUpdatedRecordsCompacted",
    "totalLogBlocks",
    "totalCorruptLogBlock",
    "totalRollbackBlocks",
)
_ALWAYS_NULL: Final = ("cdcStats", "tempPath", "minEventTime", "maxEventTime")
_NO_TIMES: Final = {"totalScanTime": 0, "totalUpsertTime": 0, "totalCreateTime": 0}


@dataclass(frozen=True, slots=True)
class AppendedTo:
    """The file slice that a log file was appended to, by the names of its files.

    Attributes:
        base_file: its base file; "" if it has none, and in table version 8 and later.
        log_files: its log files, the new one last; in table version 8 and later the new one alone.
        offset: where the write begins in the log file; above 0 if it was appended to what others wrote.
    """

    base_file: str
    log_files: tuple[str, ...]
    offset: int = 0


@dataclass(frozen=True, slots=True)
class WriteStat:
    """One base file or log file that a commit wrote.

    Attributes:
        file_id: its file group.
        path: relative to the table's folder.
        partition_path: of the file group; "" in a table without partitions.
        previous_instant: of a base file, the instant of the version that it replaces, None for a new file group. Of a log
            file, the instant of the slice's base file in table version 6, and later the instant of the write itself.
        writes: records in the file.
        inserts: records that are new in the file group.
        update_writes: records that were changed.
        deletes: records of the version before that were removed.
        written_bytes: bytes written.
        file_size: bytes of the file.
        appended_to: the slice of a log file; None for a base file.
    """

    file_id: str
    path: str
    partition_path: str
    previous_instant: str | None
    writes: int
    inserts: int
    update_writes: int
    deletes: int
    written_bytes: int
    file_size: int
    appended_to: AppendedTo | None = None

    @property
    def group(self) -> FileGroupId:
        """The file group."""
        return FileGroupId(self.partition_path, self.file_id)


@dataclass(frozen=True, slots=True)
class CommitMetadata:
    """Content of a completed write.

    Attributes:
        write_stats: the files written; files that the write only named but never made are left out.
        replaced_file_ids: partition path → file groups that this write replaced as a whole.
        avro_schema: schema of the table as of this write, without meta columns; None where the write names none.
        operation: Hudi's name of the operation, such as ``UPSERT``.
        extra: further texts that the writer left, checkpoints for example.
    """

    write_stats: tuple[WriteStat, ...]
    replaced_file_ids: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    avro_schema: str | None = None
    operation: str = "UNKNOWN"
    extra: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> bytes:
        """The content as table version 6 keeps it."""
        return json.dumps(self._fields(), ensure_ascii=False, separators=(",", ":")).encode()

    def to_avro(self) -> bytes:
        """The content as table versions 8 and 9 keep it."""
        schema = REPLACE_COMMIT_METADATA if self.replaced_file_ids else COMMIT_METADATA
        return write_record(schema, {**self._fields(), "version": 1})

    def _fields(self) -> dict[str, Any]:
        stats: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for stat in self.write_stats:
            stats[stat.partition_path].append(_stat_to_json(stat))
        schema = {} if self.avro_schema is None else {SCHEMA_KEY: self.avro_schema}
        replaced = {partition_path: list(file_ids) for partition_path, file_ids in self.replaced_file_ids.items()}
        return {
            "partitionToWriteStats": stats,
            "compacted": self.operation == COMPACT,
            "extraMetadata": {**self.extra, **schema},
            "operationType": self.operation,
            **({"partitionToReplaceFileIds": replaced} if replaced else {}),
        }

    @classmethod
    def from_json(cls, content: bytes, file_name: str) -> CommitMetadata:
        """Read the content of a completed write of table version 6.

        Raises:
            CorruptTableError: the content is not commit metadata; names the file.
        """
        try:
            return _from_record(parse_json(content))
        except MALFORMED as error:
            raise _corrupt(file_name, "JSON", error) from error

    @classmethod
    def from_avro(cls, content: bytes, file_name: str) -> CommitMetadata:
        """Read the content of a completed write of table version 8 or 9.

        Raises:
            CorruptTableError: the content is not commit metadata; names the file.
        """
        try:
            return _from_record(read_record(content))
        except MALFORMED as error:
            raise _corrupt(file_name, "Avro", error) from error


def _corrupt(file_name: str, form: str, error: Exception) -> CorruptTableError:
    return CorruptTableError(
        f"a completed commit cannot be read as {form}: file={file_name} ({type(error).__name__}: {error})",
        remedy=(
            "restore the file from a backup, or roll the table back to the instant before it. If the power went off, "
            "write to the table: the next write rolls back a torn commit, unless a savepoint keeps it"
        ),
    )


def _stat_to_json(stat: WriteStat) -> dict[str, Any]:
    return {
        "fileId": stat.file_id,
        "path": stat.path,
        "prevCommit": stat.previous_instant or _NO_INSTANT,
        "numWrites": stat.writes,
        "numDeletes": stat.deletes,
        "numUpdateWrites": stat.update_writes,
        "numInserts": stat.inserts,
        "totalWriteBytes": stat.written_bytes,
        "partitionPath": stat.partition_path,
        "fileSizeInBytes": stat.file_size,
        "runtimeStats": _NO_TIMES,
        **dict.fromkeys(_ALWAYS_ZERO, 0),
        **dict.fromkeys(_ALWAYS_NULL),
        **({} if stat.appended_to is None else _log_to_json(stat.path, stat.appended_to)),
    }


def _log_to_json(path: str, appended_to: AppendedTo) -> dict[str, Any]:
    return {
        "logVersion": LogFileName.parse(posixpath.basename(path)).version,
        "logOffset": appended_to.offset,
        "baseFile": appended_to.base_file,
        "logFiles": [*appended_to.log_files],
    }


def _from_record(record: Mapping[str, Any]) -> CommitMetadata:
    stats = record["partitionToWriteStats"] or {}
    replaced = record.get("partitionToReplaceFileIds") or {}
    extra = {key: value for key, value in (record.get("extraMetadata") or {}).items() if value is not None}
    schema = extra.pop(SCHEMA_KEY, None)
    return CommitMetadata(
        write_stats=tuple(
            _stat_from_record(partition_path, stat)
            for partition_path, partition_stats in stats.items()
            for stat in partition_stats
            if stat["path"]
        ),
        replaced_file_ids={partition_path: tuple(file_ids) for partition_path, file_ids in replaced.items()},
        avro_schema=schema or None,
        operation=record.get("operationType") or "UNKNOWN",
        extra=extra,
    )


def _stat_from_record(partition_path: str, stat: Mapping[str, Any]) -> WriteStat:
    previous, path = stat.get("prevCommit"), _string(stat["path"])
    return WriteStat(
        file_id=_string(stat["fileId"]),
        path=path,
        partition_path=partition_path,
        previous_instant=None if previous in {None, "", _NO_INSTANT} else _string(previous),
        writes=_count(stat, "numWrites"),
        inserts=_count(stat, "numInserts"),
        update_writes=_count(stat, "numUpdateWrites"),
        deletes=_count(stat, "numDeletes"),
        written_bytes=_count(stat, "totalWriteBytes"),
        file_size=_count(stat, "fileSizeInBytes"),
        appended_to=_log_from_record(path, stat) if is_log_file(path) else None,
    )


def _log_from_record(path: str, stat: Mapping[str, Any]) -> AppendedTo:
    # Writers need not name more than the path.
    log_files = tuple(_string(name) for name in stat.get("logFiles") or ())
    return AppendedTo(stat.get("baseFile") or "", log_files or (posixpath.basename(path),), _count(stat, "logOffset"))


def _string(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError(f"expected a string, found {value!r}")
    return value


def _count(stat: Mapping[str, Any], name: str) -> int:
    return int(stat.get(name) or 0)
