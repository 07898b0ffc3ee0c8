"""The commands of ``rli index``."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Annotated

import typer

import rli
from rli.cli.commands.column_index import add_column_commands, drop_column_index
from rli.cli.commands.repeated_keys import facts_of_repeats
from rli.cli.options import (
    DryRunOption,
    IndexOption,
    JsonOption,
    KeyModeOption,
    LeaseTimeoutOption,
    ShardsOption,
    TableArgument,
    TargetArgument,
    TimeoutOption,
    YesOption,
    add_command,
    is_store_url,
    require_confirmation,
)
from rli.cli.output import FOUND, counted, print_facts, print_note, report, with_table
from rli.cli.progress import ShownTasks, migration_progress
from rli.errors import CorruptIndexError, InvalidInputError
from rli.index.contract import LOOKUP_SECONDS
from rli.index.record.entries.self_check import IndexCheck
from rli.index.record.opening import drop_store
from rli.index.record.record_index import RecordIndex
from rli.index.registry import keeps_entries
from rli.index.reports import IndexStats, VerifyReport
from rli.index_urls import is_in_metadata_table
from rli.model import KeyMode, MigrationResult, OnRepeatedKey
from rli.sizes import entry_size, human_bytes
from rli.table.dropping import require_unused
from rli.urls import without_password
from rli.write.operations.deduplicate import Deduplicated


def register(app: typer.Typer) -> None:
    """Add the group to the application."""
    group = typer.Typer(
        help="Build, check, repair and measure the index of a table.", no_args_is_help=True, rich_markup_mode="rich"
    )
    add_command(
        group,
        bootstrap,
        "rli index bootstrap trips",
        "rli index bootstrap hudi_table --index lmdb:///data/idx/trips",
        "rli index bootstrap hudi_table --on-duplicate newest",
    )
    add_command(
        group,
        verify,
        "rli index verify trips",
        "rli index verify trips --json",
        "rli index verify trips --deep",
        "rli index verify lmdb:///data/idx/keys",
    )
    add_command(group, repair, "rli index repair trips", "rli index repair trips --timeout 60")
    add_command(
        group, stats, "rli index stats trips", "rli index stats trips --json", "rli index stats redis://host:6379/0"
    )
    add_command(group, sync, "rli index sync trips", "rli index sync trips --timeout 60")
    add_command(
        group,
        migrate,
        "rli index migrate trips --to redis://host:6379/0",
        "rli index migrate trips --to global-simple: --drop-old",
        "rli index migrate trips --to lmdb:///data/idx/trips --json",
    )
    add_command(
        group, drop, "rli index drop trips", "rli index drop trips by_fare", "rli index drop redis://host:6379/0 --yes"
    )
    add_column_commands(group)
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
class BootstrappedAfterRemoval(Bootstrapped):
    """The report on a table that held keys more than once.

    Attributes:
        deduplicated: which records were removed before the index was built.
    """

    deduplicated: Deduplicated


@dataclass(frozen=True, slots=True)
class Synced:
    """What ``rli index sync`` reports.

    Attributes:
        applied: instants whose changes were brought into the index.
        sequence: last commit sequence of the index.
    """

    applied: tuple[str, ...]
    sequence: int | None


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
        typer.Option(
            metavar="URL",
            help="URL of the index, such as lmdb:///path or record-index:. Default: the table's present index, else LMDB inside "
            "the table's folder.",
        ),
    ] = None,
    *,
    shards: ShardsOption = None,
    key_mode: KeyModeOption = KeyMode.EXACT,
    on_duplicate: Annotated[
        OnRepeatedKey,
        typer.Option(
            "--on-duplicate",
            help="If the table holds a record key more than once. fail: name such keys and their files. newest: remove all records "
            "of the key but that with the greatest ordering value, of equal ones that of the latest commit, as rli deduplicate.",
        ),
    ] = OnRepeatedKey.FAIL,
    timeout: LeaseTimeoutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Build the index from the table's files, for tables of rli and of Hudi.

    An index of the same table at the same URL is replaced. With --index, the table stores the new URL.
    """
    opened = rli.open_table(table)
    removed = list[Deduplicated]()
    entries = opened.bootstrap_index(
        index,
        shards=shards,
        key_mode=key_mode,
        tasks=ShownTasks("reading record keys"),
        timeout=timeout,
        on_duplicate=on_duplicate,
        on_deduplicated=removed.append,
    )
    done = Bootstrapped(entries, opened.index.url)
    facts: dict[str, object] = {"record keys": done.entries, "index": done.url}
    for one in removed:
        done = BootstrappedAfterRemoval(done.entries, done.url, one)
        facts |= {**facts_of_repeats(one), "instant": one.instant}
    report(done, as_json=as_json, render=lambda: print_facts(facts))
    if not keeps_entries(done.url) and not as_json:
        print_note("this index reads the table's own files: its keys were checked, and there was nothing to build")


