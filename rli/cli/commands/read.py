"""Commands that read a table: lookup, get, read, changes, timeline, info."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Annotated, Final, TypeAlias

import pyarrow as pa
import typer

import rli
from rli.cli.files.given_keys import FileOfKeysOption, KeyFormatOption, KeysArgument, keys_in, require_keys
from rli.cli.files.output import require_output, write_records
from rli.cli.options import IndexOption, JsonOption, TableArgument, TimeoutOption, add_command, split_columns
from rli.cli.output import (
    FOUND,
    counted,
    human_seconds,
    out_console,
    print_facts,
    print_note,
    print_rows,
    report,
    with_table,
)
from rli.errors import InvalidInputError
from rli.hudi.timeline.instant import InstantState
from rli.index.contract import LOOKUP_SECONDS
from rli.model import ChangeImages, Query, Scope, TableType
from rli.reads.changes.table_changes import POSITION
from rli.settings import TableSettings
from rli.sizes import human_bytes
from rli.table.info import IndexInfo, TableInfo
from rli.table.table import opened_table
from rli.view.explanation import ScanExplanation
from rli.view.history import HistoryEntry

_ROWS_ON_A_TERMINAL: Final = 20


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    add_command(app, lookup, "rli lookup trips k1 k2", "rli lookup trips --file keys.txt --json")
    add_command(
        app,
        get,
        "rli get trips k1 k2",
        "rli get trips k1 --columns id,fare --json",
        "rli get trips --where \"email = 'a@b.org'\"",
    )
    add_command(
        app,
        read,
        "rli read trips --where \"city == 'Oslo' and fare > 10\" --columns id,fare",
        "rli read trips --as-of 2024-05-31T12:00:00 --output may.parquet",
        "rli read trips --where \"city == 'Oslo' and fare > 10\" --explain",
        'rli read trips --where \'tip is not null and city in ("Oslo", "Bergen")\' --limit 5 --json',
    )
    add_command(
        app,
        changes,
        "rli changes trips --since 20240531120000000",
        "rli changes trips --since 20240531120000000 --images both --output changes.parquet",
    )
    add_command(app, timeline, "rli timeline trips", "rli timeline trips --limit 5 --json")
    add_command(app, info, "rli info trips", "rli info trips --json")


ColumnsOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--columns", metavar="COLUMN", help="Only these columns: repeat, or separate by commas."),
]


WhereOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="SQL",
        help="Only matching records: comparisons, in (...), between, like, is null, joined by and, or, not; arithmetic and "
        "functions. Quote strings, dates and times.",
    ),
]


def lookup(
    table: TableArgument,
    keys: KeysArgument = None,
    *,
    file: FileOfKeysOption = None,
    file_format: KeyFormatOption = None,
    index: IndexOption = None,
    timeout: TimeoutOption = LOOKUP_SECONDS,
    as_json: JsonOption = False,
) -> None:
    """Show where each record key lives: partition path, file group and commit.

    Exit status 1 if the table holds none of the keys.
    """
    require_keys(keys, file)
    opened = rli.open_table(table, index=index)
    with keys_in(opened, keys, file, file_format) as sought:
        found = opened.lookup(sought, timeout=timeout)
    rows = found.to_pylist()
    report(
        rows,
        as_json=as_json,
        render=lambda: print_rows(
            found.column_names,
            [list(row.values()) for row in rows],
            folded=["record_key", "partition_path", "file_id"],
        ),
    )
    if found.column("file_id").null_count == found.num_rows:
        raise typer.Exit(FOUND)


def get(
    table: TableArgument,
    keys: KeysArgument = None,
    *,
    file: FileOfKeysOption = None,
    file_format: KeyFormatOption = None,
    where: WhereOption = None,
    columns: ColumnsOption = None,
    index: IndexOption = None,
    timeout: TimeoutOption = LOOKUP_SECONDS,
    as_json: JsonOption = False,
) -> None:
    """Print the records of some keys. The index names the files that hold them; no other file is opened.

    With --where and without keys, print the matching records: a secondary index on a column that they name finds them.

    Records come in the order of the keys; absent keys give no record. Exit status 1 if the table holds none of the keys.
    """
    opened, chosen = rli.open_table(table, index=index), split_columns(columns) or None
    if not keys and file is None:
        if where is None:
            raise InvalidInputError(
                "the command takes keys, a file of keys, or a filter", remedy="give KEY..., --file FILE or --where SQL"
            )
        found = opened.read(chosen, where)
    else:
        require_keys(keys, file)
        with keys_in(opened, keys, file, file_format) as sought:
            found = opened.get(sought, chosen, where, timeout=timeout)
    rows = found.to_pylist()
    report(
        rows,
        as_json=as_json,
        render=lambda: print_rows(found.column_names, [list(row.values()) for row in rows]),
    )
    if not rows:
        raise typer.Exit(FOUND)


LimitOption: TypeAlias = Annotated[
    int | None,
    typer.Option(min=0, help=f"Maximum number of records. Default on a terminal: {_ROWS_ON_A_TERMINAL}."),
]
OutputOption: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Write to a file instead: .parquet, .csv, .jsonl or .arrow."),
]


def read(
    table: TableArgument,
    *,
    where: WhereOption = None,
    columns: ColumnsOption = None,
    limit: LimitOption = None,
    as_of: Annotated[
        str | None,
        typer.Option("--as-of", metavar="INSTANT", help="Read the table as of an instant, or an ISO time in UTC."),
    ] = None,
    query: Annotated[
        Query,
        typer.Option(help="Of merge-on-read tables: merge log files, or read base files alone."),
    ] = Query.SNAPSHOT,
    output: OutputOption = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show how many files each step leaves out instead of the records.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Read the table, now or as of an instant, and print the records or write them to a file.

    In a pipe, values are separated by tabs, after a line of column names. With --output and --json, the report names
    the file and counts its records.
    """
    if output is not None:
        require_output(output)
    opened = opened_table(rli.open_table(table))
    scan = opened.snapshot(as_of).scan(split_columns(columns) or None, where, query, opened.values)
    if explain:
        explanation = scan.explain()
        report(explanation, as_json=as_json, render=lambda: _print_explanation(explanation))
        return
    _give(scan.to_table(), limit, output, as_json=as_json)


