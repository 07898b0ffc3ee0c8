"""Commands that change a table: create, upsert, merge, insert, overwrite, delete, update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final, cast

import pyarrow as pa
import typer

import rli
from rli.cli.engines.choice import Engine, EngineName, LocalEngine, SupportsParquetFiles, open_engine
from rli.cli.engines.options import InsertOptions, MergeOptions, OverwriteOptions, UpsertOptions, WriteOptions
from rli.cli.files.column_types import ExpectedColumns
from rli.cli.files.declared_types import parse_column_types
from rli.cli.files.given_file import STANDARD_INPUT
from rli.cli.files.given_keys import FileOfKeysOption, KeyFormatOption, KeysArgument, keys_in, require_keys
from rli.cli.files.input import FileKind, RecordFile
from rli.cli.files.placing import failures_placed
from rli.cli.files.schema_file import read_schema
from rli.cli.options import (
    DryRunOption,
    IndexOption,
    JsonOption,
    KeyModeOption,
    MetadataOption,
    SettingOption,
    ShardsOption,
    TableArgument,
    TransactionOption,
    add_command,
    parse_metadata,
    parse_settings,
    parse_size,
    parse_transaction,
    split_columns,
)
from rli.cli.output import counted, print_facts, print_json, print_note, report, to_json
from rli.cli.progress import write_progress
from rli.durations import duration_text
from rli.errors import InvalidInputError
from rli.hudi.lock_settings import NO_LOCK
from rli.index.registry import index_kind
from rli.model import (
    CommitResult,
    Durability,
    KeyMode,
    MissingColumns,
    OnDuplicates,
    OnExisting,
    OnPartitionChange,
    Receipt,
)
from rli.settings import DEFAULT_TOMBSTONES
from rli.sizes import human_bytes
from rli.table.options import NO_METADATA, TableOptions
from rli.table.table import Table, opened_table
from rli.urls import has_secrets


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    add_command(
        app,
        create,
        "rli create trips --record-key id --partition-by city --ordering ts",
        "rli create trips --record-key vendor,id --index lmdb:///data/idx/trips --shards 128",
        "rli create trips --record-key id --partition-by city --ordering ts --if-exists open",
        "rli create trips --record-key id --schema trips.avsc --option compression=snappy --option write_attempts=20",
        "rli create /mnt/shared/trips --record-key id --index lmdb:///var/lib/rli/trips --lease table",
    )
    _register_files(app)
    _register_choices(app)


def _register_files(app: typer.Typer) -> None:
    """The commands that write the records of files."""
    add_command(
        app,
        upsert,
        "rli upsert trips day1.jsonl day2.csv.gz",
        "rli upsert trips day3.parquet --on-partition-change fail --on-duplicates fail",
        "rli upsert domains registry.csv --rename-columns --json",
        "rli upsert trips day3.parquet --dry-run",
        "rli upsert trips day4.csv --column-type zip=string --transaction nightly:4",
    )
    add_command(
        app,
        merge,
        "rli merge trips changes.jsonl --op op",
        "rli merge customers debezium.jsonl --missing keep",
        "rli merge trips changes.parquet --op kind --transaction cdc:17",
    )
    add_command(
        app,
        insert,
        "rli insert events day1.jsonl day2.jsonl",
        "rli insert customers new.csv --on-existing fail --dry-run",
    )
    add_command(
        app,
        overwrite,
        "rli overwrite trips day1.parquet day1-late.jsonl",
        "rli overwrite trips empty.parquet --partition day=2026-11-25",
        "rli overwrite trips all.parquet --all --dry-run",
        "rli overwrite trips --drop --partition day=2026-11-25",
    )


def _register_choices(app: typer.Typer) -> None:
    """The commands that change records by key or condition."""
    add_command(
        app,
        delete,
        "rli delete trips k1 k2",
        "rli delete trips --file gone.txt --json",
        "rli delete trips --file deletes.jsonl --ordering deleted_at",
        "rli delete trips --file gone.txt --dry-run",
        "rli delete trips --where \"country = 'X'\"",
    )
    add_command(
        app,
        update,
        'rli update trips --where "city = \'Rome\'" --set "fare=fare * 2"',
        "rli update trips --where \"email = 'a@b.c'\" --set email=null --set \"name='gone'\" --dry-run",
    )


_BEHIND: Final = "behind: the commit stands, and the next write, look-up or rli index sync applies it"


class IfExists(StrEnum):
    """What becomes of a creation where there is a table."""

    FAIL = "fail"
    OPEN = "open"


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
            help="The lock that commits share with writers of Hudi. lease: none. filesystem: that of Hudi's "
            "FileSystemBasedLockProvider.",
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
    ] = duration_text(DEFAULT_TOMBSTONES),
    metadata: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="Partitions of Hudi's metadata table, separated by commas: files,column_stats,record_index. none: no metadata "
            "table.",
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


FilesArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE",
        help="Records: .jsonl, .ndjson, .json, .csv (each also .gz), .parquet or .arrow; - for standard input. "
        "Each file is a separate batch and commit, in the given order.",
        show_default=False,
    ),
]
EngineOption = Annotated[EngineName, typer.Option(help="local: in this process. spark: in a Spark session.")]
RenameOption = Annotated[bool, typer.Option("--rename-columns", help="Write 'Domain name' as domain_name, and so on.")]
FormatOption = Annotated[
    FileKind | None,
    typer.Option(
        "--format",
        help="Format of the files. Default: by the ending of a file's name, or by the first bytes of standard input: "
        "text that is no JSON is CSV.",
        show_default=False,
    ),
]
OnDuplicatesOption = Annotated[
    OnDuplicates,
    typer.Option(
        help="If several records of a file have one key. skip: one of them counts, the others are reported as duplicates. "
        "fail: an error."
    ),
]
ColumnTypeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--column-type",
        metavar="COLUMN=TYPE",
        help="Type of a column of a text file: string, boolean, int, bigint, double, decimal(DIGITS,SCALE), date or "
        "timestamp. Repeat for several. zip=string keeps 02134; ts=bigint makes a stored column of int wider; payload=string "
        "and event.payload=string keep whatever JSON has there as text.",
        show_default=False,
    ),
]


OnPartitionChangeOption = Annotated[
    OnPartitionChange | None,
    typer.Option(
        help="How to treat a known key in another partition. Default: the table's setting.", show_default=False
    ),
]
MissingOption = Annotated[
    MissingColumns,
    typer.Option(
        help="Columns of the table that a file lacks. fail: an error. null: they become null. keep: records that are "
        "updated or moved keep their stored values."
    ),
]


def upsert(
    table: TableArgument,
    *,
    files: FilesArgument,
    engine: EngineOption = EngineName.LOCAL,
    on_partition_change: OnPartitionChangeOption = None,
    missing: MissingOption = MissingColumns.FAIL,
    on_duplicates: OnDuplicatesOption = OnDuplicates.SKIP,
    file_format: FormatOption = None,
    rename_columns: RenameOption = False,
    column_type: ColumnTypeOption = None,
    transaction: TransactionOption = None,
    metadata: MetadataOption = None,
    dry_run: DryRunOption = False,
    index: IndexOption = None,
    as_json: JsonOption = False,
) -> None:
    """Insert new records, update known records, and move records with a new partition.

    Columns of text files get the type of the table's column. A new column gets a type only if no value changes by it:
    02134, 1.10 and integers of more than 64 bits stay text. In CSV an empty field is null and "" is an empty text.
    Record keys and partition values keep their spelling.

    With --dry-run, give one file: it is compared with the table as it is now.

    With --json, each commit is reported on its own line, with its file.
    """
    named, kept = parse_transaction(transaction), parse_metadata(metadata)
    options = UpsertOptions(on_partition_change, missing, on_duplicates, named, kept, dry_run)
    source = _Source(
        rli.open_table(table, index=index), files, rename_columns, parse_column_types(column_type), file_format
    )
    _write_files(source, engine, options, as_json=as_json)


def merge(
    table: TableArgument,
    *,
    files: FilesArgument,
    op: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column of operations: c, r, i, insert, u, update and upsert write, d and delete delete. Default: that of "
            "Debezium's events, or none with _hoodie_is_deleted.",
            show_default=False,
        ),
    ] = None,
    when: Annotated[
        str | None,
        typer.Option(
            metavar="CONDITION",
            help="Change a stored record only where this is true, such as 'source.price > target.price'.",
            show_default=False,
        ),
    ] = None,
    engine: EngineOption = EngineName.LOCAL,
    on_partition_change: OnPartitionChangeOption = None,
    missing: MissingOption = MissingColumns.FAIL,
    on_duplicates: OnDuplicatesOption = OnDuplicates.SKIP,
    file_format: FormatOption = None,
    rename_columns: RenameOption = False,
    column_type: ColumnTypeOption = None,
    transaction: TransactionOption = None,
    metadata: MetadataOption = None,
    dry_run: DryRunOption = False,
    index: IndexOption = None,
    as_json: JsonOption = False,
) -> None:
    """Apply change batches: inserts, updates, moves and deletes of a file in one commit.

    The newest change of each key counts: the one with the greatest ordering value, of equals the last. Debezium's events
    are taken as they come, in their envelope or flattened. Deletes need the key and the ordering value, and with partition
    scope the partition. Files are read as by rli upsert.
    """
    named, kept = parse_transaction(transaction), parse_metadata(metadata)
    options = MergeOptions(on_partition_change, missing, on_duplicates, named, kept, dry_run, op, when)
    source = _Source(
        rli.open_table(table, index=index), files, rename_columns, parse_column_types(column_type), file_format
    )
    _write_files(source, engine, options, as_json=as_json)


def insert(
    table: TableArgument,
    *,
    files: FilesArgument,
    engine: EngineOption = EngineName.LOCAL,
    on_existing: Annotated[
        OnExisting,
        typer.Option(help="If the table holds a key. skip: its record changes nothing. fail: an error."),
    ] = OnExisting.SKIP,
    on_duplicates: OnDuplicatesOption = OnDuplicates.SKIP,
    file_format: FormatOption = None,
    rename_columns: RenameOption = False,
    column_type: ColumnTypeOption = None,
    transaction: TransactionOption = None,
    metadata: MetadataOption = None,
    dry_run: DryRunOption = False,
    index: IndexOption = None,
    as_json: JsonOption = False,
) -> None:
    """Insert records with new keys; the first record of a key wins.

    Records of known keys change nothing and touch no file, in whatever partition the known record is. Of several records
    with one key in a file the first one counts (spark: the one with the least ordering value). Files are read as by
    rli upsert.
    """
    named, kept = parse_transaction(transaction), parse_metadata(metadata)
    options = InsertOptions(on_existing, on_duplicates, named, kept, dry_run)
    source = _Source(
        rli.open_table(table, index=index), files, rename_columns, parse_column_types(column_type), file_format
    )
    _write_files(source, engine, options, as_json=as_json)


@dataclass(frozen=True, slots=True)
class _Source:
    """Files to write, and how they are read.

    Attributes:
        table: where they go.
        files: paths.
        rename_columns: whether names of columns are made simple.
        declared: types of new columns.
        kind: format of the files; None for what each file's name or content says.
    """

    table: Table
    files: Sequence[str]
    rename_columns: bool
    declared: Mapping[str, pa.DataType]
    kind: FileKind | None


def _write_files(source: _Source, engine: EngineName, options: WriteOptions, *, as_json: bool) -> None:
    if options.transaction is not None and len(source.files) > 1:
        named, number = options.transaction
        raise InvalidInputError(
            f"a transaction is a single commit, and each file is a commit: transaction={named}:{number} "
            f"files={len(source.files)}",
            remedy="give one file at a time, each with its own number",
        )
    if options.dry_run:
        _require_dry_run(source, engine)
    if source.files.count(STANDARD_INPUT) > 1:
        raise InvalidInputError(
            f"standard input can be read once: files={list(source.files)}", remedy=f"name {STANDARD_INPUT} once"
        )
    batches = [RecordFile.at(path, source.kind) for path in source.files]
    runner = open_engine(engine)
    try:
        for batch in batches:
            with failures_placed(batch.file, batch.place):
                result = _write_file(runner, source, batch, options)
            if as_json:
                print_json({"file": batch.file.path, **_fields(result)})
            else:
                print_facts(_summary(batch.file.path, result))
    finally:
        runner.close()


def _require_dry_run(source: _Source, engine: EngineName) -> None:
    if engine is not EngineName.LOCAL:
        raise InvalidInputError(f"a dry run works in this process: engine={engine}", remedy="leave --engine out")
    if len(source.files) > 1:
        raise InvalidInputError(
            "a dry run compares one file with the table as it is now, and each file changes the table: "
            f"files={len(source.files)}",
            remedy="give one file",
        )


def _write_file(engine: Engine, source: _Source, batch: RecordFile, options: WriteOptions) -> CommitResult:
    path = batch.file.path
    with write_progress(path, is_silent=options.dry_run) as on_step:
        is_read_here = source.rename_columns or source.declared or path == STANDARD_INPUT
        if batch.kind is FileKind.PARQUET and isinstance(engine, SupportsParquetFiles) and not is_read_here:
            return engine.write_parquet(source.table, path, options, on_step)
        expected = ExpectedColumns.of(source.table, source.declared)
        records = batch.read(expected, rename_columns=source.rename_columns)
        return engine.write(source.table, records, options, on_step)


def overwrite(
    table: TableArgument,
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE", help="Records, in the formats of rli upsert. All files are one commit.", show_default=False
        ),
    ] = None,
    *,
    partition: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH", help="Replace this partition, too: also if no record is in it. Repeat.", show_default=False
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Replace the whole table.")] = False,
    drop: Annotated[bool, typer.Option("--drop", help="Remove the named partitions. Give no files.")] = False,
    missing_ok: Annotated[
        bool, typer.Option("--missing-ok", help="With --drop: partitions that the table lacks are no error.")
    ] = False,
    on_partition_change: OnPartitionChangeOption = None,
    on_duplicates: OnDuplicatesOption = OnDuplicates.SKIP,
    file_format: FormatOption = None,
    rename_columns: RenameOption = False,
    column_type: ColumnTypeOption = None,
    transaction: TransactionOption = None,
    metadata: MetadataOption = None,
    dry_run: DryRunOption = False,
    index: IndexOption = None,
    as_json: JsonOption = False,
) -> None:
    """Replace the partitions of the records by the records, in one commit.

    What the partitions held is gone, but for keys that are among the records. Keys that are in other partitions move. No ordering
    value is compared with stored records. --drop removes partitions.
    """
    named, kept = parse_transaction(transaction), parse_metadata(metadata)
    if drop == bool(files) or (drop and (everything or not partition)) or (missing_ok and not drop):
        raise InvalidInputError(
            f"either files or partitions to drop: files={files or []} drop={drop} missing_ok={missing_ok}",
            remedy="give files, or --drop with --partition PATH and perhaps --missing-ok",
        )
    opened = rli.open_table(table, index=index)
    label = ", ".join((files or []) if not drop else (partition or []))
    with write_progress(label, is_silent=dry_run) as on_step:
        if drop:
            result = opened.drop_partitions(
                partition or [],
                missing_ok=missing_ok,
                transaction=named,
                metadata=kept,
                dry_run=dry_run,
                on_step=on_step,
            )
        else:
            source = _Source(opened, files or [], rename_columns, parse_column_types(column_type), file_format)
            chosen = OverwriteOptions(
                "all" if everything else partition, on_partition_change, on_duplicates, named, kept, dry_run
            )
            result = LocalEngine().write(opened, _together(source), chosen, on_step)
    report(result, as_json=as_json, render=lambda: print_facts(_summary(label, result)))


def _together(source: _Source) -> pa.Table:
    """The records of all files: a partition that is in two of them is replaced by both."""
    parts = []
    for path in source.files:
        batch = RecordFile.at(path, source.kind)
        with failures_placed(batch.file, batch.place):
            expected = ExpectedColumns.of(source.table, source.declared)
            parts.append(batch.read(expected, rename_columns=source.rename_columns))
    try:
        return pa.concat_tables(parts, promote_options="default")
    except pa.ArrowException as error:
        raise InvalidInputError(
            f"the files have columns of different types: files={list(source.files)} ({error})",
            remedy="name their types with --column-type",
        ) from error


def delete(
    table: TableArgument,
    keys: KeysArgument = None,
    *,
    file: FileOfKeysOption = None,
    file_format: KeyFormatOption = None,
    ordering: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column of the file with ordering values: a delete that is older than the stored record changes nothing. Default: "
            "the table's ordering column, if the file has it.",
            show_default=False,
        ),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(
            metavar="SQL", help="Delete the records that meet this condition, instead of keys.", show_default=False
        ),
    ] = None,
    transaction: TransactionOption = None,
    metadata: MetadataOption = None,
    dry_run: DryRunOption = False,
    index: IndexOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete records by key, or by a condition; unknown keys change nothing.

    With ordering values, a delete that is older than the stored record changes nothing, and an older record that comes
    after the delete is not inserted again, for the time that rli tombstones shows. Without ordering values, whatever is
    stored is deleted.

    With --where, the report says which files still hold the records, and until which clean.
    """
    if where is not None:
        if keys or file is not None or ordering is not None:
            raise InvalidInputError(
                "the command takes either keys or a condition", remedy="give KEY..., --file FILE or --where SQL"
            )
        opened, named, kept = (
            rli.open_table(table, index=index),
            parse_transaction(transaction),
            parse_metadata(metadata),
        )
        with write_progress(where, is_silent=dry_run) as on_step:
            result = opened.delete_where(where, transaction=named, metadata=kept, dry_run=dry_run, on_step=on_step)
        report(result, as_json=as_json, render=lambda: print_facts(_summary(where, result)))
        return
    require_keys(keys, file)
    if keys and ordering is not None:
        raise InvalidInputError("keys alone have no ordering values", remedy="give a file with the column, --file FILE")
    named = parse_transaction(transaction)
    opened = rli.open_table(table, index=index)
    kept = parse_metadata(metadata)
    with keys_in(opened, keys, file, file_format) as gone:
        label = counted(len(gone), "key") if file is None else file
        with write_progress(label, is_silent=dry_run) as on_step:
            result = opened.delete(
                gone, ordering=ordering, transaction=named, metadata=kept, dry_run=dry_run, on_step=on_step
            )
    report(result, as_json=as_json, render=lambda: print_facts(_summary(label, result)))


