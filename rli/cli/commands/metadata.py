"""The commands of ``rli metadata``."""

from __future__ import annotations

from typing import Annotated, Final

import typer

import rli
from rli.cli.options import (
    DryRunOption,
    IndexOption,
    JsonOption,
    LeaseTimeoutOption,
    TableArgument,
    add_command,
    split_columns,
)
from rli.cli.output import FOUND, counted, print_facts, print_note, print_rows, report, with_table
from rli.cli.progress import files_progress
from rli.metadata_table.status import MetadataStatus
from rli.metadata_table.verify import Difference, Fault
from rli.services.metadata_compaction import MetadataCompaction
from rli.services.metadata_table import MetadataChange
from rli.sizes import human_bytes
from rli.table.table import opened_table
from rli.view.metadata_remedies import to_build, to_build_again

_SHOWN: Final = 20

PartitionsOption = Annotated[
    str | None,
    typer.Option("--partitions", metavar="NAMES", help="Names, separated by commas.", show_default=False),
]


def register(app: typer.Typer) -> None:
    """Add the group to the application."""
    group = typer.Typer(
        help="Build, check and remove Hudi's metadata table.", no_args_is_help=True, rich_markup_mode="rich"
    )
    add_command(
        group,
        enable,
        "rli metadata enable trips",
        "rli metadata enable trips --partitions files,column_stats,record_index",
        "rli metadata enable trips --columns city,fare --json",
    )
    add_command(
        group,
        disable,
        "rli metadata disable trips --dry-run",
        "rli metadata disable trips --partitions record_index",
    )
    add_command(group, compact, "rli metadata compact trips", "rli metadata compact trips --dry-run --json")
    add_command(group, status, "rli metadata status trips", "rli metadata status trips --json")
    add_command(group, verify, "rli metadata verify trips", "rli metadata verify trips --json")
    app.add_typer(group, name="metadata")


def enable(
    table: TableArgument,
    *,
    partitions: PartitionsOption = None,
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Columns that get statistics, separated by commas; column.field within a structure. Default: the first 32.",
            show_default=False,
        ),
    ] = None,
    index: IndexOption = None,
    timeout: LeaseTimeoutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Build partitions of the metadata table from the table's files: files, column_stats, partition_stats, bloom_filters, record_index.

    Default: files and column_stats; from table version 8 on, partition_stats, too. Partitions that are there already stay.
    Writers wait for the last step alone, and keep the partitions from then on.
    """
    names, chosen = _names(partitions), _names(columns)
    with files_progress("reading files") as on_progress:
        done = rli.open_table(table, index=index).metadata.enable(
            names, columns=chosen, timeout=timeout, on_progress=on_progress
        )
    report(done, as_json=as_json, render=lambda: _print_change(done))


def disable(
    table: TableArgument,
    *,
    partitions: PartitionsOption = None,
    index: IndexOption = None,
    timeout: LeaseTimeoutOption = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Remove partitions of the metadata table, by default all; records, files and index of the table stay.

    What needs a partition goes with it: partition_stats with column_stats, and all of them with files. Pending indexings of Hudi
    that build one are aborted; by default also those whose plans cannot be read. Their indexer must be dead.
    """
    opened, named = rli.open_table(table, index=index), _names(partitions)
    done = opened.metadata.disable(named, timeout=timeout, dry_run=dry_run)
    report(done, as_json=as_json, render=lambda: _print_removal(done, named, table))


