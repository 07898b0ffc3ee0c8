"""Avro schemas of the two files of a clean (``HoodieCleanerPlan``, ``HoodieCleanMetadata``)."""

from __future__ import annotations

from typing import Final

from rli.hudi.timeline.schema_parts import STRING, STRINGS, VERSION, array_of, map_of, optional, record, required

_INSTANT: Final = record(
    "HoodieActionInstant", required("timestamp", STRING), required("action", STRING), required("state", STRING)
)
_FILE: Final = record("HoodieCleanFileInfo", optional("filePath", STRING), optional("isBootstrapBaseFile", "boolean"))
_PARTITION: Final = record(
    "HoodieCleanPartitionMetadata",
    required("partitionPath", STRING),
    required("policy", STRING),
    required("deletePathPatterns", STRINGS),
    required("successDeleteFiles", STRINGS),
    required("failedDeleteFiles", STRINGS),
    optional("isPartitionDeleted", "boolean"),
)
_LAST_COMPLETED: Final = {**required("lastCompletedCommitTimestamp", STRING), "default": ""}
_EXTRA: Final = optional("extraMetadata", {**map_of(STRING), "default": None})

CLEANER_PLAN: Final = record(
    "HoodieCleanerPlan",
    optional("earliestInstantToRetain", _INSTANT),
    _LAST_COMPLETED,
    required("policy", STRING),
    optional("filesToBeDeletedPerPartition", map_of(STRINGS)),
    VERSION,
    optional("filePathsToBeDeletedPerPartition", map_of(array_of(_FILE))),
    optional("partitionsToBeDeleted", STRINGS),
    _EXTRA,
)
"""Content of a requested clean."""

CLEAN_METADATA: Final = record(
    "HoodieCleanMetadata",
    required("startCleanTime", STRING),
    required("timeTakenInMillis", "long"),
    required("totalFilesDeleted", "int"),
    required("earliestCommitToRetain", STRING),
    _LAST_COMPLETED,
    required("partitionMetadata", map_of(_PARTITION)),
    VERSION,
    optional(
        "bootstrapPartitionMetadata",
        {**map_of("org.apache.hudi.avro.model.HoodieCleanPartitionMetadata"), "default": None},
    ),
    _EXTRA,
)
"""Content of a completed clean."""
