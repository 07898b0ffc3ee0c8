"""What a clean plans to delete and what it deleted, as the Avro files of its instant keep it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from rli.errors import CorruptTableError
from rli.hudi.timeline.avro_files import MALFORMED, read_record, write_record
from rli.hudi.timeline.clean_schemas import CLEAN_METADATA, CLEANER_PLAN
from rli.hudi.timeline.instant import InstantState

_POLICY: Final = "KEEP_LATEST_COMMITS"
# Since version 2 a plan holds full paths, and a result names relative to their partitions.
_FORMAT_VERSION: Final = 2


@dataclass(frozen=True, slots=True)
class CleanPlan:
    """Content of a requested clean.

    Attributes:
        earliest_kept: time of the oldest commit as of which the table can still be read; None where nobody says.
        earliest_action: its action.
        last_completed: time of the last completed write.
        policy: which files are cleaned, in Hudi's words.
        files: partition path → full paths of the files to delete.
    """

    earliest_kept: str | None
    earliest_action: str
    last_completed: str
    files: Mapping[str, tuple[str, ...]]
    policy: str = _POLICY

    def to_avro(self) -> bytes:
        earliest = {
            "timestamp": self.earliest_kept,
            "action": self.earliest_action,
            "state": InstantState.COMPLETED.name,
        }
        record: dict[str, Any] = {
            "earliestInstantToRetain": None if self.earliest_kept is None else earliest,
            "lastCompletedCommitTimestamp": self.last_completed,
            "policy": self.policy,
            "filesToBeDeletedPerPartition": {},
            "version": _FORMAT_VERSION,
            "filePathsToBeDeletedPerPartition": {
                partition_path: [{"filePath": path, "isBootstrapBaseFile": False} for path in paths]
                for partition_path, paths in self.files.items()
            },
            "partitionsToBeDeleted": [],
            "extraMetadata": {},
        }
        return write_record(CLEANER_PLAN, record)

    @classmethod
    def from_avro(cls, content: bytes, file_name: str) -> CleanPlan:
        """Read a requested clean, of any engine.

        Raises:
            CorruptTableError: the content is no plan; names the file.
        """
        try:
            record = read_record(content)
            earliest = record["earliestInstantToRetain"] or {"timestamp": None, "action": ""}
            return cls(
                earliest_kept=earliest["timestamp"] or None,
                earliest_action=earliest["action"],
                last_completed=record["lastCompletedCommitTimestamp"],
                files=_planned_files(record),
                policy=record["policy"],
            )
        except MALFORMED as error:
            raise CorruptTableError(
                f"a requested clean cannot be read: file={file_name} ({type(error).__name__}: {error})",
                remedy="remove the files of this clean, and clean again",
            ) from error

    def completed(self, start_time: str, milliseconds: int) -> bytes:
        """Content of the completed clean.

        Args:
            start_time: time of the clean's instant.
            milliseconds: how long it took.
        """
        partitions = {}
        for partition_path, paths in self.files.items():
            names = [path.rpartition("/")[2] for path in paths]
            partitions[partition_path] = {
                "partitionPath": partition_path,
                "policy": self.policy,
                "deletePathPatterns": names,
                "successDeleteFiles": names,
                "failedDeleteFiles": [],
                "isPartitionDeleted": False,
            }
        record = {
            "startCleanTime": start_time,
            "timeTakenInMillis": milliseconds,
            "totalFilesDeleted": sum(map(len, self.files.values())),
            "earliestCommitToRetain": self.earliest_kept or "",
            "lastCompletedCommitTimestamp": self.last_completed,
            "partitionMetadata": partitions,
            "version": _FORMAT_VERSION,
            "bootstrapPartitionMetadata": {},
            "extraMetadata": {},
        }
        return write_record(CLEAN_METADATA, record)


def _planned_files(record: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    paths = record["filePathsToBeDeletedPerPartition"]
    if paths:
        return {partition: tuple(file["filePath"] for file in files) for partition, files in paths.items()}
    return {partition: tuple(files) for partition, files in (record["filesToBeDeletedPerPartition"] or {}).items()}
