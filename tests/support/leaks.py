"""A password that must show up nowhere: every command is run with it, and all that comes out is searched."""

from __future__ import annotations

import logging
import os
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from rli.errors import RliError
from tests.support.commands import run_command

MARK: Final = "S3CRETpw"

COMMANDS: Final = (
    ("upsert", "TABLE", "rows.jsonl"),
    ("delete", "TABLE", "k2"),
    ("lookup", "TABLE", "k1"),
    ("read", "TABLE"),
    ("timeline", "TABLE"),
    ("cluster", "TABLE"),
    ("clean", "TABLE"),
    ("archive", "TABLE"),
    ("savepoint", "TABLE"),
    ("relocate", "TABLE"),
    ("maintenance", "TABLE", "--off"),
    ("rollback", "TABLE", "20240101000000000"),
    ("restore", "TABLE", "20240101000000000", "--yes"),
    ("lease", "show", "TABLE"),
    ("lease", "break", "TABLE", "--yes"),
    ("doctor", "TABLE"),
    ("index", "stats", "TABLE"),
    ("index", "sync", "TABLE"),
    ("index", "verify", "TABLE"),
    ("index", "repair", "TABLE"),
    ("index", "drop", "TABLE"),
    ("index", "bootstrap", "TABLE"),
    ("doctor", "URL"),
    ("create", "NEW", "--record-key", "id"),
)
"""All commands that open an index; ``TABLE``, ``NEW`` and ``URL`` stand for what they are given."""

FEW_COMMANDS: Final = tuple(
    command
    for command in COMMANDS
    if command[0] in ("upsert", "doctor", "create") or command[:2] in (("index", "drop"), ("index", "bootstrap"))
)
"""Of these, some that differ in how they open it."""

_WITHOUT_INDEX: Final = ("timeline", "relocate")


class Leaks:
    """Searches texts and files for the mark.

    Attributes:
        folder: everything below it is searched.
        found: where the mark was found.
        ended: how many commands ended well.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.found: list[str] = []
        self.ended = 0

    def search(self, text: str, origin: object) -> None:
        if MARK in text:
            self.found.append(f"{origin}: {text[max(text.index(MARK) - 200, 0) :][:500]}")

    def run_all(self, table: str, url: str | None, commands: Sequence[tuple[str, ...]] = COMMANDS) -> None:
        """Run commands, as text and as JSON; ``url`` is passed with ``--index``."""
        for command in commands:
            for more in ((), ("--json",)):
                names = {"TABLE": table, "NEW": f"new{len(more)}", "URL": url or "lmdb:///nowhere"}
                given = [names.get(part, part) for part in command]
                if url is not None and command[0] not in _WITHOUT_INDEX and "URL" not in command:
                    given += ["--index", url]
                self.run(*given, *more)
            self.search_files(command)

    def run(self, *arguments: str) -> None:
        """Run a command."""
        ended = run_command(arguments)
        assert ended.error is None, (arguments, ended.error)
        self.ended += ended.status == 0
        self.search(ended.out + ended.err, arguments)

    def attempt(self, call: Callable[[], object]) -> None:
        """Search what a call returns or raises, with all its causes."""
        try:
            result = call()
        except RliError as error:
            self.search("".join(traceback.format_exception(error)) + repr(error), call)
        else:
            self.search(f"{result} {result!r} {getattr(result, '__dict__', '')}", call)

    def search_files(self, origin: object) -> None:
        for folder, _, names in os.walk(self.folder):
            for name in names:
                content = Path(folder, name).read_bytes()
                if name != "credentials.toml" and MARK.encode() in content:
                    self.found.append(f"{origin}: file {folder}/{name}")


@contextmanager
def searched_logs(leaks: Leaks) -> Iterator[None]:
    """All that is logged inside, by any library, is searched."""

    class _Searcher(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            leaks.search(f"{self.format(record)} {vars(record)}", f"log {record.name}")

    root, searcher = logging.getLogger(), _Searcher()
    level = root.level
    root.addHandler(searcher)
    root.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        root.removeHandler(searcher)
        root.setLevel(level)
