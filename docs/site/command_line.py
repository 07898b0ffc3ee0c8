"""Writes the reference of the command line from the commands themselves, when mkdocs builds the site."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, Final

import typer
from rich.text import Text

from rli.cli.app import app

PAGE: Final = "reference/command-line.md"
MARK: Final = "<!-- the commands -->"


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Called by mkdocs for each page; puts the commands in the place of the mark."""
    if page.file.src_uri != PAGE:
        return markdown
    return markdown.replace(MARK, "\n".join(_commands(typer.main.get_command(app), "rli")))


def _commands(command: Any, name: str) -> Iterator[str]:
    if command.hidden:
        return
    if hasattr(command, "commands"):
        for child in sorted(command.commands):
            yield from _commands(command.commands[child], f"{name} {child}")
        return
    yield f"\n## {name}\n\n{_plain(inspect.cleandoc(command.help or ''))}\n"
    usage = command.collect_usage_pieces(typer.Context(command))
    yield f"```\n{name} {' '.join(usage)}\n```\n"
    yield from _options(command)
    if command.epilog:
        yield f"Examples:\n\n```\n{_one_a_line(command.epilog)}\n```\n"


def _options(command: Any) -> Iterator[str]:
    shown = [parameter for parameter in command.params if getattr(parameter, "help", None)]
    if not shown:
        return
    yield "| option | meaning |\n|---|---|"
    for parameter in shown:
        yield f"| `{_name(parameter)}` | {_cell(parameter.help)} |"
    yield ""


def _name(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or parameter.name.upper())
    return ", ".join([*parameter.opts, *parameter.secondary_opts])


def _cell(text: str) -> str:
    return " ".join(_plain(text).split()).replace("|", "\\|")


def _one_a_line(epilog: str) -> str:
    return "\n".join(line for line in map(str.strip, _plain(epilog).splitlines()) if line and line != "Examples")


def _plain(text: str) -> str:
    """The text without the markup of rich, in which the commands write their help."""
    return Text.from_markup(text).plain
