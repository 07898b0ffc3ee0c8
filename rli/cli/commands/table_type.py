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
    add_command(
        app,
        table_type,
        "rli table-type trips",
        "rli table-type trips --set merge-on-read",
        "rli table-type trips --log-inserts",
    )


@dataclass(frozen=True, slots=True)
class TypeOfTable:
    """What ``rli table-type`` reports.

    Attributes:
        table_type: "copy_on_write" or "merge_on_read", as in ``rli info --json``.
        log_inserts: whether new records may go to log files.
    """

    table_type: str
    log_inserts: bool


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
    log_inserts: Annotated[
        bool | None,
        typer.Option(
            "--log-inserts/--no-log-inserts",
            help="Let new records go to log files of small file groups, or to base files. Needs an index that keeps an entry for "
            "each key. Default: leave the setting as it is.",
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
    if log_inserts is not None:
        opened.set_log_inserts(log_inserts, timeout=timeout)
    definition = opened_table(opened).definition
    stored = TableType(definition.properties.table_type.lower())
    found = TypeOfTable(stored, definition.settings is not None and definition.settings.log_inserts)
    facts = {"type": stored.replace("_", "-"), **({"new records": "log files"} if found.log_inserts else {})}
    report(found, as_json=as_json, render=lambda: print_facts(facts))
