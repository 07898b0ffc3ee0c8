"""The properties of a table: ``.hoodie/hoodie.properties``, read, checked and written."""

from __future__ import annotations

import posixpath
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final, Self

from rli.errors import CorruptTableError, TableNotFoundError
from rli.hudi.java_properties import format_properties, parse_properties
from rli.storage import Storage

PROPERTIES_PATH: Final = ".hoodie/hoodie.properties"
PROPERTIES_BACKUP_PATH: Final = ".hoodie/hoodie.properties.backup"

COPY_ON_WRITE: Final = "COPY_ON_WRITE"
MERGE_ON_READ: Final = "MERGE_ON_READ"
VERSION_OF_NEW_TABLES: Final = 6

_FIRST_VERSION_OF_LAYOUT_2: Final = 8
_PAYLOADS: Final = "org.apache.hudi.common.model"


class Key:
    """Names of the properties that rli knows."""

    NAME: Final = "hoodie.table.name"
    DATABASE: Final = "hoodie.database.name"
    TYPE: Final = "hoodie.table.type"
    VERSION: Final = "hoodie.table.version"
    LAYOUT_VERSION: Final = "hoodie.timeline.layout.version"
    STORAGE_LAYOUT: Final = "hoodie.table.storage.layout"
    TIMELINE_PATH: Final = "hoodie.timeline.path"
    HISTORY_PATH: Final = "hoodie.timeline.history.path"
    RECORD_KEY_FIELDS: Final = "hoodie.table.recordkey.fields"
    PARTITION_FIELDS: Final = "hoodie.table.partition.fields"
    PRECOMBINE_FIELD: Final = "hoodie.table.precombine.field"
    ORDERING_FIELDS: Final = "hoodie.table.ordering.fields"
    MERGE_MODE: Final = "hoodie.record.merge.mode"
    PAYLOAD_CLASS: Final = "hoodie.compaction.payload.class"
    PARTIAL_UPDATE_MODE: Final = "hoodie.table.partial.update.mode"
    KEY_GENERATOR_CLASS: Final = "hoodie.table.keygenerator.class"
    KEY_GENERATOR_TYPE: Final = "hoodie.table.keygenerator.type"
    HIVE_STYLE: Final = "hoodie.datasource.write.hive_style_partitioning"
    URL_ENCODE: Final = "hoodie.datasource.write.partitionpath.urlencode"
    SLASH_SEPARATED_DATES: Final = "hoodie.datasource.write.slash.separated.date.partitioning"
    DROP_PARTITION_COLUMNS: Final = "hoodie.datasource.write.drop.partition.columns"
    POPULATE_META_FIELDS: Final = "hoodie.populate.meta.fields"
    BASE_FILE_FORMAT: Final = "hoodie.table.base.file.format"
    METADATA_PARTITIONS: Final = "hoodie.table.metadata.partitions"
    METADATA_PARTITIONS_INFLIGHT: Final = "hoodie.table.metadata.partitions.inflight"
    OWN_METADATA_PARTITIONS: Final = "rli.metadata.partitions"
    OWN_METADATA_PARTITIONS_INFLIGHT: Final = "rli.metadata.partitions.inflight"
    """Partitions beside those of Hudi, which Hudi does not know and so must not list."""

    CREATE_SCHEMA: Final = "hoodie.table.create.schema"
    CDC: Final = "hoodie.table.cdc.enabled"
    BOOTSTRAP_BASE_PATH: Final = "hoodie.bootstrap.base.path"
    TIMEZONE: Final = "hoodie.table.timeline.timezone"
    ARCHIVE_FOLDER: Final = "hoodie.archivelog.folder"
    METAFILE_FORMAT: Final = "hoodie.partition.metafile.use.base.format"
    CHECKSUM: Final = "hoodie.table.checksum"
    INITIAL_VERSION: Final = "hoodie.table.initial.version"
    """Of the table when it was made; Hudi keeps it from version 8 on, and 6 where it upgraded the table."""


