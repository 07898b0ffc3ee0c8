"""Avro schemas of the records of the metadata table: that of Hudi 1.1 and later, and that of Hudi 1.0.

Older releases declare fewer fields, in the same order. Values of the newer schema are also read by Hudi 0.15 and 1.0, which
resolve the schema beside the values against their own. hudi-rs does not: the log files of a file group must have one schema.
"""

from __future__ import annotations

import json
from typing import Any, Final

from rli.hudi.timeline.schema_parts import STRING, Schema, array_of, map_of, optional, record, required

_NAMESPACE: Final = "org.apache.hudi.avro.model."
_META_COLUMNS: Final = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)
_DECIMAL: Final = {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 15}
_TIME: Final = {"type": "long", "logicalType": "time-micros"}
_WRAPPED: Final[dict[str, Any]] = {
    "BooleanWrapper": "boolean",
    "IntWrapper": "int",
    "LongWrapper": "long",
    "FloatWrapper": "float",
    "DoubleWrapper": "double",
    "BytesWrapper": "bytes",
    "StringWrapper": STRING,
    "DateWrapper": "int",
    "DecimalWrapper": _DECIMAL,
    "TimeMicrosWrapper": _TIME,
    "TimestampMicrosWrapper": "long",
    "LocalDateWrapper": "int",
}


def _defaulted(name: str, kind: object, default: object) -> Schema:
    return {"name": name, "type": kind, "default": default}


def _bounds(array: Schema | None) -> tuple[Schema, Schema]:
    """The smallest and the greatest value; wrappers are declared in the first and named in the second."""
    wrappers = [record(name, required("value", kind)) for name, kind in _WRAPPED.items()]
    wrappers += [] if array is None else [array]
    return (
        _defaulted("minValue", ["null", *wrappers], None),
        _defaulted("maxValue", ["null", *(wrapper["name"] for wrapper in wrappers)], None),
    )


_FILE: Final = record("HoodieMetadataFileInfo", required("size", "long"), required("isDeleted", "boolean"))
_BLOOM_FILTER: Final = record(
    "HoodieMetadataBloomFilter",
    required("type", STRING),
    required("timestamp", STRING),
    required("bloomFilter", "bytes"),
    required("isDeleted", "boolean"),
)
_VALUE_TYPE: Final = record("HoodieValueTypeInfo", required("typeOrdinal", "int"), optional("additionalInfo", STRING))
_ARRAY: Final = record(
    "ArrayWrapper", optional("wrappedValues", array_of(["null", *(_NAMESPACE + name for name in _WRAPPED)]))
)


def _column_stats(array: Schema | None, *last: Schema) -> Schema:
    return record(
        "HoodieMetadataColumnStats",
        optional("fileName", STRING),
        optional("columnName", STRING),
        *_bounds(array),
        optional("valueCount", "long"),
        optional("nullCount", "long"),
        optional("totalSize", "long"),
        optional("totalUncompressedSize", "long"),
        required("isDeleted", "boolean"),
        _defaulted("isTightBound", "boolean", default=False),
        *last,
    )


_RECORD_INDEX: Final = record(
    "HoodieRecordIndexInfo",
    optional("partitionName", STRING),
    optional("fileIdHighBits", "long"),
    optional("fileIdLowBits", "long"),
    optional("fileIndex", "int"),
    optional("fileId", STRING),
    optional("instantTime", "long"),
    _defaulted("fileIdEncoding", "int", 0),
    optional("position", "long"),
)
_SECONDARY_INDEX: Final = record("HoodieSecondaryIndexInfo", required("isDeleted", "boolean"))


def _with(column_statistics: Schema) -> Schema:
    return record(
        "HoodieMetadataRecord",
        *(optional(name, "string") for name in _META_COLUMNS),
        required("key", STRING),
        required("type", "int"),
        # Without a default, as Hudi has it.
        required("filesystemMetadata", ["null", map_of(_FILE)]),
        optional("BloomFilterMetadata", _BLOOM_FILTER),
        optional("ColumnStatsMetadata", column_statistics),
        optional("recordIndexMetadata", _RECORD_INDEX),
        optional("SecondaryIndexMetadata", _SECONDARY_INDEX),
    )


METADATA_SCHEMA: Final = _with(_column_stats(_ARRAY, optional("valueType", _VALUE_TYPE)))
"""Of the values in every partition, in memory and in tables of most versions."""


def _as_text(schema: Schema) -> str:
    """The schema with its namespace apart from the names: hudi-rs does not find a type by a name with dots."""
    apart = {"type": schema["type"], "name": schema["name"], "namespace": _NAMESPACE.rstrip("."), **schema}
    return json.dumps(apart, separators=(",", ":")).replace(f'"{_NAMESPACE}', '"')


METADATA_SCHEMA_TEXT: Final = _as_text(METADATA_SCHEMA)
"""As base files and log blocks carry it."""

_VERSION_OF_HUDI_1_0: Final = 8
_TEXT_OF_HUDI_1_0: Final = _as_text(_with(_column_stats(None)))


def schema_text_of(version: int) -> str:
    """The schema of new values in the metadata table, by the release of Hudi that introduced the table's version.

    Args:
        version: of the table.
    """
    return _TEXT_OF_HUDI_1_0 if version == _VERSION_OF_HUDI_1_0 else METADATA_SCHEMA_TEXT


def wrapper_name(kind: str) -> str:
    """Full name of a wrapper of column bounds, such as ``LongWrapper``."""
    return _NAMESPACE + kind
