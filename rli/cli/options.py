"""Arguments and options that several commands have, and how they are understood."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Annotated

import typer

from rli.model import KeyMode

TableArgument = Annotated[
    str, typer.Argument(metavar="TABLE", help="Folder of the table, or its URI.", show_default=False)
]
IndexOption = Annotated[
    str | None,
    typer.Option("--index", metavar="URL", help="Where the index is, in place of the URL stored with the table."),
]
ShardsOption = Annotated[
    int | None, typer.Option("--shards", min=1, help="Shards of the index. Default: what suits the store.")
]
KeyModeOption = Annotated[
    KeyMode, typer.Option("--key-mode", help="exact: keys are kept whole. digest: 128-bit hashes stand for them.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the report as JSON, and nothing else.")]


def add_command(app: typer.Typer, function: Callable[..., None], *examples: str) -> None:
    """Add a function as a command, its docstring as the help, with examples at the end.

    Args:
        app: the application or the group.
        function: reads its arguments from annotations; its name is the command's.
        examples: command lines.
    """
    paragraphs = (inspect.getdoc(function) or "").split("\n\n")
    app.command(
        help="\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs),
        epilog="\n\n".join(["[bold]Examples[/bold]", *(line.replace("[", r"\[") for line in examples)]),
    )(function)


def split_columns(given: Iterable[str] | None) -> list[str]:
    """Column names that were given one by one or separated by commas."""
    return [name for text in given or () for part in text.split(",") if (name := part.strip())]
