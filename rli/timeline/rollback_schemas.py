"""Avro schemas of the two files of a rollback, as Hudi declares them (``HoodieRollbackPlan``, ``…Metadata``).

The property ``avro.java.string`` makes Java readers take texts as ``String``; Hudi's own files carry it.
"""

from __future__ import annotations

from typing import Any, Final

_NAMESPACE: Final = "org.apache.hudi.avro.model."
_JAVA: Final = {"avro.java.string": "String"}
_TEXT: Final = {"type": "string", **_JAVA}
_TEXTS: Final = {"type": "array", "items": _TEXT}
_LENGTHS: Final = {"type": "map", "values": "long", **_JAVA}


def _optional(name: str, kind: object) -> dict[str, Any]:
    return {"name": name, "type": ["null", kind], "default": None}


def _required(name: str, kind: object) -> dict[str, Any]:
    return {"name": name, "type": kind}


def _record(name: str, *fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": _NAMESPACE + name, "fields": list(fields)}


_VERSION: Final = {"name": "version", "type": ["int", "null"], "default": 1}
_INSTANT: Final = _record("HoodieInstantInfo", _required("commitTime", _TEXT), _required("action", _TEXT))
_REQUEST: Final = _record(
    "HoodieRollbackRequest",
    _required("partitionPath", _TEXT),
    _optional("fileId", _TEXT),
    _optional("latestBaseInstant", _TEXT),
    {"name": "filesToBeDeleted", "type": {**_TEXTS, "default": []}, "default": []},
    _optional("logBlocksToBeDeleted", _LENGTHS),
)
_PARTITION: Final = _record(
    "HoodieRollbackPartitionMetadata",
    _required("partitionPath", _TEXT),
    _required("successDeleteFiles", _TEXTS),
    _required("failedDeleteFiles", _TEXTS),
    _optional("rollbackLogFiles", _LENGTHS),
    _optional("logFilesFromFailedCommit", _LENGTHS),
)

ROLLBACK_PLAN: Final = _record(
    "HoodieRollbackPlan",
    _optional("instantToRollback", _INSTANT),
    _optional("RollbackRequests", {"type": "array", "items": _REQUEST}),
    _VERSION,
)
"""Content of ``<time>.rollback.requested``."""

ROLLBACK_METADATA: Final = _record(
    "HoodieRollbackMetadata",
    _required("startRollbackTime", _TEXT),
    _required("timeTakenInMillis", "long"),
    _required("totalFilesDeleted", "int"),
    _required("commitsRollback", _TEXTS),
    _required("partitionMetadata", {"type": "map", "values": _PARTITION, **_JAVA}),
    _VERSION,
    {"name": "instantsRollback", "type": {"type": "array", "items": _INSTANT, "default": []}, "default": []},
)
"""Content of ``<time>.rollback``."""
