"""``rli report``: the state and the history of a table as a page for a browser."""

from __future__ import annotations

from typing import Annotated

import typer

import rli
from rli.cli.files.output import replace_file, require_place
from rli.cli.options import IndexOption, TableArgument, add_command
from rli.cli.output import print_note
from rli.report.facts import table_report
from rli.report.page import report_page


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    add_command(app, report, "rli report trips --output report.html")


def report(
    table: TableArgument,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="The page; an earlier file of the name is replaced.")
    ],
    index: IndexOption = None,
) -> None:
    """Write a page about the table: growth, commits, files, index, conflicts and slow writes.

    The page is a single HTML file that fetches nothing, light or dark as the browser is. It tells the active timeline; no
    records are read.
    """
    require_place(output)
    with rli.open_table(table, index=index) as opened:
        page = report_page(table_report(opened))
    replace_file(output, page.encode("utf-8"))
    print_note(f"written: {output}")
