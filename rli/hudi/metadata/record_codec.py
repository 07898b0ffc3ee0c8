"""Values of the metadata table: Avro without a container, whose schema stands beside them."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

import fastavro
from fastavro.schema import to_parsing_canonical_form

from rli.errors import CorruptTableError
from rli.hudi.metadata.record_encoding import encode_files, encode_location, encode_statistics
from rli.hudi.metadata.record_locations import location_fields, location_of
from rli.hudi.metadata.records import (
    Bound,
    ColumnStatistics,
    FileList,
    ListedFile,
    MetadataRecord,
    RecordLocation,
    SecondaryEntry,
    StoredBloomFilter,
    ValueType,
)
from rli.hudi.metadata.schema import METADATA_SCHEMA, METADATA_SCHEMA_TEXT, wrapper_name
from rli.hudi.timeline.avro_files import MALFORMED, parsed_schema

_REMEDY: Final = "drop this partition of the metadata table and let it be built anew"

_PARTITION_LIST, _FILE_LIST, _COLUMN_STATS, _BLOOM_FILTER, _RECORD_INDEX, _PARTITION_STATS, _SECONDARY_INDEX = range(
    1, 8
)
_FILES_FIELD: Final = "filesystemMetadata"
_BLOOM_FIELD: Final = "BloomFilterMetadata"
_STATISTICS_FIELD: Final = "ColumnStatsMetadata"
_LOCATION_FIELD: Final = "recordIndexMetadata"
_SECONDARY_FIELD: Final = "SecondaryIndexMetadata"

_PARSED: Final[Any] = fastavro.parse_schema(METADATA_SCHEMA)
_CANONICAL: Final = to_parsing_canonical_form(METADATA_SCHEMA)
_MOST_SCHEMAS: Final = 64


def encode_record(record: MetadataRecord, schema: str = METADATA_SCHEMA_TEXT) -> bytes:
    """The value of a record.

    Args:
        record: the record.
        schema: that writes it; what it has no field for is left out.

    Raises:
        CorruptTableError: the string is no Avro schema.
        ValueError: a value does not fit its field.
    """
    encoded = _encoded(record) if schema == METADATA_SCHEMA_TEXT else None
    if encoded is not None:
        return encoded
    fields = {"key": "", **_fields_of(record)}
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, _parsed(schema), fields)
    return buffer.getvalue()


def _encoded(record: MetadataRecord) -> bytes | None:
    """The value of a record without the library; None if only that writes it."""
    match record:
        case ColumnStatistics():
            return encode_statistics(record, _PARTITION_STATS if record.of_partition else _COLUMN_STATS)
        case FileList(files, lists_partitions):
            return encode_files(files, _PARTITION_LIST if lists_partitions else _FILE_LIST)
        case RecordLocation():
            return encode_location(record, _RECORD_INDEX)
        case _:
            return None


def decode_record(value: bytes, schema: str = METADATA_SCHEMA_TEXT) -> MetadataRecord:
    """The record of a value.

    Args:
        value: of a cell, not empty.
        schema: that wrote the value; fields that it lacks have their default.

    Raises:
        CorruptTableError: the value is no record of the metadata table, or of an unknown type.
    """
    try:
        stream = io.BytesIO(value)
        fields: Any = fastavro.schemaless_reader(
            stream, _parsed(schema), None, return_record_name=True, return_record_name_override=True
        )
        if stream.tell() < len(value):
            raise ValueError("bytes are left behind the record")
        return _record_of(fields)
    except MALFORMED as error:
        raise CorruptTableError(
            f"a record of the metadata table cannot be read: bytes={len(value)} ({type(error).__name__}: {error})",
            remedy=_REMEDY,
        ) from error


@lru_cache(_MOST_SCHEMAS)
def is_own_form(schema: str) -> bool:
    """True if values that a schema wrote are bytes that ``METADATA_SCHEMA`` writes, too.

    Raises:
        CorruptTableError: the string is no Avro schema.
    """
    return schema == METADATA_SCHEMA_TEXT or to_parsing_canonical_form(_parsed(schema)) == _CANONICAL


def recode(value: bytes, written_by: str, schema: str) -> bytes:
    """A value of one schema as another one writes it.

    Raises:
        CorruptTableError: the value is no record of the metadata table, or of an unknown type.
    """
    return encode_record(decode_record(value, written_by), schema)


@lru_cache(_MOST_SCHEMAS)
def _parsed(schema: str) -> Any:
    if schema == METADATA_SCHEMA_TEXT:
        return _PARSED
    try:
        return parsed_schema(schema)
    except MALFORMED as error:
        raise CorruptTableError(
            f"a file of the metadata table has no valid schema: ({type(error).__name__}: {error})", remedy=_REMEDY
        ) from error


def _fields_of(record: MetadataRecord) -> dict[str, Any]:
    match record:
        case FileList(files, lists_partitions):
            content = {name: {"size": file.size, "isDeleted": file.is_deleted} for name, file in files.items()}
            return {"type": _PARTITION_LIST if lists_partitions else _FILE_LIST, _FILES_FIELD: content}
        case ColumnStatistics():
            kind = _PARTITION_STATS if record.of_partition else _COLUMN_STATS
            return {"type": kind, _FILES_FIELD: None, _STATISTICS_FIELD: _statistics_fields(record)}
        case StoredBloomFilter(type_code, instant, content, is_deleted):
            fields = {"type": type_code, "timestamp": instant, "bloomFilter": content, "isDeleted": is_deleted}
            return {"type": _BLOOM_FILTER, _FILES_FIELD: None, _BLOOM_FIELD: fields}
        case RecordLocation():
            return {"type": _RECORD_INDEX, _FILES_FIELD: None, _LOCATION_FIELD: location_fields(record)}
        case SecondaryEntry(is_deleted):
            return {"type": _SECONDARY_INDEX, _FILES_FIELD: None, _SECONDARY_FIELD: {"isDeleted": is_deleted}}


def _statistics_fields(statistics: ColumnStatistics) -> dict[str, Any]:
    value_type = statistics.value_type
    return {
        "fileName": statistics.file_name,
        "columnName": statistics.column,
        "minValue": _wrapped(statistics.minimum),
        "maxValue": _wrapped(statistics.maximum),
        "valueCount": statistics.value_count,
        "nullCount": statistics.null_count,
        "totalSize": statistics.total_size,
        "totalUncompressedSize": statistics.total_uncompressed_size,
        "isDeleted": statistics.is_deleted,
        "isTightBound": statistics.is_tight,
        "valueType": value_type and {"typeOrdinal": value_type.ordinal, "additionalInfo": value_type.details},
    }


def _wrapped(bound: Bound | None) -> tuple[str, dict[str, Any]] | None:
    return None if bound is None else (wrapper_name(bound.wrapper), {"value": bound.value})


def _record_of(fields: Mapping[str, Any]) -> MetadataRecord:
    kind = fields["type"]
    build = _BUILDERS.get(kind)
    if build is None:
        raise ValueError(f"a record of an unknown type: type={kind}")
    return build(fields)


def _file_list(fields: Mapping[str, Any]) -> FileList:
    files = {name: ListedFile(file["size"], file["isDeleted"]) for name, file in fields[_FILES_FIELD].items()}
    return FileList(files, lists_partitions=fields["type"] == _PARTITION_LIST)


def _statistics(fields: Mapping[str, Any]) -> ColumnStatistics:
    content = fields[_STATISTICS_FIELD]
    value_type = content.get("valueType")
    return ColumnStatistics(
        file_name=content["fileName"],
        column=content["columnName"],
        minimum=_bound(content["minValue"]),
        maximum=_bound(content["maxValue"]),
        value_count=content["valueCount"],
        null_count=content["nullCount"],
        total_size=content["totalSize"],
        total_uncompressed_size=content["totalUncompressedSize"],
        value_type=value_type and ValueType(value_type["typeOrdinal"], value_type["additionalInfo"]),
        of_partition=fields["type"] == _PARTITION_STATS,
        is_tight=content.get("isTightBound", False),
        is_deleted=content["isDeleted"],
    )


def _bound(wrapped: tuple[str, Mapping[str, Any]] | None) -> Bound | None:
    if wrapped is None:
        return None
    name, content = wrapped
    return Bound(name.rpartition(".")[2], content["value"])


def _bloom_filter(fields: Mapping[str, Any]) -> StoredBloomFilter:
    content = fields[_BLOOM_FIELD]
    return StoredBloomFilter(content["type"], content["timestamp"], content["bloomFilter"], content["isDeleted"])


_BUILDERS: Final[dict[int, Callable[[Mapping[str, Any]], MetadataRecord]]] = {
    _PARTITION_LIST: _file_list,
    _FILE_LIST: _file_list,
    _COLUMN_STATS: _statistics,
    _PARTITION_STATS: _statistics,
    _BLOOM_FILTER: _bloom_filter,
    _RECORD_INDEX: lambda fields: location_of(fields[_LOCATION_FIELD]),
    _SECONDARY_INDEX: lambda fields: SecondaryEntry(fields[_SECONDARY_FIELD]["isDeleted"]),
}
