"""What commands print: tables for people, plain lines for pipes, JSON for programs.

Reports go to standard output; progress, notes and errors to standard error.
"""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Final

import typer
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table as Grid
from rich.text import Text

from rli.settings import StoredSettings

FOUND: Final = 1
"""Exit status of a check that found something."""
FAILED: Final = 2
"""Exit status after wrong usage or input, or a failure that no other status names."""
CONFLICT: Final = 3
"""Exit status where other writers were first or kept the lease: the same command may succeed later."""
UNREACHABLE: Final = 4
"""Exit status where a store does not answer, is full, or refuses to write."""

_TABLE: Final = re.compile(r"\bTABLE\b(?!\|)")
_ARGUMENT: Final = re.compile(r'\b(lease|missing|on_duplicates|on_existing|on_partition_change)="(\w+)"')
_FLAG: Final = re.compile(r"\b(url_encode_partitions|hive_style)=True")
_VALUE: Final = re.compile(r"\b(index|record_key|timeout)=(URL|COLUMN|SECONDS)\b")
_NOTHING: Final = "-"
_PROSE_WIDTH: Final = 120
_UNLIMITED: Final = 1_000_000
_UNIT_SECONDS: Final = 60

# A terminal obeys these: the C0 and C1 controls, and the marks that turn the direction of text. A line feed stays.
_CONTROLS: Final = frozenset({*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)})
_SHOWN_CONTROLS: Final = {code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" for code in _CONTROLS - {0x0A}}
_ESCAPED_IN_JSON: Final = {code: f"\\u{code:04x}" for code in _CONTROLS if code >= 0x7F}


class _Reports(Console):
    """Raises ``BrokenPipeError`` where rich would end the process with status 1."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


class _Notes(Console):
    """Goes on where nobody can read: a note that is lost is no reason to end a write."""

    def print(self, *values: Any, **options: Any) -> None:
        with suppress(OSError):
            super().print(*values, **options)

    def on_broken_pipe(self) -> None:
        self.quiet = True


def out_console() -> Console:
    """Standard output, as it is now."""
    return _Reports(markup=False, highlight=False)


def err_console() -> Console:
    """Standard error, as it is now."""
    return _Notes(markup=False, highlight=False, stderr=True)


def drop_output() -> None:
    """Let what is still to be printed go nowhere, after the reader of standard output has closed it."""
    with suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def without_controls(text: str) -> str:
    """A text whose control characters are shown as escapes instead of sent to the terminal; line feeds stay."""
    return text.translate(_SHOWN_CONTROLS)


def with_table(message: str, table: str | None) -> str:
    """A message whose advice names the table that the command was given, so that it can be copied."""
    return message if table is None else _TABLE.sub(lambda _: shlex.quote(table), message)


def with_options(message: str) -> str:
    """A message whose advice names options of the commands in place of the library's arguments."""
    message = _ARGUMENT.sub(lambda found: f"{_option(found[1])} {found[2]}", message)
    message = _FLAG.sub(lambda found: _option(found[1]), message)
    return _VALUE.sub(lambda found: f"{_option(found[1])} {found[2]}", message)


def _option(argument: str) -> str:
    return f"--{argument.replace('_', '-')}"


def print_error(message: str, label: str = "error: ") -> None:
    """Say on standard error what went wrong."""
    err_console().print(Text.assemble((label, "bold red"), without_controls(message)), soft_wrap=True)


def print_note(message: str) -> None:
    """Say something on standard error that is no report."""
    err_console().print(Text(without_controls(message), "dim"), soft_wrap=True)


def print_json(value: object) -> None:
    """One JSON document on one line; dataclasses become objects with their fields as keys."""
    typer.echo(json.dumps(value, default=to_json, ensure_ascii=False).translate(_ESCAPED_IN_JSON))


def to_json(value: object) -> object:
    """What JSON holds in place of a value that it does not know.

    Settings become objects, dates and times ISO texts, decimals their digits, bytes hexadecimal digits.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, StoredSettings):
        return value.model_dump(mode="json")
    if isinstance(value, date | datetime | time):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Decimal):
        return str(value)
    raise TypeError(f"no JSON for this: type={type(value).__name__}")


def print_rows(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    is_prose: bool = False,
    folded: Collection[str] = (),
) -> None:
    """Rows as a table on a terminal; elsewhere a line each, values between tabs, the names first.

    Args:
        columns: names.
        rows: values in the order of the columns; numbers are aligned to the right.
        is_prose: the rows are for people only, so they are a table in a pipe, too.
        folded: columns that take several lines where the terminal is narrow; without any, a table that is too wide
            becomes one line for each value.
    """
    console, listed = out_console(), list(rows)
    if is_prose and not console.is_terminal:
        console.width = max(console.width, _PROSE_WIDTH)
    elif not console.is_terminal:
        for row in (columns, *listed):
            typer.echo("\t".join(_in_a_line(value) for value in row))
        return
    grid = Grid(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for position, name in enumerate(columns):
        numeric = any(isinstance(row[position], int | float) for row in listed)
        grid.add_column(name, justify="right" if numeric else "left", no_wrap=name not in folded, overflow="fold")
    for row in listed:
        grid.add_row(*(_cell(value) for value in row))
    if folded or Measurement.get(console, console.options.update(max_width=_UNLIMITED), grid).maximum <= console.width:
        console.print(grid)
        return
    # Too wide: one below the other, and nothing is cut in two.
    for number, row in enumerate(listed):
        if number:
            console.print()
        _print_pairs(console, dict(zip(columns, row, strict=True)))


def print_facts(facts: Mapping[str, object]) -> None:
    """Names and values, one below the other; elsewhere than on a terminal ``name: value``."""
    console = out_console()
    if not console.is_terminal:
        for name, value in facts.items():
            typer.echo(f"{name}: {_in_a_line(value)}")
        return
    _print_pairs(console, facts)


def report(value: object, *, as_json: bool, render: Callable[[], None]) -> None:
    """Print a value as JSON, or else in the way that ``render`` does it."""
    if as_json:
        print_json(value)
    else:
        render()


def human_seconds(seconds: float | None) -> str | None:
    """A duration as people read it; None for None."""
    if seconds is None:
        return None
    if seconds < _UNIT_SECONDS:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), _UNIT_SECONDS)
    hours, minutes = divmod(minutes, _UNIT_SECONDS)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def counted(count: int, noun: str) -> str:
    """A number of things: "1 file", "2 keys", "2,000 entries"."""
    if count == 1:
        return f"1 {noun}"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{count:,} {noun[:-1]}ies"
    return f"{count:,} {noun}s"


def _print_pairs(console: Console, facts: Mapping[str, object]) -> None:
    grid = Grid.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="cyan", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in facts.items():
        grid.add_row(name, _cell(value))
    console.print(grid)


def _cell(value: object) -> Text:
    if value is None:
        return Text(_NOTHING, "dim")
    return value if isinstance(value, Text) else Text(without_controls(_shown(value)))


def _in_a_line(value: object) -> str:
    if value is None:
        return ""
    text = value.plain if isinstance(value, Text) else str(_plain(value))
    escaped = text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
    return without_controls(escaped)


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    return str(_plain(value))


def _plain(value: object) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple | dict):
        return json.dumps(value, default=to_json, ensure_ascii=False)
    return to_json(value) if isinstance(value, date | datetime | time | bytes) else value
