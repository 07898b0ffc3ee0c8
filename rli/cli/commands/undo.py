"""Commands that keep states of a table and go back to them: rollback, savepoint, restore."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

import rli
from rli.cli.options import DryRunOption, IndexOption, JsonOption, LeaseTimeoutOption, TableArgument, add_command
from rli.cli.output import print_facts, report
from rli.errors import InvalidInputError


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    add_command(app, rollback, "rli rollback trips last", "rli rollback trips 20240531120000123")
    add_command(
        app,
        savepoint,
        'rli savepoint trips --comment "before the repair of May"',
        "rli savepoint trips 20240531120000123 --json",
        "rli savepoint trips 20240531120000123 --delete",
    )
    add_command(app, restore, "rli restore trips 20240531120000123", "rli restore trips 20240531120000123 --dry-run")


@dataclass(frozen=True, slots=True)
class RolledBack:
    """What ``rli rollback`` reports.

    Attributes:
        instant: that was undone.
        rollback: instant of the rollback itself.
    """

    instant: str
    rollback: str


@dataclass(frozen=True, slots=True)
class Saved:
    """What ``rli savepoint`` reports.

    Attributes:
        instant: the commit.
        saved: whether a savepoint keeps it now.
    """

    instant: str
    saved: bool


def rollback(
    table: TableArgument,
    instant: Annotated[
        str, typer.Argument(metavar="INSTANT", help="The last commit: its instant, or 'last'.", show_default=False)
    ],
    index: IndexOption = None,
    timeout: LeaseTimeoutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Undo the last commit, in files, index and timeline."""
    opened = rli.open_table(table, index=index)
    by = opened.rollback(instant, timeout=timeout)
    undone = next((entry.undone for entry in opened.history() if entry.time == by), ())
    # Clusterings that came after a commit are undone in rollbacks of their own.
    done = RolledBack(undone[0] if undone else instant, by)
    report(
        done,
        as_json=as_json,
        render=lambda: print_facts({"rolled back": done.instant, "instant of the rollback": done.rollback}),
    )


def savepoint(
    table: TableArgument,
    instant: Annotated[
        str | None,
        typer.Argument(metavar="INSTANT", help="A commit. Default: the last commit.", show_default=False),
    ] = None,
    *,
    delete: Annotated[bool, typer.Option("--delete", help="Remove the savepoint of this commit.")] = False,
    comment: Annotated[str, typer.Option(metavar="TEXT", help="Kept with the savepoint.", show_default=False)] = "",
    index: IndexOption = None,
    timeout: LeaseTimeoutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Protect the table's state as of a commit from every clean, so that you can restore it."""
    opened = rli.open_table(table, index=index)
    if not delete:
        done = Saved(opened.savepoint(instant, comment, timeout=timeout), saved=True)
    elif instant is None:
        raise InvalidInputError("no savepoint was named: give its INSTANT", remedy="list them: rli timeline TABLE")
    else:
        opened.delete_savepoint(instant, timeout=timeout)
        done = Saved(instant, saved=False)
    report(
        done,
        as_json=as_json,
        render=lambda: print_facts({"savepoint" if done.saved else "savepoint removed": done.instant}),
    )


def restore(
    table: TableArgument,
    instant: Annotated[str, typer.Argument(metavar="INSTANT", help="The commit to go back to.", show_default=False)],
    *,
    index: IndexOption = None,
    timeout: LeaseTimeoutOption = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Go back to a commit. All later commits are undone for good."""
    done = rli.open_table(table, index=index).versions.restore(instant, timeout=timeout, dry_run=dry_run)
    report(
        done,
        as_json=as_json,
        render=lambda: print_facts(
            {
                "to restore to" if dry_run else "restored to": done.restored_to,
                "commits to undo" if dry_run else "commits undone": ", ".join(done.undone) or "none, no later commit",
                "instant of the restore": "none, this was a dry run" if dry_run else done.instant,
            }
        ),
    )
