"""``rli advise``: which kind of index suits a table."""

from __future__ import annotations

from typing import Annotated

import pyarrow as pa
import typer

import rli
from rli.advice.choice import Advice, short_seconds
from rli.advice.model import KindEstimate
from rli.cli.files.column_types import ExpectedColumns
from rli.cli.files.input import RecordFile
from rli.cli.options import JsonOption, TableArgument, add_command, split_columns
from rli.cli.output import out_console, print_rows, report, with_table
from rli.errors import TableNotFoundError
from rli.model import Scope
from rli.sizes import human_bytes

_COLUMNS = (
    "index",
    "scope",
    "upsert",
    "find keys",
    "write files",
    "maintain",
    "look up",
    "memory",
    "index size",
    "why not",
)


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    add_command(
        app,
        advise,
        "rli advise trips",
        "rli advise trips --batch day4.parquet --store redis://localhost:6379/0?name=trips",
        "rli advise events.parquet --record-key id --partition-by day --json",
        "rli advise trips --scope partition --several-machines",
    )


def advise(
    table: TableArgument,
    *,
    batch: Annotated[
        list[str] | None,
        typer.Option(
            "--batch",
            metavar="FILE",
            help="Records that will be upserted: .jsonl, .json, .csv or .parquet. Repeat for several. Default: the last commits tell.",
            show_default=False,
        ),
    ] = None,
    record_key: Annotated[
        list[str] | None,
        typer.Option(
            "--record-key",
            metavar="COLUMN",
            help="Record-key column of Parquet files without a table.",
            show_default=False,
        ),
    ] = None,
    partition_by: Annotated[
        list[str] | None,
        typer.Option(
            "--partition-by",
            metavar="COLUMN",
            help="Partition column of Parquet files without a table.",
            show_default=False,
        ),
    ] = None,
    scope: Annotated[
        Scope | None,
        typer.Option(
            "--scope", help="Where record keys are to be unique. Default: what the table shows.", show_default=False
        ),
    ] = None,
    several_machines: Annotated[
        bool, typer.Option("--several-machines", help="Several machines will write the table.")
    ] = False,
    store: Annotated[
        list[str] | None,
        typer.Option(
            "--store",
            metavar="URL",
            help="A store at hand, such as redis://host:6379/0. It is measured with an index that is dropped again. Repeat for several.",
            show_default=False,
        ),
    ] = None,
    calibrate: Annotated[bool, typer.Option("--calibrate", help="Measure this machine again.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Advise which kind of index and which type suit a table, and say why.

    Reads statistics of a table, or of Parquet files without a table, and of a batch. Estimates what an upsert costs with each
    kind of index at the rates of this machine. The first call measures these in a few seconds and keeps them in the user's
    cache folder.
    """
    keys, partitions = split_columns(record_key), split_columns(partition_by)
    found = rli.advise(
        table,
        batch=_records(batch, _expected(table, [*keys, *partitions])) if batch else None,
        record_key=keys,
        partition_by=partitions,
        scope=scope,
        several_machines=several_machines,
        stores=store or (),
        calibrate=calibrate,
    )
    report(found, as_json=as_json, render=lambda: _print(found, table))


def _expected(table: str, keys: list[str]) -> ExpectedColumns:
    """What a table knows of its columns; of files without a table, only which ones are of the key."""
    try:
        return ExpectedColumns.of(rli.open_table(table))
    except TableNotFoundError:
        return ExpectedColumns(None, frozenset(keys))


def _records(files: list[str], expected: ExpectedColumns) -> pa.Table:
    return pa.concat_tables([RecordFile.at(path).read(expected) for path in files], promote_options="default")


def _print(found: Advice, table: str) -> None:
    console = out_console()
    console.print(f"choose {found.choice}", soft_wrap=True, style="bold")
    for sentence in found.reasons:
        console.print(f"- {with_table(sentence, table)}", soft_wrap=True)
    console.print(f"table type {found.table_type.replace('_', '-')}", soft_wrap=True, style="bold")
    console.print(f"- {with_table(found.reason_of_type, table)}", soft_wrap=True)
    print_rows(_COLUMNS, [_row(kind) for kind in found.kinds], folded=["index", "why not"])


def _row(kind: KindEstimate) -> tuple[object, ...]:
    return (
        kind.url,
        str(kind.scope),
        short_seconds(kind.upsert_seconds),
        short_seconds(kind.tag_seconds),
        short_seconds(kind.write_seconds),
        short_seconds(kind.maintain_seconds),
        short_seconds(kind.lookup_seconds),
        human_bytes(kind.memory_bytes),
        human_bytes(kind.index_bytes),
        "; ".join(kind.obstacles) or None,
    )