def verify(
    target: TargetArgument,
    index: IndexOption = None,
    timeout: TimeoutOption = LOOKUP_SECONDS,
    deep: Annotated[
        bool,
        typer.Option(
            "--deep", help="Also read all values: can they be read, and do keys, meta columns and partitions fit?"
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Compare index and table, key by key. Exit status 1 if they differ. Writers may go on.

    For a URL, check the entries against the index's own commit log: for an index without a table.
    """
    if is_store_url(target):
        if deep:
            raise InvalidInputError("a deep verification reads a table, not a URL", remedy="give the table's folder")
        with _index_at(target, index) as opened:
            checked = opened.verify()
        report(checked, as_json=as_json, render=lambda: _print_check(checked))
        agrees = checked.agrees
    else:
        table = rli.open_table(target, index=index)
        found = table.verify_index(ShownTasks("comparing"), timeout=timeout, deep=deep)
        report(found, as_json=as_json, render=lambda: _print_differences(found, target))
        agrees = found.agrees
    if not agrees:
        raise typer.Exit(FOUND)


def _index_at(url: str, index: str | None) -> RecordIndex:
    if index is not None:
        raise InvalidInputError(
            f"two URLs of an index: {without_password(url)} and --index {without_password(index)}",
            remedy="give one of them",
        )
    return rli.open_index(url)


def _print_check(found: IndexCheck) -> None:
    print_facts(
        {
            "result": "the entries agree with the commit log" if found.agrees else "the index is damaged",
            "index": found.url,
            "entries": found.entries,
            "tombstones": found.tombstones,
            "with an unknown file group": found.unknown_file_groups,
            "of an unknown commit": found.unknown_commits,
            "off the store's own count": found.miscounted,
            **({} if found.agrees else {"what to do": "build the index again from the files that it describes"}),
        }
    )


def repair(
    table: TableArgument,
    index: IndexOption = None,
    timeout: LeaseTimeoutOption = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Correct the index from the table, and report the differences."""
    opened = rli.open_table(table, index=index)
    tasks = ShownTasks("comparing" if dry_run else "comparing and mending")
    found = opened.index.repair(tasks, timeout=timeout, dry_run=dry_run)
    report(found, as_json=as_json, render=lambda: _print_differences(found, table, repaired=not dry_run))
    if not keeps_entries(opened.index.url) and not as_json:
        print_note("this index reads the table's own files: its keys were checked, and there was nothing to repair")


def _print_differences(found: VerifyReport, table: str, *, repaired: bool = False) -> None:
    result = "index and table agree" if found.agrees else "repaired" if repaired else "index and table differ"
    print_facts(
        {
            "result": result,
            "records in the table": found.records,
            "entries in the index": found.entries,
            "missing in the index": found.missing,
            "placed elsewhere": found.misplaced,
            "without a record": found.dangling,
            **({"twice in a file": found.repeated} if found.repeated else {}),
            **({"in several files": found.doubled} if found.doubled else {}),
            **({"changed meanwhile, not compared": found.newer} if found.newer else {}),
            **({"for example": ", ".join(found.sample)} if found.sample else {}),
            **({"damaged files": "\n".join(found.damaged)} if found.damaged else {}),
            **({} if found.agrees or repaired else {"what to do": _advice(found, table)}),
        }
    )


def _advice(found: VerifyReport, table: str) -> str:
    # No index is repaired by the records of a damaged file.
    if found.damaged:
        return "restore the damaged files from a backup, then verify again"
    if found.doubled or found.repeated:
        return with_table("rli deduplicate TABLE", table)
    return with_table("rli index repair TABLE", table)


def stats(target: TargetArgument, index: IndexOption = None, as_json: JsonOption = False) -> None:
    """Show size and state of a table's index, or of the index at a URL."""
    opened = _index_at(target, index) if is_store_url(target) else rli.open_table(target, index=index).index
    found = opened.stats()
    report(found, as_json=as_json, render=lambda: _print_stats(found))


def _print_stats(found: IndexStats) -> None:
    print_facts(
        {
            "index": found.url,
            "kind": found.kind,
            "scope": str(found.scope),
            "entries": found.entries,
            **({} if found.expired is None else {"of expired keys": found.expired}),
            "tombstones": found.tombstones,
            "size": human_bytes(found.bytes),
            "bytes per entry": entry_size(found.bytes_per_entry),
            "shards": found.shards,
            "file groups": found.file_groups,
            "last instant": found.last_instant,
            "sequence given out": found.last_sequence,
            "sequence applied": found.applied_sequence,
            "keys": None if found.key_mode is None else str(found.key_mode),
        }
    )


def sync(
    table: TableArgument,
    index: IndexOption = None,
    timeout: LeaseTimeoutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Apply commits of other writers to the index. Every write does this automatically."""
    result = rli.open_table(table, index=index).sync_index(ShownTasks("applying"), timeout=timeout)
    done = Synced(result.applied, result.sequence)
    facts = {"instants applied": len(done.applied), "sequence": done.sequence}
    report(done, as_json=as_json, render=lambda: print_facts(facts))


def migrate(
    table: TableArgument,
    to: Annotated[str, typer.Option("--to", metavar="URL", help="URL of the new index.", show_default=False)],
    *,
    drop_old: Annotated[
        bool, typer.Option("--drop-old", help="Drop the former index after the switch. Default: keep it.")
    ] = False,
    shards: ShardsOption = None,
    key_mode: KeyModeOption = KeyMode.EXACT,
    timeout: LeaseTimeoutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give the table another index, of any kind and in any store, while others write and read it.

    The new index is built, follows the commits made meanwhile, and is compared with the table. Then the table switches to
    it in one step, and open programs go over to it. After an interruption, run the command again: it goes on. The former
    index stays until it is dropped.
    """
    tasks = ShownTasks("building the new index")
    with migration_progress(table, tasks) as on_step:
        done = rli.open_table(table).migrate_index(
            to, shards=shards, key_mode=key_mode, drop_old=drop_old, tasks=tasks, timeout=timeout, on_step=on_step
        )
    report(done, as_json=as_json, render=lambda: _print_migration(done, table))


def _print_migration(done: MigrationResult, table: str) -> None:
    print_facts(
        {
            "index": done.index,
            "former index": "none: the table had this index already" if done.former is None else done.former,
            **({} if done.records is None else {"records compared": done.records}),
            "lease": done.lease,
            **_way_to_drop(done, table),
        }
    )


def _way_to_drop(done: MigrationResult, table: str) -> dict[str, str]:
    if done.former and is_in_metadata_table(done.former):
        # Writers keep the partition, for those of Hudi.
        command = with_table("rli metadata disable TABLE --partitions record_index", table)
    elif done.former and done.is_former_kept:
        command = f"rli index drop {shlex.quote(done.former)}"
    else:
        return {}
    return {"to drop the former index": command}


def drop(
    target: TargetArgument,
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="An index on a column, as rli index list shows it.", show_default=False),
    ] = None,
    *,
    yes: YesOption = False,
    index: IndexOption = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            min=0,
            help="With NAME: for how long to wait for the table's lease, before the data are left for later. Default: not at all.",
            show_default=False,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Remove a table's index, its index on a column by NAME, or the index at a URL.

    The table stays, and bootstrap rebuilds its index. Of record-index:, the partition leaves the metadata table, for
    Hudi's writers too. An index without a table is lost: there the command asks for confirmation. By its URL, an index is
    not dropped while a table uses it.

    An index on a column is out of use at once. It is shown as dropping until its data are removed: while another process holds the
    table's lease, rli index run TABLE or the next clean removes them.
    """
    if name is not None:
        drop_column_index(target, name, index, timeout, as_json=as_json)
        return
    if timeout is not None:
        raise InvalidInputError(
            "only the drop of an index on a column waits for the lease: no NAME is given", remedy="leave --timeout out"
        )
    done = Dropped(_drop_at(target, index, yes=yes) if is_store_url(target) else _drop_of_table(target, index))
    report(done, as_json=as_json, render=lambda: print_facts({"dropped": done.url}))


def _drop_of_table(table: str, index: str | None) -> str:
    opened = rli.open_table(table, index=index)
    url = opened.settings.index_url
    opened.drop_index()
    return url


def _drop_at(url: str, index: str | None, *, yes: bool) -> str:
    try:
        with _index_at(url, index) as opened:
            if opened.settings.table_id is None:
                question = f"Drop the index {opened.url} with its {counted(opened.stats().entries, 'entry')}?"
                require_confirmation(question, yes=yes, refusal="the index was not dropped")
            require_unused(opened)
            opened.drop()
    except CorruptIndexError:
        question = f"The index at {without_password(url)} is damaged. Drop all that the store has there?"
        require_confirmation(question, yes=yes, refusal="the index was not dropped")
        drop_store(url)
    return without_password(url)
