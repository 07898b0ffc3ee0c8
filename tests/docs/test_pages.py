"""The programs and commands of the tutorial and the how-to pages run as printed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```", re.DOTALL | re.MULTILINE)
PAGES = [DOCS / "tutorial.md", *sorted((DOCS / "how-to").glob("*.md")), *sorted((DOCS / "index-kinds").glob("*.md"))]


def _marked(page: Path) -> Any:
    marks = [pytest.mark.spark] if "import rli_spark" in page.read_text(encoding="utf-8") else []
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
def test_a_page_does_what_it_says(page: Path, folder: Path) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    for language, block in BLOCK.findall(page.read_text(encoding="utf-8")):
        if language == "python":
            exec(compile(block, str(page), "exec"), names)  # noqa: S102  (the project's own documentation)
        else:
            done = subprocess.run(["bash", "-euc", block], cwd=folder, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{block}\n{done.stdout}{done.stderr}"