class KeyGeneratorKind(StrEnum):
    """How record keys and partition paths are formed; Hudi names these by a class or, newer, by a type."""

    SIMPLE = "simple"
    COMPLEX = "complex"
    NONPARTITIONED = "nonpartitioned"
    TIMESTAMP = "timestamp"
    CUSTOM = "custom"
    GLOBAL_DELETE = "global delete"
    OTHER = "other"


_KINDS_BY_TYPE: Final = {
    "SIMPLE": KeyGeneratorKind.SIMPLE,
    "COMPLEX": KeyGeneratorKind.COMPLEX,
    "NON_PARTITION": KeyGeneratorKind.NONPARTITIONED,
    "TIMESTAMP": KeyGeneratorKind.TIMESTAMP,
    "CUSTOM": KeyGeneratorKind.CUSTOM,
    "GLOBAL_DELETE": KeyGeneratorKind.GLOBAL_DELETE,
}
_KINDS_BY_CLASS: Final = {
    "SimpleKeyGenerator": KeyGeneratorKind.SIMPLE,
    "ComplexKeyGenerator": KeyGeneratorKind.COMPLEX,
    "NonpartitionedKeyGenerator": KeyGeneratorKind.NONPARTITIONED,
    "TimestampBasedKeyGenerator": KeyGeneratorKind.TIMESTAMP,
    "CustomKeyGenerator": KeyGeneratorKind.CUSTOM,
    "GlobalDeleteKeyGenerator": KeyGeneratorKind.GLOBAL_DELETE,
}
_CLASSES: Final = {kind: f"org.apache.hudi.keygen.{name}" for name, kind in _KINDS_BY_CLASS.items()}


