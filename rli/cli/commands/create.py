"""rli create."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, cast

import typer

import rli
from rli.cli.files.schema_file import read_schema
from rli.cli.options import (
    JsonOption,
    KeyModeOption,
    SettingOption,
    ShardsOption,
    TableArgument,
    add_command,
    parse_settings,
    parse_size,
    split_columns,
)
from rli.cli.output import print_facts, print_note, report
from rli.durations import duration_string
from rli.hudi.lock_settings import NO_LOCK
from rli.index.registry import index_kind
from rli.model import Durability, KeyMode, OnPartitionChange
from rli.settings import DEFAULT_TOMBSTONES
from rli.table.options import NO_METADATA, TableOptions
from rli.table.table import opened_table
from rli.urls import has_secrets


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    add_command(
        app,
        create,
        "rli create trips --record-key id --partition-by city --ordering ts",
        "rli create trips --record-key vendor,id --index lmdb:///data/idx/trips --shards 128",
        "rli create trips --record-key id --partition-by city --ordering ts --if-exists open",
        "rli create events --record-key id --partition-by day --ordering ts --type merge-on-read",
        "rli create trips --record-key id --schema trips.avsc --option compression=snappy --option write_attempts=20",
        "rli create trips --record-key id --lock filesystem",
        "rli create /mnt/shared/trips --record-key id --index lmdb:///var/lib/rli/trips --lease table",
    )


class IfExists(StrEnum):
    """What becomes of a creation where there is a table."""

    FAIL = "fail"
    OPEN = "open"


class TypeName(StrEnum):
    """The types of tables as a command line spells them."""

    COPY_ON_WRITE = "copy-on-write"
    MERGE_ON_READ = "merge-on-read"


@dataclass(frozen=True, slots=True)
class CreatedTable:
    """What ``rli create`` reports.

    Attributes:
        location: of the table.
        record_key, partition_by: columns.
        ordering: column; None if the later write wins.
        index: store URL.
        shards: of the index.
    """

    location: str
    record_key: tuple[str, ...]
    partition_by: tuple[str, ...]
    ordering: str | None
    index: str
    shards: int | None


def create(
    context: typer.Context,
    table: TableArgument,
    *,
    record_key: Annotated[
        list[str],
        typer.Option(
            "--record-key",
            metavar="COLUMN",
            help="Column that identifies a record in the whole table. Several: repeat, or separate by commas.",
            show_default=False,
        ),
    ],
    partition_by: Annotated[
        list[str] | None,
        typer.Option(
            "--partition-by",
            metavar="COLUMN",
            help="Partition column. Several: as above. Default: no partitions.",
            show_default=False,
        ),
    ] = None,
    ordering: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Ordering column: the greater value wins. Default: the later write wins."),
    ] = None,
    index: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Where the index is: a store, such as lmdb:///path, or a kind without a store, such as global-simple:. "
            "Default: LMDB inside the table's folder.",
        ),
    ] = None,
    shards: ShardsOption = None,
    key_mode: KeyModeOption = KeyMode.EXACT,
    on_partition_change: Annotated[
        OnPartitionChange, typer.Option(help="How upserts treat a known key in another partition.")
    ] = OnPartitionChange.MOVE,
    name: Annotated[str | None, typer.Option(help="Name of the table. Default: that of its folder.")] = None,
    table_type: Annotated[
        TypeName,
        typer.Option(
            "--type",
            help="copy-on-write: a write rewrites the base files that it changes. merge-on-read: a write appends updates and "
            "deletes to log files, and readers merge them.",
        ),
    ] = TypeName.COPY_ON_WRITE,
    hive_style: Annotated[bool, typer.Option("--hive-style", help="Name partition folders column=value.")] = False,
    url_encode_partitions: Annotated[
        bool, typer.Option("--url-encode-partitions", help="Percent-encode special characters in partition folders.")
    ] = False,
    target_file_size: Annotated[
        int, typer.Option(parser=parse_size, metavar="SIZE", help="New records fill a file up to this size.")
    ] = "120M",  # type: ignore[assignment]  # typer hands it to the parser
    lease: Annotated[
        str | None,
        typer.Option(
            metavar="PLACE",
            help="Where writers agree on who commits. index: in the index's store, which all writers share. table: in the "
            "table's folder. URL: in another store, such as redis://host:6379/0. Default: index, or table for an index "
            "without a store.",
        ),
    ] = None,
    lock: Annotated[
        str,
        typer.Option(
            metavar="LOCK",
            help="The lock that commits share with writers of Hudi. lease: none, so no other engine may write while rli does. "
            "filesystem, storage, zookeeper://host:port/base/path?key=NAME: the lock of the Hudi provider of that name.",
        ),
    ] = NO_LOCK,
    durability: Annotated[
        Durability,
        typer.Option(
            help="disk: acknowledged commits survive a power cut. os: they survive only the death of processes; for "
            "file systems that are slow to sync."
        ),
    ] = Durability.DISK,
    maintenance: Annotated[
        bool, typer.Option(help="Writers clean, archive and cluster the table after every few commits.")
    ] = True,
    tombstones: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="For how long a deleted key keeps the ordering value of its delete, such as 7d, 36h or 90m. off: not at all.",
        ),
    ] = duration_string(DEFAULT_TOMBSTONES),
    metadata: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="Partitions of Hudi's metadata table, separated by commas: files,column_stats,record_index. none: no metadata "
            "table, unless the index is record-index:.",
        ),
    ] = NO_METADATA,
    option: SettingOption = None,
    schema: Annotated[
        str | None,
        typer.Option(
            "--schema",
            metavar="FILE",
            help="File that tells the columns: an Avro schema (.avsc), or the columns of a .parquet or .arrow file. Default: the "
            "columns of the first records.",
            show_default=False,
        ),
    ] = None,
    if_exists: Annotated[
        IfExists,
        typer.Option(help="If the table exists. fail: an error. open: keep it, if it agrees with the other options."),
    ] = IfExists.FAIL,
    as_json: JsonOption = False,
) -> None:
    """Create an empty table with its index."""
    options: TableOptions = {
        "shards": shards,
        "key_mode": key_mode,
        "on_partition_change": on_partition_change,
        "hive_style": hive_style,
        "url_encode_partitions": url_encode_partitions,
        "table_type": table_type.replace("-", "_"),
        "target_file_size": target_file_size,
        "lease": lease,
        "lock": lock,
        "durability": durability,
        "maintenance": maintenance,
        "tombstones": tombstones,
        "metadata": metadata if metadata == NO_METADATA else split_columns([metadata]),
    }
    # A default is no demand on a table that exists.
    flagged = {name: value for name, value in options.items() if _is_given(context, name)}
    given = cast("TableOptions", {**flagged, **parse_settings(option, options)})
    created = rli.create_table(
        table,
        record_key=split_columns(record_key),
        partition_by=split_columns(partition_by),
        ordering=ordering,
        index=index,
        name=name,
        schema=None if schema is None else read_schema(schema),
        if_exists=if_exists.value,
        **given,
    )
    if index is not None and index.startswith("memory:") and index_kind(index).has_store:
        print_note(
            "the index is in the memory of this command and ends with it; bootstrap an index in another store before use"
        )
    if index is not None and has_secrets(index):
        print_note(
            "the table keeps the URL without its password; for later commands write it into "
            "~/.config/rli/credentials.toml (docs/security.md)"
        )
    properties = opened_table(created).definition.properties
    facts = CreatedTable(
        created.location,
        properties.record_key_fields,
        properties.partition_fields,
        properties.ordering_field,
        created.index.url,
        created.index.stats().shards,
    )
    report(facts, as_json=as_json, render=lambda: _print_created(facts))


def _is_given(context: typer.Context, option: str) -> bool:
    source = context.get_parameter_source(option)
    return source is not None and source.name != "DEFAULT"


def _print_created(created: CreatedTable) -> None:
    print_facts(
        {
            "table": created.location,
            "record key": ", ".join(created.record_key),
            "partitioned by": ", ".join(created.partition_by) or None,
            "ordering": created.ordering,
            "index": created.index,
            "shards": created.shards,
        }
    )
