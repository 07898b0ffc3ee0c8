"""rli delete and rli update: stored records change by key or condition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

import rli
from rli.cli.commit_summary import report_commit
from rli.cli.files.given_keys import FileOfKeysOption, KeyFormatOption, KeysArgument, keys_in, require_keys
from rli.cli.options import (
    DryRunOption,
    IndexOption,
    JsonOption,
    MetadataOption,
    TableArgument,
    TransactionOption,
    add_command,
    parse_metadata,
    parse_transaction,
)
from rli.cli.output import counted
from rli.cli.progress import write_progress
from rli.errors import InvalidInputError


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    add_command(
        app,
        delete,
        "rli delete trips k1 k2",
        "rli delete trips --file gone.txt --json",
        "rli delete trips --file deletes.jsonl --ordering deleted_at",
        "rli delete trips --file gone.txt --dry-run",
        "rli delete trips --where \"country = 'X'\"",
    )
    add_command(
        app,
        update,
        'rli update trips --where "city = \'Rome\'" --set "fare=fare * 2"',
        "rli update trips --where \"email = 'a@b.c'\" --set email=null --set \"name='gone'\" --dry-run",
    )


def delete(
    table: TableArgument,
    keys: KeysArgument = None,
    *,
    file: FileOfKeysOption = None,
    file_format: KeyFormatOption = None,
    ordering: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column of the file with ordering values: a delete that is older than the stored record changes nothing. Default: "
            "the table's ordering column, if the file has it.",
            show_default=False,
        ),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(
            metavar="SQL", help="Delete the records that meet this condition, instead of keys.", show_default=False
        ),
    ] = None,
    transaction: TransactionOption = None,
    metadata: MetadataOption = None,
    dry_run: DryRunOption = False,
    index: IndexOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete records by key, or by a condition; unknown keys change nothing.

    With ordering values, a delete that is older than the stored record changes nothing, and an older record that comes
    after the delete is not inserted again, for the time that rli tombstones shows. Without ordering values, whatever is
    stored is deleted.

    With --where, the report says which files still hold the records, and until which clean.
    """
    if where is not None:
        if keys or file is not None or ordering is not None:
            raise InvalidInputError(
                "the command takes either keys or a condition", remedy="give KEY..., --file FILE or --where SQL"
            )
        opened, named, kept = (
            rli.open_table(table, index=index),
            parse_transaction(transaction),
            parse_metadata(metadata),
        )
        with write_progress(where, is_silent=dry_run) as on_step:
            result = opened.delete_where(where, transaction=named, metadata=kept, dry_run=dry_run, on_step=on_step)
        report_commit(where, result, as_json=as_json)
        return
    require_keys(keys, file)
    if keys and ordering is not None:
        raise InvalidInputError("keys alone have no ordering values", remedy="give a file with the column, --file FILE")
    named = parse_transaction(transaction)
    opened = rli.open_table(table, index=index)
    kept = parse_metadata(metadata)
    with keys_in(opened, keys, file, file_format) as gone:
        label = counted(len(gone), "key") if file is None else file
        with write_progress(label, is_silent=dry_run) as on_step:
            result = opened.delete(
                gone, ordering=ordering, transaction=named, metadata=kept, dry_run=dry_run, on_step=on_step
            )
    report_commit(label, result, as_json=as_json)


def update(
    table: TableArgument,
    *,
    where: Annotated[
        str,
        typer.Option(
            metavar="SQL", help="Update the records that meet this condition; true for all.", show_default=False
        ),
    ],
    values: Annotated[
        list[str],
        typer.Option(
            "--set", metavar="COLUMN=EXPR", help="Column and its new value in SQL. Several: repeat.", show_default=False
        ),
    ],
    transaction: TransactionOption = None,
    metadata: MetadataOption = None,
    dry_run: DryRunOption = False,
    index: IndexOption = None,
    as_json: JsonOption = False,
) -> None:
    """Set columns of the records that meet a condition.

    All values are computed of the stored records. A value that does not fit its column without loss is an error. The report says
    which files still hold the former values, and until which clean.
    """
    named, kept, assigned = parse_transaction(transaction), parse_metadata(metadata), _assignments(values)
    opened = rli.open_table(table, index=index)
    with write_progress(where, is_silent=dry_run) as on_step:
        result = opened.update_where(
            where, assigned, transaction=named, metadata=kept, dry_run=dry_run, on_step=on_step
        )
    report_commit(where, result, as_json=as_json)


def _assignments(given: Sequence[str]) -> dict[str, str]:
    assigned: dict[str, str] = {}
    for one in given:
        column, equals, expression = one.partition("=")
        if not equals or not column.strip() or not expression.strip() or column.strip() in assigned:
            raise InvalidInputError(
                f"not a column and its value: --set {one!r}", remedy="write each column once, as in fare='fare * 2'"
            )
        assigned[column.strip()] = expression.strip()
    return assigned
