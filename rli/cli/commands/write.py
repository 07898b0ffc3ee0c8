"""rli upsert, merge and insert."""

from __future__ import annotations

from typing import Annotated

import typer

import rli
from rli.cli.commit_summary import commit_summary
from rli.cli.engines.choice import Engine, EngineName, EngineOption, SupportsParquetFiles, open_engine, require_local
from rli.cli.engines.options import InsertOptions, MergeOptions, UpsertOptions, WriteOptions
from rli.cli.files.declared_types import parse_column_types
from rli.cli.files.given_file import STANDARD_INPUT
from rli.cli.files.input import FileKind, RecordFile
from rli.cli.files.placing import failures_placed
from rli.cli.files.record_options import (
    ColumnTypeOption,
    FilesArgument,
    FormatOption,
    MissingOption,
    OnDuplicatesOption,
    OnPartitionChangeOption,
    RenameOption,
)
from rli.cli.files.source import Source
from rli.cli.options import (
    DryRunOption,
    IndexOption,
    JsonOption,
    MetadataOption,
    TableArgument,
    TransactionOption,
    add_command,
    parse_metadata,
    parse_transaction,
)
from rli.cli.output import print_facts, print_json, to_json
from rli.cli.progress import write_progress
from rli.errors import InvalidInputError
from rli.model import CommitResult, MissingColumns, OnDuplicates, OnExisting


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
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
    source = Source(
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
    source = Source(
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
    source = Source(
        rli.open_table(table, index=index), files, rename_columns, parse_column_types(column_type), file_format
    )
    _write_files(source, engine, options, as_json=as_json)


def _write_files(source: Source, engine: EngineName, options: WriteOptions, *, as_json: bool) -> None:
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
                print_facts(commit_summary(batch.file.path, result))
    finally:
        runner.close()


def _require_dry_run(source: Source, engine: EngineName) -> None:
    require_local(engine)
    if len(source.files) > 1:
        raise InvalidInputError(
            "a dry run compares one file with the table as it is now, and each file changes the table: "
            f"files={len(source.files)}",
            remedy="give one file",
        )


def _write_file(engine: Engine, source: Source, batch: RecordFile, options: WriteOptions) -> CommitResult:
    path = batch.file.path
    with write_progress(path, is_silent=options.dry_run) as on_step:
        is_read_here = source.rename_columns or source.declared or path == STANDARD_INPUT
        if batch.kind is FileKind.PARQUET and isinstance(engine, SupportsParquetFiles) and not is_read_here:
            return engine.write_parquet(source.table, path, options, on_step)
        return engine.write(source.table, source.records(batch), options, on_step)


def _fields(result: CommitResult) -> dict[str, object]:
    fields = to_json(result)
    return fields if isinstance(fields, dict) else {}
