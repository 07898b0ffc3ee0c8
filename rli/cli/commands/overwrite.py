"""rli overwrite."""

from __future__ import annotations

from typing import Annotated

import typer

import rli
from rli.cli.commit_summary import report_commit
from rli.cli.engines.choice import EngineName, EngineOption, open_engine, require_local
from rli.cli.engines.options import DropOptions, OverwriteOptions
from rli.cli.files.declared_types import parse_column_types
from rli.cli.files.record_options import (
    ColumnTypeOption,
    FormatOption,
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
from rli.cli.progress import write_progress
from rli.errors import InvalidInputError
from rli.model import OnDuplicates


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    add_command(
        app,
        overwrite,
        "rli overwrite trips day1.parquet day1-late.jsonl",
        "rli overwrite trips empty.parquet --partition day=2026-11-25",
        "rli overwrite trips all.parquet --all --dry-run",
        "rli overwrite trips --drop --partition day=2026-11-25",
        "rli overwrite trips day1.parquet --engine spark",
    )


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
    engine: EngineOption = EngineName.LOCAL,
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
    if dry_run:
        require_local(engine)
    opened = rli.open_table(table, index=index)
    label = ", ".join((files or []) if not drop else (partition or []))
    source = Source(opened, files or [], rename_columns, parse_column_types(column_type), file_format)
    records = None if drop else source.all_records()
    runner = open_engine(engine)
    try:
        with write_progress(label, is_silent=dry_run) as on_step:
            if records is None:
                result = runner.drop(opened, partition or [], DropOptions(missing_ok, named, kept, dry_run), on_step)
            else:
                replaced = "all" if everything else partition
                options = OverwriteOptions(replaced, on_partition_change, on_duplicates, named, kept, dry_run)
                result = runner.write(opened, records, options, on_step)
    finally:
        runner.close()
    report_commit(label, result, as_json=as_json)
