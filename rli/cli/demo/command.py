"""``rli demo``: real data through all of rli, in front of the user's eyes."""

from __future__ import annotations

import os
import shlex
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Annotated, Final

import pyarrow.compute as pc
import typer
from rich.panel import Panel
from rich.rule import Rule
from rich.text import Text

import rli
from rli.cli.command_line import command_line
from rli.cli.demo.data import ORDERING, PARTITION, RECORD_KEY, Batch, load_batches
from rli.cli.demo.folder import make_room, mark_as_made_here
from rli.cli.engines.choice import Engine, EngineName, LocalEngine, open_engine
from rli.cli.engines.java import is_java_there
from rli.cli.engines.options import UpsertOptions
from rli.cli.options import add_command
from rli.cli.output import FOUND, out_console, print_facts, print_note, print_rows
from rli.model import CommitResult, Step
from rli.sizes import entry_size, human_bytes
from rli.table.table import Table

_SPARK_SECONDS: Final = 30.0
# The second month is the first one with moves.
_LEAST_SPARK_MONTHS: Final = 2
_LOOKED_UP: Final = 4
_DELETED: Final = 3
_WIDTHS: Final = (7, 6, 5, 17, 8, 7, 5, 7, 7, 9, 7)
_HEADINGS: Final = (
    "month", "what", "by", "commit", "inserted", "updated", "moved", "deleted", "created", "rewritten", "seconds",
)  # fmt: skip
_LEFT: Final = 4
_LEAST_WIDTH: Final = sum(_WIDTHS) + len(_WIDTHS)
_DROPPED_WHEN_NARROW: Final = (2, 3)


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    add_command(app, demo, "rli demo", "rli demo --dir /tmp/demo --engine local")


@dataclass
class Story:
    """The demo as it goes on.

    Attributes:
        table: the table that it writes.
        homes: for each record key, the partitions that it came with, in order.
        commits: the last commit of each month.
    """

    table: Table
    homes: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    commits: dict[str, str] = field(default_factory=dict)

    def remember(self, batch: Batch) -> None:
        """Note which partitions the records of a batch came with."""
        keys, partitions = (batch.records.column(name).to_pylist() for name in (RECORD_KEY, PARTITION))
        for key, partition in zip(keys, partitions, strict=True):
            if self.homes[key][-1:] != [partition]:
                self.homes[key].append(partition)

    def moved_keys(self, count: int) -> list[str]:
        """Record keys that moved most often and are still there."""
        by_moves = sorted(self.homes, key=lambda key: (-len(self.homes[key]), key))
        found = self.table.lookup(by_moves[: 10 * count])
        return found.filter(pc.is_valid(found.column("file_id"))).column("record_key").to_pylist()[:count]


def demo(
    folder: Annotated[
        str, typer.Option("--dir", metavar="DIR", help="Folder of the demo's table; an earlier demo table is replaced.")
    ] = "demo-table",
    engine: Annotated[
        EngineName | None,
        typer.Option(help="spark: start with Spark; use the local engine for slow steps. Default: spark if installed."),
    ] = None,
) -> None:
    """Quick start: write 22 months of real changes to a table, with moves, look-ups, deletes and a check.

    The data is the registry of .gov domains, a batch per month (CC0). The table stays for you to explore.
    """
    started = time.perf_counter()
    has_spark = find_spec("pyspark") is not None
    chosen = engine or (EngineName.SPARK if has_spark and is_java_there() else EngineName.LOCAL)
    if engine is None and has_spark and chosen is EngineName.LOCAL:
        print_note("Spark needs Java, and there is none: the demo writes in this process")
    make_room(folder)
    _title(
        f"Who holds which .gov domain: 22 months of changes to one table.\n"
        f"A domain is the record key; its type is the partition, and when a domain changes its type, "
        f"its record moves.\nTable: {folder}   engine: {chosen}"
    )
    # At its end the demo reads the table as of every month, so the files of all commits are kept.
    table = rli.create_table(
        folder, record_key=RECORD_KEY, partition_by=PARTITION, ordering=ORDERING, maintenance=False
    )
    mark_as_made_here(folder)
    story = Story(table)
    agrees = _write_all(story, chosen)
    _look_up(story)
    _late_event(story)
    _delete_some(story)
    _travel(story)
    agrees &= _check_index(table)
    _what_next(folder, story, time.perf_counter() - started)
    table.close()
    if not agrees:
        raise typer.Exit(FOUND)


