"""The command ``rli clean``."""

from __future__ import annotations

from typing import Annotated

import typer

import rli
from rli.cli.options import IndexOption, JsonOption, TableArgument, add_command
from rli.cli.output import human_bytes, print_facts, report


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    add_command(app, clean, "rli clean trips", "rli clean trips --keep 24 --json")


def clean(
    table: TableArgument,
    *,
    keep: Annotated[
        int, typer.Option("--keep", metavar="N", min=1, help="The table can still be read as of the last N commits.")
    ] = 10,
    index: IndexOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove base files and journals that only older commits need."""
    done = rli.open_table(table, index=index).clean(keep_commits=keep)
    report(
        done,
        as_json=as_json,
        render=lambda: print_facts(
            {
                "base files removed": f"{done.files_deleted:,}, {human_bytes(done.bytes_deleted)}",
                "journals removed": f"{done.journals_deleted:,}",
                "readable as of": done.earliest_kept or "now, as there is no commit yet",
                "instant of the clean": done.instant or "none, as there was no file to remove",
            }
        ),
    )
