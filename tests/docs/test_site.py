"""The site has a page for each document and for each public name."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import rli

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"})
    return folder


def test_the_reference_has_every_public_name(site: Path) -> None:
    pages = [(site / "reference" / name).read_text(encoding="utf-8") for name in ("python.html", "errors.html")]
    public = [name for name in rli.__all__ if not name.startswith("_")]
    missing = [name for name in public if not any(re.search(rf'id="rli\.(errors\.)?{name}"', page) for page in pages)]
    assert missing == []


def test_every_page_is_in_the_menu(site: Path) -> None:
    menu = (site / "index.html").read_text(encoding="utf-8")
    pages = {str(page.relative_to(ROOT / "docs").with_suffix(".html")) for page in (ROOT / "docs").rglob("*.md")}
    assert sorted(page for page in pages if f'href="{page}"' not in menu and page != "index.html") == []


def test_no_page_shows_markup_of_terminals(site: Path) -> None:
    markup = re.compile(r"\[/?(?:bold|dim|italic|cyan|green|red|yellow)\b[^\]\n,]*\]")
    shown = {page.name: markup.findall(page.read_text(encoding="utf-8")) for page in site.rglob("*.html")}
    assert {name: found for name, found in shown.items() if found} == {}


def test_front_page_has_code_and_picture(site: Path) -> None:
    front = (site / "index.html").read_text(encoding="utf-8")
    assert 'src="images/demo.svg"' in front
    assert (site / "images" / "demo.svg").exists()
    assert "create_table" in re.sub(r"<[^>]+>", "", front)