def changes(
    table: TableArgument,
    *,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="INSTANT",
            help="The last commit that is left out, or an ISO time in UTC. Default: show all commits from the first one on.",
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(metavar="INSTANT", help="The last commit that is shown, or a time. Default: the last commit."),
    ] = None,
    images: Annotated[
        ChangeImages, typer.Option(help="Show the new values of updated records, or also the former ones.")
    ] = ChangeImages.AFTER,
    where: WhereOption = None,
    columns: ColumnsOption = None,
    limit: LimitOption = None,
    output: OutputOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print what commits inserted, updated, moved and deleted, in the order in which they completed.

    _change_type is insert, update_before, update_after or delete. Standard error names the commit to go on from: the next
    --since, unless records were left out. Commits that were archived, or whose files were cleaned, are an error, which names the first instant that still
    serves.
    """
    if output is not None:
        require_output(output)
    reader = rli.open_table(table).changes(
        since, until, images=images, columns=split_columns(columns) or None, filters=where
    )
    is_whole = _give(reader.read_all(), limit, output, as_json=as_json)
    position = (reader.schema.metadata or {}).get(POSITION)
    if position is None:
        print_note("no commit completed in this range")
    elif is_whole:
        # Who goes on from there without the rest would never see it.
        print_note(f"go on with --since {position.decode()}")


def _print_explanation(explanation: ScanExplanation) -> None:
    print_facts({"filter": explanation.filter, "partitions": explanation.partitions, "files": explanation.files})


def _give(records: pa.Table, limit: int | None, output: str | None, *, as_json: bool) -> bool:
    """Print records, or write them to a file and say so; returns whether none was left out."""
    if output is not None:
        kept = records if limit is None else records.slice(0, limit)
        write_records(kept, output)
        written = {"output": output, "records": kept.num_rows}
        report(written, as_json=as_json, render=lambda: print_note(f"{kept.num_rows:,} records written: {output}"))
        return bool(kept.num_rows == records.num_rows)
    shown = _ROWS_ON_A_TERMINAL if limit is None and out_console().is_terminal and not as_json else limit
    kept = records if shown is None else records.slice(0, shown)
    rows = kept.to_pylist()
    report(
        rows,
        as_json=as_json,
        render=lambda: print_rows(records.column_names, [list(row.values()) for row in rows]),
    )
    is_whole = bool(kept.num_rows == records.num_rows)
    if not is_whole and not as_json:
        print_note(f"{kept.num_rows:,} of {records.num_rows:,} records; --limit shows more, --output writes all")
    return is_whole


def timeline(
    table: TableArgument,
    limit: Annotated[int | None, typer.Option(min=1, help="Number of last instants to show.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List the instants of the table, the oldest first: who did what, how long it took, and what became of records."""
    entries = rli.open_table(table).history(limit)
    report(entries, as_json=as_json, render=lambda: _print_history(entries))


