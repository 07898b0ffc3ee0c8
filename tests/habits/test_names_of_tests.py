"""Names of tests are short enough to be read in a report."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

MOST_WORDS = 6


def test_names_have_six_words() -> None:
    long = [
        f"{path.relative_to(ROOT)}: {name}"
        for folder in ("tests", "examples", "rli/testing")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for name in re.findall(r"def test_(\w+)\(", path.read_text(encoding="utf-8"))
        if name.count("_") >= MOST_WORDS
    ]
    assert long == []
