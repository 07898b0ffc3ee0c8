"""``make soak`` runs each test that CI cuts short."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_CUT_SHORT = re.compile(
    r"from tests\.support\.(soak|table_types|index_kinds|hudi_options) import|pytest\.mark\.(soak|one_in)|from tests\.crash\.changes import"
)


def test_soak_names_all_cut_folders() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
    named = re.search(r"^SOAK_TESTS := (.*)$", makefile, re.MULTILINE)
    assert named is not None
    cut_short = {
        path.relative_to(ROOT).parts
        for folder in ("tests", "examples")
        for path in (ROOT / folder).rglob("test_*.py")
        if _CUT_SHORT.search(path.read_text(encoding="utf-8"))
    }
    folders = {parts[0] if parts[0] == "examples" else f"{parts[0]}/{parts[1]}" for parts in cut_short}
    assert len(folders) > 1
    assert folders - set(named[1].split()) == set()
