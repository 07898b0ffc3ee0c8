"""The command ``rli cluster``."""

from __future__ import annotations

from typing import Annotated

import typer

import rli
from rli.cli.options import IndexOption, JsonOption, LeaseTimeoutOption, TableArgument, add_command, parse_size
from rli.cli.output import print_facts, report
from rli.cli.progress import write_progress
from rli.sizes import human_bytes


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    add_command(
        app,
        cluster,
        "rli cluster trips",
        "rli cluster trips --smaller-than 16M --json",
        "rli cluster trips --sort-by 'hour(ts)'",
    )


def cluster(
    table: TableArgument,
    *,
    smaller_than: Annotated[
        int | None,
        typer.Option(
            parser=parse_size,
            metavar="SIZE",
            help="Only smaller base files are merged. Default: half the table's target size.",
            show_default=False,
        ),
    ] = None,
    sort_by: Annotated[
        list[str] | None,
        typer.Option(
            "--sort-by",
            metavar="EXPRESSION",
            help="Sort records by a column, or an expression such as 'hour(ts)', into files with narrow ranges; may be given several "
            "times. All base files are rewritten that are not sorted so already.",
            show_default=False,
        ),
    ] = None,
    index: IndexOption = None,
    timeout: LeaseTimeoutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Merge small base files into fewer files; no record changes.

    With the index consistent-bucket:, buckets that are too large are split, and small neighbours are merged. The old files stay for readers of older commits until rli clean removes them.
    """
    opened = rli.open_table(table, index=index)
    with write_progress(table) as on_step:
        done = opened.cluster(smaller_than=smaller_than, sort_by=sort_by or (), on_step=on_step, timeout=timeout)
    report(
        done,
        as_json=as_json,
        render=lambda: print_facts(
            {
                "base files replaced": done.files_replaced,
                "base files written": f"{done.files_created:,}, {human_bytes(done.written_bytes)}",
                "instant": done.instant or "none, there was nothing to do",
            }
        ),
    )