@dataclass(frozen=True, slots=True)
class TableProperties:
    """What the properties say of a table.

    Attributes:
        name: of the table, without its database.
        table_type: ``COPY_ON_WRITE`` or ``MERGE_ON_READ``.
        version: of the table's format.
        layout_version: of the timeline, 1 or 2.
        record_key_fields: columns of the record key; empty where Hudi makes the keys up.
        partition_fields: columns of the partition path, without the types that a custom key generator adds.
        ordering_fields: the columns that decide between versions of a record; none where the last write wins.
        key_generator: how keys and partition paths are formed.
        hive_style: whether partition folders are named ``column=value``.
        url_encode: whether special characters in partition values are percent-encoded.
        populate_meta_fields: whether the meta columns hold values.
        base_file_format: in capitals.
        metadata_partitions: partitions of the metadata table that readers rely on, with those that Hudi does not know; empty
            if it is off.
        metadata_partitions_inflight: those that are being built: writers keep them, readers do not use them.
        timeline_path: folder of the timeline of layout 2, below ``.hoodie``.
        create_schema: Avro schema from the table's creation; None where it was not kept.
        raw: all entries of the file.
    """

    name: str
    table_type: str
    version: int
    layout_version: int
    record_key_fields: tuple[str, ...]
    partition_fields: tuple[str, ...]
    ordering_fields: tuple[str, ...]
    key_generator: KeyGeneratorKind
    hive_style: bool
    url_encode: bool
    populate_meta_fields: bool
    base_file_format: str
    metadata_partitions: tuple[str, ...]
    metadata_partitions_inflight: tuple[str, ...]
    timeline_path: str
    create_schema: str | None
    raw: Mapping[str, str]

    @classmethod
    def from_raw(cls, raw: Mapping[str, str], file_name: str = PROPERTIES_PATH) -> Self:
        """Check and read the entries of a properties file.

        Raises:
            CorruptTableError: an entry is missing or wrong; names it and the file.
        """
        _check_checksum(raw, file_name)
        record_key_fields = _fields(raw, Key.RECORD_KEY_FIELDS)
        partition_fields = tuple(field.partition(":")[0] for field in _fields(raw, Key.PARTITION_FIELDS))
        version = _number(raw, Key.VERSION, file_name)
        has_layout = bool(raw.get(Key.LAYOUT_VERSION))
        return cls(
            name=_required(raw, Key.NAME, file_name),
            table_type=_required(raw, Key.TYPE, file_name).upper(),
            version=version,
            layout_version=(
                _number(raw, Key.LAYOUT_VERSION, file_name)
                if has_layout
                else 1 + (version >= _FIRST_VERSION_OF_LAYOUT_2)
            ),
            record_key_fields=record_key_fields,
            partition_fields=partition_fields,
            ordering_fields=_ordering_fields(raw),
            key_generator=_key_generator(raw, record_key_fields, partition_fields),
            hive_style=_flag(raw, Key.HIVE_STYLE, default=False),
            url_encode=_flag(raw, Key.URL_ENCODE, default=False),
            populate_meta_fields=_flag(raw, Key.POPULATE_META_FIELDS, default=True),
            base_file_format=(raw.get(Key.BASE_FILE_FORMAT) or "PARQUET").upper(),
            metadata_partitions=_partitions(raw, Key.METADATA_PARTITIONS, Key.OWN_METADATA_PARTITIONS),
            metadata_partitions_inflight=_partitions(
                raw, Key.METADATA_PARTITIONS_INFLIGHT, Key.OWN_METADATA_PARTITIONS_INFLIGHT
            ),
            timeline_path=raw.get(Key.TIMELINE_PATH) or "timeline",
            create_schema=raw.get(Key.CREATE_SCHEMA) or None,
            raw=dict(raw),
        )

    @property
    def is_copy_on_write(self) -> bool:
        """Whether all records are in base files: a merge-on-read table may have log files, too."""
        return self.table_type == COPY_ON_WRITE

    @property
    def ordering_field(self) -> str | None:
        """The first of the ordering fields; rli writes no tables with several."""
        return self.ordering_fields[0] if self.ordering_fields else None

    @property
    def all_metadata_partitions(self) -> tuple[str, ...]:
        """The partitions of the metadata table that writers keep: those that readers rely on, and those that are being built."""
        return tuple(dict.fromkeys((*self.metadata_partitions, *self.metadata_partitions_inflight)))

    def changed(self, changes: Mapping[str, str | None]) -> TableProperties:
        """The properties with entries set, or removed where the value is None."""
        merged = {**self.raw, **changes}
        raw = {key: value for key, value in merged.items() if value is not None}
        return TableProperties.from_raw({**raw, Key.CHECKSUM: _checksum(raw)})

    def is_set(self, key: str) -> bool:
        """Whether a flag is there and true."""
        return _flag(self.raw, key, default=False)


def _partitions(raw: Mapping[str, str], key: str, own: str) -> tuple[str, ...]:
    hudis = _fields(raw, key)
    # Where Hudi has removed the metadata table, the others are gone with it.
    return (*hudis, *_fields(raw, own)) if raw.get(Key.METADATA_PARTITIONS) else hudis


