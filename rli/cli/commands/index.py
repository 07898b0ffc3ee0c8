"""The commands of ``rli index``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

import rli
from rli.cli.options import (
    IndexOption,
    JsonOption,
    KeyModeOption,
    ShardsOption,
    TableArgument,
    TimeoutOption,
    add_command,
)
from rli.cli.output import FOUND, human_bytes, print_facts, report
from rli.cli.progress import ShownTasks
from rli.index.record.record_index import LOOKUP_SECONDS, IndexStats
from rli.index.record.sync.verify import VerifyReport
from rli.model import KeyMode


def register(app: typer.Typer) -> None:
    """Add the group to the application."""
    group = typer.Typer(
        help="Build, check, mend and measure the index of a table.", no_args_is_help=True, rich_markup_mode="rich"
    )
    add_command(
        group, bootstrap, "rli index bootstrap trips", "rli index bootstrap hudi_table --index lmdb:///data/idx/trips"
    )
    add_command(group, verify, "rli index verify trips", "rli index verify trips --json")
    add_command(group, repair, "rli index repair trips")
    add_command(group, stats, "rli index stats trips", "rli index stats trips --json")
    add_command(group, sync, "rli index sync trips")
    add_command(group, drop, "rli index drop trips")
    app.add_typer(group, name="index")


@dataclass(frozen=True, slots=True)
class Bootstrapped:
    """What ``rli index bootstrap`` reports.

    Attributes:
        entries: record keys in the new index.
        url: of the index.
    """

    entries: int
    url: str


@dataclass(frozen=True, slots=True)
class Synced:
    """What ``rli index sync`` reports.

    Attributes:
        applied: instants whose changes were brought into the index.
        sequence: last commit sequence of the index.
    """

    applied: tuple[str, ...]
    sequence: int


@dataclass(frozen=True, slots=True)
class Dropped:
    """What ``rli index drop`` reports.

    Attributes:
        url: of the index that was removed.
    """

    url: str


def bootstrap(
    table: TableArgument,
    index: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Store of the index. Default: where the table's index is."),
    ] = None,
    shards: ShardsOption = None,
    key_mode: KeyModeOption = KeyMode.EXACT,
    as_json: JsonOption = False,
) -> None:
    """Build the index anew from the table's files, for tables of rli and of Hudi alike.

    An index of the same table at the same place is replaced. With --index the URL is kept with the table.
    """
    opened = rli.open_table(table)
    entries = opened.bootstrap_index(index, shards=shards, key_mode=key_mode, tasks=ShownTasks("reading record keys"))
    done = Bootstrapped(entries, opened.index.url)
    report(done, as_json=as_json, render=lambda: print_facts({"record keys": done.entries, "index": done.url}))


def verify(
    table: TableArgument,
    index: IndexOption = None,
    timeout: TimeoutOption = LOOKUP_SECONDS,
    as_json: JsonOption = False,
) -> None:
    """Compare index and table, key by key. Exit status 1 if they differ. Writers may go on."""
    found = rli.open_table(table, index=index).verify_index(ShownTasks("comparing"), timeout=timeout)
    report(found, as_json=as_json, render=lambda: _print_differences(found))
    if not found.agrees:
        raise typer.Exit(FOUND)


def repair(table: TableArgument, index: IndexOption = None, as_json: JsonOption = False) -> None:
    """Make the index say what the table says; reports what was wrong."""
    found = rli.open_table(table, index=index).repair_index(ShownTasks("comparing and mending"))
    report(found, as_json=as_json, render=lambda: _print_differences(found, repaired=True))


def _print_differences(found: VerifyReport, *, repaired: bool = False) -> None:
    result = "index and table agree" if found.agrees else "repaired" if repaired else "index and table differ"
    print_facts(
        {
            "result": result,
            "records in the table": found.records,
            "entries in the index": found.entries,
            "missing in the index": found.missing,
            "placed elsewhere": found.misplaced,
            "without a record": found.dangling,
            **({"twice in one file": found.repeated} if found.repeated else {}),
            **({"changed meanwhile, not compared": found.newer} if found.newer else {}),
            **({"for example": ", ".join(found.sample)} if found.sample else {}),
            **({} if found.agrees or repaired else {"what to do": "rli index repair TABLE"}),
        }
    )


def stats(table: TableArgument, index: IndexOption = None, as_json: JsonOption = False) -> None:
    """Show size and state of the index."""
    found = rli.open_table(table, index=index).index.stats()
    report(found, as_json=as_json, render=lambda: _print_stats(found))


def _print_stats(found: IndexStats) -> None:
    print_facts(
        {
            "index": found.url,
            "entries": found.entries,
            "tombstones": found.tombstones,
            "size": human_bytes(found.bytes),
            "bytes per entry": None if found.bytes_per_entry is None else f"{found.bytes_per_entry:.1f}",
            "shards": found.shards,
            "file groups": found.file_groups,
            "last instant": found.last_instant,
            "sequence given out": found.last_sequence,
            "sequence applied": found.applied_sequence,
            "keys": str(found.key_mode),
        }
    )


def sync(table: TableArgument, index: IndexOption = None, as_json: JsonOption = False) -> None:
    """Bring into the index what other writers have committed. Every write does this by itself."""
    result = rli.open_table(table, index=index).sync_index(ShownTasks("applying"))
    done = Synced(result.applied, result.sequence)
    facts = {"instants applied": len(done.applied), "sequence": done.sequence}
    report(done, as_json=as_json, render=lambda: print_facts(facts))


def drop(table: TableArgument, index: IndexOption = None, as_json: JsonOption = False) -> None:
    """Remove the index. The table stays; bootstrap builds the index again."""
    opened = rli.open_table(table, index=index)
    done = Dropped(opened.settings.index_url)
    opened.drop_index()
    report(done, as_json=as_json, render=lambda: print_facts({"dropped": done.url}))
