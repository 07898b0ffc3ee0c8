"""Commands that keep a table in order, and remove it: clean, archive, maintenance, tombstones, relocate, drop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

import typer

import rli
from rli.cli.commands.repeated_keys import facts_of_repeats
from rli.cli.options import (
    DryRunOption,
    IndexOption,
    JsonOption,
    LeaseTimeoutOption,
    TableArgument,
    YesOption,
    add_command,
    require_confirmation,
)
from rli.cli.output import print_facts, report
from rli.durations import duration_string
from rli.settings import Maintenance
from rli.sizes import human_bytes
from rli.table.dropping import require_table

_NAMED: Final = 5


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    add_command(app, clean, "rli clean trips", "rli clean trips --keep 24 --dry-run")
    add_command(app, deduplicate, "rli deduplicate trips --dry-run", "rli deduplicate trips --json")
    add_command(app, maintenance, "rli maintenance trips", "rli maintenance trips --off")
    add_command(app, tombstones, "rli tombstones trips", "rli tombstones trips --keep 30d")
    add_command(app, archive, "rli archive trips", "rli archive trips --keep 100 --json")
    add_command(app, drop, "rli drop trips", "rli drop trips --dry-run", "rli drop trips --yes --json")
    add_command(app, relocate, "rli relocate /data/trips", "rli relocate /mnt/trips --also")


def clean(
    table: TableArgument,
    *,
    keep: Annotated[int, typer.Option("--keep", metavar="N", min=1, help="The last N commits stay readable.")] = 10,
    index: IndexOption = None,
    timeout: LeaseTimeoutOption = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Remove base files and journals that only older commits need."""
    done = rli.open_table(table, index=index).maintenance.clean(keep_commits=keep, timeout=timeout, dry_run=dry_run)
    verb = "to remove" if dry_run else "removed"
    report(
        done,
        as_json=as_json,
        render=lambda: print_facts(
            {
                f"base files {verb}": f"{done.files_deleted:,}, {human_bytes(done.bytes_deleted)}",
                f"journals {verb}": f"{done.journals_deleted:,}",
                "readable as of": done.earliest_kept or "now, as there is no commit yet",
                "instant of the clean": done.instant or _why_no_instant("no file to remove", dry_run=dry_run),
            }
        ),
    )


def deduplicate(
    table: TableArgument,
    *,
    index: IndexOption = None,
    timeout: LeaseTimeoutOption = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Remove surplus records of keys that stand in the table more than once.

    No write of rli makes such records. A writer of Hudi does if it inserts a key at the same moment as another writer. The record with the greatest ordering value stays, of equal ones the record of the latest commit.

    With the index bucket:, file groups that such writers have made for one bucket become one.
    """
    done = rli.open_table(table, index=index).maintenance.deduplicate(timeout=timeout, dry_run=dry_run)
    report(
        done,
        as_json=as_json,
        render=lambda: print_facts(
            {
                **facts_of_repeats(done),
                "instant": done.instant or _why_no_instant("no key is repeated", dry_run=dry_run),
            }
        ),
    )


def archive(
    table: TableArgument,
    *,
    keep: Annotated[
        int, typer.Option("--keep", metavar="N", min=1, help="The last N commits stay on the active timeline.")
    ] = 30,
    index: IndexOption = None,
    timeout: LeaseTimeoutOption = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Move old commits from the active timeline to the archive; rows stay as they are.

    Keep at least as many commits as rli clean does: archived commits can no longer be queried or restored.
    """
    done = rli.open_table(table, index=index).maintenance.archive(keep_commits=keep, timeout=timeout, dry_run=dry_run)
    report(
        done,
        as_json=as_json,
        render=lambda: print_facts(
            {
                "instants to archive" if dry_run else "instants archived": f"{done.instants_archived:,}",
                "oldest active commit": done.earliest_active or "none, no commit yet",
                f"base files of undone writes {'to remove' if dry_run else 'removed'}": f"{done.files_deleted:,}",
            }
        ),
    )


def _why_no_instant(reason: str, *, dry_run: bool) -> str:
    return "none, this was a dry run" if dry_run else f"none, {reason}"


@dataclass(frozen=True, slots=True)
class RelocatedTable:
    """What ``rli relocate`` reports.

    Attributes:
        locations: of the table, that its index knows.
    """

    locations: tuple[str, ...]


def relocate(
    table: TableArgument,
    *,
    also: Annotated[
        bool, typer.Option("--also", help="Keep the known locations: hosts see the table under different paths.")
    ] = False,
    index: IndexOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let the index serve a moved table. An index in the table's own folder does not need this command."""
    done = RelocatedTable(rli.open_table(table, index=index).relocate(also=also))
    report(done, as_json=as_json, render=lambda: print_facts({"locations": ", ".join(done.locations)}))


def maintenance(
    table: TableArgument,
    *,
    on: Annotated[
        bool | None,
        typer.Option(
            "--on/--off",
            help="Switch maintenance on, with its defaults, or off. Default: show its settings.",
            show_default=False,
        ),
    ] = None,
    index: IndexOption = None,
    timeout: LeaseTimeoutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show or change the maintenance that writers do after every few commits."""
    opened = rli.open_table(table, index=index)
    if on is not None:
        opened.set_maintenance(Maintenance() if on else Maintenance.off(), timeout=timeout)
    found = opened.settings.maintenance
    report(found, as_json=as_json, render=lambda: print_facts(found.model_dump()))


def tombstones(
    table: TableArgument,
    *,
    keep: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="For how long from now on, such as 7d, 36h or 90m. off: not at all. Default: show it.",
            show_default=False,
        ),
    ] = None,
    index: IndexOption = None,
    timeout: LeaseTimeoutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show or change for how long deleted keys keep the ordering values of their deletes."""
    opened = rli.open_table(table, index=index)
    if keep is not None:
        opened.set_tombstones(keep, timeout=timeout)
    seconds = opened.settings.tombstones
    found = Tombstones("off" if seconds is None else duration_string(seconds))
    report(found, as_json=as_json, render=lambda: print_facts({"deleted keys are kept": found.tombstones}))


@dataclass(frozen=True, slots=True)
class Tombstones:
    """What ``rli tombstones`` reports.

    Attributes:
        tombstones: a length of time, or "off".
    """

    tombstones: str


def drop(
    table: TableArgument,
    *,
    yes: YesOption = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Also while writers are at work, which fail then, and if the index's store does not answer.",
        ),
    ] = False,
    dry_run: DryRunOption = False,
    index: IndexOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove a table and its index, for good. Files in its folder that are not the table's stay.

    After an interruption, the same command finishes the removal.
    """
    require_table(table)
    question = f"Remove the table {table} and its index, for good?"
    require_confirmation(question, yes=yes or dry_run, refusal="nothing was removed")
    done = rli.drop_table(table, index=index, force=force, dry_run=dry_run)
    report(
        done,
        as_json=as_json,
        render=lambda: print_facts(
            {
                "to drop" if dry_run else "dropped": done.location,
                "index": done.index or "none was there",
                "files to remove" if dry_run else "files removed": done.files,
                **({"files left": ", ".join(done.left[:_NAMED])} if done.left else {}),
            }
        ),
    )