def new_table_properties(
    name: str,
    *,
    record_key_fields: tuple[str, ...],
    partition_fields: tuple[str, ...] = (),
    ordering_field: str | None = None,
    hive_style: bool = False,
    url_encode: bool = False,
    create_schema: str | None = None,
    table_type: str = COPY_ON_WRITE,
) -> TableProperties:
    """Properties of a new table of version 6, complete for every Hudi reader and writer.

    Args:
        name: of the table.
        record_key_fields: one or more columns.
        partition_fields: zero or more columns.
        ordering_field: None if the last write wins.
        hive_style: name partition folders ``column=value``.
        url_encode: percent-encode special characters in partition values.
        create_schema: Avro schema of the table, if it is known.
        table_type: ``COPY_ON_WRITE`` or ``MERGE_ON_READ``.
    """
    kind = _key_generator_of_new_table(record_key_fields, partition_fields)
    optional = {
        Key.PARTITION_FIELDS: ",".join(partition_fields),
        Key.PRECOMBINE_FIELD: ordering_field,
        Key.CREATE_SCHEMA: create_schema,
    }
    raw = {
        Key.NAME: name,
        Key.TYPE: table_type,
        Key.VERSION: str(VERSION_OF_NEW_TABLES),
        Key.LAYOUT_VERSION: "1",
        Key.RECORD_KEY_FIELDS: ",".join(record_key_fields),
        **{key: value for key, value in optional.items() if value},
        Key.KEY_GENERATOR_CLASS: _CLASSES[kind],
        Key.HIVE_STYLE: _spelled(hive_style),
        Key.URL_ENCODE: _spelled(url_encode),
        Key.DROP_PARTITION_COLUMNS: _spelled(value=False),
        Key.POPULATE_META_FIELDS: _spelled(value=True),
        Key.BASE_FILE_FORMAT: "PARQUET",
        Key.METAFILE_FORMAT: _spelled(value=False),
        Key.CDC: _spelled(value=False),
        Key.TIMEZONE: "UTC",
        Key.ARCHIVE_FOLDER: "archived",
        **({} if table_type == COPY_ON_WRITE else _merging(ordering_field)),
    }
    return TableProperties.from_raw({**raw, Key.CHECKSUM: _checksum(raw)})


def _merging(ordering_field: str | None) -> dict[str, str]:
    """By what rule the records of log files are merged, as releases of Hudi from 0.15 on understand it in version 6."""
    if ordering_field is None:
        return {Key.PAYLOAD_CLASS: f"{_PAYLOADS}.OverwriteWithLatestAvroPayload"}
    # Hudi 0.15 knows the ordering column by the older name alone, and would let stale records win without it.
    return {Key.PAYLOAD_CLASS: f"{_PAYLOADS}.DefaultHoodieRecordPayload", Key.ORDERING_FIELDS: ordering_field}


def of_type(properties: TableProperties, table_type: str) -> TableProperties:
    """The properties of the same table, as one of another type.

    Args:
        properties: of the table.
        table_type: ``COPY_ON_WRITE`` or ``MERGE_ON_READ``. Rules by which log files are merged are added where they lack, and stay.
    """
    added: dict[str, str] = {}
    if table_type == MERGE_ON_READ and Key.MERGE_MODE not in properties.raw:
        rules = _merging(properties.ordering_field)
        added = {key: value for key, value in rules.items() if key not in properties.raw}
    return properties.changed({**added, Key.TYPE: table_type})


def load_properties(storage: Storage, folder: str = "") -> TableProperties:
    """The properties of the table at a storage.

    Hudi rewrites the file with a backup beside it; where a writer died in between, the backup is read.

    Args:
        storage: of a table.
        folder: relative to it, of a table inside it.

    Raises:
        TableNotFoundError: there is no table.
        CorruptTableError: the file is damaged or lacks what every table has.
    """
    path, backup_path = (posixpath.join(folder, name) for name in (PROPERTIES_PATH, PROPERTIES_BACKUP_PATH))
    content = storage.read_bytes(path)
    backup = storage.read_bytes(backup_path) if not content else None
    if backup:
        return _parse(backup, backup_path)
    if content is None:
        raise TableNotFoundError(
            f"there is no table here, {path} is missing: path={storage.location}",
            remedy="check the path, or create the table",
        )
    return _parse(content, path)


def save_properties(storage: Storage, properties: TableProperties) -> None:
    """Write the properties; they survive a power cut when this returns."""
    storage.write_bytes(PROPERTIES_PATH, format_properties(properties.raw))
    storage.flush(folders=[posixpath.dirname(PROPERTIES_PATH)])


@lru_cache(maxsize=16)
def _parse(content: bytes, path: str) -> TableProperties:
    # Each look-up reads the properties, which hardly ever change.
    try:
        raw = parse_properties(content)
    except ValueError as error:
        raise _corrupt("the properties of the table cannot be read", path, f"({error})") from error
    return TableProperties.from_raw(raw, path)