def compact(
    table: TableArgument,
    *,
    index: IndexOption = None,
    timeout: LeaseTimeoutOption = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Merge the log files of the metadata table into base files, and remove files that no reader needs any more.

    Writers do so after every few commits. A pending instant, of a dead writer perhaps, can hold it back.
    """
    done = rli.open_table(table, index=index).metadata.compact(timeout=timeout, dry_run=dry_run)
    report(done, as_json=as_json, render=lambda: _print_compaction(done))


def status(table: TableArgument, index: IndexOption = None, as_json: JsonOption = False) -> None:
    """Show the partitions of the metadata table, and how far their log files have grown."""
    found = rli.open_table(table, index=index).metadata.status()
    report(found, as_json=as_json, render=lambda: _print_status(found))


def verify(table: TableArgument, index: IndexOption = None, as_json: JsonOption = False) -> None:
    """Compare the metadata table with the table's folders, footers and record keys. Exit status 1 if readers may lose rows or time.

    Statistics that are only wider than the table, as Hudi leaves some, are shown and count as right.

    If writers change the table meanwhile, the comparison is repeated, up to four times. If they change it each time, only
    differences of every comparison are shown.
    """
    opened = rli.open_table(table, index=index)
    found = opened.metadata.verify()
    report(found, as_json=as_json, render=lambda: _print_differences(found, opened, table))
    if any(each.fault is not Fault.WIDE for each in found):
        raise typer.Exit(FOUND)


def _names(given: str | None) -> list[str] | None:
    return None if given is None else split_columns([given])


def _print_change(done: MetadataChange) -> None:
    print_facts(
        {
            **({"added": ", ".join(done.added)} if done.added else {}),
            **({"to remove" if done.dry_run else "removed": ", ".join(done.removed)} if done.removed else {}),
            **({} if done.added or done.removed else {"result": "nothing to do"}),
            "partitions that readers rely on": ", ".join(done.listed) or "none",
        }
    )


def _print_removal(done: MetadataChange, named: list[str] | None, table: str) -> None:
    _print_change(done)
    more = [] if named is None else [name for name in done.removed if name not in named]
    if more:
        verb = "would go, too" if done.dry_run else "went, too"
        print_note(f"{verb}, since they need what was named: {', '.join(more)}")
    if done.removed:
        print_note(with_table(f"to build all of them again: {to_build(done.removed, done.columns)}", table))


def _print_compaction(done: MetadataCompaction) -> None:
    groups = f"file groups {'to compact' if done.dry_run else 'compacted'}"
    print_facts(
        {
            groups: done.file_groups,
            "deltacommits since the last compaction": done.deltacommits,
            **({} if done.dry_run else {"files removed": done.files_deleted}),
            **({} if done.instant is None else {"instant of the compaction": done.instant}),
            **({} if done.held_back_by is None else {"held back by the pending instant": done.held_back_by}),
        }
    )


def _print_status(found: MetadataStatus) -> None:
    if not found.partitions:
        print_facts({"metadata table": "none: readers list folders"})
        return
    columns = ("partition", "state", "file groups", "log files", "size", "base file of")
    rows = [
        (
            part.partition,
            str(part.state),
            part.file_groups,
            part.log_files,
            human_bytes(part.bytes),
            part.base_instant or "",
        )
        for part in found.partitions
    ]
    print_rows(columns, rows)
    print_note(
        f"last instant {found.last_instant}, {counted(found.deltacommits, 'deltacommit')} since the last compaction"
    )


def _print_differences(found: tuple[Difference, ...], opened: rli.Table, table: str) -> None:
    now = opened_table(opened).definition.reloaded()
    if not found:
        has_any = bool(now.properties.metadata_partitions)
        print_facts({"result": "metadata table and table agree" if has_any else "the table has no metadata table"})
        return
    print_rows(
        ("partition", "fault", "of", "details"),
        [(each.partition, str(each.fault), each.item, each.details) for each in found[:_SHOWN]],
    )
    if len(found) > _SHOWN:
        print_note(f"and {counted(len(found) - _SHOWN, 'more difference')}")
    damaged = {each.partition for each in found if each.fault is not Fault.WIDE}
    if damaged:
        print_note(with_table(f"to build these partitions again: {to_build_again(now, damaged)}", table))
    else:
        print_note(
            "readers lose nothing by wide statistics, and the next write of rli into the partition makes them exact"
        )
