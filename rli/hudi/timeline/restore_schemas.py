"""Avro schemas of the two files of a restore (``HoodieRestorePlan``, ``HoodieRestoreMetadata``)."""

from __future__ import annotations

from typing import Final

from rli.hudi.timeline.rollback_schemas import INSTANT, ROLLBACK_METADATA
from rli.hudi.timeline.schema_parts import STRING, STRINGS, VERSION, array_of, map_of, optional, record, required

RESTORE_PLAN: Final = record(
    "HoodieRestorePlan",
    {"name": "instantsToRollback", "type": array_of(INSTANT), "default": []},
    {**VERSION, "default": 2},
    optional("savepointToRestoreTimestamp", STRING),
)
"""Content of a requested restore."""

RESTORE_METADATA: Final = record(
    "HoodieRestoreMetadata",
    required("startRestoreTime", STRING),
    required("timeTakenInMillis", "long"),
    required("instantsToRollback", STRINGS),
    required("hoodieRestoreMetadata", map_of(array_of(["null", ROLLBACK_METADATA]))),
    VERSION,
    # Declared in full within the metadata of a rollback.
    {"name": "restoreInstantInfo", "type": array_of(INSTANT["name"]), "default": []},
)
"""Content of a completed restore."""
