"""Avro schemas of completed writes in table versions 8 and 9.

``HoodieCommitMetadata`` of commits and ``HoodieReplaceCommitMetadata`` of those that replace file groups.
"""

from __future__ import annotations

from typing import Final

from rli.hudi.timeline.schema_parts import STRING, STRINGS, VERSION, array_of, map_of, optional, record

_TIMES: Final = record(
    "HoodieRuntimeStats",
    optional("totalScanTime", "long"),
    optional("totalCreateTime", "long"),
    optional("totalUpsertTime", "long"),
)
_WRITE_STAT: Final = record(
    "HoodieWriteStat",
    optional("fileId", STRING),
    optional("path", STRING),
    optional("prevCommit", STRING),
    optional("numWrites", "long"),
    optional("numDeletes", "long"),
    optional("numUpdateWrites", "long"),
    optional("totalWriteBytes", "long"),
    optional("totalWriteErrors", "long"),
    optional("partitionPath", STRING),
    optional("totalLogRecords", "long"),
    optional("totalLogFiles", "long"),
    optional("totalUpdatedRecordsCompacted", "long"),
    optional("numInserts", "long"),
    optional("totalLogBlocks", "long"),
    optional("totalCorruptLogBlock", "long"),
    optional("totalRollbackBlocks", "long"),
    optional("fileSizeInBytes", "long"),
    optional("logVersion", "int"),
    optional("logOffset", "long"),
    optional("baseFile", STRING),
    optional("logFiles", STRINGS),
    optional("cdcStats", map_of("long")),
    optional("prevBaseFile", STRING),
    optional("minEventTime", "long"),
    optional("maxEventTime", "long"),
    optional("runtimeStats", _TIMES),
    optional("totalLogFilesCompacted", "long"),
    optional("totalLogReadTimeMs", "long"),
    optional("totalLogSizeCompacted", "long"),
    optional("tempPath", STRING),
    optional("numUpdates", "long"),
)

_STATS: Final = optional("partitionToWriteStats", map_of(array_of(_WRITE_STAT)))
_EXTRA: Final = optional("extraMetadata", map_of(STRING))
_OPERATION: Final = optional("operationType", STRING)

COMMIT_METADATA: Final = record(
    "HoodieCommitMetadata", _STATS, optional("compacted", "boolean"), _EXTRA, VERSION, _OPERATION
)
"""Content of ``<time>_<completion time>.commit``."""

REPLACE_COMMIT_METADATA: Final = record(
    "HoodieReplaceCommitMetadata",
    _STATS,
    _EXTRA,
    VERSION,
    _OPERATION,
    optional("partitionToReplaceFileIds", map_of(STRINGS)),
)
"""Content of ``<time>_<completion time>.replacecommit``."""

ARCHIVED_REPLACE_METADATA: Final = record(
    "HoodieReplaceCommitMetadata",
    # Declared in full within the metadata of a commit.
    optional("partitionToWriteStats", map_of(array_of(_WRITE_STAT["name"]))),
    optional("compacted", "boolean"),
    optional("extraMetadata", map_of(STRING)),
    VERSION,
    optional("operationType", STRING),
    optional("partitionToReplaceFileIds", map_of(STRINGS)),
)
"""Content of a completed replacement, in an archive beside ``COMMIT_METADATA``."""
