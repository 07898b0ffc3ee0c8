"""Indexings on the timeline as Hudi's indexer leaves them."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import fastavro

_STRING: Final = {"type": "string", "avro.java.string": "String"}
_INFO: Final[dict[str, Any]] = {
    "type": "record",
    "name": "org.apache.hudi.avro.model.HoodieIndexPartitionInfo",
    "fields": [
        {"name": "version", "type": ["int", "null"], "default": 1},
        {"name": "metadataPartitionPath", "type": ["null", _STRING], "default": None},
        {"name": "indexUptoInstant", "type": ["null", _STRING], "default": None},
        {
            "name": "extraMetadata",
            "type": ["null", {"type": "map", "values": _STRING, "avro.java.string": "String"}],
            "default": None,
        },
    ],
}
_PLAN: Final[dict[str, Any]] = {
    "type": "record",
    "name": "org.apache.hudi.avro.model.HoodieIndexPlan",
    "fields": [
        {"name": "version", "type": ["int", "null"], "default": 1},
        {"name": "indexPartitionInfos", "type": ["null", {"type": "array", "items": _INFO}], "default": None},
    ],
}


def schedule_indexing(timeline: Path, instant: str, partitions: Sequence[str], up_to: str) -> None:
    """Put the plan on the timeline that Hudi 1.2 writes.

    Args:
        timeline: its folder.
        instant: of the indexing.
        partitions: of the metadata table, that it builds.
        up_to: the last instant of the table.
    """
    infos = [
        {"version": 1, "metadataPartitionPath": name, "indexUptoInstant": up_to, "extraMetadata": {}}
        for name in partitions
    ]
    content = io.BytesIO()
    fastavro.writer(content, _PLAN, [{"version": 1, "indexPartitionInfos": infos}])
    (timeline / f"{instant}.indexing.requested").write_bytes(content.getvalue())


def begin_indexing(timeline: Path, instant: str) -> None:
    """What an indexer does first with a plan."""
    (timeline / f"{instant}.indexing.inflight").touch()