def _title(text: str) -> None:
    console = out_console()
    if console.is_terminal:
        console.print(Panel(Text(text), title="rli demo", title_align="left", border_style="cyan", expand=False))
    else:
        console.print(text, soft_wrap=True)


def _chapter(text: str) -> None:
    console = out_console()
    console.print()
    if console.is_terminal:
        console.print(Rule(Text(text, "bold"), align="left", style="cyan"))
    else:
        console.print(f"== {text}", soft_wrap=True)


def _say(text: str, style: str = "") -> None:
    out_console().print(Text(text, style), soft_wrap=not out_console().is_terminal)


# Writing -------------------------------------------------------------------------------------------------------


def _write_all(story: Story, chosen: EngineName) -> bool:
    """Write all months; returns whether the table ends with as many records as the registry."""
    _chapter("A commit for each month's changes, and one for its deletes")
    with _waiting(f"starting {chosen}"):
        engine = open_engine(chosen, small=True)
    name = chosen
    _row(_HEADINGS, "bold")
    started, batch = time.perf_counter(), None
    try:
        for batch in load_batches():
            is_slow = time.perf_counter() - started > _SPARK_SECONDS and len(story.commits) >= _LEAST_SPARK_MONTHS
            if name is EngineName.SPARK and is_slow:
                engine.close()
                engine, name = LocalEngine(), EngineName.LOCAL
                _say("  so far Spark; the other months are written in this process: same table, same index", "dim")
            _write(story, engine, name, batch)
    finally:
        engine.close()
    return batch is not None and _count(story.table, batch.live_after)


def _write(story: Story, engine: Engine, name: EngineName, batch: Batch) -> None:
    with _measured(batch.month, "upsert", name) as commit:
        commit.result = engine.write(story.table, batch.records, UpsertOptions(), commit.on_step)
    story.remember(batch)
    if batch.gone:
        with _measured(batch.month, "delete", name) as commit:
            commit.result = engine.delete(story.table, batch.gone, commit.on_step)
    if commit.result.instant is not None:
        story.commits[batch.month] = commit.result.instant


@dataclass
class _Commit:
    """A write that is shown as a row once it is done."""

    label: str
    result: CommitResult = field(init=False)
    show: Callable[[str], None] = field(default=lambda _: None)

    def on_step(self, step: Step) -> None:
        self.show(f"{self.label}: {step}")


@contextmanager
def _measured(month: str, what: str, name: EngineName) -> Iterator[_Commit]:
    started = time.perf_counter()
    commit = _Commit(f"{month} {what}")
    with _waiting(commit.label) as commit.show:
        yield commit
    result = commit.result
    counts = result.inserted, result.updated, result.moved, result.deleted, result.files_created, result.files_rewritten
    seconds = f"{time.perf_counter() - started:.1f}"
    texts = [f"{count:,}" if count else "·" for count in counts]
    _row((month, what, name, result.instant or "none", *texts, seconds), "dim" if what == "delete" else "")


@contextmanager
def _waiting(text: str) -> Iterator[Callable[[str], None]]:
    """A moving line on a terminal while something runs; gives the function that changes its text."""
    console = out_console()
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status(text) as status:
        yield status.update


def _row(values: Sequence[str], style: str) -> None:
    console = out_console()
    narrow = console.is_terminal and console.width < _LEAST_WIDTH
    cells = [
        f"{value:<{width}}" if position < _LEFT else f"{value:>{width}}"
        for position, (value, width) in enumerate(zip(values, _WIDTHS, strict=True))
        if not (narrow and position in _DROPPED_WHEN_NARROW)
    ]
    console.print(Text(" ".join(cells).rstrip(), style), soft_wrap=True)