def _corrupt(problem: str, file_name: str, details: str) -> CorruptTableError:
    return CorruptTableError(
        f"{problem}: file={file_name} {details}", remedy="restore the file from a backup, or correct it"
    )


def _check_checksum(raw: Mapping[str, str], file_name: str) -> None:
    stored = raw.get(Key.CHECKSUM)
    if stored is not None and stored != _checksum(raw):
        raise _corrupt(
            "the properties of the table do not fit their checksum (CRC32 of database.name)",
            file_name,
            f"stored={stored} computed={_checksum(raw)}",
        )


def _checksum(raw: Mapping[str, str]) -> str:
    return str(zlib.crc32(f"{raw.get(Key.DATABASE, '')}.{raw.get(Key.NAME, '')}".encode()))


def _required(raw: Mapping[str, str], key: str, file_name: str) -> str:
    value = raw.get(key)
    if not value:
        raise _corrupt("the properties of the table lack an entry", file_name, f"entry={key}")
    return value


def _number(raw: Mapping[str, str], key: str, file_name: str) -> int:
    value = _required(raw, key, file_name)
    if not value.isdecimal():
        raise _corrupt("an entry of the table's properties is not a number", file_name, f"entry={key} value={value!r}")
    return int(value)


def _fields(raw: Mapping[str, str], key: str) -> tuple[str, ...]:
    return tuple(field.strip() for field in raw.get(key, "").split(",") if field.strip())


def _ordering_fields(raw: Mapping[str, str]) -> tuple[str, ...]:
    # Versions 8 and 9 may name such columns and yet let the last write win.
    if raw.get(Key.MERGE_MODE) == "COMMIT_TIME_ORDERING":
        return ()
    return _fields(raw, Key.PRECOMBINE_FIELD) or _fields(raw, Key.ORDERING_FIELDS)


def _flag(raw: Mapping[str, str], key: str, *, default: bool) -> bool:
    value = raw.get(key)
    return value.strip().lower() == "true" if value else default


def _spelled(value: bool) -> str:  # noqa: FBT001  (writes a flag)
    return "true" if value else "false"


def _key_generator(
    raw: Mapping[str, str], record_key_fields: tuple[str, ...], partition_fields: tuple[str, ...]
) -> KeyGeneratorKind:
    """From the class or the type, whose Avro variants form the same keys; else what suits the fields."""
    if class_name := raw.get(Key.KEY_GENERATOR_CLASS):
        simple_name = class_name.rpartition(".")[2].replace("AvroKeyGenerator", "KeyGenerator")
        return _KINDS_BY_CLASS.get(simple_name, KeyGeneratorKind.OTHER)
    if type_name := raw.get(Key.KEY_GENERATOR_TYPE):
        return _KINDS_BY_TYPE.get(type_name.removesuffix("_AVRO"), KeyGeneratorKind.OTHER)
    return _fitting_key_generator(record_key_fields, partition_fields)


def _key_generator_of_new_table(
    record_key_fields: tuple[str, ...], partition_fields: tuple[str, ...]
) -> KeyGeneratorKind:
    """The fitting one, but never the complex one over a single key column.

    Releases of Hudi disagree whether that one forms ``a`` or ``id:a``, so that one release would store records a
    second time that another wrote. With the custom one all form ``a``.
    """
    if len(record_key_fields) == 1 and len(partition_fields) > 1:
        return KeyGeneratorKind.CUSTOM
    return _fitting_key_generator(record_key_fields, partition_fields)


def _fitting_key_generator(record_key_fields: tuple[str, ...], partition_fields: tuple[str, ...]) -> KeyGeneratorKind:
    if not partition_fields:
        return KeyGeneratorKind.NONPARTITIONED
    if len(record_key_fields) == len(partition_fields) == 1:
        return KeyGeneratorKind.SIMPLE
    return KeyGeneratorKind.COMPLEX