def update(
    table: TableArgument,
    *,
    where: Annotated[
        str,
        typer.Option(
            metavar="SQL", help="Update the records that meet this condition; true for all.", show_default=False
        ),
    ],
    values: Annotated[
        list[str],
        typer.Option(
            "--set", metavar="COLUMN=EXPR", help="Column and its new value in SQL. Several: repeat.", show_default=False
        ),
    ],
    transaction: TransactionOption = None,
    metadata: MetadataOption = None,
    dry_run: DryRunOption = False,
    index: IndexOption = None,
    as_json: JsonOption = False,
) -> None:
    """Set columns of the records that meet a condition.

    All values are computed of the stored records. A value that does not fit its column without loss is an error. The report says
    which files still hold the former values, and until which clean.
    """
    named, kept, assigned = parse_transaction(transaction), parse_metadata(metadata), _assignments(values)
    opened = rli.open_table(table, index=index)
    with write_progress(where, is_silent=dry_run) as on_step:
        result = opened.update_where(
            where, assigned, transaction=named, metadata=kept, dry_run=dry_run, on_step=on_step
        )
    report(result, as_json=as_json, render=lambda: print_facts(_summary(where, result)))


def _assignments(given: Sequence[str]) -> dict[str, str]:
    assigned: dict[str, str] = {}
    for one in given:
        column, equals, expression = one.partition("=")
        if not equals or not column.strip() or not expression.strip() or column.strip() in assigned:
            raise InvalidInputError(
                f"not a column and its value: --set {one!r}", remedy="write each column once, as in fare='fare * 2'"
            )
        assigned[column.strip()] = expression.strip()
    return assigned


