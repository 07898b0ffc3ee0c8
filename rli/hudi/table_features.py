"""Which tables rli reads, and which of them it writes; the others are refused with the reason."""

from __future__ import annotations

from typing import Final

from rli.errors import UnsupportedTableError
from rli.hudi.properties import COPY_ON_WRITE, MERGE_ON_READ, Key, KeyGeneratorKind, TableProperties

READ_VERSIONS: Final = (6, 8, 9)

_LAYOUTS: Final = {6: 1, 8: 2, 9: 2}
_PLAIN_LAYOUT: Final = "default"
"""Of files in table version 10 (RFC 103): any other one sorts and merges records in its own way."""
_WRITTEN_KINDS: Final = (
    KeyGeneratorKind.SIMPLE,
    KeyGeneratorKind.COMPLEX,
    KeyGeneratorKind.NONPARTITIONED,
    # Where it forms partitions from timestamps, the stored paths show it: see rli.commit.keygen_check.
    KeyGeneratorKind.CUSTOM,
)


def require_readable(properties: TableProperties) -> None:
    """Pass a table that can be read as far as its properties tell.

    Raises:
        UnsupportedTableError: the table is of another type, version or base file format, or a bootstrap table; says why
            and what to do.
    """
    name, version = properties.name, properties.version
    if properties.table_type not in {COPY_ON_WRITE, MERGE_ON_READ}:
        raise UnsupportedTableError(
            f"tables of this type are not read: table={name} type={properties.table_type}",
            remedy="copy its rows into a copy-on-write table",
        )
    if version not in READ_VERSIONS:
        raise UnsupportedTableError(
            f"tables of this version are not read: table={name} version={version} supported={list(READ_VERSIONS)}",
            remedy=f"{_way_to_read_version(version)} with Hudi's command line",
        )
    if (layout := properties.raw.get(Key.STORAGE_LAYOUT) or _PLAIN_LAYOUT) != _PLAIN_LAYOUT:
        raise UnsupportedTableError(
            f"files of this layout are not read: table={name} {Key.STORAGE_LAYOUT}={layout}",
            remedy="copy the records into a new table",
        )
    if properties.layout_version != _LAYOUTS[version]:
        raise UnsupportedTableError(
            f"the timeline's layout does not belong to the table's version: table={name} version={version} "
            f"layout_version={properties.layout_version}",
            remedy="let Hudi upgrade the table once more",
        )
    if properties.base_file_format != "PARQUET":
        raise UnsupportedTableError(
            f"only Parquet base files are read: table={name} format={properties.base_file_format}",
            remedy="copy the table into one with Parquet base files",
        )
    if properties.raw.get(Key.BOOTSTRAP_BASE_PATH):
        raise UnsupportedTableError(
            f"the table was bootstrapped over files elsewhere, its base files may lack the columns: table={name} "
            f"source={properties.raw[Key.BOOTSTRAP_BASE_PATH]}",
            remedy="copy its rows into a new table",
        )


def _way_to_read_version(version: int) -> str:
    newest = READ_VERSIONS[-1]
    if version > newest:
        return f"downgrade the table to version {newest} (downgrade table)"
    return "upgrade the table (upgrade table)"


def remedy_for_repeats(properties: TableProperties) -> str:
    """What to do about record keys that a table holds more than once."""
    try:
        require_writable(properties)
    except UnsupportedTableError:
        return "rli does not write this table: remove the repeated records with Hudi, or copy the rows into a new table"
    return "delete these keys and insert their records again"


def remedy_of_bootstrap(properties: TableProperties) -> str:
    """What to do about record keys that a table holds more than once, and that the bootstrap of its index has found."""
    try:
        require_writable(properties)
    except UnsupportedTableError:
        return remedy_for_repeats(properties)
    return (
        "run: rli index bootstrap TABLE --on-duplicate newest, which leaves the newest record of each key in the table"
    )


def require_compactable(properties: TableProperties) -> None:
    """Pass a table whose log files rli merges into base files, as far as its properties tell.

    Raises:
        UnsupportedTableError: it is copy-on-write, or see ``require_writable``.
    """
    require_writable(properties)
    if properties.is_copy_on_write:
        raise UnsupportedTableError(
            f"a copy-on-write table has no log files: table={properties.name}",
            remedy="put small files together with rli cluster TABLE",
        )


def require_writable(properties: TableProperties) -> None:
    """Pass a table that can be written, and hence also read, as far as its properties tell.

    Raises:
        UnsupportedTableError: see ``require_readable``; or its version, key generator or a feature that it uses is not one that
            rli writes; says why and what to do.
    """
    require_readable(properties)
    name = properties.name
    if properties.key_generator not in _WRITTEN_KINDS:
        named = properties.raw.get(Key.KEY_GENERATOR_CLASS) or properties.raw.get(Key.KEY_GENERATOR_TYPE)
        raise UnsupportedTableError(
            f"the table's key generator forms keys or partition paths that rli does not write: table={name} "
            f"key_generator={named}",
            remedy="write it with Hudi, or copy it into a table that is partitioned by plain columns",
        )
    if not properties.record_key_fields:
        raise UnsupportedTableError(
            f"the table has no record-key columns, so no record can be found again: table={name}",
            remedy="copy it into a table with a record key",
        )
    problems = (
        (Key.POPULATE_META_FIELDS, not properties.populate_meta_fields, "the table keeps no record keys in its files"),
        (
            Key.DROP_PARTITION_COLUMNS,
            properties.is_set(Key.DROP_PARTITION_COLUMNS),
            "the table leaves the partition columns out of its files",
        ),
        (
            Key.SLASH_SEPARATED_DATES,
            properties.is_set(Key.SLASH_SEPARATED_DATES),
            "the table's partition paths have a folder for each part of a date",
        ),
        (Key.ORDERING_FIELDS, len(properties.ordering_fields) > 1, "the table has several ordering fields"),
        (Key.MERGE_MODE, properties.raw.get(Key.MERGE_MODE) == "CUSTOM", "the table has custom merging"),
        (
            Key.PARTIAL_UPDATE_MODE,
            properties.raw.get(Key.PARTIAL_UPDATE_MODE, "NONE") != "NONE",
            "the table has partial updates",
        ),
        (Key.CDC, properties.is_set(Key.CDC), "the table logs every change for change-data-capture queries"),
    )
    for key, is_unfit, reason in problems:
        if is_unfit:
            raise UnsupportedTableError(
                f"{reason}: table={name} {key}={properties.raw.get(key)}",
                remedy="write it with Hudi, or copy it into a table without this setting",
            )