def _print_history(entries: Sequence[HistoryEntry]) -> None:
    if not out_console().is_terminal:
        names = [field.name for field in fields(HistoryEntry)]
        print_rows(names, [[getattr(entry, name) for name in names] for entry in entries])
        return
    print_rows(
        ["instant", "what", "records", "files", "size", "took", "by"],
        [
            [
                entry.time,
                _what(entry),
                _records(entry),
                entry.files,
                human_bytes(entry.written_bytes),
                _took(entry),
                entry.writer,
            ]
            for entry in entries
        ],
        folded=["what", "records", "by"],
    )


def _what(entry: HistoryEntry) -> str:
    name = (entry.operation or entry.action).lower()
    if entry.state != InstantState.COMPLETED:
        return f"{name} ({entry.state})"
    return f"{name} of {', '.join(entry.undone)}" if entry.undone else name


def _took(entry: HistoryEntry) -> str | None:
    taken = human_seconds(entry.seconds)
    return f"{taken}, {counted(entry.conflicts, 'conflict')}" if taken and entry.conflicts else taken


def _records(entry: HistoryEntry) -> str | None:
    counts = {
        "inserted": entry.inserted,
        "updated": entry.updated,
        "moved": entry.moved,
        "deleted": entry.deleted,
        "unchanged": entry.unchanged,
        "duplicates": entry.duplicates,
    }
    if all(count is None for count in counts.values()):
        return None
    return ", ".join(f"{count:,} {name}" for name, count in counts.items() if count) or "none"


def info(table: TableArgument, index: IndexOption = None, as_json: JsonOption = False) -> None:
    """Show a table's schema, settings, sizes, index and problems. It reads no records.

    Exit status 1 if there is a problem; rli doctor looks deeper.
    """
    found = rli.open_table(table, index=index).info()
    report(found, as_json=as_json, render=lambda: _print_info(found))
    if found.problems:
        raise typer.Exit(FOUND)


def _print_info(found: TableInfo) -> None:
    settings = found.settings
    print_facts(
        {
            "table": f"{found.location} (name={found.name}, format: Hudi {found.table_version}"
            + ("" if settings is None else f", rli {settings.format_version}")
            + ")",
            **({} if found.table_type is TableType.COPY_ON_WRITE else {"type": "merge-on-read"}),
            "columns": ", ".join(f"{name} {kind}" for name, kind in found.columns.items()) or None,
            "record key": ", ".join(found.record_key) or None,
            "partitioned by": ", ".join(found.partition_by) or None,
            "ordering": ", ".join(found.ordering) or None,
            "size": f"{counted(found.files, 'file')} in {counted(found.partitions, 'partition')}, "
            f"{human_bytes(found.bytes)}",
            "timeline": f"{counted(found.commits, 'commit')}, {found.pending} pending, last={found.last_commit or 'none'}",
            "index": None if found.index is None else _index_in_a_line(found.index),
            "settings": None if settings is None else _settings_in_a_line(settings, found),
            "health": with_table("; ".join(found.problems), found.location) or "no problem found",
        }
    )


def _index_in_a_line(index: IndexInfo) -> str:
    behind = f"{counted(index.unseen_commits, 'commit')} behind" if index.unseen_commits else None
    if index.shards is None:
        return index.url if behind is None else f"{index.url} ({behind})"
    facts = [
        "entries not counted" if index.entries is None else counted(index.entries, "entry"),
        None if index.bytes is None else human_bytes(index.bytes),
        counted(index.shards, "shard"),
        f"{index.key_mode} keys",
        f"format {index.format_version}",
        behind,
    ]
    return f"{index.url} ({', '.join(fact for fact in facts if fact)})"


def _settings_in_a_line(settings: TableSettings, found: TableInfo) -> str:
    is_another = found.index is not None and found.index.scope is Scope.PARTITION
    on_change = "is another record" if is_another else settings.on_partition_change
    holder = found.lease
    return (
        f"a key that changes its partition: {on_change}; files of "
        f"{human_bytes(settings.target_file_size)}, {settings.compression}; durability: {settings.durability}; "
        f"maintenance: {'off' if settings.maintenance.is_off else 'on'}; lease: {settings.lease}, "
        f"{'free' if holder is None else f'held by {holder}'}"
    )