def _fields(result: CommitResult) -> dict[str, object]:
    fields = to_json(result)
    return fields if isinstance(fields, dict) else {}


def _summary(label: str, result: CommitResult) -> dict[str, object]:
    """A commit in a few words, for a person."""
    counts = {
        "inserted": result.inserted,
        "updated": result.updated,
        "moved": result.moved,
        "deleted": result.deleted,
        "unchanged": result.unchanged,
        "duplicates": result.duplicates,
    }
    records = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count) or "none"
    created, rewritten = f"{result.files_created:,}", f"{result.files_rewritten:,}"
    if result.dry_run:
        files = f"{created} to create, {rewritten} to rewrite"
        paths = "\n".join(result.files_to_rewrite)
        return {
            "batch": label,
            "commit": "repeated: committed before" if result.repeated else "none, this was a dry run",
            "records": records,
            "files": files,
            **({"to rewrite": paths} if paths else {}),
        }
    files = f"{created} created, {rewritten} rewritten, {human_bytes(result.written_bytes)}"
    return {
        "batch": label,
        "commit": _commit(result),
        "records": records,
        **({"files": files} if result.instant else {}),
        **({"index": _BEHIND} if result.index_behind else {}),
        **_held(result.receipt),
    }


def _held(receipt: Receipt | None) -> dict[str, object]:
    """Which files still hold what was removed, for a person."""
    if receipt is None or not receipt.files:
        return {}
    until = f"until a clean whose oldest readable commit is later than {receipt.held_until}"
    saved = f"; savepoints keep them: {', '.join(receipt.savepoints)}" if receipt.savepoints else ""
    return {
        "still held": f"by {counted(len(receipt.files), 'file')} {until}{saved}",
        "held by": "\n".join(receipt.files),
    }


def _commit(result: CommitResult) -> str:
    if result.instant is None:
        return "none, nothing changed"
    return (
        f"{result.instant} (repeated: committed before, nothing was written now)" if result.repeated else result.instant
    )
