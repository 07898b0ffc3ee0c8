"""The programs and commands of the tutorial and the how-to pages run as printed, and run again."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.children import start_child
from tests.support.documents import run_page, run_page_in
from tests.support.soak import EVERY_POINT

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [
    DOCS / "index.md",
    DOCS / "tutorial.md",
    *sorted((DOCS / "how-to").glob("*.md")),
    *sorted((DOCS / "index-kinds").glob("*.md")),
]

_READ_FIRST = DOCS / "index.md"
"""Run a second time in CI, too."""


def _in_spark(page: Path) -> bool:
    return "import rli_spark" in page.read_text(encoding="utf-8")


def _marked(page: Path) -> Any:
    marks = [pytest.mark.spark] if _in_spark(page) else []
    if page.parent.name == "index-kinds":
        marks.append(pytest.mark.one_spark)
    return pytest.param(page, id=str(page.relative_to(DOCS)), marks=marks)


@pytest.fixture
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, in which the page's programs find the commands of this environment."""
    if request.node.get_closest_marker("spark"):
        request.getfixturevalue("spark")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
    return tmp_path


@pytest.mark.parametrize("page", [_marked(page) for page in PAGES])
def test_pages_keep_their_promises(page: Path, folder: Path) -> None:
    assert run_page(page) == []
    # Each command starts a process, which takes long.
    if EVERY_POINT or page == _READ_FIRST:
        _run_again(page, folder)


def _run_again(page: Path, folder: Path) -> None:
    """A reader runs a program twice: in another process, or for Spark in the session that runs already."""
    if _in_spark(page):
        run_page(page)
        return
    child = start_child(run_page_in, folder, page, os.environ["PATH"])
    child.join()
    assert child.exitcode == 0
