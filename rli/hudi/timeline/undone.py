"""What completed rollbacks and restores undid, read from their Avro files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rli.errors import CorruptTableError
from rli.hudi.timeline.avro_files import MALFORMED, read_record
from rli.hudi.timeline.instant import Action


@dataclass(frozen=True, slots=True)
class Undone:
    """What one rollback or restore undid.

    Attributes:
        instants: times of the instants that are gone.
        files: partition path → names of the base files that were to be deleted, whether or not they were there.
    """

    instants: tuple[str, ...]
    files: Mapping[str, frozenset[str]]

    @classmethod
    def from_avro(cls, action: str, content: bytes, path: str) -> Undone:
        """Read a completed rollback or restore.

        Raises:
            CorruptTableError: the content is neither; names the file.
        """
        try:
            record = read_record(content)
            rollbacks = list(_rollbacks_of_restore(record)) if action == Action.RESTORE else [record]
            instants = [instant for rollback in rollbacks for instant in rollback["commitsRollback"]]
            if action == Action.RESTORE:
                instants += record["instantsToRollback"]
            return cls(tuple(dict.fromkeys(instants)), _files(rollbacks))
        except MALFORMED as error:
            raise CorruptTableError(
                f"a completed {action} cannot be read: file={path} ({type(error).__name__}: {error})",
                remedy="restore the file from a backup",
            ) from error


def _rollbacks_of_restore(record: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for rollbacks in record["hoodieRestoreMetadata"].values():
        yield from (rollback for rollback in rollbacks or () if rollback is not None)


def _files(rollbacks: list[Mapping[str, Any]]) -> dict[str, frozenset[str]]:
    files: dict[str, set[str]] = defaultdict(set)
    for rollback in rollbacks:
        for partition_path, partition in rollback["partitionMetadata"].items():
            paths = (*(partition["successDeleteFiles"] or ()), *(partition["failedDeleteFiles"] or ()))
            files[partition_path].update(path.rpartition("/")[2] for path in paths)
    return {partition_path: frozenset(names) for partition_path, names in files.items()}
