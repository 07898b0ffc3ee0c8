from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rli.errors import CorruptTableError, TableNotFoundError, UnsupportedTableError
from rli.hudi.java_properties import format_properties, parse_properties
from rli.hudi.properties import (
    Key,
    KeyGeneratorKind,
    TableProperties,
    load_properties,
    new_table_properties,
    save_properties,
)
from rli.hudi.table_features import require_readable, require_writable
from rli.storage import Storage
from tests.support.hudi_tables import hudi_table_names, unzip_hudi_table

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NEW = new_table_properties("trips", record_key_fields=("id",), partition_fields=("city",), ordering_field="ts")


@given(st.dictionaries(TEXT, TEXT, max_size=5))
def test_entries_survive_formatting(entries: dict[str, str]) -> None:
    content = format_properties(entries)
    assert parse_properties(content) == entries
    assert content.isascii()


def test_what_java_writes_is_read() -> None:
    content = (
        b"#Properties saved on 2024\r\n! other comment\r\n\r\n"
        b"a=1\n  b : two words \nc\\=\\:\\ d value\ne=x\\\n   y\nlast=\\u00e4\\ud83d\\ude00\\t\\\\\nempty=\nalone\na=2"
    )
    assert parse_properties(content) == {
        "a": "2",
        "b": "two words ",
        "c=: d": "value",
        "e": "xy",
        "last": "ä😀\t\\",
        "empty": "",
        "alone": "",
    }


@pytest.mark.parametrize("content", [b"a=\\u12", b"a=\\ud83d"])
def test_broken_escapes_are_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"escape|surrogate|utf-16"):
        parse_properties(content)


def test_new_properties_are_complete(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path))
    properties = new_table_properties(
        "trips",
        record_key_fields=("id", "day"),
        partition_fields=("city", "year"),
        ordering_field="ts",
        hive_style=True,
        create_schema='{"a":1}',
    )
    storage.write_bytes(".hoodie/.hoodie.properties.crc", b"old")
    save_properties(storage, properties)
    assert load_properties(storage) == properties
    assert not storage.exists(".hoodie/.hoodie.properties.crc")
    assert properties.key_generator is KeyGeneratorKind.COMPLEX
    assert (properties.version, properties.layout_version, properties.table_type) == (6, 1, "COPY_ON_WRITE")
    require_writable(properties)


@pytest.mark.parametrize(
    ("keys", "partitions", "name"),
    [
        (("id",), ("city",), "SimpleKeyGenerator"),
        (("id", "day"), ("city",), "ComplexKeyGenerator"),
        (("id",), ("city", "day"), "CustomKeyGenerator"),
        (("id", "day"), ("city", "year"), "ComplexKeyGenerator"),
        (("id",), (), "NonpartitionedKeyGenerator"),
        (("id", "day"), (), "NonpartitionedKeyGenerator"),
    ],
)
def test_the_key_generator_fits_the_fields(keys: tuple[str, ...], partitions: tuple[str, ...], name: str) -> None:
    properties = new_table_properties("t", record_key_fields=keys, partition_fields=partitions)
    assert properties.raw[Key.KEY_GENERATOR_CLASS] == f"org.apache.hudi.keygen.{name}"
    assert (Key.PARTITION_FIELDS in properties.raw) == bool(partitions)
    assert Key.PRECOMBINE_FIELD not in properties.raw


def test_checksum_without_database_matches_hudi() -> None:
    assert new_table_properties("types", record_key_fields=("id",)).raw[Key.CHECKSUM] == "326548424"


def test_changes_keep_the_checksum_right() -> None:
    changed = NEW.changed(
        {Key.DATABASE: "db", Key.PRECOMBINE_FIELD: None, Key.METADATA_PARTITIONS: "files,record_index"}
    )
    assert changed.ordering_field is None
    assert changed.metadata_partitions == ("files", "record_index")
    assert changed.changed({Key.DATABASE: None}).raw[Key.CHECKSUM] == NEW.raw[Key.CHECKSUM]
    assert changed.raw[Key.CHECKSUM] != NEW.raw[Key.CHECKSUM]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({Key.KEY_GENERATOR_CLASS: "org.apache.hudi.keygen.ComplexAvroKeyGenerator"}, KeyGeneratorKind.COMPLEX),
        ({Key.KEY_GENERATOR_CLASS: None, Key.KEY_GENERATOR_TYPE: "TIMESTAMP_AVRO"}, KeyGeneratorKind.TIMESTAMP),
        ({Key.KEY_GENERATOR_CLASS: None, Key.KEY_GENERATOR_TYPE: "NON_PARTITION"}, KeyGeneratorKind.NONPARTITIONED),
        ({Key.KEY_GENERATOR_CLASS: "com.example.OwnKeyGenerator"}, KeyGeneratorKind.OTHER),
        ({Key.KEY_GENERATOR_CLASS: None}, KeyGeneratorKind.SIMPLE),
    ],
)
def test_key_generator_from_class_or_fields(changes: dict[str, str | None], expected: KeyGeneratorKind) -> None:
    assert NEW.changed(changes).key_generator is expected


