"""The commands of ``rli lease``: who commits to a table now, and what to do if that is nobody."""

from __future__ import annotations

import dataclasses

import typer

import rli
from rli.cli.options import IndexOption, JsonOption, TableArgument, YesOption, add_command, require_confirmation
from rli.cli.output import print_facts, print_note, report
from rli.commit.lease_breaking import break_lease, lease_holder
from rli.coordination.contract import LeaseHolder
from rli.table.table import opened_table


def register(app: typer.Typer) -> None:
    """Add the group to the application."""
    group = typer.Typer(
        help="Show and break the lease: the right of a single writer to commit.",
        no_args_is_help=True,
        rich_markup_mode="rich",
    )
    add_command(group, show, "rli lease show trips", "rli lease show trips --json")
    add_command(group, break_, "rli lease break trips", "rli lease break trips --yes")
    app.add_typer(group, name="lease")


def show(table: TableArgument, index: IndexOption = None, as_json: JsonOption = False) -> None:
    """Show who holds the lease of a table."""
    opened = opened_table(rli.open_table(table, index=index))
    _report(lease_holder(opened.definition, opened.index), as_json=as_json)


def break_(
    table: TableArgument,
    *,
    yes: YesOption = False,
    index: IndexOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take the lease from its holder, and replace damaged records of writers.

    A dead writer's lease lapses automatically, so this is for damaged or forged records. A live writer loses its
    present write and reports LeaseLostError; no committed record is lost.
    """
    opened = opened_table(rli.open_table(table, index=index))
    held_by = _name(lease_holder(opened.definition, opened.index))
    require_confirmation(f"The lease is held by {held_by}. Break it?", yes=yes, refusal="the lease was not broken")
    _report(break_lease(opened.definition, opened.index), as_json=as_json)
    print_note("the lease is free")


def _name(holder: LeaseHolder | None) -> str:
    return "nobody" if holder is None else holder.writer or "a damaged record"


def _report(holder: LeaseHolder | None, *, as_json: bool) -> None:
    facts = {"holder": "nobody"} if holder is None else dataclasses.asdict(holder)
    report(holder, as_json=as_json, render=lambda: print_facts(facts))
