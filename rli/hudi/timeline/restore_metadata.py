"""What a restore plans to undo and what it undid, as the Avro files of its instant keep it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Final, Self

from rli.errors import CorruptTableError
from rli.hudi.timeline.avro_files import MALFORMED, read_record, write_record
from rli.hudi.timeline.restore_schemas import RESTORE_METADATA, RESTORE_PLAN
from rli.hudi.timeline.rollback_metadata import RollbackMetadata, instant_record

# Since version 2 a plan names the instant to go back to.
_PLAN_VERSION: Final = 2


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """Content of a requested restore.

    Attributes:
        restored_to: the instant to go back to.
        undone: times and actions of the instants to undo, in this order.
    """

    restored_to: str
    undone: tuple[tuple[str, str], ...]

    def to_avro(self) -> bytes:
        return write_record(
            RESTORE_PLAN,
            {
                "instantsToRollback": [instant_record(time, action) for time, action in self.undone],
                "version": _PLAN_VERSION,
                "savepointToRestoreTimestamp": self.restored_to,
            },
        )

    @classmethod
    def from_avro(cls, content: bytes, file_name: str) -> RestorePlan:
        """Read a requested restore.

        Raises:
            CorruptTableError: the content is no such plan; names the file.
        """
        try:
            record = read_record(content)
            undone = tuple((instant["commitTime"], instant["action"]) for instant in record["instantsToRollback"])
            return cls(record["savepointToRestoreTimestamp"], undone)
        except MALFORMED as error:
            raise _corrupt(file_name, error) from error


@dataclass(frozen=True, slots=True)
class RestoreMetadata:
    """Content of a completed restore.

    Attributes:
        start_time: time of the restore's own instant.
        milliseconds: how long it took.
        rollbacks: what became of each instant that it undid, in this order.
    """

    start_time: str
    milliseconds: int
    rollbacks: tuple[RollbackMetadata, ...]

    def taking(self, milliseconds: int) -> Self:
        """The same with another duration."""
        return replace(self, milliseconds=milliseconds)

    def without(self, instants: Collection[str]) -> Self:
        """The same for fewer instants."""
        kept = tuple(rollback for rollback in self.rollbacks if rollback.instant_time not in instants)
        return replace(self, rollbacks=kept)

    def to_avro(self) -> bytes:
        return write_record(
            RESTORE_METADATA,
            {
                "startRestoreTime": self.start_time,
                "timeTakenInMillis": self.milliseconds,
                "instantsToRollback": [rollback.instant_time for rollback in self.rollbacks],
                "hoodieRestoreMetadata": {rollback.instant_time: [rollback.to_record()] for rollback in self.rollbacks},
                "version": 1,
                "restoreInstantInfo": [
                    instant_record(rollback.instant_time, rollback.action) for rollback in self.rollbacks
                ],
            },
        )

    @classmethod
    def from_avro(cls, content: bytes, file_name: str) -> RestoreMetadata:
        """Read a restore that rli made.

        Raises:
            CorruptTableError: the content is no such metadata; names the file.
        """
        try:
            record = read_record(content)
            found = record["hoodieRestoreMetadata"]
            rollbacks = (_only(found[time]) for time in record["instantsToRollback"])
            return cls(
                start_time=record["startRestoreTime"],
                milliseconds=record["timeTakenInMillis"],
                rollbacks=tuple(map(RollbackMetadata.from_record, rollbacks)),
            )
        except MALFORMED as error:
            raise _corrupt(file_name, error) from error


def _only(items: Iterable[dict[str, object]]) -> dict[str, object]:
    (item,) = items
    return item


def _corrupt(file_name: str, error: Exception) -> CorruptTableError:
    return CorruptTableError(
        f"a restore's file cannot be read: file={file_name} ({type(error).__name__}: {error})",
        remedy="restore the file from a backup",
    )
