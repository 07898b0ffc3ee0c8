"""Commands that read a table: lookup, get, read, timeline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias

import typer

import rli
from rli.cli.files.output import require_output, write_records
from rli.cli.options import IndexOption, JsonOption, TableArgument, TimeoutOption, add_command, split_columns
from rli.cli.output import FOUND, human_bytes, out_console, print_note, print_rows, report
from rli.hudi.timeline.instant import Instant
from rli.index.record.record_index import LOOKUP_SECONDS
from rli.view.snapshot import Snapshot

_ROWS_ON_A_TERMINAL: Final = 20


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    add_command(app, lookup, "rli lookup trips k1 k2", "rli lookup trips k1 --json")
    add_command(app, get, "rli get trips k1 k2", "rli get trips k1 --columns id,fare --json")
    add_command(
        app,
        read,
        "rli read trips --where \"city == 'Oslo' and fare > 10\" --columns id,fare",
        "rli read trips --as-of 2024-05-31T12:00:00 --output may.parquet",
        'rli read trips --where \'tip is not null and city in ("Oslo", "Bergen")\' --limit 5 --json',
    )
    add_command(app, timeline, "rli timeline trips", "rli timeline trips --limit 5 --json")


KeysArgument: TypeAlias = Annotated[
    list[str],
    typer.Argument(metavar="KEY", help="Record keys; composite ones as a:1,b:2.", show_default=False),
]
ColumnsOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--columns", metavar="COLUMN", help="Only these columns: repeat, or separate by commas."),
]


def lookup(
    table: TableArgument,
    keys: KeysArgument,
    index: IndexOption = None,
    timeout: TimeoutOption = LOOKUP_SECONDS,
    as_json: JsonOption = False,
) -> None:
    """Show where each record key lives: partition path, file group and commit.

    Exit status 1 if the table holds none of the keys.
    """
    found = rli.open_table(table, index=index).lookup(keys, timeout=timeout)
    rows = found.to_pylist()
    report(
        rows,
        as_json=as_json,
        render=lambda: print_rows(found.column_names, [list(row.values()) for row in rows]),
    )
    if found.column("file_id").null_count == found.num_rows:
        raise typer.Exit(FOUND)


def get(
    table: TableArgument,
    keys: KeysArgument,
    *,
    columns: ColumnsOption = None,
    index: IndexOption = None,
    timeout: TimeoutOption = LOOKUP_SECONDS,
    as_json: JsonOption = False,
) -> None:
    """Print the records of some keys, found by the index: no other file is opened.

    Records come in the order of the keys; absent keys give none. Exit status 1 if the table holds none of the keys.
    """
    found = rli.open_table(table, index=index).get(keys, split_columns(columns) or None, timeout=timeout)
    rows = found.to_pylist()
    report(
        rows,
        as_json=as_json,
        render=lambda: print_rows(found.column_names, [list(row.values()) for row in rows]),
    )
    if not rows:
        raise typer.Exit(FOUND)


def read(
    table: TableArgument,
    *,
    where: Annotated[
        str | None,
        typer.Option(
            metavar="EXPR",
            help="Only records for which this holds: comparisons of columns with constants, joined by and, or, not; "
            "in (...), is null. Texts, dates and times stand in quotes.",
        ),
    ] = None,
    columns: ColumnsOption = None,
    limit: Annotated[
        int | None,
        typer.Option(min=0, help=f"At most so many records. On a terminal {_ROWS_ON_A_TERMINAL} if not given."),
    ] = None,
    as_of: Annotated[
        str | None,
        typer.Option("--as-of", metavar="INSTANT", help="The table as it was then: an instant, or an ISO time in UTC."),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Write to a file instead: .parquet, .csv, .jsonl or .arrow."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Read the table, now or as it was, and print the records or write them to a file.

    In a pipe values stand between tabs, the column names first. With --output and --json the report says how many
    records were written where.
    """
    if output is not None:
        require_output(output)
    snapshot = rli.open_table(table).snapshot(as_of)
    records = snapshot.read(split_columns(columns) or None, where)
    if output is not None:
        kept = records if limit is None else records.slice(0, limit)
        write_records(kept, output)
        written = {"output": output, "records": kept.num_rows}
        report(written, as_json=as_json, render=lambda: print_note(f"{kept.num_rows:,} records written: {output}"))
        return
    shown = _ROWS_ON_A_TERMINAL if limit is None and out_console().is_terminal and not as_json else limit
    kept = records if shown is None else records.slice(0, shown)
    rows = kept.to_pylist()
    report(
        rows,
        as_json=as_json,
        render=lambda: print_rows(records.column_names, [list(row.values()) for row in rows]),
    )
    if kept.num_rows < records.num_rows and not as_json:
        print_note(f"{kept.num_rows:,} of {records.num_rows:,} records; --limit shows more, --output writes all")


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """One instant of ``rli timeline``; what a commit did is None for other actions and for pending instants.

    Attributes:
        time, action, state, completion_time: see ``Instant``.
        operation: Hudi's name of the operation.
        inserts, updates, deletes: records that files gained, changed and lost; a move counts as a loss and a gain.
        files: base files written.
        written_bytes: their size.
        transaction: of the caller, application id and number.
        metadata: of the caller.
    """

    time: str
    action: str
    state: str
    completion_time: str | None
    operation: str | None = None
    inserts: int | None = None
    updates: int | None = None
    deletes: int | None = None
    files: int | None = None
    written_bytes: int | None = None
    transaction: tuple[str, int] | None = None
    metadata: dict[str, str] | None = None


def timeline(
    table: TableArgument,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the last so many instants.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List the instants of the table, the oldest first, with what each commit did."""
    snapshot = Snapshot.now(rli.open_table(table).definition.reloaded())
    instants = snapshot.timeline.instants
    rows = [_timeline_row(snapshot, instant) for instant in instants[-(limit or len(instants)) :]]
    report(rows, as_json=as_json, render=lambda: _print_timeline(rows))


def _timeline_row(snapshot: Snapshot, instant: Instant) -> TimelineRow:
    known = instant.time, instant.action, str(instant.state), instant.completion_time
    if not (instant.is_completed and instant.is_write):
        return TimelineRow(*known)
    commit = snapshot.commit(instant)
    stats = commit.write_stats
    return TimelineRow(
        *known,
        operation=commit.operation,
        inserts=sum(stat.inserts for stat in stats),
        updates=sum(stat.update_writes for stat in stats),
        deletes=sum(stat.deletes for stat in stats),
        files=len(stats),
        written_bytes=sum(stat.written_bytes for stat in stats),
        transaction=commit.transaction,
        metadata=commit.caller_metadata,
    )


def _print_timeline(rows: list[TimelineRow]) -> None:
    names = ["instant", "action", "state", "operation", "inserts", "updates", "deletes", "files", "bytes"]
    print_rows(
        names,
        [
            [
                row.time,
                row.action,
                row.state,
                row.operation,
                row.inserts,
                row.updates,
                row.deletes,
                row.files,
                row.written_bytes if not out_console().is_terminal else human_bytes(row.written_bytes),
            ]
            for row in rows
        ],
    )
