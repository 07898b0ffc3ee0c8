"""rli create."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import typer

import rli
from rli.cli.commands.create_options import (
    DurabilityOption,
    HiveStyleOption,
    IfExists,
    IfExistsOption,
    LeaseOption,
    LockOption,
    MaintenanceOption,
    NameOption,
    NewIndexOption,
    OnPartitionChangeOption,
    OrderingOption,
    PartitionByOption,
    PartitionsOption,
    RecordKeyOption,
    SchemaOption,
    TableTypeOption,
    TargetFileSizeOption,
    TombstonesOption,
    TypeName,
    UrlEncodingOption,
)
from rli.cli.files.schema_file import read_schema
from rli.cli.options import (
    JsonOption,
    KeyModeOption,
    SettingOption,
    ShardsOption,
    TableArgument,
    add_command,
    parse_settings,
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
    record_key: RecordKeyOption,
    partition_by: PartitionByOption = None,
    ordering: OrderingOption = None,
    index: NewIndexOption = None,
    shards: ShardsOption = None,
    key_mode: KeyModeOption = KeyMode.EXACT,
    on_partition_change: OnPartitionChangeOption = OnPartitionChange.MOVE,
    name: NameOption = None,
    table_type: TableTypeOption = TypeName.COPY_ON_WRITE,
    hive_style: HiveStyleOption = False,
    url_encode_partitions: UrlEncodingOption = False,
    target_file_size: TargetFileSizeOption = "120M",  # type: ignore[assignment]  # typer hands it to the parser
    lease: LeaseOption = None,
    lock: LockOption = NO_LOCK,
    durability: DurabilityOption = Durability.DISK,
    maintenance: MaintenanceOption = True,
    tombstones: TombstonesOption = duration_string(DEFAULT_TOMBSTONES),
    metadata: PartitionsOption = NO_METADATA,
    option: SettingOption = None,
    schema: SchemaOption = None,
    if_exists: IfExistsOption = IfExists.FAIL,
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
    _print_notes(index)
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


def _print_notes(index: str | None) -> None:
    """What the user of an index should know now."""
    if index is None:
        return
    if index.startswith("memory:") and index_kind(index).has_store:
        print_note(
            "the index is in the memory of this command and ends with it; bootstrap an index in another store before use"
        )
    if has_secrets(index):
        print_note(
            "the table keeps the URL without its password; for later commands write it into "
            "~/.config/rli/credentials.toml (docs/security.md)"
        )


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
