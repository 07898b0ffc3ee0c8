"""The commands of ``rli index`` for indexes on columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer

import rli
from rli import ColumnIndex, ColumnIndexState, IndexHome, IndexUse
from rli.cli.options import IndexOption, JsonOption, LeaseTimeoutOption, TableArgument, add_command, is_store_url
from rli.cli.output import print_facts, print_note, print_rows, report
from rli.cli.progress import files_progress
from rli.errors import InvalidInputError
from rli.sizes import human_bytes


class Using(StrEnum):
    """The kinds of ``IndexUse`` that rli makes."""

    SECONDARY = IndexUse.SECONDARY.value
    COLUMN_STATS = IndexUse.COLUMN_STATS.value
    BLOOM_FILTERS = IndexUse.BLOOM_FILTERS.value


@dataclass(frozen=True, slots=True)
class DroppedColumnIndex:
    """What ``rli index drop`` reports of an index on a column.

    Attributes:
        name: of the index.
        state: "dropped" if its data are removed, "dropping" if they are still to be.
    """

    name: str
    state: str


def add_column_commands(group: typer.Typer) -> None:
    """Add the commands that make and list indexes on columns."""
    add_command(
        group,
        create,
        "rli index create trips by_rider --on rider",
        "rli index create trips by_rider --on rider --home store",
        "rli index create users by_email --on email --unique",
        "rli index create trips by_fare --on fare --using column_stats",
        'rli index create trips by_hour --on ts --expr "hour(ts)"',
        "rli index create trips by_driver --on driver --using bloom_filters --json",
        "rli index create trips by_rider --on rider --async",
    )
    add_command(group, list_, "rli index list trips", "rli index list trips --json")
    add_command(group, run, "rli index run trips", "rli index run trips --json")


def drop_column_index(target: str, name: str, index: str | None, timeout: float | None, *, as_json: bool) -> None:
    """Drop an index on a column: a part of ``rli index drop``."""
    if is_store_url(target):
        raise InvalidInputError(
            "an index on a column is dropped by its table, not by a URL", remedy="give the folder of the table"
        )
    table = rli.open_table(target, index=index)
    is_removed = table.drop_index(name, timeout=timeout)
    done = DroppedColumnIndex(name, "dropped" if is_removed else ColumnIndexState.DROPPING.value)
    report(done, as_json=as_json, render=lambda: _print_dropped(done))


def _print_dropped(done: DroppedColumnIndex) -> None:
    print_facts({done.state: done.name})
    if done.state == ColumnIndexState.DROPPING.value:
        print_note("nobody uses the index; rli index run TABLE or the next clean removes its data")


def create(
    table: TableArgument,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the new index.", show_default=False)],
    *,
    on: Annotated[str, typer.Option("--on", metavar="COLUMN", help="The column.", show_default=False)],
    using: Annotated[
        Using | None,
        typer.Option(
            help="secondary (default): value of the column → record keys. column_stats (default with --expr): least and greatest "
            "value of the column, or of the expression, in each file. bloom_filters: a filter of the column's or the expression's "
            "values in each file.",
            show_default=False,
        ),
    ] = None,
    home: Annotated[
        IndexHome | None,
        typer.Option(
            help="Where a secondary index is kept. metadata: in the metadata table, in tables of version 9. store: in the key-value "
            "store of the table's index. Default: metadata in tables of version 9, otherwise store.",
            show_default=False,
        ),
    ] = None,
    unique: Annotated[
        bool,
        typer.Option(
            "--unique",
            help="Refuse commits that would give two records one value. It takes a secondary index in a store.",
        ),
    ] = False,
    expression: Annotated[
        str | None,
        typer.Option(
            "--expr",
            metavar="SQL",
            help="An expression over the column, whose values are indexed, such as hour(ts). Times are those of the UTC clock.",
            show_default=False,
        ),
    ] = None,
    in_background: Annotated[
        bool,
        typer.Option(
            "--async",
            help="Only schedule the index: rli index run builds it, here or on another machine.",
        ),
    ] = False,
    index: IndexOption = None,
    timeout: LeaseTimeoutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make an index on a column beside writers, in Hudi's metadata table or in the store of the table's index.

    Writers wait for its last step alone, and keep it from then on. An index that is there stays as it is; an invalid one is
    built again.
    """
    with files_progress("reading files") as on_progress:
        made = rli.open_table(table, index=index).create_index(
            name,
            on,
            using,
            expression=expression,
            home=home,
            unique=unique,
            wait=not in_background,
            timeout=timeout,
            on_progress=on_progress,
        )
    report(made, as_json=as_json, render=lambda: _print_indexes([made]))


def run(
    table: TableArgument,
    index: IndexOption = None,
    timeout: LeaseTimeoutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Build the indexes on columns that rli index create --async or Hudi has scheduled, and remove the data of dropped ones.

    Writers go on. A run that was killed leaves its index scheduled: the next run builds it, and rli index drop TABLE NAME removes
    it. Several runs may work at once.
    """
    with files_progress("reading files") as on_progress:
        made = rli.open_table(table, index=index).build_indexes(timeout=timeout, on_progress=on_progress)
    report(made, as_json=as_json, render=lambda: _print_built(made))


def _print_built(made: Sequence[ColumnIndex]) -> None:
    if made:
        _print_indexes(made)
    else:
        print_note("no index is scheduled")


def list_(table: TableArgument, index: IndexOption = None, as_json: JsonOption = False) -> None:
    """List the indexes on columns, those of Hudi's writers included, with their states.

    lag: commits of the table that the index lacks. covers: share of the table's file groups that the index can leave out of a
    read. rli index stats shows the index of the record keys.
    """
    found = rli.open_table(table, index=index).indexes()
    report(found, as_json=as_json, render=lambda: _print_indexes(found))


def _print_indexes(found: Sequence[ColumnIndex]) -> None:
    if not found:
        print_note("the table has no index on a column")
        return
    print_rows(
        ["name", "using", "columns", "home", "state", "lag", "covers", "size"],
        [
            [
                one.name,
                one.using,
                one.expression or ", ".join(one.columns) or "the first ones",
                one.home,
                one.state,
                "" if one.lag is None else str(one.lag),
                f"{one.covers:.0%}",
                human_bytes(one.size),
            ]
            for one in found
        ],
    )
