"""The command ``rli table-type``: whether a table is copy-on-write or merge-on-read, and the change of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

import rli
from rli.cli.commands.create_options import TypeName
from rli.cli.options import IndexOption, JsonOption, LeaseTimeoutOption, TableArgument, add_command
from rli.cli.output import print_facts, report
from rli.model import TableType
from rli.table.table import opened_table


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    add_command(app, table_type, "rli table-type trips", "rli table-type trips --set merge-on-read")


@dataclass(frozen=True, slots=True)
class TypeOfTable:
    """What ``rli table-type`` reports.

    Attributes:
        table_type: "copy_on_write" or "merge_on_read", as in ``rli info --json``.
    """

    table_type: str


def table_type(
    table: TableArgument,
    *,
    wanted: Annotated[
        TypeName | None,
        typer.Option(
            "--set",
            help="The new type. Set it while no writer of Hudi is at work. Default: show the type.",
            show_default=False,
        ),
    ] = None,
    index: IndexOption = None,
    timeout: LeaseTimeoutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show or change the type of a table: updates rewrite base files (copy-on-write), or append log files (merge-on-read)."""
    opened = rli.open_table(table, index=index)
    if wanted is not None:
        opened.set_table_type(wanted.replace("-", "_"), timeout=timeout)
    stored = TableType(opened_table(opened).definition.properties.table_type.lower())
    report(TypeOfTable(stored), as_json=as_json, render=lambda: print_facts({"type": stored.replace("_", "-")}))
