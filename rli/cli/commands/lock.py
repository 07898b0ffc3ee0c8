"""The command ``rli lock``: which lock the commits of a table share with writers of Hudi."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

import rli
from rli.cli.options import IndexOption, JsonOption, LeaseTimeoutOption, TableArgument, add_command
from rli.cli.output import print_facts, report
from rli.hudi.lock_settings import chosen_lock, shared_properties
from rli.table.table import opened_table


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    add_command(
        app,
        lock,
        "rli lock trips",
        "rli lock trips --set filesystem",
        "rli lock trips --set 'zookeeper://zk1:2181,zk2:2181/hudi/locks?key=trips'",
    )


@dataclass(frozen=True, slots=True)
class TableLock:
    """What ``rli lock`` reports.

    Attributes:
        lock: as the option ``--lock`` of ``rli create``.
        properties: of the lock, which writers of Hudi need as options.
    """

    lock: str
    properties: dict[str, str]


def lock(
    table: TableArgument,
    *,
    wanted: Annotated[
        str | None,
        typer.Option(
            "--set",
            metavar="LOCK",
            help="As the option --lock of rli create. Set it while no writer of Hudi is at work. Default: show it.",
            show_default=False,
        ),
    ] = None,
    index: IndexOption = None,
    timeout: LeaseTimeoutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show or change the lock that commits share with writers of Hudi, and the options that these writers need."""
    opened = rli.open_table(table, index=index)
    if wanted is not None:
        opened.set_lock(wanted, timeout=timeout)
    raw = opened_table(opened).definition.properties.raw
    found = TableLock(chosen_lock(raw), shared_properties(raw))
    report(found, as_json=as_json, render=lambda: print_facts({"lock": found.lock, **found.properties}))