def _count(table: Table, expected: int) -> bool:
    found = table.read(columns=[RECORD_KEY]).num_rows
    if found == expected:
        _say(f"✓ the table holds {found:,} domains, as many as the registry at the end of the last month", "green")
        return True
    _say(f"✗ the table holds {found:,} domains, the registry {expected:,} at the end of the last month", "bold red")
    return False


# Reading -------------------------------------------------------------------------------------------------------


def _look_up(story: Story) -> None:
    _chapter("Where is a record now? The index tells, whatever partition it moved to")
    keys = story.moved_keys(_LOOKED_UP)
    started = time.perf_counter()
    found = story.table.lookup(keys)
    milliseconds = (time.perf_counter() - started) * 1000
    rows = []
    for row in found.to_pylist():
        homes = story.homes[row["record_key"]]
        rows.append([row["record_key"], len(homes) - 1, homes[0], row["partition_path"], row["file_id"][:8]])
    print_rows(["record key", "moves", "came as", "lives in", "file group"], rows, is_prose=True)
    _say(f"{len(keys)} keys in {milliseconds:.1f} ms", "dim")


def _late_event(story: Story) -> None:
    _chapter("A late event: a moved record arrives again as it was in the first month")
    key = story.moved_keys(1)
    first = next(iter(story.commits.values()))
    old = story.table.read(filters=pc.field(RECORD_KEY).isin(key), as_of=first)
    result = story.table.upsert(old)
    _say(
        f"{key[0]}: {result.unchanged} unchanged, {result.updated} updated: the later month wins, across partitions too"
    )


def _delete_some(story: Story) -> None:
    _chapter("Deletes by key alone: the index knows the partitions")
    keys = story.moved_keys(_LOOKED_UP)[-_DELETED:]
    result = story.table.delete(keys)
    _say(f"{', '.join(keys)}: {result.deleted} deleted in {result.files_rewritten} rewritten files")
    gone = story.table.lookup(keys).column("file_id").null_count
    _say(f"looked up again: {gone} of {len(keys)} are gone")


def _travel(story: Story) -> None:
    _chapter("Time travel: the table as it was")
    months = list(story.commits)
    shown = months[:: (len(months) - 1) // 3]
    rows = [
        [month, story.commits[month], story.table.read(columns=[RECORD_KEY], as_of=story.commits[month]).num_rows]
        for month in shown
    ]
    now = ["now", "", story.table.read(columns=[RECORD_KEY]).num_rows]
    print_rows(["month", "as of", "domains"], [*rows, now], is_prose=True)


def _check_index(table: Table) -> bool:
    _chapter("The index: its size, and whether it says what the table says")
    stats, found = table.index.stats(), table.verify_index()
    print_facts(
        {
            "entries": stats.entries,
            "size": human_bytes(stats.bytes),
            "bytes per entry": entry_size(stats.bytes_per_entry),
            "missing, misplaced, dangling": f"{found.missing}, {found.misplaced}, {found.dangling}",
        }
    )
    if found.agrees:
        _say(f"✓ index and table agree on all {found.records:,} records", "green")
    else:
        _say("✗ index and table differ", "bold red")
    return found.agrees


def _what_next(folder: str, story: Story, seconds: float) -> None:
    key = story.moved_keys(1)[0]
    first = next(iter(story.commits.values()))
    rli_command, table = command_line(), shlex.quote(folder)
    commands = [
        f"{rli_command} lookup {table} {key}",
        f"{rli_command} read {table} --where \"state == 'AK' and {PARTITION} == 'City'\" --limit 5",
        f"{rli_command} read {table} --as-of {first} --output {shlex.quote(os.path.join(folder, 'first-month.csv'))}",
        f"{rli_command} timeline {table}",
        f"{rli_command} rollback {table} last",
        f"{rli_command} index verify {table}",
        f"{rli_command} doctor {table}",
    ]
    _chapter(f"Done in {seconds:.0f} s. The table stays in {os.path.abspath(folder)}. Go on with:")
    for command in commands:
        # Neither wrapped nor framed: a command is copied as a line.
        out_console().print(Text(command, "green"), soft_wrap=True)
