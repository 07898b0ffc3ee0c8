"""Commit metadata: what a completed write says about the files it wrote and replaced.

Table version 6 keeps it as JSON, versions 8 and 9 as an Avro container file; both hold the same fields, whose names
are Hudi's (``HoodieCommitMetadata`` and ``HoodieReplaceCommitMetadata``).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from rli.errors import CorruptTableError
from rli.hudi.timeline.avro_files import MALFORMED, read_record, write_record
from rli.hudi.timeline.commit_schemas import COMMIT_METADATA, REPLACE_COMMIT_METADATA
from rli.json_text import parse_json
from rli.model import FileGroupId

CLUSTER: Final = "CLUSTER"
"""Hudi's name of the operation that replaces small file groups by larger ones."""

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
class WriteStat:
    """One base file that a commit wrote.

    Attributes:
        file_id: its file group.
        path: relative to the table's folder.
        partition_path: of the file group; "" in a table without partitions.
        previous_instant: instant of the version that it replaces; None for a new file group.
        writes: records in the file.
        inserts: records that are new in the file group.
        update_writes: records that were changed.
        deletes: records of the version before that were removed.
        written_bytes: bytes written.
        file_size: bytes of the file.
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

    @property
    def group(self) -> FileGroupId:
        """The file group."""
        return FileGroupId(self.partition_path, self.file_id)


@dataclass(frozen=True, slots=True)
class CommitMetadata:
    """Content of a completed write.

    Attributes:
        write_stats: the base files written; files that the write only named but never made are left out.
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
            "compacted": False,
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
    previous = stat.get("prevCommit")
    return WriteStat(
        file_id=_text(stat["fileId"]),
        path=_text(stat["path"]),
        partition_path=partition_path,
        previous_instant=None if previous in {None, "", _NO_INSTANT} else _text(previous),
        writes=_count(stat, "numWrites"),
        inserts=_count(stat, "numInserts"),
        update_writes=_count(stat, "numUpdateWrites"),
        deletes=_count(stat, "numDeletes"),
        written_bytes=_count(stat, "totalWriteBytes"),
        file_size=_count(stat, "fileSizeInBytes"),
    )


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError(f"expected text, found {value!r}")
    return value


def _count(stat: Mapping[str, Any], name: str) -> int:
    return int(stat.get(name) or 0)
