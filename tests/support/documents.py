"""Runs the programs and commands of a page of the documentation."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

_BLOCK: Final = re.compile(r"^```(python|sh)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def run_page(page: Path) -> list[tuple[str, str]]:
    """Run the blocks of a page in the current folder.

    Returns:
        Broken promises: pairs of a comment behind a ``print`` and the text that was printed instead.
    """
    return list(_run(page))


def run_page_in(folder: Path, page: Path, commands: str) -> None:
    """A child's work: run the blocks of a page in a folder; what they print is no matter.

    Args:
        folder: to run them in.
        page: of the documentation.
        commands: where the page's commands are found, as ``PATH``.
    """
    os.chdir(folder)
    os.environ["PATH"] = commands
    run_page(page)


def _run(page: Path) -> Iterator[tuple[str, str]]:
    names: dict[str, Any] = {"__name__": "__main__"}
    for language, block in _BLOCK.findall(page.read_text(encoding="utf-8")):
        if language == "python":
            printed: list[tuple[int, str]] = []
            names["print"] = _recorder(printed)
            exec(compile(block, str(page), "exec"), names)  # noqa: S102  (the project's own documentation)
            yield from _broken_promises(block, printed)
        else:
            done = subprocess.run(["bash", "-euc", block], capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{block}\n{done.stdout}{done.stderr}"


def _recorder(printed: list[tuple[int, str]]) -> Callable[..., None]:
    def record(*values: object) -> None:
        printed.append((inspect.stack()[1].lineno, " ".join(map(str, values))))

    return record


def _broken_promises(block: str, printed: list[tuple[int, str]]) -> Iterator[tuple[str, str]]:
    """A comment is the printed text; an explanation may follow after a colon, and … stands for any rest."""
    lines = dict(enumerate(block.splitlines(), start=1))
    for number, text in printed:
        # rli itself may print, on a line of its own module.
        _, found, promise = lines.get(number, "").partition("  # ")
        is_kept = promise == text or promise.startswith(f"{text}: ")
        if found and not is_kept and not (promise.endswith("…") and text.startswith(promise[:-1])):
            yield promise, text
