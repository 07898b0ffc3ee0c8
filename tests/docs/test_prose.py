"""The pages name the noun: of 1,000 words of prose, few are pronouns such as "it", "that" and "those"."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
MOST_IN_1000: Final = 30
PRONOUNS: Final = frozenset(
    ["it", "one", "ones", "that", "there", "those", "what", "whatever", "which", "who", "whoever", "whose"]
)
_NO_PROSE: Final = (
    re.compile(r"\A---\n.*?\n---\n", re.DOTALL),  # front matter
    re.compile(r"```.*?```", re.DOTALL),
    re.compile(r"^\s*\|.*$", re.MULTILINE),  # tables
    re.compile(r"`[^`]*`"),
    re.compile(r"(?<=\])\([^)]*\)"),  # targets of links
)


@dataclass(frozen=True, slots=True)
class Count:
    """How many words a text has, and how many of them are pronouns."""

    pronouns: int
    words: int

    def __add__(self, other: Count) -> Count:
        return Count(self.pronouns + other.pronouns, self.words + other.words)

    @property
    def in_1000(self) -> float:
        return 1000 * self.pronouns / max(self.words, 1)

    @property
    def excess(self) -> float:
        """Pronouns beyond the limit."""
        return self.pronouns - self.words * MOST_IN_1000 / 1000


def count(markdown: str) -> Count:
    for pattern in _NO_PROSE:
        markdown = pattern.sub("", markdown)
    words = re.findall(r"[A-Za-z]['\w-]*", markdown)
    return Count(sum(word.lower() in PRONOUNS for word in words), len(words))


def test_pages_name_the_noun() -> None:
    counts = {page.relative_to(ROOT): count(page.read_text(encoding="utf-8")) for page in PAGES}
    worst = sorted(counts.items(), key=lambda item: item[1].excess, reverse=True)[:5]
    listed = "; ".join(f"{page}: {found.pronouns} of {found.words} words" for page, found in worst)
    total = sum(counts.values(), Count(0, 0))
    assert total.in_1000 <= MOST_IN_1000, f"{total.in_1000:.0f} in 1,000 words; name the noun in {listed}"


def test_only_prose_is_counted() -> None:
    page = "---\nwho: it\n---\nIt is `that` [one](it.md).\n\n| which | those |\n|---|---|\n\n```\nthat\n```\n"
    assert count(page) == Count(2, 3)
