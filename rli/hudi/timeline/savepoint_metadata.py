"""What a savepoint keeps (``HoodieSavepointMetadata``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rli.hudi.timeline.avro_files import write_record
from rli.hudi.timeline.schema_parts import STRING, STRINGS, VERSION, map_of, record, required

_PARTITION: Final = record(
    "HoodieSavepointPartitionMetadata", required("partitionPath", STRING), required("savepointDataFile", STRINGS)
)
_SAVEPOINT_METADATA: Final = record(
    "HoodieSavepointMetadata",
    required("savepointedBy", STRING),
    required("savepointedAt", "long"),
    required("comments", STRING),
    required("partitionMetadata", map_of(_PARTITION)),
    VERSION,
)


@dataclass(frozen=True, slots=True)
class SavepointMetadata:
    """Content of a completed savepoint.

    Attributes:
        saved_by: who made it.
        saved_at: milliseconds since the epoch.
        comment: from the user who made it.
        files: partition path → names of the base files that it keeps.
    """

    saved_by: str
    saved_at: int
    comment: str
    files: Mapping[str, tuple[str, ...]]

    def to_avro(self) -> bytes:
        partitions = {
            partition_path: {"partitionPath": partition_path, "savepointDataFile": list(names)}
            for partition_path, names in self.files.items()
        }
        return write_record(
            _SAVEPOINT_METADATA,
            {
                "savepointedBy": self.saved_by,
                "savepointedAt": self.saved_at,
                "comments": self.comment,
                "partitionMetadata": partitions,
                "version": 1,
            },
        )