def test_custom_generator_types_leave_column_names() -> None:
    changed = NEW.changed({Key.PARTITION_FIELDS: "city:SIMPLE, day:TIMESTAMP"})
    assert changed.partition_fields == ("city", "day")


def test_folder_without_properties_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError, match=f"path={tmp_path}"):
        load_properties(Storage(str(tmp_path)))


@pytest.mark.parametrize("left", [None, b""])
def test_backup_replaces_broken_properties(tmp_path: Path, left: bytes | None) -> None:
    storage = Storage(str(tmp_path))
    storage.make_folder(".hoodie")
    storage.write_bytes(".hoodie/hoodie.properties.backup", format_properties(NEW.raw))
    if left is not None:
        storage.write_bytes(".hoodie/hoodie.properties", left)
    assert load_properties(storage) == NEW


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "entry=hoodie.table.version"),
        (b"\\u12=1", "cannot be read"),
        (format_properties({k: v for k, v in NEW.raw.items() if k != Key.TYPE}), f"entry={Key.TYPE}"),
        (format_properties({k: v for k, v in NEW.raw.items() if k != Key.VERSION}), f"entry={Key.VERSION}"),
        (format_properties({**NEW.raw, Key.VERSION: "six"}), "value='six'"),
        (format_properties({**NEW.raw, Key.CHECKSUM: "1"}), "stored=1 computed="),
        (format_properties({**NEW.raw, Key.NAME: "renamed"}), "checksum"),
    ],
)
def test_damaged_properties_name_their_file(tmp_path: Path, content: bytes, problem: str) -> None:
    storage = Storage(str(tmp_path))
    storage.make_folder(".hoodie")
    storage.write_bytes(".hoodie/hoodie.properties", content)
    with pytest.raises(CorruptTableError, match=problem) as caught:
        load_properties(storage)
    assert "file=.hoodie/hoodie.properties" in str(caught.value)


@pytest.mark.parametrize("name", hudi_table_names())
def test_real_tables_pass_or_fail_checks(tmp_path: Path, name: str) -> None:
    properties = load_properties(Storage(str(unzip_hudi_table(name, tmp_path))))
    assert TableProperties.from_raw(parse_properties(format_properties(properties.raw))) == properties
    file_name = name.rpartition("/")[2]
    assert f"v{properties.version}_" in file_name
    assert properties.layout_version == (1 if properties.version == 6 else 2)
    readable = "lance" not in name
    writable = readable and "timebased" not in name and "no_metafields" not in name
    assert _passes(properties, require_readable) == readable
    assert _passes(properties, require_writable) == writable


def _passes(properties: TableProperties, check: object) -> bool:
    assert callable(check)
    try:
        check(properties)
    except UnsupportedTableError:
        return False
    return True


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({Key.TYPE: "OTHER"}, "type=OTHER"),
        ({Key.VERSION: "5"}, "version=5"),
        ({Key.VERSION: "7"}, "version=7 .*; upgrade the table"),
        ({Key.VERSION: "10"}, "version=10 .*; downgrade the table to version 9"),
        ({Key.STORAGE_LAYOUT: "lsm_tree"}, "layout=lsm_tree"),
        ({Key.LAYOUT_VERSION: "2"}, "layout_version=2"),
        ({Key.BASE_FILE_FORMAT: "LANCE"}, "format=LANCE"),
        ({Key.BOOTSTRAP_BASE_PATH: "/source"}, "source=/source"),
    ],
)
def test_unreadable_tables_name_their_reason(changes: dict[str, str], reason: str) -> None:
    with pytest.raises(UnsupportedTableError, match=reason):
        require_readable(NEW.changed(changes))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({Key.PRECOMBINE_FIELD: "ts,offset"}, "several ordering fields"),
        ({Key.MERGE_MODE: "CUSTOM"}, "custom merging"),
        ({Key.PARTIAL_UPDATE_MODE: "IGNORE_DEFAULTS"}, "partial updates"),
        ({Key.KEY_GENERATOR_CLASS: "org.apache.hudi.keygen.TimestampBasedKeyGenerator"}, "TimestampBasedKeyGenerator"),
        ({Key.POPULATE_META_FIELDS: "false"}, "record keys"),
        ({Key.DROP_PARTITION_COLUMNS: "true"}, "partition columns"),
        ({Key.SLASH_SEPARATED_DATES: "true"}, "each part of a date"),
        ({Key.CDC: "true"}, "change-data-capture"),
        ({Key.RECORD_KEY_FIELDS: None}, "no record-key columns"),
    ],
)
def test_unwritable_tables_name_their_reason(changes: dict[str, str | None], reason: str) -> None:
    changed = NEW.changed(changes)
    require_readable(changed)
    with pytest.raises(UnsupportedTableError, match=reason):
        require_writable(changed)


def test_merge_mode_decides_use_of_ordering() -> None:
    ordered = NEW.changed({Key.PRECOMBINE_FIELD: None, Key.ORDERING_FIELDS: "ts"})
    assert ordered.changed({Key.MERGE_MODE: "EVENT_TIME_ORDERING"}).ordering_field == "ts"
    assert ordered.changed({Key.MERGE_MODE: "COMMIT_TIME_ORDERING"}).ordering_field is None
