"""Figures in the documents are those of the charts that a run of the benchmarks made."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
IMAGES = DOCS / "images"
_TIMES = "\N{MULTIPLICATION SIGN}"


def texts_of(chart: str) -> list[str]:
    return [unescape(text) for text in re.findall(r"<text[^>]*>([^<]*)</text>", (IMAGES / chart).read_text("utf-8"))]


def figures_of(chart: str) -> dict[tuple[str, str], str]:
    """Panel and baseline → figure, without its goal."""
    found, panel, texts = {}, "", [text for text in texts_of(chart)[2:] if text]
    for text, after in zip(texts, [*texts[1:], ""], strict=True):
        if _TIMES in after and _TIMES not in text:
            found[panel, text.removeprefix("against ")] = after.partition(" (")[0]
        elif _TIMES not in text:
            panel = text.partition(":")[0]
    return found


def figures_of_panels(chart: str) -> dict[tuple[str, str], str]:
    """Panel and row → figure: panels are side by side, each below its heading."""
    found = re.findall(r'<text x="([\d.]+)" y="(\d+)"([^>]*)>([^<]*)</text>', (IMAGES / chart).read_text("utf-8"))
    placed = [(float(x), int(y), style, unescape(text)) for x, y, style, text in found[2:]]
    headings = {x: text for x, _, style, text in placed if "bold" in style}
    rows = {y: text for x, y, style, text in placed if not style}
    return {
        (headings[max(left for left in headings if left <= x)], rows[y]): text
        for x, y, _, text in placed
        if _TIMES in text
    }


def figures_of_whole_jobs() -> dict[str, str]:
    """Product → how many times as fast a whole job is, by the clock."""
    text = " ".join((DOCS / "benchmarks.md").read_text("utf-8").split())
    sentence = re.search(r"A whole job of one such load(.*?);", text)
    assert sentence
    return {
        product: figure
        for figure, product in re.findall(
            rf"([\d.]+ {_TIMES}) as fast as (?:the same job of )?(\w+)", sentence.group(1)
        )
    }


def test_overview_shows_measured_figures() -> None:
    overview, large = figures_of("overview.svg"), figures_of_panels("large.svg")
    assert {panel for panel, _ in overview} == {"upsert", "delete", "look up", "first run"}
    assert {baseline.partition(" ")[0] for _, baseline in overview} == {"Hudi", "Delta", "Iceberg"}
    jobs = figures_of_whole_jobs()
    for (operation, baseline), figure in overview.items():
        if operation == "first run":
            assert jobs[baseline.partition(" ")[0]] == figure
        else:
            assert large[operation, f"{baseline}, 20,000,000 rows, LMDB"].partition(" (")[0] == figure


def test_commit_table_matches_its_chart() -> None:
    rows = re.findall(r"^\| ([\d,]+) \| (.*) \|$", (DOCS / "benchmarks.md").read_text("utf-8"), re.MULTILINE)
    shown = {number: figures.split(" | ") for number, figures in rows}
    measured: dict[str, list[str]] = {number: [] for number in shown}
    for (_, baseline), figure in figures_of("commits.svg").items():
        measured[baseline.rpartition("here ")[2]].append(figure)
    assert shown == measured
    assert "10,000" in shown


def test_the_demos_picture_shows_whole_lines() -> None:
    shown = " ".join(text.replace("\N{NO-BREAK SPACE}", " ") for text in texts_of("demo.svg"))
    # The ends of its two longest lines.
    assert "moves." in shown
    assert "file group" in shown
