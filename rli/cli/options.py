"""Arguments and options that several commands have, and how they are understood."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Container, Iterable, Mapping
from typing import Annotated, Final

import typer

from rli.cli.output import err_console, without_controls
from rli.errors import InvalidInputError
from rli.model import KeyMode
from rli.store.registry import store_schemes
from rli.urls import without_password


def _note_table(context: typer.Context, table: str) -> str:
    """Let messages name the table: ``rli.cli.output.with_table``."""
    if not is_store_url(table):
        context.find_root().obj = table
    return table


def _require_table(context: typer.Context, table: str) -> str:
    """As ``_note_table``; refuses the URL of an index, which no file system knows."""
    if is_store_url(table):
        raise InvalidInputError(
            f"this is the URL of an index, and the command needs its table: url={without_password(table)}",
            remedy="give the folder of the table",
        )
    return _note_table(context, table)


def is_store_url(target: str) -> bool:
    """Whether a command is given the URL of a store, and not a table."""
    return target.partition(":")[0].lower() in store_schemes()


TableArgument = Annotated[
    str,
    typer.Argument(
        metavar="TABLE", help="Folder of the table, or its URI.", show_default=False, callback=_require_table
    ),
]
TargetArgument = Annotated[
    str,
    typer.Argument(
        metavar="TABLE|URL",
        help="Folder of the table or its URI, or store URL of an index.",
        show_default=False,
        callback=_note_table,
    ),
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for a confirmation.")]
IndexOption = Annotated[
    str | None,
    typer.Option("--index", metavar="URL", help="URL of the index, instead of the URL stored with the table."),
]
ShardsOption = Annotated[
    int | None, typer.Option("--shards", min=1, help="Shards of the index. Default: the store's default.")
]
KeyModeOption = Annotated[
    KeyMode, typer.Option("--key-mode", help="exact: whole keys. digest: 128-bit digests of keys.")
]
TransactionOption = Annotated[
    str | None,
    typer.Option(
        "--transaction",
        metavar="ID:NUMBER",
        help="Id of an application and a number that grows with each write, such as job-7:42. To repeat a "
        "committed write changes nothing; another write with its number is an error.",
        show_default=False,
    ),
]
MetadataOption = Annotated[
    list[str] | None,
    typer.Option(
        "--metadata", metavar="NAME=VALUE", help="String kept with the commit. Repeat for several.", show_default=False
    ),
]
DryRunOption = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Only tell what would happen. Nothing is written into the table, its index or its lease, except by the "
        "check of a table's place after it was moved or copied, as in any command: the check makes and removes a file, and an "
        "index that was moved or copied with its table notes the new place.",
    ),
]
TimeoutOption = Annotated[
    float,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        min=0,
        help="Seconds to wait until the index shows all commits of the table.",
    ),
]
LeaseTimeoutOption = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        min=0,
        help="For how long to wait for the table's lease at most, whenever it is needed. Default: until it is free.",
        show_default=False,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the report as JSON, and nothing else.")]


SettingOption = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="NAME=VALUE",
        help="A setting without an option of its own: compression (zstd, snappy, gzip or none), small_file_size, write_attempts, "
        "lease_seconds. Repeat for several.",
        show_default=False,
    ),
]

_SIZE: Final = re.compile(r"(\d+)\s*([kmg]?)(?:i?b)?", re.IGNORECASE)
_SWITCH: Final = {"true": True, "false": False}
_UNITS: Final = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}


def require_confirmation(question: str, *, yes: bool, refusal: str) -> None:
    """Ask on standard error, unless ``yes`` was given; raises ``InvalidInputError`` without a "y"."""
    if yes:
        return
    err_console().print(f"{without_controls(question)} [y/N] ", end="", soft_wrap=True)
    answer = sys.stdin.readline() if sys.stdin is not None else ""
    if answer.strip().lower() not in {"y", "yes"}:
        if not answer.endswith("\n"):
            err_console().print()
        raise InvalidInputError(f"{refusal}", remedy="confirm with y, or give --yes")


def parse_size(text: str) -> int:
    """A number of bytes from a text such as ``120MB`` (units of 1024)."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise typer.BadParameter(f"{text!r} is not a size; write a number with K, M or G, such as 120M")
    return int(match[1]) * _UNITS[match[2].lower()]


def parse_switch(text: str) -> bool:
    """A truth value from ``true`` or ``false``."""
    if text not in _SWITCH:
        raise typer.BadParameter(f"{text!r} is neither true nor false")
    return _SWITCH[text]


_SETTINGS: Final[Mapping[str, Callable[[str], object]]] = {
    "compression": str,
    "log_format": str,
    "log_inserts": parse_switch,
    "small_file_size": parse_size,
    "write_attempts": int,
    "lease_seconds": float,
}
"""Options of ``create_table`` without a flag, and how their values are read."""


def add_command(app: typer.Typer, function: Callable[..., None], *examples: str) -> None:
    """Add a function as a command, its docstring as the help, with examples at the end.

    Args:
        app: the application or the group.
        function: reads its arguments from annotations; its name is the command's, without an underscore at the end.
        examples: command lines.
    """
    paragraphs = (inspect.getdoc(function) or "").split("\n\n")
    app.command(
        name=function.__name__.rstrip("_").replace("_", "-"),
        help="\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs),
        epilog="\n\n".join(["[bold]Examples[/bold]", *(line.replace("[", r"\[") for line in examples)]),
    )(function)


def parse_transaction(text: str | None) -> tuple[str, int] | None:
    """A transaction from a text such as ``job-7:42``."""
    if text is None:
        return None
    application_id, _, number = text.rpartition(":")
    if not (application_id and number.isascii() and number.isdecimal()):
        raise typer.BadParameter(f"{text!r} is not a transaction; write ID:NUMBER, such as job-7:42")
    return application_id, int(number)


def parse_settings(given: Iterable[str] | None, flagged: Container[str]) -> dict[str, object]:
    """Options of ``create_table`` that have no flag of their own, from strings such as ``compression=snappy``.

    Args:
        given: the strings.
        flagged: names of options that have a flag.
    """
    parsed: dict[str, object] = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if name in flagged:
            raise typer.BadParameter(f"{name} has an option of its own: give --{name.replace('_', '-')}")
        if not equals or name not in _SETTINGS:
            raise typer.BadParameter(f"{text!r} is not a setting; write NAME=VALUE, with one of {', '.join(_SETTINGS)}")
        try:
            parsed[name] = _SETTINGS[name](value)
        except ValueError:
            raise typer.BadParameter(f"{value!r} is no value of {name}; write a number") from None
    return parsed


def parse_metadata(given: Iterable[str] | None) -> dict[str, str]:
    """Texts by name, from texts such as ``offset=17``."""
    parsed = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise typer.BadParameter(f"{text!r} is not metadata; write NAME=VALUE, such as offset=17")
        parsed[name] = value
    return parsed


def split_columns(given: Iterable[str] | None) -> list[str]:
    """Column names that were given one by one or separated by commas."""
    return [name for text in given or () for part in text.split(",") if (name := part.strip())]
