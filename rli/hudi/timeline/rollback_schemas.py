"""Avro schemas of the two files of a rollback (``HoodieRollbackPlan``, ``HoodieRollbackMetadata``)."""

from __future__ import annotations

from typing import Final

from rli.hudi.timeline.schema_parts import STRING, STRINGS, VERSION, array_of, map_of, optional, record, required

INSTANT: Final = record("HoodieInstantInfo", required("commitTime", STRING), required("action", STRING))
"""Names an instant."""

_REQUEST: Final = record(
    "HoodieRollbackRequest",
    required("partitionPath", STRING),
    optional("fileId", STRING),
    optional("latestBaseInstant", STRING),
    {"name": "filesToBeDeleted", "type": {**STRINGS, "default": []}, "default": []},
    optional("logBlocksToBeDeleted", map_of("long")),
)
_PARTITION: Final = record(
    "HoodieRollbackPartitionMetadata",
    required("partitionPath", STRING),
    required("successDeleteFiles", STRINGS),
    required("failedDeleteFiles", STRINGS),
    optional("rollbackLogFiles", map_of("long")),
    optional("logFilesFromFailedCommit", map_of("long")),
)

ROLLBACK_PLAN: Final = record(
    "HoodieRollbackPlan",
    optional("instantToRollback", INSTANT),
    optional("RollbackRequests", array_of(_REQUEST)),
    VERSION,
)
"""Content of a requested rollback."""

ROLLBACK_METADATA: Final = record(
    "HoodieRollbackMetadata",
    required("startRollbackTime", STRING),
    required("timeTakenInMillis", "long"),
    required("totalFilesDeleted", "int"),
    required("commitsRollback", STRINGS),
    required("partitionMetadata", map_of(_PARTITION)),
    VERSION,
    {"name": "instantsRollback", "type": {**array_of(INSTANT), "default": []}, "default": []},
)
"""Content of a completed rollback."""
