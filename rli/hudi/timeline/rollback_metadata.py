"""What a rollback plans to delete and what it deleted, as the Avro files of its instant keep it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rli.errors import CorruptTableError
from rli.hudi.timeline.avro_files import MALFORMED, read_record, write_record
from rli.hudi.timeline.by_partition import by_partition
from rli.hudi.timeline.rollback_schemas import ROLLBACK_METADATA, ROLLBACK_PLAN


@dataclass(frozen=True, slots=True)
class RollbackPlan:
    """Content of a requested rollback: what is to be undone.

    Attributes:
        instant_time: the instant to undo.
        action: its action.
        files: partition path → full paths of the base files to delete.
    """

    instant_time: str
    action: str
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def to_avro(self) -> bytes:
        requests = [
            {
                "partitionPath": partition_path,
                "fileId": "",
                "latestBaseInstant": "",
                "filesToBeDeleted": some,
                "logBlocksToBeDeleted": {},
            }
            for partition_path, paths in self.files.items()
            # One without files is named, too: the commit has replaced file groups there.
            for some in ([[path] for path in paths] or [[]])
        ]
        record = {"instantToRollback": instant_record(self.instant_time, self.action), "RollbackRequests": requests}
        return write_record(ROLLBACK_PLAN, {**record, "version": 1})

    @classmethod
    def from_avro(cls, content: bytes, file_name: str) -> RollbackPlan:
        """Read a requested rollback; log blocks of merge-on-read tables are left out.

        Raises:
            CorruptTableError: the content is no rollback plan; names the file.
        """
        try:
            record = read_record(content)
            requests = record["RollbackRequests"] or ()
            files = by_partition((request["partitionPath"], request["filesToBeDeleted"]) for request in requests)
            undone = record["instantToRollback"]
            return cls(undone["commitTime"], undone["action"], files)
        except MALFORMED as error:
            raise _corrupt(file_name, error) from error


@dataclass(frozen=True, slots=True)
class RollbackMetadata:
    """Content of a completed rollback: what was undone.

    Attributes:
        start_time: time of the rollback's own instant.
        instant_time: the instant that was undone.
        action: its action.
        milliseconds: how long it took.
        deleted: partition path → full paths of the base files deleted.
    """

    start_time: str
    instant_time: str
    action: str
    milliseconds: int
    deleted: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def to_avro(self) -> bytes:
        return write_record(ROLLBACK_METADATA, self.to_record())

    def to_record(self) -> dict[str, Any]:
        """The fields of ``HoodieRollbackMetadata``."""
        partitions = {
            partition_path: {
                "partitionPath": partition_path,
                "successDeleteFiles": list(paths),
                "failedDeleteFiles": [],
                "rollbackLogFiles": {},
                "logFilesFromFailedCommit": {},
            }
            for partition_path, paths in self.deleted.items()
        }
        return {
            "startRollbackTime": self.start_time,
            "timeTakenInMillis": self.milliseconds,
            "totalFilesDeleted": sum(map(len, self.deleted.values())),
            "commitsRollback": [self.instant_time],
            "partitionMetadata": partitions,
            "version": 1,
            "instantsRollback": [instant_record(self.instant_time, self.action)],
        }

    @classmethod
    def from_avro(cls, content: bytes, file_name: str) -> RollbackMetadata:
        """Read a completed rollback; log files of merge-on-read tables are left out.

        Raises:
            CorruptTableError: the content is no rollback metadata; names the file.
        """
        try:
            return cls.from_record(read_record(content))
        except MALFORMED as error:
            raise _corrupt(file_name, error) from error

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> RollbackMetadata:
        """Read the fields; raises one of ``MALFORMED`` for those of something else."""
        (undone,) = record["instantsRollback"]
        deleted = {
            partition_path: tuple(partition["successDeleteFiles"])
            for partition_path, partition in record["partitionMetadata"].items()
        }
        return cls(
            start_time=record["startRollbackTime"],
            instant_time=undone["commitTime"],
            action=undone["action"],
            milliseconds=record["timeTakenInMillis"],
            deleted=deleted,
        )


def instant_record(time: str, action: str) -> dict[str, str]:
    """The fields of ``HoodieInstantInfo``."""
    return {"commitTime": time, "action": action}


def _corrupt(file_name: str, error: Exception) -> CorruptTableError:
    return CorruptTableError(
        f"a rollback's file cannot be read: file={file_name} ({type(error).__name__}: {error})",
        remedy="restore the file from a backup, or remove the files of this rollback and roll back again",
    )
