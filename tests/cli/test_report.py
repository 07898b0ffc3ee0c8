"""``rli report``: a page that needs nothing else, legible in both themes, of bounded size."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final

import pytest

from rli import HistoryEntry, open_table
from rli.report.facts import Commit, TableReport, TableState
from rli.report.page import report_page
from tests.cli.conftest import Rli
from tests.support.browser import measured

LEGIBLE: Final = 4.5
VISIBLE: Final = 3.0

MEASURE: Final = """
function() {
  const channels = (color) => color.match(/[\\d.]+/g).map(Number);
  const light = (c) => { c /= 255; return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
  const luminance = (color) => {
    const [r, g, b] = channels(color);
    return 0.2126 * light(r) + 0.7152 * light(g) + 0.0722 * light(b);
  };
  const contrast = (one, other) => {
    const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = getComputedStyle(at).backgroundColor;
      if ((channels(color)[3] ?? 1) === 1) return color;
    }
    return "rgb(255, 255, 255)";
  };
  document.querySelectorAll("details").forEach((one) => { one.open = true; });
  const texts = [], marks = [];
  document.querySelectorAll("main *").forEach((element) => {
    const style = getComputedStyle(element), svg = element.namespaceURI.endsWith("svg");
    const written = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (written && element.localName !== "title") {
      texts.push(contrast(svg ? style.fill : style.color, behind(element)));
    } else if (svg && ["rect", "circle"].includes(element.localName)) {
      marks.push(contrast(style.fill, behind(element)));
    }
  });
  const outside = [...document.querySelectorAll("svg text")].filter((text) => {
    const inner = text.getBoundingClientRect(), outer = text.ownerSVGElement.getBoundingClientRect();
    return inner.left < outer.left - 1 || inner.right > outer.right + 1 || inner.width === 0;
  });
  return {
    texts: texts.length, text: Math.min(...texts), marks: marks.length, mark: Math.min(...marks),
    page: getComputedStyle(document.body).backgroundColor, outside: outside.map((text) => text.textContent),
    overflow: document.documentElement.scrollWidth - window.innerWidth,
  };
}
"""


class Page(HTMLParser):
    """The elements of a page, and what is written in each table."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(content)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.elements)

    def values(self, attribute: str) -> list[str]:
        return [value for _, values in self.elements if (value := values.get(attribute)) is not None]


@pytest.fixture
def page(rli: Rli, trips: str, tmp_path: Path) -> Path:
    """The report of a table with a savepoint, a delete, and a partition with a hostile name."""
    (tmp_path / "hostile.jsonl").write_text('{"id":"h","city":"<script>x","ts":1,"fare":1}\n')
    rli("upsert", trips, "hostile.jsonl")
    rli("savepoint", trips)
    rli("delete", trips, "k2")
    rli("report", trips, "--output", "report.html")
    return tmp_path / "report.html"


def test_page_tells_state_and_history(page: Path, trips: str) -> None:
    found = Page(page.read_text("utf-8"))
    assert found.count("h1") == 1
    assert (found.count("svg"), found.count("figure")) == (7, 7)
    ids = found.values("id")
    assert len(ids) == len(set(ids))
    history = open_table(trips).history()
    assert all(entry.time in found.text for entry in history if entry.action == "commit")
    assert "<script>x" in found.text
    for told in ("No problem found", "Savepoints: 1.", "None is kept", "Pending instants: 0", "tell neither attempts"):
        assert told in found.text


def test_page_fetches_nothing(page: Path) -> None:
    content = page.read_text("utf-8")
    found = Page(content)
    assert found.count("script") == found.count("link") == found.count("img") == found.count("iframe") == 0
    assert not found.values("src") + found.values("href") + found.values("xlink:href")
    assert not re.search(r"url\(|@import", content)
    assert "default-src 'none'" in content


@pytest.mark.parametrize("width", [1100, 390])
@pytest.mark.parametrize(("theme", "background"), [("light", "rgb(246, 248, 250)"), ("dark", "rgb(13, 17, 23)")])
def test_browser_shows_legible_page(page: Path, theme: str, background: str, width: int) -> None:
    seen = measured(page, MEASURE, theme=theme, width=width)
    assert seen["page"] == background
    assert seen["texts"] > 100
    assert seen["text"] >= LEGIBLE
    assert seen["marks"] > 10
    assert seen["mark"] >= VISIBLE
    assert seen["outside"] == []
    assert seen["overflow"] <= 0


def test_report_refuses_missing_folder(rli: Rli, trips: str) -> None:
    assert "the folder does not exist" in rli("report", trips, "--output", "none/report.html", status=2).err


def many_commits() -> Iterator[Commit]:
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    for number in range(10_000):
        time = f"{begin + timedelta(minutes=number):%Y%m%d%H%M%S000}"
        entry: dict[str, Any] = {"operation": "UPSERT", "seconds": 1.5, "inserted": 3, "attempts": 3, "conflicts": 2}
        yield Commit(HistoryEntry(time, "commit", "completed", time, **entry), number, number * 1000)


def test_many_commits_make_no_large_page(trips: str) -> None:
    info = open_table(trips).info()
    pending = tuple(HistoryEntry(f"{number:017}", "commit", "requested", None) for number in range(1000))
    state = TableState(
        commits=tuple(many_commits()),
        others=pending,
        slices=(),
        versions={},
        stored_bytes=0,
        records=9_999,
        uncounted=None,
        has_archive=False,
        metadata_partitions=(),
    )
    content = report_page(TableReport(info, state, datetime.now(UTC)))
    assert len(content) < 300_000
    found = Page(content)
    assert found.count("rect") < 1000
    assert "20,000 attempts of 10,000 commits" in found.text
