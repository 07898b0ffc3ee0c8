"""The command ``rli compact``."""

from __future__ import annotations

from typing import Annotated

import typer

import rli
from rli.cli.options import (
    DryRunOption,
    IndexOption,
    JsonOption,
    LeaseTimeoutOption,
    TableArgument,
    add_command,
    parse_size,
)
from rli.cli.output import print_facts, report
from rli.cli.progress import write_progress
from rli.services.compaction import CompactionResult, ScheduledCompaction
from rli.sizes import human_bytes


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    add_command(app, compact, "rli compact trips", "rli compact trips --schedule", "rli compact trips --dry-run --json")


def compact(
    table: TableArgument,
    *,
    schedule: Annotated[
        bool, typer.Option("--schedule", help="Only plan the compaction, for another process or Hudi to carry out.")
    ] = False,
    least_share: Annotated[
        float,
        typer.Option(
            "--least-share",
            metavar="SHARE",
            min=0.0,
            help="Leave file slices alone whose log files have fewer bytes than this share of the base file.",
        ),
    ] = 0.0,
    most_bytes: Annotated[
        int | None,
        typer.Option(
            parser=parse_size,
            metavar="SIZE",
            help="Read at most so much in one compaction, the deepest file slices first. Default: no limit.",
            show_default=False,
        ),
    ] = None,
    take_over: Annotated[
        bool,
        typer.Option("--take-over", help="Also carry out what a process of Hudi has begun that has died since."),
    ] = False,
    index: IndexOption = None,
    timeout: LeaseTimeoutOption = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Merge the log files of a merge-on-read table into base files; no record changes.

    The command carries out the compactions that rli or Hudi has scheduled. Without any, it schedules one first. Writers go on
    meanwhile.
    """
    opened = rli.open_table(table, index=index)
    if schedule:
        planned = opened.schedule_compaction(
            least_share=least_share, most_bytes=most_bytes, timeout=timeout, dry_run=dry_run
        )
        report(planned, as_json=as_json, render=lambda: _print_schedule(planned))
        return
    with write_progress(table) as on_step:
        done = opened.compact(
            least_share=least_share,
            most_bytes=most_bytes,
            take_over=take_over,
            on_step=on_step,
            timeout=timeout,
            dry_run=dry_run,
        )
    report(done, as_json=as_json, render=lambda: _print_result(done))


def _print_schedule(planned: ScheduledCompaction) -> None:
    reason = "this was a dry run" if planned.dry_run else _why_nothing(planned.held_back_by, "schedule")
    print_facts(
        {
            "file groups to compact": f"{planned.file_groups:,}",
            "log files to merge": f"{planned.log_files:,}, {human_bytes(planned.log_bytes)}",
            "base files to read": human_bytes(planned.base_bytes),
            "instant of the compaction": planned.instant or f"none, {reason}",
            **_held_back(planned.held_back_by),
        }
    )


def _print_result(done: CompactionResult) -> None:
    verb = "to compact" if done.dry_run else "compacted"
    none = f"none, {_why_nothing(done.held_back_by, 'do')}"
    print_facts(
        {
            f"file groups {verb}": f"{done.file_groups:,}",
            "log files to merge" if done.dry_run else "log files merged": f"{done.log_files:,}",
            "bytes to read" if done.dry_run else "bytes read": human_bytes(done.read_bytes),
            **({} if done.dry_run else {"bytes written": human_bytes(done.written_bytes)}),
            "instants": ", ".join(done.instants) or ("none is scheduled yet" if done.dry_run else none),
            **({"left to other processes": ", ".join(done.left)} if done.left else {}),
            **_held_back(done.held_back_by),
        }
    )


def _why_nothing(held_back_by: str | None, what: str) -> str:
    return f"there was nothing to {what}" if held_back_by is None else "a pending instant must end first"


def _held_back(instant: str | None) -> dict[str, str]:
    return {} if instant is None else {"held back by the pending instant": instant}
