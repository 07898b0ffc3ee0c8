"""Avro schemas of the two files of a clean (``HoodieCleanerPlan``, ``HoodieCleanMetadata``)."""

from __future__ import annotations

from typing import Final

from rli.hudi.timeline.schema_parts import TEXT, TEXTS, VERSION, array_of, map_of, optional, record, required

_INSTANT: Final = record(
    "HoodieActionInstant", required("timestamp", TEXT), required("action", TEXT), required("state", TEXT)
)
_FILE: Final = record("HoodieCleanFileInfo", optional("filePath", TEXT), optional("isBootstrapBaseFile", "boolean"))
_PARTITION: Final = record(
    "HoodieCleanPartitionMetadata",
    required("partitionPath", TEXT),
    required("policy", TEXT),
    required("deletePathPatterns", TEXTS),
    required("successDeleteFiles", TEXTS),
    required("failedDeleteFiles", TEXTS),
    optional("isPartitionDeleted", "boolean"),
)
_LAST_COMPLETED: Final = {**required("lastCompletedCommitTimestamp", TEXT), "default": ""}
_EXTRA: Final = optional("extraMetadata", {**map_of(TEXT), "default": None})

CLEANER_PLAN: Final = record(
    "HoodieCleanerPlan",
    optional("earliestInstantToRetain", _INSTANT),
    _LAST_COMPLETED,
    required("policy", TEXT),
    optional("filesToBeDeletedPerPartition", map_of(TEXTS)),
    VERSION,
    optional("filePathsToBeDeletedPerPartition", map_of(array_of(_FILE))),
    optional("partitionsToBeDeleted", TEXTS),
    _EXTRA,
)
"""Content of a requested clean."""

CLEAN_METADATA: Final = record(
    "HoodieCleanMetadata",
    required("startCleanTime", TEXT),
    required("timeTakenInMillis", "long"),
    required("totalFilesDeleted", "int"),
    required("earliestCommitToRetain", TEXT),
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
